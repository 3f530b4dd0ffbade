"""Rows of 8-bit and 16-bit elements under masks: what is off is `other`, adds nothing, and stays as it was in memory."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch

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
