"""Rows of 8-bit and 16-bit elements under masks: what is off is `other`, adds nothing, and stays as it was in memory."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.schedule.target import AVX512
from tests.backend.launches import launch
from tests.unit.fixed_target import llvm_text

pytestmark = pytest.mark.every_width


@eas.kernel
def rows_kernel(x, y, sums, n, stride, BLOCK: mk.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    plain = mk.load(x, row * stride + c, c < n)
    values = mk.load(x, row * stride + c, c < n, other=3)
    mk.store(sums, row * 2, mk.sum(plain.to(mk.i32)))
    mk.store(sums, row * 2 + 1, mk.sum(values.to(mk.i32)))
    mk.store(y, row * stride + c, plain + 1, c < n)


@eas.kernel
def chosen_kernel(x, y, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    values = mk.load(x, i, i < n)
    mk.store(y, i, mk.load(x, n - 1 - i, (i < n) & (values > 4), other=9), (i < n) & (values < 8))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("block", [64, 256])
def test_rows_end_anywhere(backend, dtype, block):
    for n in (1, 17, 33, 63, 64, 100, 129, 255):
        if n > block:
            continue
        x = np.random.default_rng(n).integers(0, 10, (5, n + 7)).astype(dtype)
        y, sums = np.full_like(x, 77), np.zeros((5, 2), np.int32)
        launch(backend, rows_kernel, x, y, sums, n, n + 7, grid=5, BLOCK=block)
        inside = x[:, :n].astype(np.int32)
        np.testing.assert_array_equal(sums, np.stack([inside.sum(1), inside.sum(1) + 3 * (block - n)], 1))
        np.testing.assert_array_equal(y[:, :n], inside + 1)
        assert (y[:, n:] == 77).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16], ids=lambda d: d.__name__)
def test_masks_of_elements(backend, dtype):
    for n in (1, 31, 100, 255):
        x = np.random.default_rng(n).integers(0, 10, n).astype(dtype)
        y = np.full(300, 77, dtype)
        launch(backend, chosen_kernel, x, y, n, grid=3, BLOCK=128)
        expected = np.where(x < 8, np.where(x > 4, x[::-1], 9), 77)
        np.testing.assert_array_equal(y[:n], expected)
        assert (y[n:] == 77).all()


@eas.kernel
def bounded_kernel(x, sums, bounds, BLOCK: mk.constexpr):
    """The bound of a row is a number in memory: negative, zero, or more than there is."""
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    bound = mk.load(bounds, row)
    mk.store(sums, row, mk.sum(mk.load(x, row * BLOCK + c, c.to(bounds.dtype) < bound).to(mk.i32)))


@pytest.mark.parametrize("dtype", [np.uint8, np.float16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("kind", [np.int32, np.uint32], ids=lambda d: d.__name__)
def test_bounds_of_any_sign_and_size(backend, dtype, kind):
    block, info = 256, np.iinfo(kind)
    bounds = np.array([info.min, 0, 1, 63, 64, 65, 131, 255, 256, 257, 2**31 - 1, info.max, info.max // 2 + 1], kind)
    x = np.random.default_rng(1).integers(0, 10, (len(bounds), block)).astype(dtype)
    sums = np.zeros(len(bounds), np.int32)
    launch(backend, bounded_kernel, x, sums, bounds, grid=len(bounds), BLOCK=block)
    inside = np.arange(block) < np.minimum(bounds.astype(np.int64), block)[:, None]
    np.testing.assert_array_equal(sums, np.where(inside, x, 0).astype(np.int32).sum(1))


@pytest.mark.parametrize(("dtype", "bits"), [(np.uint8, 1), (np.float16, 1), (np.float32, 0)])
def test_what_is_left_of_a_row_is_a_mask_by_a_shift(dtype, bits):
    x, y, sums = np.zeros(5 * 300, dtype), np.zeros(5 * 300, dtype), np.zeros(10, np.int32)
    text = llvm_text(rows_kernel, x, y, sums, 300, 300, target=AVX512, BLOCK=512)
    assert bool(text.count("shl i64 1, ")) == bool(bits)
