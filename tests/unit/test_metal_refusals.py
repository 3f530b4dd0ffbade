"""What a user reads when a kernel cannot run on Metal: the rule, the kernel line, and one next step."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime import get_runtime


def zeros(n=64, dtype=np.float32):
    return np.zeros(n, dtype)


def refusal(kernel, *args, **meta) -> str:
    with pytest.raises(eas.EasError) as caught:
        _ = kernel.compile(*args, **meta).msl
    return str(caught.value)


@eas.kernel
def copy_kernel(x, y):
    i = mk.arange(0, 64)
    mk.store(y, i, mk.load(x, i))


def test_an_f64_argument_is_told_with_the_line_that_uses_it():
    text = refusal(copy_kernel, zeros(dtype=np.float64), zeros(dtype=np.float64))
    assert "Metal has no f64, the dtype of argument x" in text
    assert "mk.store(y, i, mk.load(x, i))" in text
    assert "hint: pass x as float32" in text


@eas.kernel
def product_kernel(a, b, c, N: eas.constexpr):
    i = mk.arange(0, N)
    at = i[:, None] * N + i[None, :]
    left = mk.load(a, at)
    mk.store(c, at, mk.dot(left, mk.load(b, at)))


def test_a_block_that_is_too_large_is_told_by_name_and_shape():
    text = refusal(product_kernel, zeros(), zeros(), zeros(), N=128)
    assert "needs 135168 bytes of threadgroup memory, apple7 has 32768; the largest block left of shape [128, 128]: 16896 x f32 = 67584 bytes" in text
    assert "left = mk.load(a, at)" in text
    assert "hint: use smaller blocks, a narrower dtype, or more programs" in text


@eas.kernel
def turned_kernel(x, N: eas.constexpr):
    i = mk.arange(0, N)
    at = i[:, None] * N + i[None, :]
    mk.store(x, at, mk.trans(mk.load(x, at)))


def test_a_block_without_a_name_is_told_by_its_shape():
    assert "the largest block of shape [128, 128]: 16512 x f32 = 66048 bytes" in refusal(turned_kernel, zeros(), N=128)


@eas.kernel
def thread_kernel(x, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    mk.store(x, t, 1.0)


def test_num_warps_may_not_contradict_the_threads_of_a_kernel():
    text = refusal(thread_kernel, zeros(), BLOCK=64, num_warps=4)
    assert "num_warps=4 of thread_kernel, whose mk.tid already says that a threadgroup has 64 threads" in text
    assert "t = mk.tid(0, BLOCK)" in text
    assert "hint: leave num_warps out, or change the range of mk.tid" in text
    assert thread_kernel.compile(zeros(), BLOCK=64, num_warps=2).threads_per_threadgroup == 64


@eas.kernel
def declared_kernel(x, num_warps: eas.constexpr):
    i = mk.arange(0, 64)
    mk.store(x, i, mk.load(x, i) * num_warps)


def test_a_declared_num_warps_is_checked_too():
    assert "declared_kernel was given num_warps=3" in refusal(declared_kernel, zeros(), num_warps=3)
    assert declared_kernel.compile(zeros(), num_warps=4).threads_per_threadgroup == 128


@eas.kernel
def matrix_kernel(x, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    mk.mma_store(x, 0, 8, mk.mma_zero(mk.i32))
    mk.store(x, t, 1.0)


def test_matrices_of_integers_are_refused():
    text = refusal(matrix_kernel, zeros(), BLOCK=32)
    assert "there are no simdgroup matrices of i32" in text
    assert "mk.mma_zero(mk.i32)" in text
    assert "hint: use mk.f32, mk.f16 or mk.bf16" in text


@eas.kernel
def racing_kernel(x, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    shared = mk.alloc_tg(64, mk.f32)
    mk.store(shared, t, 1.0)
    mk.store(x, t, mk.load(shared, 63 - t))


@pytest.mark.skipif(not get_runtime("sim").is_available(), reason="no software Metal here")
def test_a_race_of_a_python_kernel_is_told_in_its_words(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "sim")
    monkeypatch.setenv("EAS_SANITIZE", "1")
    with pytest.raises(eas.SanitizerError) as caught:
        racing_kernel(zeros(), BLOCK=64)
    assert "hint: put mk.barrier() between the two accesses; lanes and programs that meet in one element need atomics" in str(caught.value)
