"""Products on blocks that targets run on matrix units: what stands around them stays right."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from tests.backend.formats import buffer, contents
from tests.backend.launches import launch


def _integers(shape, seed, low=-3, high=4):
    """Small integers: exact in every dtype and order of sums."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.float64)


@eas.kernel
def epilogue_kernel(a, b, bias, c, M, N, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)
    cols = mk.program_id(0) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], mk.f32)
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
        right = mk.load(b, inner[:, None] * N + cols[None, :], (inner[:, None] < K) & (cols[None, :] < N))
        acc = mk.dot(left, right, acc)
    acc = mk.maximum(acc + mk.load(bias, cols, cols < N)[None, :], 0.0)
    mk.store(c, rows[:, None] * N + cols[None, :], acc, (rows[:, None] < M) & (cols[None, :] < N))


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(("tiles", "sizes"), [((64, 64, 32), (70, 90, 45)), ((8, 8, 8), (9, 7, 17)), ((16, 64, 16), (33, 65, 16)), ((128, 32, 24), (130, 31, 50))])
def test_ragged_product_with_epilogue(backend, name, tiles, sizes):
    dtype = dtypes.parse(name)
    (m, n, k), (bm, bn, bk) = sizes, tiles
    a, b, bias = _integers((m, k), 1), _integers((k, n), 2), _integers((n,), 3)
    c = np.full((m, n), np.nan, np.float32)
    args = (buffer(a.ravel().tolist(), dtype), buffer(b.ravel().tolist(), dtype), bias.astype(np.float32), c, m, n, k)
    launch(backend, epilogue_kernel, *args, grid=(-(-n // bn), -(-m // bm)), BM=bm, BN=bn, BK=bk)
    np.testing.assert_array_equal(c, np.maximum(a @ b + bias, 0))


@eas.kernel
def around_kernel(a, b, c, y, rows_out, columns_out, turned_out, M: eas.constexpr, N: eas.constexpr, K: eas.constexpr):
    """One product, seen in many ways: stored, along rows and columns, turned."""
    i, j, k = mk.arange(0, M), mk.arange(0, N), mk.arange(0, K)
    left = mk.trans(mk.load(a, k[:, None] * M + i[None, :]))
    right = mk.trans(mk.load(b, j[:, None] * K + k[None, :]))
    product = mk.dot(left, right, mk.load(c, i[:, None] * N + j[None, :]))
    mk.store(y, i[:, None] * N + j[None, :], product)
    mk.store(rows_out, i, mk.max(product, axis=1))
    mk.store(columns_out, j, mk.sum(product, axis=0))
    mk.store(turned_out, j[:, None] * M + i[None, :], mk.trans(product) + 1)


@pytest.mark.parametrize("shape", [(32, 64, 16), (16, 8, 40), (64, 16, 8), (24, 40, 8)])
def test_a_product_is_read_across_and_turned(backend, shape):
    m, n, k = shape
    a, b, c = (_integers(s, i).astype(np.float32) for i, s in enumerate(((k, m), (n, k), (m, n))))
    y, rows, columns, turned = (np.full(s, np.nan, np.float32) for s in ((m, n), (m,), (n,), (n, m)))
    launch(backend, around_kernel, a, b, c, y, rows, columns, turned, grid=1, M=m, N=n, K=k)
    want = a.T @ b.T + c
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(rows, want.max(axis=1))
    np.testing.assert_array_equal(columns, want.sum(axis=0))
    np.testing.assert_array_equal(turned, want.T + 1)


@eas.kernel
def chain_kernel(a, b, c, y, N: eas.constexpr, D: eas.constexpr):
    """(a @ b scaled) @ c, and the same product as the right side."""
    i, d = mk.arange(0, N), mk.arange(0, D)
    first = mk.dot(mk.load(a, i[:, None] * D + d[None, :]), mk.trans(mk.load(b, i[:, None] * D + d[None, :])))
    scaled = (first * 2.0).to(c.dtype)
    values = mk.load(c, i[:, None] * D + d[None, :])
    second = mk.dot(scaled, values)
    third = mk.dot(mk.trans(values), scaled)
    mk.store(y, i[:, None] * D + d[None, :], second)
    mk.store(y, N * D + d[:, None] * N + i[None, :], third)


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("shape", [(32, 16), (64, 32), (16, 64)])
def test_products_of_products(backend, name, shape):
    dtype = dtypes.parse(name)
    n, d = shape
    a, b, c = (_integers((n, d), i, -1, 2) for i in range(3))
    y = np.full(2 * n * d, np.nan, np.float32)
    launch(backend, chain_kernel, *(buffer(x.ravel().tolist(), dtype) for x in (a, b, c)), y, grid=1, N=n, D=d)
    scaled = 2 * (a @ b.T)
    np.testing.assert_array_equal(y[: n * d].reshape(n, d), scaled @ c)
    np.testing.assert_array_equal(y[n * d :].reshape(d, n), c.T @ scaled)


@eas.kernel
def stack_kernel(a, b, y, S: eas.constexpr, M: eas.constexpr, N: eas.constexpr, K: eas.constexpr, TURNED: eas.constexpr):
    s, i, j, k = mk.arange(0, S), mk.arange(0, M), mk.arange(0, N), mk.arange(0, K)
    left = mk.load(a, (s[:, None, None] * M + i[None, :, None]) * K + k[None, None, :])
    if TURNED:
        right = mk.permute(mk.load(b, (s[:, None, None] * N + j[None, :, None]) * K + k[None, None, :]), (0, 2, 1))
    else:
        right = mk.load(b, (s[:, None, None] * K + k[None, :, None]) * N + j[None, None, :])
    mk.store(y, (s[:, None, None] * M + i[None, :, None]) * N + j[None, None, :], mk.dot(left, right))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(2, 16, 32, 8), (4, 8, 8, 24), (3, 16, 16, 16)])
@pytest.mark.parametrize("name", ["f32", "f16", "i8"])
def test_stacked_products(backend, name, shape, turned):
    dtype = dtypes.parse(name)
    s, m, n, k = shape
    a, b = _integers((s, m, k), 1), _integers((s, n, k) if turned else (s, k, n), 2)
    y = np.zeros((s, m, n), np.float32 if dtype.is_float else np.int32)
    kind = float if dtype.is_float else int
    sides = [buffer([kind(v) for v in x.ravel()], dtype) for x in (a, b)]
    launch(backend, stack_kernel, *sides, y, grid=1, S=s, M=m, N=n, K=k, TURNED=turned)
    np.testing.assert_array_equal(contents(y).reshape(y.shape), a @ (b.transpose(0, 2, 1) if turned else b))
