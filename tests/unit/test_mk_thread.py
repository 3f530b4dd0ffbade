"""What only thread kernels have: ids, threadgroup memory, simdgroup functions, 8x8 matrices."""

# mypy: disable-error-code=arg-type

from __future__ import annotations

import numpy as np
import pytest

from eas import mk
from eas.base.errors import EasError, ModeMismatch, ShapeMismatch, TypeMismatch
from tests.unit.mk_kernels import lines_of, module_of, ptr, refusal, run

rng = np.random.default_rng(17)


def test_ids():
    def kernel(y):
        t = mk.tid(0, 64)
        base = mk.program_id(0) * 64
        mk.store(
            y,
            base + t,
            mk.local_id(0) + 1000 * mk.lane_id() + 100000 * mk.sg_id() + mk.tid(5, 69) - t,
        )

    y = np.zeros(128, np.int32)
    run(kernel, y, grid=(2, 1, 1))
    t = np.arange(128) % 64
    np.testing.assert_array_equal(y, t + 1000 * (t % 32) + 100000 * (t // 32) + 5)
    module = module_of(kernel, y=ptr(mk.i32))
    assert module.mode == "thread"
    assert module.attr("threads") == 64


def test_threadgroup_memory_is_named_and_shared():
    def kernel(x, y):
        t = mk.tid(32)
        first, second = mk.alloc_tg(32), mk.alloc_tg(32, mk.i16)
        mk.store(first, t, mk.load(x, t))
        mk.store(second, t, t)
        mk.barrier()
        mk.debug_barrier()
        mk.store(y, t, mk.load(first, 31 - t) + mk.load(second, t ^ 1))

    x, y = rng.standard_normal(32).astype(np.float32), np.zeros(32, np.float32)
    run(kernel, x, y)
    np.testing.assert_array_equal(y, x[::-1] + (np.arange(32) ^ 1).astype(np.float32))
    lines = [
        line
        for line in lines_of(kernel, x=ptr(mk.f32), y=ptr(mk.f32))
        if "alloc_tg" in line or "barrier" in line
    ]
    assert 'name="tg0"' in lines[0]
    assert 'name="tg1"' in lines[1]
    assert lines[2:] == ["barrier", "barrier"]


@pytest.mark.parametrize(
    ("fn", "want"),
    [
        (lambda v, t: mk.simd_sum(v), lambda v: np.full(32, v.sum())),
        (lambda v, t: mk.simd_max(v), lambda v: np.full(32, v.max())),
        (lambda v, t: mk.simd_min(v), lambda v: np.full(32, v.min())),
        (lambda v, t: mk.simd_xor(v), lambda v: np.full(32, np.bitwise_xor.reduce(v))),
        (lambda v, t: mk.simd_prefix_inclusive_sum(v), np.cumsum),
        (lambda v, t: mk.simd_prefix_exclusive_sum(v), lambda v: np.cumsum(v) - v),
        (lambda v, t: mk.simd_shuffle(v, 31 - t), lambda v: v[::-1]),
        (lambda v, t: mk.simd_broadcast(v, 3), lambda v: np.full(32, v[3])),
        (lambda v, t: mk.simd_shuffle_xor(v, 1), lambda v: v[np.arange(32) ^ 1]),
        (lambda v, t: mk.simd_shuffle_up(v, 1), lambda v: np.append(v[0], v[:-1])),
        (lambda v, t: mk.simd_shuffle_down(v, 1), lambda v: np.append(v[1:], v[-1])),
        (lambda v, t: mk.simd_ballot(t < 3), lambda v: np.full(32, 7)),
        (lambda v, t: mk.simd_all(v), lambda v: np.full(32, (v != 0).all())),
        (lambda v, t: mk.simd_any(v > 10**6), lambda v: np.full(32, False)),
    ],
)
def test_simdgroup_functions(fn, want):
    def kernel(x, y, F):
        t = mk.tid(32)
        mk.store(y, t, F(mk.load(x, t), t))

    x, y = rng.integers(-99, 99, 32).astype(np.int32), np.zeros(32, np.int32)
    run(kernel, x, y, F=fn)
    np.testing.assert_array_equal(y, want(x))


def test_simdgroup_matrices():
    def kernel(a, b, y):
        mk.tid(32)
        acc = mk.mma_zero()
        for k in mk.range(2):
            acc = mk.mma(a, k * 8, 16, b, k * 64, 8, acc)
        mk.mma_store(y, 0, 8, acc)

    a, b = (
        rng.standard_normal((8, 16)).astype(np.float32),
        rng.standard_normal((16, 8)).astype(np.float32),
    )
    y = np.zeros(64, np.float32)
    run(kernel, a.ravel(), b.ravel(), y)
    np.testing.assert_allclose(y.reshape(8, 8), a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("fn", "kind", "text"),
    [
        (
            lambda x: mk.tid(0, 2000),
            ShapeMismatch,
            "tid(0, 2000) asks for 2000 threads per threadgroup",
        ),
        (lambda x: mk.tid(4, 4), ShapeMismatch, "asks for 0 threads"),
        (
            lambda x: (mk.tid(0, 64), mk.tid(0, 32)),
            ModeMismatch,
            "asks for 32 threads per threadgroup, an earlier mk.tid for 64",
        ),
        (
            lambda x: (mk.tid(0, 64), mk.arange(4)),
            ModeMismatch,
            "mk.arange cannot be used in a kernel that uses mk.tid",
        ),
        (
            lambda x: [f() for f in (lambda: mk.arange(4), mk.barrier)],
            ModeMismatch,
            "mk.barrier cannot be used in a kernel that uses mk.arange",
        ),
        (
            lambda x: (mk.arange(4), mk.simd_sum(mk.program_id(0))),
            ModeMismatch,
            "mk.simd_sum cannot be used",
        ),
        (lambda x: mk.alloc_tg(0), ShapeMismatch, "alloc_tg of 0 elements"),
        (
            lambda x: mk.alloc_tg(mk.program_id(0)),
            TypeMismatch,
            "the size of alloc_tg must be known",
        ),
        (lambda x: mk.mma_zero() + 1, TypeMismatch, "needs values, got the simdgroup matrix"),
        (
            lambda x: mk.mma(x, 0, 8, x, 0, 8, mk.program_id(0)),
            TypeMismatch,
            "mma needs a simdgroup matrix",
        ),
        (lambda x: mk.local_id(3), ShapeMismatch, "the grid has no axis 3"),
        (lambda x: mk.simd_and(mk.load(x, 0)), TypeMismatch, "simd_and needs an integer operand"),
    ],
)
def test_refusals(fn, kind, text):
    def kernel(x, F):
        F(x)

    assert text in refusal(kind, kernel, x=ptr(mk.f32), F=fn)


def test_a_thread_kernel_must_say_how_many_threads():
    def kernel():
        mk.barrier()

    with pytest.raises(EasError, match=r"mk.tid\(0, BLOCK\)"):
        module_of(kernel)
