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


@eas.kernel
def padded_rows(x, out, K, pad, BK: eas.constexpr):
    cols = mk.arange(0, BK)
    mk.store(out, mk.program_id(0), mk.sum(mk.load(x, mk.program_id(0) * (K + pad) + cols, cols < K)))


@eas.kernel
def ranged_columns(x, out, K, lda, BK: eas.constexpr):
    cols, total = mk.arange(0, BK), mk.zeros([BK])
    for row in range(0, 8 * lda, lda):
        total += mk.load(x, row + cols, cols < K)
    mk.store(out, cols, total, cols < K)


@eas.kernel
def walked_columns(x, out, K, lda, BK: eas.constexpr):
    cols, total, row, place = mk.arange(0, BK), mk.zeros([BK]), 0, 0
    while row < 8:
        total += mk.load(x, place + cols, cols < K)
        row, place = row + 1, place + lda
    mk.store(out, cols, total, cols < K)


@eas.kernel
def counted_columns(x, out, K, lda, BK: eas.constexpr):
    cols, total, row, place = mk.arange(0, BK), mk.zeros([BK]), 0, 0
    while row < 2 * K:
        total += mk.load(x, place + cols, cols < K)
        row, place = row + 1, place + lda
    mk.store(out, cols, total, cols < K)


@pytest.mark.parametrize(("kernel", "number", "text"), [(padded_rows, 4, "K + pad"), (ranged_columns, 8, "lda"), (walked_columns, 8, "lda"), (counted_columns, 8, "lda")])
def test_sums_and_steps_of_loops_are_strides_too(kernel, number, text):
    with pytest.raises(eas.ArgumentError) as error:
        kernel[8](BIG[:, :4], np.zeros(8, np.float32), 4, number, BK=4)
    assert f"steps through 'x' by `{text}` = 8, the stride" in str(error.value)


@eas.kernel
def meta_rows(x, out, K, LDA: eas.constexpr, BK: eas.constexpr):
    row = mk.program_id(0)
    cols = mk.arange(0, BK)
    mk.store(out, row, mk.sum(mk.load(x, row * LDA + cols, cols < K)))


@eas.kernel
def flat_copy(x, out, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < N), i < N)


@eas.kernel
def flat_threads(x, out, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i < N:
        out[i] = x[i]


@eas.kernel
def every_other(x, out, N: eas.constexpr):
    i = mk.arange(0, N)
    mk.store(out, i, mk.load(x, 2 * i))


def test_a_stride_that_is_a_meta_parameter_is_refused():
    out = np.zeros(8, np.float32)
    with pytest.raises(eas.ArgumentError, match="steps through 'x' by `LDA` = 8, the stride of the array itself"):
        meta_rows[8](BIG[:, :4], out, 4, LDA=8, BK=4)
    meta_rows[8](BIG[:, :4], out, 4, LDA=4, BK=4)  # of the copy
    assert np.array_equal(out, BIG[:, :4].sum(1))


def test_lengths_of_blocks_and_threadgroups_are_no_strides():
    """BLOCK is the stride of the view by accident; so is the 2 of a kernel that takes every other element."""
    for kernel in (flat_copy, flat_threads):
        out = np.zeros(32, np.float32)
        kernel(BIG[:, :4], out, 32, BLOCK=8, _grid=4)
        assert np.array_equal(out, BIG[:, :4].ravel())
    out = np.zeros(4, np.float32)
    every_other[1](np.arange(16, dtype=np.float32)[::2], out, N=4)
    assert out.tolist() == [0, 4, 8, 12]


def test_torch_and_numpy_arrays_of_one_dtype_share_a_kernel():
    torch = pytest.importorskip("torch")
    out, x = np.zeros(8, np.float32), BIG.copy()
    k = row_sums.compile(x, out, 8, 8, 8, BK=8)
    assert row_sums.compile(torch.from_numpy(x), torch.from_numpy(out), 8, 8, 8, BK=8) is k
    assert row_sums.compile(eas.tensor(x), eas.tensor(out), 8, 8, 8, BK=8) is k
    assert row_sums.compile(x, torch.zeros(8, dtype=torch.bfloat16), 8, 8, 8, BK=8) is not k
    with pytest.raises(eas.TypeMismatch, match="does not become u16"):  # which is how bf16 is stored
        row_sums.compile(x, np.zeros(8, np.uint16), 8, 8, 8, BK=8)


@eas.kernel
def second_row(x, out, K, lda, BK: eas.constexpr):
    cols = mk.arange(0, BK)
    mk.store(out, cols, mk.load(x, lda + cols, cols < K), cols < K)


@eas.kernel
def second_meta_row(x, out, K, LDA: eas.constexpr, BK: eas.constexpr):
    cols = mk.arange(0, BK)
    mk.store(out, cols, mk.load(x, LDA + cols, cols < K), cols < K)


@eas.kernel
def whole_rows(x, out, K, LDA: eas.constexpr, BK: eas.constexpr):
    cols = mk.arange(0, BK)
    row = mk.load(x, mk.program_id(0) * LDA + cols)
    mk.store(out, mk.program_id(0), mk.sum(mk.where(cols < K, row, 0.0)))


@eas.kernel
def literal_rows(x, out, K, BK: eas.constexpr):
    cols = mk.arange(0, BK)
    mk.store(out, mk.program_id(0), mk.sum(mk.load(x, mk.program_id(0) * 8 + cols, cols < K)))


@pytest.mark.parametrize(
    ("kernel", "meta", "text"),
    [
        (meta_rows, {"LDA": 8, "BK": 8}, "`LDA` = 8"),  # rows of a block each, but only the first lanes are read
        (whole_rows, {"LDA": 8, "BK": 8}, "`LDA` = 8"),  # all lanes are read, yet another LDA gives other rows, and another BK would not
        (second_row, {"lda": 8, "BK": 4}, "`lda` = 8"),
        (second_meta_row, {"LDA": 8, "BK": 4}, "`LDA` = 8"),
        (literal_rows, {"BK": 4}, "8, the stride"),
    ],
)
def test_strides_that_look_like_something_else_are_refused(kernel, meta, text):
    with pytest.raises(eas.ArgumentError, match=f"steps through 'x' by {text}"):
        kernel[8](BIG[:, :4], np.zeros(8, np.float32), 4, **meta)


def test_numbers_of_a_kernel_that_reads_the_copy_are_taken():
    """The same kernels, told the stride of the copy; and a chunk of a column that is as long as the stride."""
    x = BIG[:, :4]
    for kernel, meta, want in [(meta_rows, {"LDA": 4, "BK": 8}, x.sum(1)), (second_row, {"lda": 4, "BK": 4}, [*x[1], 0, 0, 0, 0]), (second_meta_row, {"LDA": 4, "BK": 4}, [*x[1], 0, 0, 0, 0])]:
        out = np.zeros(8, np.float32)
        kernel[8](x, out, 4, **meta)
        assert np.array_equal(out, want)
    out = np.zeros(8, np.float32)
    second_row[1](np.arange(128, dtype=np.float32)[::8], out, 8, 8, BK=8)
    assert np.array_equal(out, np.arange(64, 128, 8))
