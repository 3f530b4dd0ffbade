"""Tiles combined with rows and columns, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch


@eas.kernel
def scale_kernel(x, row, column, out, M, N, BM: mk.constexpr, BN: mk.constexpr):
    r = mk.program_id(0) * BM + mk.arange(0, BM)
    c = mk.program_id(1) * BN + mk.arange(0, BN)
    inside = (r < M)[:, None] & (c < N)[None, :]
    at = r[:, None] * N + c[None, :]
    by_row = mk.load(column, r, r < M, 7)[:, None]
    mk.store(out, at, mk.load(x, at, inside) * by_row + mk.load(row, c, c < N)[None, :], inside)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize(("m", "n"), [(40, 70), (33, 5)])
def test_rows_and_columns_of_a_tile(backend, dtype, m, n):
    rng = np.random.default_rng(0)
    x, row, column = (rng.integers(0, 9, size).astype(dtype) for size in ((m, n), n, m))
    out = np.zeros((m, n), dtype)
    launch(backend, scale_kernel, x, row, column, out, m, n, grid=(mk.cdiv(m, 16), mk.cdiv(n, 32)), BM=16, BN=32)
    np.testing.assert_array_equal(out, x * column[:, None] + row)


@eas.kernel
def own_row_kernel(x, N, BM: mk.constexpr, BN: mk.constexpr):
    """The row that is added is one of those that change: it is read before."""
    r, c = mk.arange(0, BM)[:, None], mk.arange(0, BN)[None, :]
    first = mk.load(x, c, c < N)
    mk.store(x, r * N + c, mk.load(x, r * N + c, c < N) + first, c < N)


def test_a_row_that_is_overwritten_is_read_once(backend):
    x = np.arange(8 * 20, dtype=np.int32).reshape(8, 20)
    want = x + x[0]
    launch(backend, own_row_kernel, x, 20, grid=1, BM=8, BN=32)
    np.testing.assert_array_equal(x, want)


@eas.kernel
def changed_row_kernel(x, row, out, N, BM: mk.constexpr, BN: mk.constexpr):
    """The row is looked at as part of a tile after it was overwritten."""
    r, c = mk.arange(0, BM), mk.arange(0, BN)
    first = mk.load(row, c, c < N)
    mk.store(row, c, mk.zeros([BN], row.dtype) - 1, c < N)
    at, on = r[:, None] * N + c[None, :], (c < N)[None, :]
    mk.store(out, at, mk.load(x, at, on) + first[None, :], on)


def test_a_row_that_changes_before_it_is_widened(backend):
    x, row, out = np.arange(8 * 20, dtype=np.int32).reshape(8, 20), np.arange(20, dtype=np.int32), np.zeros((8, 20), np.int32)
    launch(backend, changed_row_kernel, x, row, out, 20, grid=1, BM=8, BN=32)
    np.testing.assert_array_equal(out, x + np.arange(20))
    np.testing.assert_array_equal(row, -1)
