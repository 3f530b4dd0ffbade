"""Reductions of tuples on lanes: NaN, ties, lowest index and order hold wherever a row ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.ir import walk
from eas.schedule.cpu_steps import schedule
from eas.schedule.target import AVX2, AVX512, NEON, SSE
from tests.backend.launches import launch, need_dtype

KINDS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i32": np.int32, "u8": np.uint8, "i64": np.int64}


@eas.kernel
def extremes_kernel(x, out, top, cols, OTHER: mk.constexpr, BLOCK: mk.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    values = mk.load(x, row * cols + c, c < cols, other=OTHER)
    best, at = mk.max(values, return_indices=True)
    mk.store(top, row, best)
    mk.store(out, row * 2, at)
    mk.store(out, row * 2 + 1, mk.argmin(values))


def rows_of(kind, n):
    """Rows in which the extreme is first, last, everywhere, twice, infinite or NaN."""
    rng = np.random.default_rng(n)
    few = rng.integers(0, 5, (12, n))
    few[0], few[1], few[2, -1], few[3, 0] = 3, 0, 9, 9
    few[4, [n // 2, n - 1]] = 9
    x = few.astype(kind)
    if np.issubdtype(kind, np.floating):
        x[5], x[6, n // 2:], x[7, [n // 3, n - 1]] = -math.inf, math.inf, math.nan
        x[8, 0], x[9, -1], x[10], x[11, ::2] = math.nan, math.nan, math.nan, -0.0
    return x


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("cols", "block"), [(1, 8), (63, 64), (65, 128), (100, 128), (129, 1024), (777, 1024), (333, 333), (192, 192)])
def test_extremes_of_rows_of_any_length(backend, kind, cols, block):
    need_dtype(backend, getattr(dtypes, kind))
    x = rows_of(KINDS[kind], cols)
    for other in (0, 4):  # what is behind the row may win
        padded = np.full((len(x), block), other, x.dtype)
        padded[:, :cols] = x
        out, top = np.zeros((len(x), 2), np.int32), np.zeros(len(x), x.dtype)
        launch(backend, extremes_kernel, x, out, top, cols, grid=len(x), OTHER=other, BLOCK=block)
        np.testing.assert_array_equal(out, np.stack([padded.argmax(1), padded.argmin(1)], 1))
        np.testing.assert_array_equal(top, padded.max(1))


@eas.kernel
def place_kernel(x, out, cols, OTHER: mk.constexpr, BLOCK: mk.constexpr, LOWEST: mk.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    values = mk.load(x, row * cols + c, c < cols, other=OTHER)
    mk.store(out, row, mk.argmin(values) if LOWEST else mk.argmax(values))


NARROW = (np.int8, np.uint8, np.int16, np.uint16)


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize(("cols", "block"), [(100, 4096), (3000, 4096), (4096, 4096), (8300, 8300)])
def test_places_in_long_rows_of_narrow_integers(backend, kind, cols, block):
    """Of which chunks are searched first: the extreme is in any of them, in the first of several, or behind all."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    x = np.random.default_rng(cols).integers(low, high + 1, (16, cols)).astype(kind)
    x[0], x[1] = low, high
    for row in range(2, 12):
        at = [row * cols // 12, cols - row]
        x[row] = np.clip(x[row], low + 1, high - 1)
        x[row, at], x[row, [a - 1 for a in at]] = high, low
    for lowest, find in ((False, np.argmax), (True, np.argmin)):
        for other in (low, high, 5):
            padded = np.full((len(x), block), other, kind)
            padded[:, :cols] = x
            out = np.zeros(len(x), np.int32)
            launch(backend, place_kernel, x, out, cols, grid=len(x), OTHER=int(other), BLOCK=block, LOWEST=lowest)
            np.testing.assert_array_equal(out, find(padded, axis=1))


@eas.kernel
def window_kernel(x, out, first, cols, BLOCK: mk.constexpr):
    c = mk.arange(0, BLOCK)
    values = mk.load(x, c, (c >= first) & (c < cols), other=-1.0)
    mk.store(out, 0, mk.argmax(values))
    mk.store(out, 1, mk.argmin(values))


@pytest.mark.parametrize(("first", "cols"), [(0, 200), (3, 200), (70, 256), (130, 131), (200, 100)])
def test_rows_that_start_late(backend, first, cols):
    x = np.random.default_rng(cols).integers(0, 7, 256).astype(np.float32)
    inside = (np.arange(256) >= first) & (np.arange(256) < cols)
    masked, out = np.where(inside, x, -1), np.zeros(2, np.int32)
    launch(backend, window_kernel, x, out, first, cols, grid=1, BLOCK=256)
    assert out.tolist() == [masked.argmax(), masked.argmin()]


@eas.kernel
def tile_kernel(x, out, ROWS: mk.constexpr, COLS: mk.constexpr):
    r, c = mk.arange(0, ROWS), mk.arange(0, COLS)
    tile = mk.load(x, r[:, None] * COLS + c[None, :])
    mk.store(out, r, mk.argmax(tile, axis=1))
    mk.store(out, ROWS + c, mk.argmin(tile, axis=0))


@pytest.mark.parametrize(("rows", "cols"), [(4, 64), (3, 100), (16, 16), (64, 5)])
def test_extremes_of_tiles(backend, rows, cols):
    x = np.random.default_rng(rows).integers(0, 9, (rows, cols)).astype(np.float32)
    x[rows // 2, cols // 2] = math.nan
    out = np.zeros(rows + cols, np.int32)
    launch(backend, tile_kernel, x, out, grid=1, ROWS=rows, COLS=cols)
    np.testing.assert_array_equal(out, [*x.argmax(1), *x.argmin(0)])


def range_and_count(low_a, high_a, count_a, low_b, high_b, count_b):
    return mk.minimum(low_a, low_b), mk.maximum(high_a, high_b), count_a + count_b


def two_largest(a, a2, b, b2):
    return mk.maximum(a, b), mk.maximum(mk.minimum(a, b), mk.maximum(a2, b2))


def last_of_largest(a, i, b, j):
    """The highest index of equal integers."""
    takes_second = (b > a) | ((b == a) & (j >= i))
    return mk.where(takes_second, b, a), mk.where(takes_second, j, i)


def first_nonzero(a, b):
    """Associative, and the order matters."""
    return mk.where(a != 0, a, b)


@eas.kernel
def own_kernel(x, y, BLOCK: mk.constexpr):
    c = mk.arange(0, BLOCK)
    v = mk.load(x, c)
    low, high, count = mk.reduce((v, v, mk.full([BLOCK], 1, mk.i32)), 0, range_and_count)
    first, second = mk.reduce((v, mk.full([BLOCK], -1000, mk.i32)), 0, two_largest)
    most, last = mk.reduce((v, c), 0, last_of_largest)
    mk.store(y, 0, low)
    mk.store(y, 1, high)
    mk.store(y, 2, count)
    mk.store(y, 3, first)
    mk.store(y, 4, second)
    mk.store(y, 5, most)
    mk.store(y, 6, last)
    mk.store(y, 7, mk.reduce(v, 0, first_nonzero))


@pytest.mark.parametrize("n", [1, 31, 64, 200, 512])
def test_combines_of_the_user(backend, n):
    x = np.random.default_rng(n).integers(-40, 40, n).astype(np.int32)
    x[: n // 2] = np.where(x[: n // 2] > 20, 0, x[: n // 2])
    y = np.zeros(8, np.int32)
    launch(backend, own_kernel, x, y, grid=1, BLOCK=n)
    last = n - 1 - int(x[::-1].argmax())
    nonzero = x[x != 0]
    second = sorted(x)[-2] if n > 1 else -1000
    assert y.tolist() == [x.min(), x.max(), n, x.max(), second, x.max(), last, nonzero[0] if len(nonzero) else 0]


def lanes_of(kernel, target, *args, **meta):
    """The lanes of the loops that carry something."""
    compiled = kernel.compile(*args, **meta)
    scheduled = schedule(compiled.variant(frozenset(compiled.facts)).module, target)
    return {i["lanes"] for i in walk(scheduled.body) if i.op.name == "loop" and len(i.operands) > 2}


@eas.kernel
def one_kernel(x, y, WHICH: mk.constexpr, BLOCK: mk.constexpr):
    c = mk.arange(0, BLOCK)
    v = mk.load(x, c)
    if WHICH == "argmax":
        mk.store(y, 0, mk.argmax(v))
    elif WHICH == "argmax of sums":
        mk.store(y, 0, mk.argmax(v * 2 + 1))
    elif WHICH == "range":
        mk.store(y, 0, mk.reduce((v, v, c), 0, range_and_count)[1])
    elif WHICH == "two":
        mk.store(y, 0, mk.reduce((v, v), 0, two_largest)[1])
    elif WHICH == "last":
        mk.store(y, 0, mk.reduce((v, c), 0, last_of_largest)[1])
    elif WHICH == "nonzero":
        mk.store(y, 0, mk.reduce(v, 0, first_nonzero))


@pytest.mark.parametrize("target", [AVX2, AVX512, NEON], ids=lambda t: t.name)
@pytest.mark.parametrize(("which", "kind"), [("argmax of sums", np.float32), ("argmax of sums", np.float64), ("range", np.float32), ("two", np.int32), ("last", np.int32)])
def test_what_commutes_runs_on_lanes(target, which, kind):
    x, y = np.zeros(512, kind), np.zeros(1, kind)
    assert lanes_of(one_kernel, target, x, y, WHICH=which, BLOCK=512) == {4 * target.vector_nbytes // max(4, x.itemsize)}


@pytest.mark.parametrize("target", [SSE, AVX2, AVX512, NEON], ids=lambda t: t.name)
@pytest.mark.parametrize("kind", [*NARROW, np.int32, np.float16, np.float32, np.float64])
def test_extremes_are_found_before_their_places(target, kind):
    """Loops along a row have no positions of lanes; that of the first of some vectors is kept."""
    compiled = one_kernel.compile(np.zeros(8192, kind), np.zeros(1, kind), WHICH="argmax", BLOCK=8192)
    scheduled = schedule(compiled.variant(frozenset(compiled.facts)).module, target)
    (loop,) = [i for i in walk(scheduled.body) if i.op.name == "loop" and len(i.operands) > 2 and not i["once"]]
    names = [i.op.name for i in walk(loop.regions[0])]
    assert loop["lanes"] == max(4, target.vector_nbytes // np.dtype(kind).itemsize)
    assert names.count("vload") == (8 if kind in NARROW else 4)
    assert "lane" not in names
    assert {"find", "ctz"} & {i.op.name for i in walk(scheduled.body)}


@pytest.mark.parametrize(("target", "is_biased"), [(SSE, True), (AVX2, True), (AVX512, False), (NEON, False)])
def test_unsigned_numbers_are_compared_as_signed_ones(target, is_biased):
    """Where there is no other comparison of 64 bits: one operation more for each vector, instead of two for each comparison."""
    compiled = one_kernel.compile(np.zeros(8192, np.uint64), np.zeros(1, np.uint64), WHICH="argmax", BLOCK=8192)
    scheduled = schedule(compiled.variant(frozenset(compiled.facts)).module, target)
    (loop,) = [i for i in walk(scheduled.body) if i.op.name == "loop" and len(i.operands) > 2 and not i["once"]]
    names = [i.op.name for i in walk(loop.regions[0])]
    assert names.count("xor") == (names.count("vload") if is_biased else 0)


@pytest.mark.parametrize(("which", "kind"), [("nonzero", np.int32), ("last", np.float32), ("two", np.float32)])
def test_what_may_not_commute_keeps_its_order(which, kind):
    """`last` gives a NaN that comes second, and not one that comes first; nothing leaves `two` of a NaN and a number alone."""
    assert lanes_of(one_kernel, AVX2, np.zeros(512, kind), np.zeros(1, kind), WHICH=which, BLOCK=512) == {1}
