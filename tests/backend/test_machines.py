"""Other caches are other numbers in the code, never other results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import eas
from eas import compiler, mk
from eas.lib.matmul import matmul_kernel
from eas.lib.softmax import softmax_kernel
from eas.lib.transpose import transpose_kernel
from eas.runtime.native.host_target import host_target
from eas.schedule.target import Caches

pytest.importorskip("llvmlite")
MACHINES = {
    "server": Caches(48 << 10, 2 << 20, 260 << 20),
    "small": Caches(12 << 10, 96 << 10, 1 << 19, 32),
    "apple": Caches(128 << 10, 4 << 20, 16 << 20, 128),
}


@pytest.fixture(params=MACHINES.values(), ids=MACHINES)
def fresh(request, monkeypatch):
    """Makes kernels that nobody has compiled, for another machine."""
    target = replace(host_target(), caches=request.param)
    monkeypatch.setattr(compiler, "host_target", lambda: target)
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    return lambda kernel: eas.kernel(getattr(kernel, "fn", kernel))


def integers(*shape):
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(70, 130, 300), (6, 64, 2000)], ids=str)
def test_products(fresh, shape):
    m, n, k = shape
    a, b, c = integers(m, k), integers(k, n), np.zeros((m, n), np.float32)
    fresh(matmul_kernel)[mk.cdiv(n, 64), mk.cdiv(m, 32)](a, b, c, m, n, k, BM=32, BN=64, BK=64)
    np.testing.assert_array_equal(c, a @ b)


def product_of_blocks(a, b, c, M: mk.constexpr, N: mk.constexpr, K: mk.constexpr, TURNED: mk.constexpr):
    rows, cols, steps = mk.arange(0, M)[:, None], mk.arange(0, N)[None, :], mk.arange(0, K)
    left = mk.load(a, rows * K + steps[None, :]) + 1
    right = mk.trans(mk.load(b, mk.arange(0, N)[:, None] * K + steps[None, :]) * 2) if TURNED else mk.load(b, steps[:, None] * N + cols) * 2
    mk.store(c, rows * N + cols, mk.dot(left, right))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("k", [64, 512])
def test_products_of_blocks(fresh, k, turned):
    m, n = 64, 128
    a, b, c = integers(m, k), integers(k, n), np.zeros((m, n), np.float32)
    given = np.ascontiguousarray(b.T) if turned else b
    fresh(product_of_blocks)[1,](a, given, c, M=m, N=n, K=k, TURNED=turned)
    np.testing.assert_array_equal(c, (a + 1) @ (b * 2))


def test_turned_tiles_and_stores_past_the_cache(fresh):
    x, y = integers(300, 500), np.zeros((500, 300), np.float32)
    fresh(transpose_kernel)[mk.cdiv(500, 64), mk.cdiv(300, 64)](x, y, 300, 500, BM=64, BN=64)
    np.testing.assert_array_equal(y, x.T)


def counted(x, counts, bins, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    found = mk.load(x, i, i < n, other=0)
    mk.atomic_add(counts, found, 1, i < n)
    mk.atomic_add(bins + mk.arange(0, 50), mk.histogram(found, 50, i < n))


@pytest.mark.parametrize("size", [50, 9000])
def test_copies_for_atomics(fresh, size):
    x = np.random.default_rng(1).integers(0, size, 40_000).astype(np.int32)
    counts, bins = np.zeros(size, np.int32), np.zeros(50, np.int32)
    fresh(counted)[mk.cdiv(x.size, 1024),](x, counts, bins, x.size, BLOCK=1024)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=size))
    np.testing.assert_array_equal(bins, np.bincount(x[x < 50], minlength=50))


def test_rows_and_the_next_ones(fresh):
    x = integers(40, 5000)
    y = np.zeros_like(x)
    fresh(softmax_kernel)[40,](x, y, 5000, BLOCK=8192)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=2e-6)
