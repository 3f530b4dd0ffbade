"""Strides that are passed as plain numbers beside a strided array."""

import numpy as np
import pytest

import eas
from eas import mk


@eas.kernel
def row_sums(x, out, M, K, lda, BK: eas.constexpr):
    row = mk.program_id(0)
    cols = mk.arange(0, BK)
    mk.store(out, row, mk.sum(mk.load(x, row * lda + cols, cols < K)))


@eas.kernel
def element_sums(x, out, M, K, step, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x + i * (2 * step), mask=i < M), i < M)


@eas.kernel
def thread_rows(x, out, M, lda, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i < M:
        mk.store(out, i, mk.load(x, i * lda))


BIG = np.arange(64, dtype=np.float32).reshape(8, 8)


def test_a_stride_under_another_name_is_refused_with_a_view():
    out = np.zeros(8, np.float32)
    with pytest.raises(eas.ArgumentError, match="steps through 'x' by `lda` = 8") as error:
        row_sums[8](BIG[:, :4], out, 8, 4, 8, BK=4)
    assert "x.stride(0)" in str(error.value)
    with pytest.raises(eas.ArgumentError, match="by `lda` = 8"):
        thread_rows(BIG[:, :4], out, 8, 8, BLOCK=8, _grid=1)


def test_the_stride_of_the_copy_is_taken():
    out = np.zeros(8, np.float32)
    row_sums[8](BIG[:, :4], out, 8, 4, 4, BK=4)
    assert np.array_equal(out, BIG[:, :4].sum(1))


def test_equal_numbers_that_are_no_strides_are_taken():
    """M is 8, as is the stride of the view, and multiplies nothing."""
    out = np.zeros(8, np.float32)
    row_sums[8](BIG[:, :4], out, 8, 4, 4, BK=4)
    square = np.zeros(8, np.float32)
    row_sums[8](BIG.T, square, 8, 8, 8, BK=8)  # of the copy, too, rows are 8 apart
    assert np.array_equal(square, BIG.T.sum(1))


def test_products_of_numbers_are_seen():
    out = np.zeros(2, np.float32)
    element_sums(np.arange(8, dtype=np.float32)[:8:4], out, 2, 0, 0, BLOCK=2, _grid=1)  # a step of 0 is its own business
    with pytest.raises(eas.ArgumentError, match=r"`2\*step` = 4"):
        element_sums(np.arange(8, dtype=np.float32)[:8:4], out, 2, 0, 2, BLOCK=2, _grid=1)


def test_torch_and_numpy_arrays_of_one_dtype_share_a_kernel():
    torch = pytest.importorskip("torch")
    out, x = np.zeros(8, np.float32), BIG.copy()
    k = row_sums.compile(x, out, 8, 8, 8, BK=8)
    assert row_sums.compile(torch.from_numpy(x), torch.from_numpy(out), 8, 8, 8, BK=8) is k
    assert row_sums.compile(eas.tensor(x), eas.tensor(out), 8, 8, 8, BK=8) is k
    assert row_sums.compile(x, torch.zeros(8, dtype=torch.bfloat16), 8, 8, 8, BK=8) is not k
    with pytest.raises(eas.TypeMismatch, match="does not become u16"):  # which is how bf16 is stored
        row_sums.compile(x, np.zeros(8, np.uint16), 8, 8, 8, BK=8)
