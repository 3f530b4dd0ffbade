"""Places of extremes wherever vectors of any width end: ties, NaN, infinities, zeros, masks of rows and columns."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from tests.backend.launches import launch, need_dtype

pytestmark = pytest.mark.every_width

KINDS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "u16": np.uint16, "i32": np.int32, "u64": np.uint64}
LENGTHS = {8: (1, 3, 4, 7, 8), 64: (5, 9, 15, 33, 63, 64), 128: (17, 65, 100, 127), 4096: (31, 129, 300, 513, 1025, 2049)}


@eas.kernel
def places_kernel(x, high, low, cols, stride, other, BLOCK: mk.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    mk.store(high, row, mk.argmax(mk.load(x, row * stride + c, c < cols, other=other)))
    mk.store(low, row, mk.argmin(mk.load(x, row * stride + c, c < cols, other=other)))


def rows_of(kind, n):
    """Rows of numbers whose extremes are at one place, at two, everywhere, and those of a dtype."""
    rng, places = np.random.default_rng(n), {0, 1, n // 3, n // 2, n - 2, n - 1}
    few = rng.integers(10, 20, (16, n))
    for row, at in enumerate(sorted(p % n for p in places)):
        few[row, at], few[row, at - n // 4] = 30, 30
        few[row, (at + 1) % n] = 3
    few[7] = 10
    x = few.astype(kind)
    if np.issubdtype(kind, np.integer):
        x[8], x[9] = np.iinfo(kind).min, np.iinfo(kind).max
        x[10, n // 2], x[11, n // 2] = np.iinfo(kind).min, np.iinfo(kind).max
    else:
        x[8], x[9], x[10, n // 2 :], x[11, n // 2] = -math.inf, math.inf, -math.inf, math.nan
        x[12], x[13, -1], x[14, ::2], x[15] = math.nan, math.nan, math.nan, -0.0
        x[15, n // 2 :] = 0.0
    return x


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", LENGTHS)
def test_places_in_rows_of_any_length(backend, kind, block):
    need_dtype(backend, getattr(dtypes, kind))
    for cols in LENGTHS[block]:
        x = rows_of(KINDS[kind], cols)
        for other in (0, 15):  # what is behind a row loses, wins, or is like others
            padded = np.full((len(x), block), other, x.dtype)
            padded[:, :cols] = x
            high, low = np.full((2, len(x)), -1, np.int32)
            launch(backend, places_kernel, x, high, low, cols, cols, other, grid=len(x), BLOCK=block)
            np.testing.assert_array_equal(high, padded.argmax(1), f"{cols} columns")
            np.testing.assert_array_equal(low, padded.argmin(1), f"{cols} columns")


def test_rows_without_an_element(backend):
    """All that is left of a row is what stands for its masked elements."""
    x, high, low = np.ones((3, 8), np.float32), np.full(3, -1, np.int32), np.full(3, -1, np.int32)
    for cols in (0, -5):
        launch(backend, places_kernel, x, high, low, cols, 8, 7, grid=3, BLOCK=64)
        assert high.tolist() == low.tolist() == [0, 0, 0]


@eas.kernel
def tiles_kernel(x, out, rows, cols, other, ROWS: mk.constexpr, BLOCK: mk.constexpr):
    r, c = mk.program_id(0) * ROWS + mk.arange(0, ROWS), mk.arange(0, BLOCK)
    values = mk.load(x + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=other)
    mk.store(out + r, mk.argmax(values, axis=1))  # rows that are not there too: all of them are `other`


@pytest.mark.parametrize("kind", ["f32", "i8", "u64"])
@pytest.mark.parametrize(("cols", "block"), [(7, 8), (33, 64), (100, 128), (300, 512)])
def test_places_in_tiles_whose_last_rows_are_off(backend, kind, cols, block):
    need_dtype(backend, getattr(dtypes, kind))
    x = rows_of(KINDS[kind], cols)[:13]
    for other in (0, 25, 40):
        padded = np.full((16, block), other, x.dtype)
        padded[:13, :cols] = x
        out = np.full(16, -1, np.int32)
        launch(backend, tiles_kernel, x, out, 13, cols, other, grid=4, ROWS=4, BLOCK=block)
        np.testing.assert_array_equal(out, padded.argmax(1))


@eas.kernel
def values_kernel(x, y, z, top, where, cols, BLOCK: mk.constexpr):
    c = 3 + mk.arange(0, BLOCK)
    inside = c < cols
    a, b = mk.load(x, c, inside, other=0), mk.load(y, c, inside, other=1)
    best, at = mk.max(mk.load(x, c, inside, other=0), return_indices=True)
    mk.store(top, 0, best)
    mk.store(where, 0, at)
    mk.store(where, 1, mk.argmax(mk.where(a > b, a, b)))
    mk.store(where, 2, mk.argmin(a * 2 - b))
    mk.store(where, 3, mk.argmax(mk.cumsum(a)))
    mk.store(where, 4, mk.argmax(mk.load(x, c * 2, c * 2 < cols, other=0)))
    mk.store(where, 5, mk.argmax(mk.load(z, mk.arange(5, 5 + BLOCK))))
    mk.store(where, 6, mk.argmax(mk.load(x, c, inside & (a > 0), other=0)))


@pytest.mark.parametrize("kind", ["f32", "i32"])
@pytest.mark.parametrize(("cols", "block"), [(9, 8), (50, 64), (120, 128), (700, 1024)])
def test_places_of_what_is_computed(backend, kind, cols, block):
    """From two loads, by a scan, at every other place, under a mask that depends on elements: not all of these can be read twice."""
    rng, dtype = np.random.default_rng(cols), KINDS[kind]
    x, y, z = (rng.integers(-9, 9, 2 * block + 8).astype(dtype) for _ in range(3))
    top, where = np.zeros(1, dtype), np.zeros(7, np.int32)
    launch(backend, values_kernel, x, y, z, top, where, cols, grid=1, BLOCK=block)
    c = 3 + np.arange(block)
    a, b = np.where(c < cols, x[c], 0), np.where(c < cols, y[c], 1)
    far = np.where(c * 2 < cols, x[np.minimum(c * 2, len(x) - 1)], 0)
    expected = [a.argmax(), np.maximum(a, b).argmax(), (a * 2 - b).argmin(), np.cumsum(a).argmax(), far.argmax(), z[5 : 5 + block].argmax(), np.where(a > 0, a, 0).argmax()]
    assert where.tolist() == expected
    assert top[0] == a.max()


def test_a_zero_keeps_its_sign(backend):
    """The value beside a place is the element at that place, not another one that equals it."""
    x = np.full(96, -1, np.float32)
    x[40], x[70] = -0.0, 0.0
    top, where = np.zeros(1, np.float32), np.zeros(7, np.int32)
    launch(backend, values_kernel, x, x, x, top, where, 80, grid=1, BLOCK=64)
    assert where[0] == 37
    assert math.copysign(1, top[0]) == -1
