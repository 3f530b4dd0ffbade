"""Vectors that many elements of a block share, which Metal's threads load themselves."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch


def _integers(shape, seed):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


@eas.kernel
def outer_kernel(x, w, y, n, m, BN: eas.constexpr, BM: eas.constexpr):
    """The same vector along both axes, and a scaled row and column of another dtype."""
    i, j = mk.arange(0, BN), mk.arange(0, BM)
    a, b = mk.load(x, i, i < n), mk.load(x, j, j < m, other=7.0)
    scale = mk.cast(mk.load(w, j, j < m), mk.f32)
    z = a[:, None] * b[None, :] + scale[None, :]
    mk.store(y, i[:, None] * BM + j[None, :], z)


@pytest.mark.parametrize(("n", "m", "shape"), [(13, 9, (16, 16)), (32, 64, (32, 64)), (5, 3, (12, 20))])
def test_one_vector_along_two_axes(backend, n, m, shape):
    x, w = _integers(64, 1), _integers(64, 2).astype(np.float16)
    y = np.full(shape, np.nan, np.float32)
    launch(backend, outer_kernel, x, w, y, n, m, grid=1, BN=shape[0], BM=shape[1])
    i, j = np.arange(shape[0]), np.arange(shape[1])
    a, b = np.where(i < n, x[: shape[0]], 0), np.where(j < m, x[: shape[1]], 7)
    np.testing.assert_array_equal(y, a[:, None] * b + np.where(j < m, w[: shape[1]].astype(np.float32), 0))


@eas.kernel
def rows_kernel(a, x, y, K, BM: eas.constexpr, BK: eas.constexpr):
    """y = a @ x, then x is read again after it may have changed."""
    rows = mk.program_id(0) * BM + mk.arange(0, BM)
    acc = mk.zeros([BM], mk.f32)
    for first in range(0, K, BK):
        k = first + mk.arange(0, BK)
        acc += mk.sum(mk.load(a, rows[:, None] * K + k[None, :], k[None, :] < K) * mk.load(x, k, k < K)[None, :], axis=1)
    mk.store(y, rows, acc)


@pytest.mark.parametrize("k", [48, 50])
def test_matrix_times_vector(backend, k):
    a, x, y = _integers((16, k), 1), _integers(k, 2), np.zeros(16, np.float32)
    launch(backend, rows_kernel, a, x, y, k, grid=2, BM=8, BK=16)
    np.testing.assert_array_equal(y, a @ x)


@eas.kernel
def written_kernel(x, y, N: eas.constexpr):
    """What a vector was when it was loaded counts, not what it is when it is used."""
    i = mk.arange(0, N)
    row = mk.load(x, i)
    mk.store(x, i, row + 1.0)
    mk.store(y, i[:, None] * N + i[None, :], row[:, None] - row[None, :] * 2.0)


def test_vector_that_changes_after_it_was_loaded(backend):
    x, y = _integers(32, 3), np.zeros((32, 32), np.float32)
    before = x.copy()
    launch(backend, written_kernel, x, y, grid=1, N=32)
    np.testing.assert_array_equal(y, before[:, None] - before * 2)
    np.testing.assert_array_equal(x, before + 1)


@eas.kernel
def one_of_a_row_kernel(x, y, n, m, BN: eas.constexpr, BM: eas.constexpr):
    """One element for a whole row, under masks that differ along the row, along the rows, and nowhere."""
    i, j = mk.arange(0, BN)[:, None], mk.arange(0, BM)[None, :]
    at = i + 0 * j
    mk.store(y, i * BM + j, mk.load(x, at, j < m, other=-1.0) * 100.0 + mk.load(x, at, i < n, other=-2.0) * 10.0 + mk.load(x, at))


@pytest.mark.parametrize(("n", "m", "shape"), [(5, 9, (8, 16)), (8, 3, (8, 32)), (1, 64, (2, 64)), (16, 0, (16, 4))])
def test_one_element_of_each_row_under_masks(backend, n, m, shape):
    x, y = _integers(shape[0], 4), np.full(shape, np.nan, np.float32)
    launch(backend, one_of_a_row_kernel, x, y, n, m, grid=1, BN=shape[0], BM=shape[1])
    i, j = np.indices(shape)
    np.testing.assert_array_equal(y, np.where(j < m, x[i], -1) * 100 + np.where(i < n, x[i], -2) * 10 + x[i])
