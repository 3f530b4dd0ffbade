"""Matrix products of blocks, single and stacked, and the strided form over memory."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.ops import TABLE
from eas.testing import assert_close
from tests.backend.formats import (
    assert_identical,
    buffer,
    contents,
    nearest,
    poison,
    sample,
    wrapped,
)
from tests.backend.launches import launch, need_dtype, op_names

COVERS = {"dot"}
SHAPES = ((1, 1, 1), (3, 5, 7), (8, 8, 8), (16, 33, 17), (2, 3, 4, 5))  # (batch,) m, k, n
ACCUMULATORS = {"i8": "i32", "u8": "i32", "i16": "i32", "u16": "i32", "i32": "i32", "u32": "u32", "i64": "i64", "u64": "u64", "f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64"}


def _matrix(x, first, shape):
    return mk.reshape(mk.load(x, first + mk.arange(0, math.prod(shape))), shape)


@eas.kernel
def dot_kernel(a, b, c, y, z):
    """y: products; z: products added to c."""
    left = right = out = 0
    for shape in SHAPES:
        *batch, m, k, n = shape
        p, q = _matrix(a, left, (*batch, m, k)), _matrix(b, right, (*batch, k, n))
        size = math.prod(batch) * m * n
        i = out + mk.arange(0, size)
        mk.store(y, i, mk.ravel(p @ q))
        mk.store(z, i, mk.ravel(mk.dot(p, q, _matrix(c, out, (*batch, m, n)))))
        left, right, out = left + p.numel, right + q.numel, out + size


def matrices(dtype: DType):
    """(a, b, c, expected a @ b) per shape; integers are Python's, so that nothing wraps unseen."""
    acc = dtypes.parse(ACCUMULATORS[dtype.name])
    for seed, shape in enumerate(SHAPES):
        *batch, m, k, n = shape
        sides = [(*batch, m, k), (*batch, k, n), (*batch, m, n)]
        kinds = (dtype, dtype, acc)
        if dtype.is_float:
            rng = np.random.default_rng(seed)
            a, b, c = (np.array([nearest(float(v), d) for v in rng.standard_normal(math.prod(s))]).reshape(s) for s, d in zip(sides, kinds, strict=True))
        else:
            a, b, c = (np.array(sample(d, math.prod(s), seed + i), object).reshape(s) for i, (s, d) in enumerate(zip(sides, kinds, strict=True)))
        yield a, b, c, np.matmul(a, b)


def expected(exact: np.ndarray, acc: DType) -> np.ndarray:
    if acc.is_float:
        return exact.ravel().astype(np.float64)
    return contents(buffer([wrapped(v, acc) for v in exact.ravel()], acc))


@pytest.mark.every_width
@pytest.mark.parametrize("dtype", TABLE["dot"].dtypes, ids=str)
def test_dot_agrees_with_exact_products(backend, dtype):
    need_dtype(backend, dtype)
    acc = dtypes.parse(ACCUMULATORS[dtype.name])
    cases = list(matrices(dtype))
    a, b, c = (np.concatenate([case[i].ravel() for case in cases]) for i in range(3))
    y, z = poison(c.size + 1, acc), poison(c.size + 1, acc)
    args = (buffer(a.tolist(), dtype), buffer(b.tolist(), dtype), buffer(c.tolist(), acc), y, z)
    launch(backend, dot_kernel, *args, grid=1)
    assert "dot" in op_names(dot_kernel, *args)
    cuts = np.cumsum([case[2].size for case in cases])[:-1]
    for got_y, got_z, case, shape in zip(np.split(y[:-1], cuts), np.split(z[:-1], cuts), cases, SHAPES, strict=True):
        product, added = expected(case[3], acc), expected(case[3] + case[2], acc)
        if acc.is_float:
            bound, scale = TABLE["dot"].accuracy.bound(acc), math.sqrt(shape[-2] + 1)
            assert_close(got_y, product, acc, ulps=bound, scale=scale)
            assert_close(got_z, added, acc, ulps=bound, scale=scale)
        else:
            assert_identical(got_y, product, acc, where=f"{dtype} {shape}")
            assert_identical(got_z, added, acc, where=f"{dtype} {shape} + c")
    assert y[-1] == poison(1, acc)[0]


@eas.kernel
def rounded_kernel(a, b, y, M: eas.constexpr, K: eas.constexpr, OUT: eas.constexpr):
    i, k = mk.arange(0, M), mk.arange(0, K)
    p = mk.load(a, i[:, None] * K + k[None, :])
    q = mk.load(b, k[:, None] * M + i[None, :])
    mk.store(y, i[:, None] * M + i[None, :], mk.dot(p, q, out_dtype=OUT))


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_narrow_products_are_summed_in_f32_and_rounded_once(backend, name):
    dtype = dtypes.parse(name)
    m, k = 7, 33
    rng = np.random.default_rng(0)
    a, b = (np.array([nearest(float(v), dtype) for v in rng.integers(-8, 9, m * k)]) for _ in range(2))
    y = poison(m * m, dtype)
    launch(backend, rounded_kernel, buffer(a, dtype), buffer(b, dtype), y, grid=1, M=m, K=k, OUT=dtype)
    exact = a.reshape(m, k) @ b.reshape(k, m)  # small integers: exact in f32
    want = [nearest(float(v), dtype) for v in exact.ravel()]
    assert_identical(contents(y), contents(buffer(want, dtype)), dtype, False)


@eas.kernel
def special_kernel(a, b, y):
    i = mk.arange(0, 2)
    p = mk.load(a, i[:, None] * 2 + i[None, :])
    q = mk.load(b, i[:, None] * 2 + i[None, :])
    mk.store(y, i[:, None] * 2 + i[None, :], mk.dot(p, q))


def test_infinities_and_nan_go_through(backend):
    a = np.array([[math.inf, 1], [math.nan, 2]], np.float32)
    b = np.array([[1, -1], [3, 0]], np.float32)
    y = np.zeros((2, 2), np.float32)
    launch(backend, special_kernel, a, b, y, grid=1)
    np.testing.assert_array_equal(y, [[math.inf, -math.inf], [math.nan, math.nan]])


@eas.kernel
def strided_kernel(a, b, y, rows, cols, K, BM: eas.constexpr, BN: eas.constexpr):
    """Each program a tile of a @ b.T, every element a strided dot over a runtime K."""
    r = mk.program_id(1) * BM + mk.arange(0, BM)
    c = mk.program_id(0) * BN + mk.arange(0, BN)
    safe_r, safe_c = mk.minimum(r, rows - 1), mk.minimum(c, cols - 1)
    total = mk.dot(a, safe_r[:, None] * K, 1, b, safe_c[None, :], cols, K)
    mk.store(y, r[:, None] * cols + c[None, :], total, (r[:, None] < rows) & (c[None, :] < cols))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8", "i64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 9, 33), (7, 3, 0)])
def test_strided_dot_over_runtime_k(backend, dtype, shape):
    src = dtypes.parse(dtype)
    acc = dtypes.parse(ACCUMULATORS[dtype])
    m, n, k = shape
    small = (lambda v: float(v)) if src.is_float else int
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 10, (m, k)), rng.integers(-9, 10, (k, n))
    y = poison(m * n, acc)
    given = [buffer([small(v) for v in (x.ravel() if x.size else [0])], src) for x in (a, b)]
    launch(backend, strided_kernel, *given, y, m, n, k, grid=(-(-n // 8), -(-m // 4)), BM=4, BN=8)
    np.testing.assert_array_equal(contents(y).reshape(m, n), a @ b)
