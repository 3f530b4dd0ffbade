"""A target of which nobody knows which lane holds what of a simdgroup matrix: products go through memory, and stay products of matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import eas
from eas import mk
from eas.lib.attention import attention_kernel
from eas.lib.matmul import matmul_kernel
from eas.runtime import get_runtime
from eas.runtime.gpu.launch import prepare
from eas.schedule.gpu.target import APPLE7

UNKNOWN = replace(APPLE7, name="unknown", fragment_map=None)
pytestmark = pytest.mark.skipif(not get_runtime("sim").is_available(), reason="no software Metal here")


def run(kernel, *args, grid, **meta):
    """Launch on the software Metal with either map of its own; the text."""
    variant = kernel.compile(*args, **meta).variant()
    variant._metal[None] = variant.metal_for(UNKNOWN)
    flat = [a.reshape(-1) if isinstance(a, np.ndarray) else a for a in args]
    for fragment_map in (0, 1):
        launch = prepare(variant, flat, grid)
        compiled = get_runtime("sim").kernel(launch.code)
        bound = (launch.bound[p.index] for p in compiled.buffers)
        compiled(*bound, grid=grid, threads=launch.code.threads, fragment_map=fragment_map)
    assert "thread_elements" not in variant.msl
    return variant.msl


def integers(shape, seed, dtype=np.float32):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@pytest.fixture(autouse=True)
def _sanitized(monkeypatch):
    monkeypatch.setenv("EAS_SANITIZE", "1")


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_matmul_keeps_matrices_in_the_loop_and_stores_them_once(dtype):
    m, n, k = 70, 50, 90
    a, b, c = integers((m, k), 0, dtype), integers((k, n), 1, dtype), np.zeros((m, n), dtype)
    text = run(matmul_kernel, a, b, c, m, n, k, grid=(2, 3, 1), BM=32, BN=32, BK=16)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b)
    start = text.index("for (int first")
    loop = text[start : text.index("simdgroup_store", start)]
    assert "simdgroup_multiply_accumulate" in loop
    assert loop.count("threadgroup_barrier") == 2
    assert text.count("simdgroup_store") == 1
    assert "simdgroup_load(acc" not in text


@eas.kernel
def scaled_kernel(a, b, c, y, D: eas.constexpr, N: eas.constexpr):
    """The sum is changed between two products: it has to come out of the matrices each time."""
    i, j = mk.arange(0, D), mk.arange(0, N)
    acc = mk.load(c, i[:, None] * N + j[None, :])
    for step in range(3):
        left = mk.load(a, step * D * D + i[:, None] * D + i[None, :])
        acc = mk.dot(left, mk.load(b, i[:, None] * N + j[None, :]), acc * 2.0 + mk.max(acc, axis=1)[:, None])
    mk.store(y, i[:, None] * N + j[None, :], acc)


@pytest.mark.parametrize(("d", "n", "warps"), [(16, 8, None), (32, 64, None), (8, 8, 4), (16, 32, 1), (64, 16, 32)])
def test_sums_that_change_between_products(d, n, warps):
    a, b, c = integers((3, d, d), 0), integers((d, n), 1), integers((d, n), 2)
    y = np.zeros((d, n), np.float32)
    text = run(scaled_kernel, a, b, c, y, grid=(1, 1, 1), D=d, N=n, **({"num_warps": warps} if warps else {}))
    want = c.astype(np.float64)
    for step in range(3):
        want = a[step] @ b + want * 2 + want.max(axis=1, keepdims=True)
    np.testing.assert_array_equal(y, want)
    assert "simdgroup_multiply_accumulate" in text


@eas.kernel
def stacked_kernel(a, b, y, B: eas.constexpr, D: eas.constexpr):
    s, i = mk.arange(0, B), mk.arange(0, D)
    at = s[:, None, None] * D * D + i[None, :, None] * D + i[None, None, :]
    first = mk.dot(mk.load(a, at), mk.load(b, at))
    mk.store(y, at, mk.dot(first, mk.permute(first, (0, 2, 1))) + first)


def test_stacks_and_chains_of_products():
    a, b, y = integers((2, 16, 16), 0), integers((2, 16, 16), 1), np.zeros((2, 16, 16), np.float32)
    run(stacked_kernel, a, b, y, grid=(1, 1, 1), B=2, D=16)
    first = a @ b
    np.testing.assert_array_equal(y, first @ first.transpose(0, 2, 1) + first)


def test_attention(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, 40, 16)).astype(np.float32) for _ in range(3))
    y = np.zeros_like(q)
    run(attention_kernel, q, k, v, y, 40, 40, 0.25, grid=(2, 1, 1), D=16, BM=32, BN=16, CAUSAL=False)
    want = np.zeros_like(q)
    attention_kernel(q, k, v, want, 40, 40, 0.25, _grid=(2, 1), D=16, BM=32, BN=16, CAUSAL=False)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


def test_what_does_not_fit_into_threadgroup_memory_takes_the_general_path():
    a = np.zeros((128, 128), np.float32)
    variant = matmul_kernel.compile(a, a, a.copy(), 128, 128, 128, BM=128, BN=128, BK=16).variant()
    assert "simdgroup_multiply_accumulate" in variant.msl
    assert "simdgroup_multiply_accumulate" not in variant.metal_for(UNKNOWN).text
