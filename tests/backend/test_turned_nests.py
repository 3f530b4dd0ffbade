"""Blocks that are only read transposed: whole squares, masked edges, values behind the masks."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import METAL, launch


@eas.kernel
def turn_kernel(x, y, whole, m, n, OTHER: mk.constexpr, BM: mk.constexpr, BN: mk.constexpr):
    """Stores the transpose under its mask, and all of it, with what the masked lanes are."""
    rows, cols = mk.arange(0, BM), mk.arange(0, BN)
    values = mk.load(x, rows[:, None] * n + cols[None, :], (rows[:, None] < m) & (cols[None, :] < n), other=OTHER)
    turned = mk.trans(values + values)
    mk.store(y, cols[:, None] * m + rows[None, :], turned, (cols[:, None] < n) & (rows[None, :] < m))
    mk.store(whole, cols[:, None] * BM + rows[None, :], turned)


@pytest.mark.left_out(lambda backend, dtype: backend in METAL and dtype in (np.float64, np.int64))  # Metal has no f64, and i64 adds nothing here
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.int32, np.int64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("shape", [(1, 1), (8, 16), (9, 15), (16, 7), (16, 24), (0, 3)])
def test_transpose_of_a_masked_block(backend, dtype, shape):
    (m, n), bm, bn = shape, 16, 24
    x = np.random.default_rng(0).integers(-9, 10, (max(m, 1), n)).astype(dtype)
    y, whole = np.zeros((n, max(m, 1)), dtype), np.zeros((bn, bm), dtype)
    launch(backend, turn_kernel, x, y, whole, m, n, grid=1, OTHER=3, BM=bm, BN=bn)
    padded = np.full((bm, bn), 3, dtype)
    padded[:m, :n] = x[:m]
    np.testing.assert_array_equal(whole, 2 * padded.T)
    if m:
        np.testing.assert_array_equal(y, 2 * x.T)


@eas.kernel
def turn_cube_kernel(x, y, A: mk.constexpr, B: mk.constexpr, C: mk.constexpr):
    a, b, c = mk.arange(0, A), mk.arange(0, B), mk.arange(0, C)
    values = mk.load(x, (a[:, None, None] * B + b[None, :, None]) * C + c[None, None, :])
    mk.store(y, (c[:, None, None] * B + b[None, :, None]) * A + a[None, None, :], mk.permute(values, (2, 1, 0)))


@pytest.mark.parametrize("shape", [(8, 3, 16), (16, 8, 8), (8, 2, 7)])
def test_transpose_of_a_cube(backend, shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    y = np.zeros(shape[::-1], np.float32)
    launch(backend, turn_cube_kernel, x, y, grid=1, A=shape[0], B=shape[1], C=shape[2])
    np.testing.assert_array_equal(y, x.T)


@eas.kernel
def both_ways_kernel(x, y, N: mk.constexpr):
    at = mk.arange(0, N)
    values = mk.load(x, at[:, None] * N + at[None, :]) * 2
    mk.store(y, at[:, None] * N + at[None, :], values + mk.trans(values))


def test_a_block_that_is_also_read_as_it_is(backend):
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    y = np.zeros_like(x)
    launch(backend, both_ways_kernel, x, y, grid=1, N=16)
    np.testing.assert_array_equal(y, 2 * x + 2 * x.T)
