"""Matrix products whose blocks fill no register block, and operands that are views."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch


@eas.kernel
def product(a, b, c, M: mk.constexpr, N: mk.constexpr, K: mk.constexpr, TURNED: mk.constexpr):
    rows, cols, inner = mk.arange(0, M), mk.arange(0, N), mk.arange(0, K)
    left = mk.load(a, rows[:, None] * K + inner[None, :])
    if TURNED:
        right = mk.trans(mk.load(b, cols[:, None] * K + inner[None, :]))
    else:
        right = mk.load(b, inner[:, None] * N + cols[None, :])
    mk.store(c, rows[:, None] * N + cols[None, :], mk.dot(left, right))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(7, 16, 5), (20, 33, 8), (64, 64, 64), (32, 48, 300), (34, 32, 24), (9, 96, 257)])
def test_product_of_whole_blocks(backend, shape, dtype, turned):
    m, n, k = shape
    rng = np.random.default_rng(m)
    # Small integers: every order of the sums is exact.
    a, b = (rng.integers(-8, 9, s).astype(dtype) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, dtype)
    launch(backend, product, a, np.ascontiguousarray(b.T) if turned else b, c, grid=1, M=m, N=n, K=k, TURNED=turned)
    assert np.array_equal(c, a @ b)
