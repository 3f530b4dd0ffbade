"""Triton kernels run unchanged: tutorial 01's form, helpers, callable grids, strided arguments, kernels of both languages."""

from __future__ import annotations

import numpy as np
import pytest

import eas
import eas.triton as triton
import eas.triton.language as tl
from eas import mk


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x + y, mask=mask)


def test_vector_add_with_a_computed_grid(backend):
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    out = np.zeros(1000, np.float32)
    add_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK_SIZE"]),)](x, y, out, 1000, BLOCK_SIZE=256, num_warps=4, num_stages=3)
    np.testing.assert_array_equal(out, x + y)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, cols, stride_m, stride_n, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    mask = (m[:, None] < rows) & (n[None, :] < cols)
    x = tl.load(x_ptr + m[:, None] * stride_m + n[None, :] * stride_n, mask=mask, other=0.0)
    tl.store(out_ptr + n[:, None] * rows + m[None, :], tl.trans(x), mask=mask.trans())


def test_a_strided_argument_is_its_memory(backend):
    base = np.arange(12 * 20, dtype=np.float32).reshape(12, 20)
    view, out = base[1:11:3, 2:18:2], np.zeros((8, 4), np.float32)
    steps = [s // 4 for s in view.strides]
    transpose_kernel[(1,)](view, out, 4, 8, steps[0], steps[1], M=4, N=8)
    np.testing.assert_array_equal(out, view.T)


def test_results_go_to_the_memory_of_a_strided_argument(backend):
    base = np.zeros((8, 8), np.float32)

    @triton.jit
    def fill(x, step, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x + i * step, i)

    fill[1,](base[:, 3], 8, 8)
    np.testing.assert_array_equal(base[:, 3], np.arange(8))
    assert base.sum() == 28


@triton.jit
def halve(x):
    return x / 2


@eas.kernel
def double_all(x, n, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(x, i, mk.load(x, i) * 2 // 1, i < n)


@triton.jit
def both(x, out, n, BLOCK: tl.constexpr):
    double_all(x, n, BLOCK)
    i = tl.arange(0, BLOCK)
    tl.store(out + i, halve(tl.load(x + i, i < n)), i < n)


@eas.kernel
def eas_with_triton_helper(x, out, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    v = mk.load(x, i)
    mk.store(out, i, mk.where(i % 2 == 0, halve(v), (v - 8) // 3))


def test_kernels_of_both_languages_call_each_other(backend):
    x, out = np.arange(16, dtype=np.int32), np.zeros(16, np.float32)
    both[(1,)](x, out, 16, BLOCK=16)
    np.testing.assert_array_equal(x, np.arange(16) * 2)
    np.testing.assert_array_equal(out, np.arange(16))
    x = np.arange(16, dtype=np.int32)
    eas_with_triton_helper(x, out, BLOCK=16, _grid=1)
    np.testing.assert_array_equal(out, np.where(x % 2 == 0, x / 2, (x - 8) // 3))  # // floors in mk


def test_loops_early_return_and_while(backend):
    @triton.jit
    def collatz(x, out, n):
        if tl.program_id(0) >= n:
            return
        v = tl.load(x + tl.program_id(0))
        steps = 0
        while v > 1:
            if v % 2 == 0:
                v = v // 2
            else:
                v = 3 * v
                v += 1
            steps += 1
        total = 0
        for k in range(5):
            total += k
        tl.store(out + tl.program_id(0), steps + total)

    x, out = np.array([1, 6, 27], np.int32), np.full(4, -1, np.int32)
    collatz[(4,)](x, out, 3)
    np.testing.assert_array_equal(out, [10, 18, 121, -1])


def test_tuples_dtypes_functions_and_none_are_arguments(backend):
    @triton.jit
    def kernel(pair, out, fn, dtype, bias, N: tl.constexpr):
        i = tl.arange(0, N)
        value = fn(tl.load(pair[0] + i) + tl.load(pair[1][0] + i) * pair[1][1])
        if bias is not None:
            value += tl.load(bias + i)
        tl.store(out + i, value.to(dtype))

    x, y = np.arange(8, dtype=np.float32), np.full(8, 3, np.float32)
    out = np.zeros(8, np.float32)
    kernel[(1,)]((x, (y, 5)), out, halve, tl.int32, None, N=8)
    np.testing.assert_array_equal(out, np.trunc((x + 15) / 2))


def test_an_error_names_the_line_of_the_triton_kernel():
    @triton.jit
    def kernel(x):
        offs = tl.arange(0, 8)
        tl.store(x + offs, tl.load(x + offs) ** 2)

    with pytest.raises(triton.TritonError, match="Triton has no pow") as error:
        kernel[(1,)](np.zeros(8, np.float32))
    assert "tl.store(x + offs, tl.load(x + offs) ** 2)" in str(error.value)
    assert "^^^^^^" in str(error.value)


def test_unknown_launch_option_is_refused():
    with pytest.raises(triton.TritonError, match="no argument `num_warp`"):
        add_kernel[(1,)](1, 2, 3, 4, BLOCK_SIZE=2, num_warp=4)


@pytest.mark.parametrize("form", ["transposed", "sliced", "row", "expanded"])
def test_torch_tensors_are_their_memory(form):
    torch = pytest.importorskip("torch")
    base = torch.arange(48.0).reshape(6, 8).requires_grad_()
    view = {"transposed": base.t(), "sliced": base[1:, 2:], "row": base[2:3], "expanded": base[:1].expand(6, 8)}[form]
    rows, cols = view.shape
    out = torch.zeros(cols, rows)
    transpose_kernel[(1,)](view, out, rows, cols, *view.stride(), M=8, N=8)
    torch.testing.assert_close(out, view.detach().t())
    assert base._version == 0
