"""Convolutions as users write them: masks with two ends, sums of blocks by rows, loads of several shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import dtypes, mk
from tests.backend.formats import buffer
from tests.backend.launches import launch, need_dtype


def small_integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape)


@eas.kernel
def stencil(x, w, y, H, W, SIZE: eas.constexpr, BM: eas.constexpr, BN: eas.constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)[:, None]
    cols = mk.program_id(0) * BN + mk.arange(0, BN)[None, :]
    acc = mk.zeros([BM, BN], mk.f32)
    for i in mk.static_range(SIZE):
        for j in mk.static_range(SIZE):
            r, c = rows + i - SIZE // 2, cols + j - SIZE // 2
            value = mk.load(x, r * W + c, (r >= 0) & (r < H) & (c >= 0) & (c < W), 0)
            acc += value.to(mk.f32) * mk.load(w, i * SIZE + j)
    mk.store(y, rows * W + cols, acc, (rows < H) & (cols < W))


@pytest.mark.parametrize("dtype", ["f32", "i8", "f16"])
@pytest.mark.parametrize(("shape", "tile"), [((5, 70), (4, 64)), ((9, 33), (8, 16)), ((3, 3), (4, 8)), ((2, 130), (2, 128))])
def test_stencil(backend, dtype, shape, tile):
    (h, w), (bm, bn), size = shape, tile, 5
    src = dtypes.parse(dtype)
    need_dtype(backend, src)
    x, weights = small_integers(h, w), small_integers(size, size).astype(np.float32)
    number = float if src.is_float else int
    given = buffer([number(v) for v in x.ravel()], src)
    y = np.full((h, w), math.nan, np.float32)
    launch(backend, stencil, given, weights, y, h, w, grid=(-(-w // bn), -(-h // bm)), SIZE=size, BM=bm, BN=bn)
    around = np.pad(x, size // 2)
    want = sum(around[i : i + h, j : j + w] * weights[i, j] for i in range(size) for j in range(size))
    np.testing.assert_array_equal(y, want)


@eas.kernel
def sums_between(x, y, z, first, last, N, BM: eas.constexpr, BN: eas.constexpr):
    """Sums and largest elements of a part of each row that starts and ends anywhere."""
    rows, cols = mk.arange(0, BM)[:, None], mk.arange(0, BN)[None, :]
    inside = (cols >= first) & (cols < last)
    mk.store(y, mk.arange(0, BM), mk.sum(mk.load(x, rows * N + cols, inside, 0.0), axis=1))
    mk.store(z, mk.arange(0, BM), mk.max(mk.load(x, rows * N + cols, inside & (rows > 0), -5.0), axis=1))


@pytest.mark.parametrize("ends", [(0, 64), (1, 63), (9, 9), (17, 40), (60, 3), (-4, 100), (64, 64)], ids=str)
def test_part_of_a_row(backend, ends):
    first, last = ends
    x = small_integers(8, 64).astype(np.float32)
    y, z = (np.full(8, math.nan, np.float32) for _ in range(2))
    launch(backend, sums_between, x, y, z, first, min(last, 64), 64, grid=1, BM=8, BN=64)
    part = x[:, max(first, 0) : max(last, 0)]
    np.testing.assert_array_equal(y, part.sum(axis=1))
    part = np.concatenate([np.full((8, 1), -5.0), part], axis=1)
    part[0] = -5.0
    np.testing.assert_array_equal(z, part.max(axis=1))


@eas.kernel
def matvec(a, x, y, M, K, BM: eas.constexpr, BK: eas.constexpr):
    rows = mk.program_id(0) * BM + mk.arange(0, BM)
    acc = mk.zeros([BM], mk.f32)
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        part = mk.load(a, rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
        acc += mk.sum(part.to(mk.f32) * mk.load(x, inner, inner < K)[None, :], axis=1)
    mk.store(y, rows, acc, rows < M)


@pytest.mark.parametrize("dtype", ["f32", "i8", "f16"])
@pytest.mark.parametrize(("shape", "tile"), [((13, 70), (8, 32)), ((6, 40), (4, 64)), ((7, 33), (8, 20)), ((16, 128), (16, 128))])
def test_matrix_times_vector(backend, dtype, shape, tile):
    (m, k), (bm, bk) = shape, tile
    src = dtypes.parse(dtype)
    a, x = small_integers(m, k), small_integers(k).astype(np.float32)
    number = float if src.is_float else int
    y = np.full(m, math.nan, np.float32)
    launch(backend, matvec, buffer([number(v) for v in a.ravel()], src), x, y, m, k, grid=-(-m // bm), BM=bm, BK=bk)
    np.testing.assert_array_equal(y, a @ x)


@eas.kernel
def overwritten_vector(a, x, y, BM: eas.constexpr, BK: eas.constexpr):
    """x changes between two loads of it, while the block of a is still to be used."""
    rows, inner = mk.arange(0, BM), mk.arange(0, BK)
    block = mk.load(a, rows[:, None] * BK + inner[None, :])
    before = mk.load(x, inner)
    mk.store(x, inner, before + 1)
    after = mk.load(x, inner)
    mk.store(y, rows, mk.sum(block * (after - before * 2)[None, :], axis=1))


def test_loads_around_a_store_keep_their_order(backend):
    a, x = small_integers(8, 32).astype(np.float32), small_integers(32).astype(np.float32)
    y, given = np.zeros(8, np.float32), x.copy()
    launch(backend, overwritten_vector, a, given, y, grid=1, BM=8, BK=32)
    np.testing.assert_array_equal(y, a @ (x + 1 - 2 * x))
    np.testing.assert_array_equal(given, x + 1)


@eas.kernel
def two_filters(x, w, y, M, N, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """A product per tap of a filter: each has a right side of its own, which all programs share."""
    rows, cols = mk.program_id(1) * BM + mk.arange(0, BM), mk.program_id(0) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], mk.f32)
    for tap in range(2):
        for first in range(0, K, BK):
            inner = first + mk.arange(0, BK)
            left = mk.load(x, (rows[:, None] + tap) * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
            right = mk.load(w, (tap * K + inner[:, None]) * N + cols[None, :], (inner[:, None] < K) & (cols[None, :] < N))
            acc = mk.dot(left, right, acc)
    mk.store(y, cols[:, None] * M + rows[None, :], mk.trans(acc), (cols[:, None] < N) & (rows[None, :] < M))


@pytest.mark.parametrize("shape", [(70, 24, 40), (33, 300, 16), (5, 7, 3)], ids=str)
def test_products_per_tap_whose_result_is_stored_transposed(backend, shape):
    m, k, n = shape
    x, w = small_integers(m + 1, k).astype(np.float32), small_integers(2, k, n).astype(np.float32)
    y = np.full((n, m), math.nan, np.float32)
    launch(backend, two_filters, x, w, y, m, n, k, grid=(-(-n // 16), -(-m // 16)), BM=16, BN=16, BK=16)
    np.testing.assert_array_equal(y, (x[:-1] @ w[0] + x[1:] @ w[1]).T)
