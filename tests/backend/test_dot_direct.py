"""Products of unmasked loads, which Metal reads from device memory without a copy: every way they can lie there."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from tests.backend.formats import buffer
from tests.backend.launches import launch
from tests.unit.golden_kernels import matmul_whole_kernel


def _integers(shape, seed):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float64)


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(("tiles", "sizes"), [((64, 64, 32), (128, 64, 96)), ((8, 16, 8), (16, 32, 24)), ((128, 32, 24), (128, 64, 48))])
def test_product_of_whole_tiles(backend, name, tiles, sizes):
    dtype = dtypes.parse(name)
    (m, n, k), (bm, bn, bk) = sizes, tiles
    a, b = _integers((m, k), 1), _integers((k, n), 2)
    c = np.full((m, n), np.nan, np.float32)
    sides = [buffer(x.ravel().tolist(), dtype) for x in (a, b)]
    launch(backend, matmul_whole_kernel, *sides, c, n, k, grid=(n // bn, m // bm), BM=bm, BN=bn, BK=bk)
    np.testing.assert_array_equal(c, a @ b)


@eas.kernel
def turned_kernel(a, b, c, first, row, BY_INDEX: eas.constexpr, M: eas.constexpr, N: eas.constexpr, K: eas.constexpr):
    """Both sides lie turned, `row` elements apart and from `first` on: said by indices, or by a view."""
    i, j, k = mk.arange(0, M), mk.arange(0, N), mk.arange(0, K)
    if BY_INDEX:
        left = mk.load(a, first + k[None, :] * row + i[:, None])
        right = mk.load(b, first + j[None, :] * (2 * row) + k[:, None])
    else:
        left = mk.trans(mk.load(a, first + k[:, None] * row + i[None, :]))
        right = mk.trans(mk.load(b, first + j[:, None] * (2 * row) + k[None, :]))
    mk.store(c, i[:, None] * N + j[None, :], mk.dot(left, right))


@pytest.mark.parametrize("by_index", [False, True])
@pytest.mark.parametrize("shape", [(16, 32, 8), (32, 8, 24)])
def test_turned_sides_with_rows_apart(backend, by_index, shape):
    m, n, k = shape
    first, row = 5, 37
    a, b = (_integers(first + 64 * 2 * row, seed).astype(np.float32) for seed in (1, 2))
    c = np.full((m, n), np.nan, np.float32)
    launch(backend, turned_kernel, a, b, c, first, row, grid=1, BY_INDEX=by_index, M=m, N=n, K=k)
    left = a[first + np.arange(m)[:, None] + np.arange(k) * row]
    right = b[first + np.arange(n) * 2 * row + np.arange(k)[:, None]]
    np.testing.assert_array_equal(c, left @ right)


@eas.kernel
def in_place_kernel(a, b, c, N: eas.constexpr):
    """What is stored between load and product must not be seen."""
    i = mk.arange(0, N)
    at = i[:, None] * N + i[None, :]
    left, right = mk.load(a, at), mk.load(b, at)
    mk.store(c, at, left + 1.0)
    mk.store(c, at, mk.dot(left, right))


def test_product_over_one_of_its_sides(backend):
    n = 16
    a, b = (_integers((n, n), seed).astype(np.float32) for seed in (1, 2))
    want = a @ b
    launch(backend, in_place_kernel, a, b, a, grid=1, N=n)
    np.testing.assert_array_equal(a, want)
    want = a @ b
    launch(backend, in_place_kernel, a, b, b, grid=1, N=n)
    np.testing.assert_array_equal(b, want)


@eas.kernel
def written_between_kernel(a, b, c, N: eas.constexpr):
    i = mk.arange(0, N)
    at = i[:, None] * N + i[None, :]
    left, right = mk.load(a, at), mk.load(b, at)
    mk.store(a, at, right)
    mk.store(c, at, mk.dot(left, right))


def test_side_that_is_overwritten_before_the_product(backend):
    n = 16
    a, b = (_integers((n, n), seed).astype(np.float32) for seed in (1, 2))
    c, want = np.zeros((n, n), np.float32), a @ b
    launch(backend, written_between_kernel, a, b, c, grid=1, N=n)
    np.testing.assert_array_equal(c, want)
    np.testing.assert_array_equal(a, b)
