"""Sorting, selecting and counting the elements of a block."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.ops import TABLE
from tests.backend.formats import assert_identical, buffer, contents, poison, sample
from tests.backend.launches import THOROUGH, launch, need_dtype, op_names

COVERS = {"sort", "topk", "histogram", "gather"}
CASES = [((128,), 0), ((33,), -1), ((3, 5), 0), ((3, 5), 1), ((2, 7, 3), 1), ((1,), 0)]
FEW_CASES = [((33,), -1), ((3, 5), 0)]


def with_ties(dtype: DType):
    """Few different values, with NaN and infinities among floats; no zeros, whose sign has no order."""

    def values(n: int) -> list:
        few = [x for x in sample(dtype, 12, 4) if x != 0 or not dtype.is_float]
        if dtype.is_float:
            few += [math.nan, math.inf, -math.inf]
        return [few[i] for i in np.random.default_rng(7).integers(0, len(few), n)]

    return values


def python_order(line: list, descending: bool) -> list[int]:
    """Python's sort is stable; NaN counts as the largest."""

    def key(i: int) -> tuple:
        nan, sign = line[i] != line[i], -1 if descending else 1
        return sign * nan, 0 if nan else sign * line[i]

    return sorted(range(len(line)), key=key)


def _order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    def line(values: np.ndarray) -> np.ndarray:
        exact = [int(v) for v in values] if values.dtype.kind in "iub" else values.tolist()
        return np.array(python_order(exact, descending))

    return np.apply_along_axis(line, axis, x)


@eas.kernel
def order_kernel(x, values, places, CASES: eas.constexpr, DOWN: eas.constexpr):
    """Of each case: the block sorted and the indices that sort it, then the half that comes first."""
    first = last = 0
    for shape, axis in CASES:
        block = mk.reshape(mk.load(x, first + mk.arange(0, math.prod(shape))), shape)
        whole = mk.sort(block, axis, descending=DOWN), mk.argsort(block, axis, descending=DOWN)
        for value, place in (whole, mk.topk(block, half(shape, axis), axis, largest=DOWN)):
            count = math.prod(value.shape)
            mk.store(values, last + mk.arange(0, count), mk.ravel(value))
            mk.store(places, last + mk.arange(0, count), mk.ravel(place))
            last += count
        first += math.prod(shape)


def half(shape: tuple[int, ...], axis: int) -> int:
    return max(1, shape[axis] // 2)


@pytest.mark.parametrize("down", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("dtype", TABLE["sort"].dtypes, ids=str)
def test_sort_and_topk_are_stable_with_nan_last(backend, dtype, down):
    need_dtype(backend, dtype)
    cases = tuple(CASES if dtype in THOROUGH else FEW_CASES)
    sizes = [math.prod(shape) for shape, _ in cases]
    x = buffer(with_ties(dtype)(sum(sizes)), dtype)
    want = []
    for (shape, axis), part in zip(cases, np.split(contents(x), np.cumsum(sizes)[:-1]), strict=True):
        block = part.reshape(shape)
        order = _order(block, axis, down)
        for index in (order, np.take(order, range(half(shape, axis)), axis)):
            want.append((np.take_along_axis(block, index, axis).ravel(), index.ravel()))
    values, places = (np.concatenate(arrays) for arrays in zip(*want, strict=True))
    args = (x, poison(values.size + 1, dtype), poison(values.size + 1, dtypes.i32))
    launch(backend, order_kernel, *args, grid=1, CASES=cases, DOWN=down)
    assert op_names(order_kernel, *args, CASES=cases, DOWN=down) >= {"sort", "topk"}
    assert_identical(contents(args[1])[:-1], values, dtype)
    assert_identical(args[2][:-1], places, dtypes.i32)


@eas.kernel
def counts_kernel(x, y, N, BLOCK: eas.constexpr, BINS: eas.constexpr):
    offsets = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offsets < N
    bins = mk.arange(0, BINS)
    mk.store(y, mk.program_id(0) * BINS + bins, mk.histogram(mk.load(x, offsets, mask), BINS, mask=mask))


@pytest.mark.parametrize("dtype", TABLE["histogram"].dtypes, ids=str)
@pytest.mark.parametrize("bins", [1, 7, 33])
def test_histogram_counts_only_bins_and_unmasked_lanes(backend, dtype, bins):
    n, block = 150, 64
    rng = np.random.default_rng(0)
    values = rng.integers(-5 if dtype.is_signed else 0, 50, n).tolist()
    values[:3] = [dtype.min, dtype.max, 0]
    y = np.zeros((3, bins), np.int32)
    launch(backend, counts_kernel, buffer(values, dtype), y, n, grid=3, BLOCK=block, BINS=bins)
    want = [[values[p * block : (p + 1) * block].count(b) for b in range(bins)] for p in range(3)]
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize(("dtype", "bins"), [(dtypes.u8, 254), (dtypes.u8, 255), (dtypes.u8, 256), (dtypes.i8, 127), (dtypes.i8, 128)], ids=str)
def test_histogram_of_about_as_many_bins_as_there_are_keys(backend, dtype, bins, monkeypatch):
    """The last key has a bin, or is the first without one; the sanitizer sees a counter behind the last."""
    monkeypatch.setenv("EAS_SANITIZE", "1")
    values = [*range(dtype.min, dtype.max + 1), dtype.max]
    y = np.zeros(bins, np.int32)
    launch(backend, counts_kernel, buffer(values, dtype), y, len(values), grid=1, BLOCK=257, BINS=bins)
    np.testing.assert_array_equal(y, [values.count(b) for b in range(bins)])


@eas.kernel
def lookup_kernel(table, index, y, N: eas.constexpr, M: eas.constexpr):
    block = mk.load(table, mk.arange(0, M))
    mk.store(y, mk.arange(0, N), mk.gather(block, mk.load(index, mk.arange(0, N)), 0))


@pytest.mark.parametrize("dtype", TABLE["histogram"].dtypes, ids=str)
def test_gather_takes_indices_of_every_integer_dtype(backend, dtype):
    table = np.random.default_rng(0).standard_normal(33).astype(np.float32)
    index = np.random.default_rng(1).integers(0, 33, 7).astype(dtype.np_storage)
    y = np.zeros(7, np.float32)
    launch(backend, lookup_kernel, table, index, y, grid=1, N=7, M=33)
    np.testing.assert_array_equal(y, table[index.astype(np.int64)])


def test_gather_outside_of_the_block_is_refused_by_the_interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    with pytest.raises(eas.KernelError, match="gather index 33 is outside of an axis of 33 elements"):
        lookup_kernel(np.zeros(33, np.float32), np.array([0, 33], np.int32), np.zeros(2, np.float32), N=2, M=33, _grid=1)


@eas.kernel
def small_keys_kernel(x, y, N: eas.constexpr):
    i = mk.arange(0, N)
    order = mk.argsort(mk.load(x, i) & 3)
    mk.store(y, i, order, order > 3)


def test_indices_are_not_thought_to_be_as_small_as_the_keys(backend):
    x = np.random.default_rng(0).integers(0, 100, 33, dtype=np.int32)
    y = np.full(33, -1, np.int32)
    launch(backend, small_keys_kernel, x, y, grid=1, N=33)
    want = np.argsort(x & 3, kind="stable")
    np.testing.assert_array_equal(y, np.where(want > 3, want, -1))


@eas.kernel
def long_rows_kernel(x, y, z, top, at, n, DOWN: eas.constexpr, K: eas.constexpr, BLOCK: eas.constexpr):
    row, c, k = mk.program_id(0), mk.arange(0, BLOCK), mk.arange(0, K)
    block = mk.load(x, row * BLOCK + c)
    mk.store(y, row * BLOCK + c, mk.sort(block, descending=DOWN))
    mk.store(z, row * BLOCK + c, mk.argsort(block, descending=DOWN))
    best, place = mk.topk(block, K, largest=DOWN)
    mk.store(top, row * K + k, best)
    mk.store(at, row * K + k, place)


@pytest.mark.parametrize(("n", "k"), [(70, 3), (1000, 20), (2048, 130)])
@pytest.mark.parametrize("kind", ["f4", "f8", "u8", "u4", "i1"])
def test_rows_longer_than_registers(backend, kind, n, k):
    """Rows of ties, in order, against it, of extremes, of zeros of both signs and of NaN."""
    dtype = np.dtype(kind)
    need_dtype(backend, dtypes.from_numpy(dtype))
    rng = np.random.default_rng(n)
    least, most = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    some = rng.integers(0, 100, n).astype(dtype)
    rows = [some, np.sort(some), np.sort(some)[::-1], rng.choice(np.array([least, 0, most], dtype), n)]
    if dtype.kind == "f":
        rows += [rng.choice(np.array([-0.0, 0.0], dtype), n), rng.choice(np.array([np.nan, -1.5, 1.5], dtype), n)]
    x = np.stack(rows)
    for down in (False, True):
        y, z = np.zeros_like(x), np.zeros(x.shape, np.int32)
        top, at = np.zeros((len(x), k), dtype), np.zeros((len(x), k), np.int32)
        launch(backend, long_rows_kernel, x, y, z, top, at, n, grid=len(x), DOWN=down, K=k, BLOCK=n)
        order = _order(x, 1, down)
        np.testing.assert_array_equal(z, order)
        np.testing.assert_array_equal(at, order[:, :k])
        want = np.take_along_axis(x, order, 1)
        for got, expected in ((y, want), (top, want[:, :k])):
            np.testing.assert_array_equal(got, expected)
            if dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


@eas.kernel
def top_kernel(x, top, at, DOWN: eas.constexpr, K: eas.constexpr, BLOCK: eas.constexpr):
    row, c, k = mk.program_id(0), mk.arange(0, BLOCK), mk.arange(0, K)
    best, place = mk.topk(mk.load(x, row * BLOCK + c), K, largest=DOWN)
    mk.store(top, row * K + k, best)
    mk.store(at, row * K + k, place)


@pytest.mark.parametrize("k", [1, 2, 7, 40])
@pytest.mark.parametrize("kind", ["f4", "i8"])
def test_one_key_far_behind_the_others_takes_its_place(backend, kind, k):
    """The first keys are the best but for one, wherever that lies, and whichever place is its own; of equal ones the first stays."""
    n, dtype = 700, np.dtype(kind)
    for down in (False, True):
        rows = []
        for rank in sorted({0, k // 2, k - 2, k - 1, k} & set(range(k + 1))):
            for far in (k, 63, 64, 100, 255, 256, 300, 511, 512, n - 1):
                row = np.full(n, 9000, dtype)
                row[:k] = 10 * np.arange(k)
                row[max(far, k)] = 10 * rank - 5 if rank < k else 10 * (k - 1)  # before the key of that rank, or equal to the last
                rows.append(-row if down else row)
        x = np.stack(rows)
        top, at = np.zeros((len(x), k), dtype), np.zeros((len(x), k), np.int32)
        launch(backend, top_kernel, x, top, at, grid=len(x), DOWN=down, K=k, BLOCK=n)
        order = _order(x, 1, down)[:, :k]
        np.testing.assert_array_equal(at, order)
        np.testing.assert_array_equal(top, np.take_along_axis(x, order, 1))


@eas.kernel
def sort_rows_kernel(x, y, COLS: eas.constexpr, DOWN: eas.constexpr):
    at = mk.arange(0, 4 * COLS)
    mk.store(y, at, mk.ravel(mk.sort(mk.reshape(mk.load(x, at), (4, COLS)), descending=DOWN)))


@pytest.mark.parametrize(("kind", "cols", "down"), [("f32", 300, False), ("f64", 130, True), ("f16", 64, False), ("i8", 200, True), ("u32", 70, True), ("u64", 60, False)])
@pytest.mark.every_width
def test_numbers_alone_are_sorted_as_with_their_places(backend, kind, cols, down):
    """Bit by bit: rows with NaN or zeros of both signs keep the order of what is equal, also beside other rows."""
    dtype = getattr(dtypes, kind)
    need_dtype(backend, dtype)
    rng = np.random.default_rng(cols)
    if dtype.is_float:
        x = (rng.standard_normal((4, cols)) * 100).astype(dtype.np_storage)
        x[1, ::7], x[2] = np.nan, np.where(rng.random(cols) < 0.5, np.where(rng.random(cols) < 0.5, -0.0, 0.0), x[2])
        x[1, ::14] = np.copysign(x[1, ::14], -1)
        x[3, :5] = np.inf, -np.inf, 0.0, 1e-7, -1e-7
    else:
        x = rng.integers(dtype.min, dtype.max, (4, cols), dtype.np_storage, endpoint=True)
        x[1, :2], x[2] = (dtype.min, dtype.max), x[2, 0]
    y = np.zeros_like(x)
    launch(backend, sort_rows_kernel, x, y, grid=1, COLS=cols, DOWN=down)
    want = np.take_along_axis(x, _order(x, 1, down), 1)
    assert y.tobytes() == want.tobytes()
