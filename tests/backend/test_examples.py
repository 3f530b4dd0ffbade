"""Every example: its kernel at odd sizes against NumPy, and its command line."""

from __future__ import annotations

import importlib
import math
import sys

import numpy as np
import pytest

import eas
from eas.testing import assert_close
from examples import (
    add,
    flash_attention,
    histogram,
    layer_norm,
    lazy,
    matmul,
    prefix_sum,
    softmax,
    thread_matmul,
    thread_reduction,
)
from tests.backend.launches import launch

EXAMPLES = ["add", "flash_attention", "histogram", "layer_norm", "lazy", "matmul", "prefix_sum", "softmax", "thread_matmul", "thread_reduction"]


def normal(*shape: int, dtype=np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("n", [1, 7, 256, 1031])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8])
def test_add(backend, n, dtype):
    a, b = (normal(n, seed=s) * 50 for s in (0, 1))
    a, b = a.astype(dtype) if dtype is not np.uint8 else np.abs(a).astype(dtype), np.abs(b).astype(dtype)
    c = np.zeros_like(a)
    launch(backend, add.add_kernel, a, b, c, n, BLOCK=256)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 1000)])
def test_softmax(backend, shape):
    x = normal(*shape) * 4
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    assert_close(softmax.softmax(x), e / e.sum(axis=1, keepdims=True), "f32", scale=math.sqrt(shape[1] + 1))


def test_softmax_survives_large_and_infinite_scores(backend):
    x = np.array([[1e30, 1e30, -1e30], [0, -np.inf, -np.inf], [-1e38, -1e38, -1e38]], np.float32)
    want = [[0.5, 0.5, 0], [1, 0, 0], [np.float32(1) / np.float32(3)] * 3]
    np.testing.assert_allclose(softmax.softmax(x), want, rtol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 256), (7, 1000)])
def test_layer_norm(backend, shape):
    x, weight, bias = normal(*shape) + 0.5, normal(shape[1], seed=1), normal(shape[1], seed=2)
    wide = x.astype(np.float64)
    want = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(layer_norm.layer_norm(x, weight, bias), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1, 1), (17, 33, 65), (64, 32, 16)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_matmul(backend, shape, dtype):
    m, n, k = shape
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype, seed=1)
    got = matmul.matmul(a, b, BM=16, BN=32, BK=16)
    assert_close(got, a.astype(np.float64) @ b.astype(np.float64), "f32", scale=math.sqrt(k + 1))


def test_matmul_takes_any_strides(backend):
    m, n, k = 9, 14, 21
    a, b = normal(k, m), normal(n, k, seed=1)  # both lie transposed in memory
    c = np.zeros((n, m), np.float32)
    launch(backend, matmul.matmul_kernel, a, b, c, m, n, k, 1, m, 1, k, 1, m, grid=2, BM=8, BN=16, BK=16, GROUP=2)
    np.testing.assert_allclose(c.T, a.T @ b.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("d", [16, 32])
@pytest.mark.parametrize("n", [1, 7, 53])
@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention(backend, n, d, causal):
    q, k, v = (normal(2, n, d, seed=s) for s in range(3))
    wide = flash_attention.reference(*(x.astype(np.float64) for x in (q, k, v)), causal)
    np.testing.assert_allclose(flash_attention.attention(q, k, v, causal), wide, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_agrees_with_torch(backend, causal):
    torch = pytest.importorskip("torch")
    q, k, v = (normal(2, 37, 16, seed=s) for s in range(3))
    want = torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), is_causal=causal)
    np.testing.assert_allclose(flash_attention.attention(q, k, v, causal), want.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1, 513, 2000])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_histogram(backend, n, dtype):
    x = np.random.default_rng(n).integers(0, 37, n).astype(dtype)
    want = np.bincount(x, minlength=37)
    np.testing.assert_array_equal(histogram.histogram(x, 37), want)
    counts = np.zeros(37, np.int32)
    launch(backend, histogram.scatter_histogram_kernel, x, counts, n, BLOCK=128)
    np.testing.assert_array_equal(counts, want)


@pytest.mark.parametrize("shape", [(1, 1), (3, 255), (5, 1000)])
def test_prefix_sum(backend, shape):
    x = normal(*shape)
    want = np.cumsum(x.astype(np.float64), axis=1)
    assert_close(prefix_sum.cumsum(x), want, "f32", scale=math.sqrt(shape[1] + 1))


@pytest.mark.parametrize("n", [1, 127, 1000])
def test_thread_reduction(backend, n):
    x = normal(n)
    assert abs(thread_reduction.tree_sum(x) - x.sum(dtype=np.float64)) <= 4e-7 * np.abs(x).sum(dtype=np.float64)


@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 8, 8), (17, 33, 29)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_thread_matmul(backend, shape, dtype):
    m, n, k = shape
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype, seed=1)
    assert_close(thread_matmul.matmul(a, b), a.astype(np.float64) @ b.astype(np.float64), "f32", scale=math.sqrt(k + 1))


@pytest.mark.parametrize(("rows", "width"), [(1, 8), (7, 33), (64, 64)])
def test_lazy_block(backend, rows, width):
    given = lazy.arrays(rows, width)
    made = lazy.block(*map(eas.tensor, given))
    assert_close(made.numpy(), lazy.reference(*given), "f32", scale=8 * math.sqrt(4 * width + 1))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_command_line_says_ok(backend, name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name])
    importlib.import_module(f"examples.{name}").main()
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.endswith(": ok") for line in lines)
    assert all(f"on {backend}" in line for line in lines)


def test_liger_example_trains_or_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["triton_liger", "--steps", "3"])
    importlib.import_module("examples.triton_liger").main()
    said = capsys.readouterr().out
    assert said.endswith(": ok\n") or "pip install --no-deps liger-kernel" in said


def test_the_command_line_takes_sizes_and_a_backend(monkeypatch, capsys):
    monkeypatch.setenv("EAS_BACKEND", "auto")
    monkeypatch.setattr(sys, "argv", ["add", "--n", "33", "--block", "8", "--backend", "interp"])
    add.main()
    assert capsys.readouterr().out == "add of 33: largest error 0 against NumPy on interp: ok\n"


def test_a_wrong_result_ends_with_status_1(monkeypatch, capsys):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    monkeypatch.setattr(sys, "argv", ["add"])
    monkeypatch.setattr(add, "add_kernel", lambda *args, **meta: None)
    with pytest.raises(SystemExit) as ended:
        add.main()
    assert ended.value.code == 1
    assert capsys.readouterr().out.endswith("WRONG\n")


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_a_documented_module(name):
    assert importlib.import_module(f"examples.{name}").__doc__
