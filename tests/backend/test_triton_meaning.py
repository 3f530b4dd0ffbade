"""Where Triton's meaning differs from that of `mk` (docs/triton.md), row by row, and its memory beyond plain pointers."""

from __future__ import annotations

import numpy as np
import pytest

import eas.triton as triton
import eas.triton.language as tl

I8, U8, I32, F16, F32 = np.int8, np.uint8, np.int32, np.float16, np.float32
NAN = float("nan")


def result(kernel, dtype, *inputs, size=None, **metas):
    out = np.zeros(size or len(inputs[0]), dtype)
    kernel[(1,)](*inputs, out, N=len(inputs[0]), **metas)
    return out


@triton.jit
def divided(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a // b * 1000 + a % b)


def test_integer_division_truncates(backend):
    x, y = np.array([7, -7, 7, -7], I32), np.array([2, 2, -2, -2], I32)
    np.testing.assert_array_equal(result(divided, I32, x, y), [3001, -3001, -2999, 2999])


@triton.jit
def remainder(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) % tl.load(y + i))


def test_float_remainder_is_fmod(backend):
    x, y = np.array([5.5, -5.5], F32), np.array([2.0, 2.0], F32)
    np.testing.assert_array_equal(result(remainder, F32, x, y), [1.5, -1.5])


@pytest.mark.parametrize("sign", ["//", "%", "/"])
def test_mixed_signedness_is_refused_in_divisions(sign):
    kernel = triton.JITFunction(remainder.fn)
    kernel._unsafe_update_src(remainder.src.replace(" % ", f" {sign} "))
    with pytest.raises(triton.CompilationError, match="different signedness"):
        kernel[(1,)](np.ones(2, I32), np.ones(2, np.uint32), np.ones(2, F32), N=2)


@triton.jit
def types(x, y, out, N: tl.constexpr):
    a, b = tl.load(x + tl.arange(0, N)), tl.load(y + tl.arange(0, N))
    tl.static_assert((a / a).dtype == tl.float32)  # f16
    tl.static_assert((a + 1.5).dtype == tl.float16)
    half = 0.5
    kept: tl.constexpr = 0.5
    tl.static_assert((a * half).dtype == tl.float32)
    tl.static_assert((a * kept).dtype == tl.float16)
    tl.static_assert((b + b.to(tl.uint8, bitcast=True)).dtype == tl.uint8)  # i8
    tl.static_assert((b + b.to(tl.uint16)).dtype == tl.uint16)
    tl.static_assert(tl.sum(b).dtype == tl.int32)
    tl.static_assert(tl.max(a).dtype == tl.float32)
    tl.static_assert(tl.sum(b > 0).dtype == tl.uint32)
    tl.static_assert((b // 2).type == tl.block_type(tl.int8, [N]))
    tl.store(out + tl.arange(0, N), tl.sum(b) + tl.sum((b > 0).to(tl.int32)))


def test_types_of_operators_literals_and_reductions(backend):
    x, y = np.ones(4, F16), np.array([100, 100, 100, -1], I8)
    np.testing.assert_array_equal(result(types, I32, x, y), [302] * 4)


@triton.jit
def shifted(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, (tl.load(x + i) >> tl.load(y + i)).to(tl.int32))


def test_right_shift_is_arithmetic_if_the_left_operand_was_signed(backend):
    x, y = np.array([-8, 8], I8), np.array([1, 1], np.uint32)
    np.testing.assert_array_equal(result(shifted, I32, x, y), [-4, 4])


@triton.jit
def bools(x, out, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, N)) > 0
    tl.store(out + tl.arange(0, N), (a + a).to(tl.int32) * 100 + (a * a).to(tl.int32) * 10 + (-a).to(tl.int32))


def test_arithmetic_of_i1_is_modulo_2(backend):
    np.testing.assert_array_equal(result(bools, I32, np.array([1, 0], I32)), [11, 0])


@triton.jit
def extremes(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.maximum(a, b))
    tl.store(out + N + i, tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 2 * N, tl.max(a, axis=0))
    tl.store(out + 2 * N + 1, tl.argmax(a, axis=0))
    tl.store(out + 2 * N + 2, tl.argmin(a, axis=0))
    tl.store(out + 2 * N + 3, tl.min(a))


def test_extremes_ignore_nan_unless_told(backend):
    x, y = np.array([NAN, 1, 3, 2], F32), np.array([5, NAN, 0, 0], F32)
    np.testing.assert_array_equal(result(extremes, F32, x, y, size=12), [5, 1, 3, 2, NAN, NAN, 0, 0, 3, 2, 1, 1])


@triton.jit
def saturated(x, out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.load(x + tl.arange(0, N)).to(tl.int32))


def test_floats_to_integers_saturate(backend):
    np.testing.assert_array_equal(result(saturated, I32, np.array([2.9, -2.9, 1e20, NAN], F32)), [2, -2, 2**31 - 1, 0])


def test_range_over_constants_is_a_loop_and_static_range_unrolls():
    @triton.jit
    def kernel(out, LOOPS: tl.constexpr):
        total = 0
        for k in range(LOOPS):
            total += k
        for k in tl.static_range(3):
            total += tl.zeros([2**k], tl.int32).shape[0]
        tl.store(out, total)

    out = np.zeros(1, I32)
    compiled = kernel.warmup(out, grid=(1,), LOOPS=100)
    assert compiled.asm["ir"].count("for ") == 1
    kernel[(1,)](out, LOOPS=100)
    assert out[0] == 4950 + 7


@triton.jit
def copy_blocks(x, out, M, K, stride, BM: tl.constexpr, BK: tl.constexpr):
    source = tl.make_block_ptr(x, (M, K), (stride, 1), (0, 0), (BM, BK), (1, 0))
    target = tl.make_tensor_descriptor(out, [M, K], [K, 1], [BM, BK])
    for k in range(tl.cdiv(K, BK)):
        block = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        target.store([0, k * BK], block + target.load([0, k * BK]))
        source = tl.advance(source, (0, BK))


def test_block_pointers_and_descriptors_are_bounded(backend):
    x = np.arange(5 * 9, dtype=F32).reshape(5, 9)[:, :7]
    out = np.full((6, 7), 100, F32)
    copy_blocks[(1,)](x, out[:5], 5, 7, 9, BM=8, BK=4)
    np.testing.assert_array_equal(out[:5], x + 100)
    np.testing.assert_array_equal(out[5], 100)


def test_descriptors_of_the_host_are_arguments(backend):
    from eas.triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def kernel(desc, out, BM: tl.constexpr):
        block = desc.load([tl.program_id(0) * BM, 1])
        tl.store(out + tl.program_id(0), tl.sum(block))

    x, out = np.ones((6, 4), F32), np.zeros(2, F32)
    kernel[(2,)](TensorDescriptor(x, x.shape, [4, 1], [4, 4]), out, BM=4)
    np.testing.assert_array_equal(out, [12, 6])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('tl.inline_asm_elementwise("mov", "=r", [i], tl.int32, True, 1)', "PTX"),
        ("tl.rand(0, i, n_rounds=7)", "n_rounds=7"),
        ("tl.load(x + i, cache_modifier='.xx')", "Cache modifier .xx"),
        ("i.foo()", "no attribute 'foo'"),
        ("i[10:]", "unsupported tensor index"),
        ("tl.atomic_add(x + i, 1, sem='later')", "Memory semantic later"),
        ("i.to(tl.int64, fp_downcast_rounding='rtz')", "truncating fp conversions"),
    ],
)
def test_what_is_not_done_is_refused_by_name(text, message):
    @triton.jit
    def kernel(x):
        i = tl.arange(0, 4)  # noqa: F841
        PLACE  # noqa: B018, F821

    made = triton.JITFunction(kernel.fn)
    made._unsafe_update_src(kernel.src.replace("PLACE", text))
    with pytest.raises(triton.TritonError, match=message) as error:
        made[(1,)](np.zeros(4, F32))
    assert text in str(error.value)


def test_floats_round_toward_zero_if_told(backend):
    @triton.jit
    def kernel(x, out, N: tl.constexpr):
        v = tl.load(x + tl.arange(0, N))
        tl.store(out + tl.arange(0, N), v.to(tl.float16, fp_downcast_rounding="rtz"))

    x = np.array([1 + 2**-11 + 2**-12, -1 - 2**-11 - 2**-12, 1.0], F32)[[0, 1, 2, 2]]
    np.testing.assert_array_equal(result(kernel, F16, x), np.array([1, -1, 1, 1], F16))


def test_autotune_measures_and_restores(backend):
    seen = []

    @triton.autotune(
        configs=[triton.Config({"BLOCK": 16}, num_warps=w, pre_hook=lambda named: seen.append(named["BLOCK"])) for w in (1, 2)] + [triton.Config({"BLOCK": 64})],
        key=["n"],
        restore_value=["x"],
        rep=1,
        warmup=1,
    )
    @triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @triton.jit
    def increment(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = None if EVEN else i < n
        tl.store(x + i, tl.load(x + i, mask) + 1, mask)

    class Tensor(np.ndarray):
        clone = np.ndarray.copy

        def copy_(self, other):
            self[...] = other

    x = np.zeros(100, F32).view(Tensor)
    for times in (1, 2, 3):
        increment[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, 100)
        np.testing.assert_array_equal(np.asarray(x), times)
    assert increment.best_config.kwargs["BLOCK"] in (16, 64)
    assert len(increment.configs_timings) in (2, 3)
    assert set(seen) == {16}


def test_pointers_come_from_addresses(backend):
    if backend in ("sim", "mps"):
        pytest.skip("Metal has no pointers from integers")

    @triton.jit
    def kernel(addresses, out, N: tl.constexpr):
        x = tl.load(addresses + 1).to(tl.pointer_type(tl.float32))
        tl.store(out + tl.arange(0, N), tl.load(x + tl.arange(0, N)) * 2)

    x, out = np.arange(8, dtype=F32), np.zeros(8, F32)
    kernel[(1,)](np.array([0, x.ctypes.data]), out, N=8)
    np.testing.assert_array_equal(out, x * 2)


@triton.jit
def under_lock(lock, total, N: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    i = tl.arange(0, N)
    tl.store(total + i, tl.load(total + i) + 1)
    tl.atomic_xchg(lock, 0)


def test_a_lock_without_words_about_order_loses_no_update(backend):
    programs = 2000 if backend == "cpu" else 20
    lock, total = np.zeros(1, I32), np.zeros(64, F32)
    under_lock[(programs,)](lock, total, N=64)
    np.testing.assert_array_equal(total, programs)
