"""Blocks that a loop adds up and that are reduced behind it, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch


@eas.kernel
def sums_kernel(x, w, out, n, BLOCK: mk.constexpr):
    row = mk.program_id(0)
    plain, products, kept = mk.zeros([BLOCK]), mk.zeros([BLOCK]), mk.zeros([BLOCK])
    top = mk.full([BLOCK], float("-inf"))
    for first in range(0, n, BLOCK):
        c = first + mk.arange(0, BLOCK)
        v = mk.load(x, row * n + c, c < n)
        plain += v
        products += v * mk.load(w, c, c < n)
        top = mk.maximum(top, mk.where(c < n, v, float("-inf")))
        kept = kept + v
        if first > 0:
            kept = kept * 2.0
    mk.store(out, row * 5, mk.sum(plain))
    mk.store(out, row * 5 + 1, mk.sum(products))
    mk.store(out, row * 5 + 2, mk.max(top))
    mk.store(out, row * 5 + 3, mk.sum(kept))
    mk.store(out, row * 5 + 4, mk.max(kept))


@pytest.mark.parametrize("n", [0, 5, 128, 300])
def test_sums_of_a_row(backend, n):
    block = 128
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 9, (3, n)).astype(np.float32), rng.integers(-9, 9, n).astype(np.float32)
    out = np.ones((3, 5), np.float32)
    launch(backend, sums_kernel, x if n else np.zeros(1, np.float32), w if n else np.zeros(1, np.float32), out, n, grid=3, BLOCK=block)
    kept = np.zeros((3, block), np.float32)
    for first in range(0, n, block):
        part = x[:, first : first + block]
        kept[:, : part.shape[1]] += part
        kept *= 2 if first else 1
    top = x.max(1) if n else np.full(3, -np.inf, np.float32)
    want = np.stack([x.sum(1), x @ w, top, kept.sum(1), kept.max(1)], 1)
    np.testing.assert_array_equal(out, want)


@eas.kernel
def tile_kernel(x, out, n, ROWS: mk.constexpr, BLOCK: mk.constexpr):
    r = mk.arange(0, ROWS)
    total = mk.zeros([ROWS, BLOCK], mk.i32)
    for first in range(0, n, BLOCK):
        c = first + mk.arange(0, BLOCK)[None, :]
        total += mk.load(x, r[:, None] * n + c, c < n)
    mk.store(out, r, mk.sum(total, axis=1))


def test_sums_of_rows_of_a_tile(backend):
    x, out = np.arange(8 * 75, dtype=np.int32).reshape(8, 75), np.zeros(8, np.int32)
    launch(backend, tile_kernel, x, out, 75, grid=1, ROWS=8, BLOCK=32)
    np.testing.assert_array_equal(out, x.sum(1))
