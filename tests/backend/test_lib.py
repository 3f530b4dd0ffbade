"""The functions of eas.lib against NumPy: odd sizes, rows longer than a block, 16-bit floats, `out=`."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import eas
from eas import lib
from eas.lib.softmax import softmax_kernel
from tests.backend.lib_arrays import F16, F32, F64, close, normal

EPS = 2.0**-10  # exact in f32, which a float argument is
ROWS = [(1, 1), (5, 7), (3, 64), (4, 1000)]


# --- elementwise ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 63, 4096, 5001])
def test_add_equals_numpy(backend, rng, n):
    x, y = normal(rng, (2, n))
    assert np.array_equal(lib.add(x, y), x + y)


@pytest.mark.parametrize("block", [64, 100, 8192])
def test_add_does_not_depend_on_block(backend, rng, block):
    x, y = normal(rng, (2, 3, 333))
    assert np.array_equal(lib.add(x, y, block=block), x + y)


def test_add_writes_out_and_returns_it(backend, rng):
    x, y = rng.integers(-9, 9, (2, 77), dtype=np.int32)
    out = np.zeros_like(x)
    assert lib.add(x, y, out) is out
    assert np.array_equal(out, x + y)


def test_add_in_place(backend, rng):
    x, y = normal(rng, (2, 5000))
    want = x + y
    lib.add(x, y, out=x)
    assert np.array_equal(x, want)


def test_gelu_is_the_exact_one(backend, rng, dtype):
    x = normal(rng, 1003, dtype)
    v = 0.5 * x.astype(F64) - 0.25
    want = [0.5 * t * (1 + math.erf(t / math.sqrt(2))) for t in v]
    close(lib.gelu(x, 0.5, -0.25), want, dtype, ulps=16)


def test_gelu_tanh_form(backend, rng, dtype):
    x = normal(rng, 1003, dtype)
    v = x.astype(F64)
    want = 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    close(lib.gelu(x, approximate="tanh"), want, dtype, ulps=16)


# --- rows -------------------------------------------------------------------------------------


def softmax(x):
    e = np.exp(x.astype(F64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("block", [None, 48])
def test_softmax(backend, rng, dtype, shape, block):
    x = 3 * normal(rng, shape, dtype)
    close(lib.softmax(x, block=block), softmax(x), dtype)


@pytest.mark.parametrize("block", [None, 16])
def test_softmax_of_rows_that_start_with_minus_infinity(backend, rng, block):
    x = normal(rng, (3, 50))
    x[:, :20] = -np.inf
    want = softmax(x)
    close(lib.softmax(x, block=block), want)
    close(lib.softmax(x, x, block=block), want)  # in place


def layer_norm(x, eps):
    x = x.astype(F64)
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + eps)


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("block", [None, 48])
def test_layer_norm(backend, rng, dtype, shape, block):
    x, (weight, bias) = normal(rng, shape, dtype), normal(rng, (2, shape[1]), dtype)
    want = layer_norm(x, EPS) * weight + bias
    close(lib.layer_norm(x, weight, bias, EPS, block=block), want, dtype, ulps=16)


@pytest.mark.parametrize("block", [None, 48])
def test_layer_norm_survives_a_large_mean(backend, rng, block):
    x = normal(rng, (2, 300)) + F32(1e4)
    close(lib.layer_norm(x, block=block), layer_norm(x, 1e-5), ulps=1e4)


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("block", [None, 48])
def test_rms_norm(backend, rng, dtype, shape, block):
    x, weight = normal(rng, shape, dtype), normal(rng, shape[1], dtype)
    wide = x.astype(F64)
    want = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + EPS) * weight
    close(lib.rms_norm(x, weight, EPS, block=block), want, dtype, ulps=16)


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("block", [None, 48])
def test_cumsum(backend, rng, dtype, shape, block):
    x = normal(rng, shape, dtype)
    close(lib.cumsum(x, block=block), np.cumsum(x.astype(F64), axis=1), dtype, scale=math.sqrt(shape[1]) + 1)


@pytest.mark.parametrize("block", [None, 48])
def test_cumsum_of_integers_is_exact(backend, rng, block):
    x = rng.integers(-100, 100, (5, 501), dtype=np.int32)
    assert np.array_equal(lib.cumsum(x, block=block), np.cumsum(x, axis=1, dtype=np.int32))


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("block", [None, 48])
@pytest.mark.parametrize("kind", [F32, np.int32, np.uint8])
def test_argmax_takes_the_first_of_equals(backend, rng, shape, block, kind):
    x = rng.integers(0, 9, shape).astype(kind)
    got = lib.argmax(x, block=block)
    assert got.dtype == np.int32
    assert np.array_equal(got, np.argmax(x, axis=1))


@pytest.mark.parametrize("block", [None, 16])
def test_argmax_lets_the_first_nan_win(backend, rng, block):
    x = normal(rng, (4, 100))
    x[1, 70] = x[1, 90] = x[2, 0] = np.nan
    x[3] = -np.inf
    assert np.array_equal(lib.argmax(x, block=block), np.argmax(x, axis=1))


# --- reductions -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 16384, 16385, 40001])
def test_sum(backend, rng, n):
    x = normal(rng, n)
    got = lib.sum(x)
    assert got.dtype == F32
    assert abs(got - x.sum(dtype=F64)) <= 1e-5 * np.abs(x).sum(dtype=F64)


@pytest.mark.parametrize(("kind", "wide"), [(np.int8, np.int64), (np.uint8, np.uint64), (np.int32, np.int64), (bool, np.int64)])
def test_sum_of_integers_is_wide(backend, rng, kind, wide):
    x = rng.integers(0, 2, 20001).astype(kind) if kind is bool else np.full(20001, np.iinfo(kind).max, kind)
    got = lib.sum(x)
    assert got.dtype == wide
    assert got == x.sum(dtype=wide)


@pytest.mark.parametrize("n", [0, 1, 999, 4096, 70001])
@pytest.mark.parametrize("bins", [1, 100, 256])
def test_histogram(backend, rng, n, bins):
    x = rng.integers(0, bins, n, dtype=np.int32)
    assert np.array_equal(lib.histogram(x, bins), np.bincount(x, minlength=bins))


def test_histogram_ignores_other_values_and_clears_out(backend):
    out = np.full(4, 9, np.int32)
    lib.histogram(np.array([-1, 0, 3, 3, 4, 1000], np.int64), 4, out)
    assert out.tolist() == [1, 0, 0, 2]


# --- matrices ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 3), (67, 83, 45), (130, 70, 129), (1, 83, 150), (150, 83, 1)])
@pytest.mark.parametrize("tiles", [None, (32, 16, 8)])
def test_matmul(backend, rng, dtype, shape, tiles):
    m, k, n = shape
    a, b = normal(rng, (m, k), dtype), normal(rng, (k, n), dtype)
    close(lib.matmul(a, b, tiles=tiles), a.astype(F64) @ b.astype(F64), dtype, scale=math.sqrt(k) + 1)


def test_matmul_of_one_row_adds_up_parts_of_the_sum(backend, rng, dtype, monkeypatch):
    monkeypatch.setattr(sys.modules["eas.lib.matmul"], "SUM_PART", 1 << 11)
    a, b = normal(rng, (1, 86), dtype), normal(rng, (86, 130), dtype)  # parts of 20 rows, and one of 6
    close(lib.matmul(a, b), a.astype(F64) @ b.astype(F64), dtype, scale=math.sqrt(86) + 1)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 53, 53, 32), (1, 40, 75, 20), (1, 75, 40, 20)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiles", [None, (16, 8)])
def test_attention(backend, rng, shape, causal, tiles):
    heads, n, m, d = shape
    q, (k, v) = normal(rng, (heads, n, d)), normal(rng, (2, heads, m, d))
    scores = q.astype(F64) @ k.transpose(0, 2, 1) * d**-0.5
    if causal:
        scores = np.where(np.tril(np.ones((n, m), bool)), scores, -np.inf)
    want = softmax(scores.reshape(-1, m)).reshape(scores.shape) @ v
    close(lib.attention(q, k, v, causal=causal, tiles=tiles), want, scale=10)


def test_attention_f16(backend, rng):
    q, k, v = normal(rng, (3, 2, 33, 16), F16)
    scores = q.astype(F64) @ k.transpose(0, 2, 1) / 4
    want = softmax(scores.reshape(-1, 33)).reshape(scores.shape) @ v
    close(lib.attention(q, k, v), want, F16)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (64, 64), (130, 67)])
@pytest.mark.parametrize("kind", [F32, np.int8, np.int64])
def test_transpose(backend, rng, shape, kind):
    x = (100 * normal(rng, shape)).astype(kind)
    got = lib.transpose(x)
    assert got.flags.c_contiguous
    assert np.array_equal(got, x.T)


# --- arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: lib.add(np.zeros(3, F32), np.zeros(4, F32)), r"add needs equal arrays, got float32\[3\] and float32\[4\]"),
        (lambda: lib.add(np.zeros(3, F32), np.zeros(3, F32), np.zeros(3, F64)), r"out is float64\[3\], expected float32\[3\]"),
        (lambda: lib.gelu(np.zeros(3, F32), approximate="fast"), "approximate is 'none' or 'tanh', not 'fast'"),
        (lambda: lib.softmax(np.zeros((), F32)), r"expected rows along the last axis, got shape \(\)"),
        (lambda: lib.layer_norm(np.zeros((2, 3), F32), np.zeros(2, F32)), r"weight has shape \(2,\), expected \(3,\)"),
        (lambda: lib.histogram(np.zeros(3, F32), 4), "histogram needs integers, got float32"),
        (lambda: lib.matmul(np.zeros((2, 3), F32), np.zeros((2, 3), F32)), r"matmul needs \[M, K\] and \[K, N\]"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call, text):
    with pytest.raises(eas.ArgumentError, match=text):
        call()


def test_an_error_in_a_shipped_kernel_shows_its_line(backend):
    with pytest.raises(eas.TypeMismatch, match=r"at softmax\.py:\d+\n +values = wide\(mk\.load"):
        softmax_kernel[2](*np.zeros((2, 6), np.int32), 3, BLOCK=4)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_a_row_times_a_large_matrix_on_tensors(backend, kind):
    """Large enough that parts of the sums are added by a second launch."""
    k, n = 2049, 1030
    y = lib.matmul(eas.ones((1, k), dtype=kind), eas.ones((k, n), dtype=kind))
    assert (y.shape, y.dtype) == ((1, n), eas.base.dtypes.parse(kind))
    assert set(y.to("f32").numpy().ravel()) == {2049.0 if kind == "f32" else 2048.0}
