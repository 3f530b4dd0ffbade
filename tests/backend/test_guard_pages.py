"""No kernel touches memory beside its arrays: they lie between pages without access, among bytes that are watched.

Rows, tiles, stencils, strided and transposed accesses, short types, products, scans and sorts end within, at and
behind a vector of any width. The target has caches so small that all but the shortest outputs are stored past them.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import eas
from eas import lib, mk
from eas.runtime.native import host_target
from eas.schedule.target import Caches
from tests.backend.guarded import Guarded
from tests.backend.test_contractions import product

LENGTHS = (1, 7, 16, 33, 100, 256, 300)
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="mprotect by ctypes"),
    pytest.mark.left_out(lambda backend: backend != "cpu"),  # the addresses of the CPU backend
]


@pytest.fixture
def small_caches(backend, monkeypatch):
    """All but the shortest outputs are stored past the last cache."""
    monkeypatch.setattr(host_target, "host_caches", lambda: Caches(last=512))
    host_target._target.cache_clear()
    yield
    host_target._target.cache_clear()


@pytest.fixture
def places(small_caches):
    """Where arrays lie: behind a page without access, and before one."""
    both = (Guarded(at_end=False), Guarded(at_end=True))
    yield both
    for place in both:
        place.check()


def numbers(*shape: int, dtype: object = np.float32, most: int = 9) -> np.ndarray:
    """Exact in every dtype, and so are their sums."""
    return np.random.default_rng(sum(shape)).integers(0, most, shape).astype(dtype)


# --- elements by their position ---------------------------------------------------------------------


@eas.kernel
def rows_kernel(x, out, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < n) + 1, i < n)


@pytest.mark.every_width
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int16, np.int64, np.float64])
def test_rows(places, dtype):
    for place in places:
        for n in LENGTHS:
            x, out = place.like(numbers(n, dtype=dtype)), place.empty(n, dtype)
            rows_kernel(x, out, n, BLOCK=128, _grid=-(-n // 128))
            np.testing.assert_array_equal(out, x + 1)


@eas.kernel
def casts_kernel(x, out, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < n).to(out.dtype), i < n)


@pytest.mark.parametrize(("source", "target"), [(np.uint8, np.float32), (np.float32, np.uint8), (np.float16, np.float64), (np.int64, np.int8)])
def test_elements_of_two_sizes(places, source, target):
    for place in places:
        for n in LENGTHS:
            x, out = place.like(numbers(n, dtype=source)), place.empty(n, target)
            casts_kernel(x, out, n, BLOCK=128, _grid=-(-n // 128))
            np.testing.assert_array_equal(out, x.astype(target))


@eas.kernel
def picked_kernel(x, out, n, FORM: eas.constexpr, STEP: eas.constexpr, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    if FORM == "strided":
        mk.store(out, i, mk.load(x, i * STEP, i < n), i < n)
    elif FORM == "scattered":
        mk.store(out, i * STEP, mk.load(x, i, i < n), i < n)
    elif FORM == "reversed":
        mk.store(out, n - 1 - i, mk.load(x, n - 1 - i, i < n) * 2, i < n)
    elif FORM == "shared":
        mk.store(out, i, mk.load(x, i // STEP, i < n), i < n)
    else:
        mk.store(out, i, sum(mk.load(x, i * STEP + k, i < n) for k in range(STEP)), i < n)


STEPS = [("strided", 2), ("strided", 3), ("strided", 4), ("strided", 5), ("scattered", 2), ("shared", 3), ("grouped", 3), ("reversed", 1)]


def expected_places(form: str, x: np.ndarray, n: int, step: int) -> np.ndarray:
    if form == "grouped":
        return x.reshape(n, step).sum(axis=1, dtype=x.dtype)
    return {"strided": x[::step], "scattered": x, "reversed": x * 2, "shared": np.repeat(x, step)[:n]}[form]


@pytest.mark.left_out(lambda dtype, step: dtype == np.uint8 and step > 3)  # as every third
@pytest.mark.every_width
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize(("form", "step"), STEPS)
def test_elements_some_places_apart(places, form, step, dtype):
    for place in places:
        for n in LENGTHS:
            length = {"strided": (n - 1) * step + 1, "shared": -(-n // step), "grouped": n * step}.get(form, n)
            x, out = place.like(numbers(length, dtype=dtype)), place.empty((n - 1) * step + 1 if form == "scattered" else n, dtype)
            picked_kernel(x, out, n, FORM=form, STEP=step, BLOCK=128, _grid=-(-n // 128))
            np.testing.assert_array_equal(out[::step] if form == "scattered" else out, expected_places(form, x, n, step))


@eas.kernel
def threads_kernel(x, places, out, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i < n:
        mk.store(out, i, mk.load(x, i) + mk.load(x, mk.load(places, i)))


def test_threads_and_gathers(places):
    for place in places:
        for n in LENGTHS:
            x, at, out = place.like(numbers(n)), place.like((np.arange(n)[::-1] * 7 % n).astype(np.int32)), place.empty(n, np.float32)
            threads_kernel(x, at, out, n, BLOCK=64, _grid=-(-n // 64))
            np.testing.assert_array_equal(out, x + x[at])


# --- neighbours -------------------------------------------------------------------------------------


@eas.kernel
def window_kernel(x, out, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    total = mk.load(x, i, i < n)
    for k in range(-2, 3):
        total += mk.load(x, i + k, (i + k >= 0) & (i + k < n))
    mk.store(out, i, total, i < n)


@eas.kernel
def filter_kernel(x, out, H, W, BM: eas.constexpr, BN: eas.constexpr):
    row, col = mk.program_id(1) * BM + mk.arange(0, BM)[:, None], mk.program_id(0) * BN + mk.arange(0, BN)[None, :]
    total = mk.zeros([BM, BN], x.dtype)
    for a in range(-1, 2):
        for b in range(-1, 2):
            r, c = row + a, col + b
            total += mk.load(x, r * W + c, (r >= 0) & (r < H) & (c >= 0) & (c < W))
    mk.store(out, row * W + col, total, (row < H) & (col < W))


@eas.kernel
def flat_filter_kernel(x, out, H, W, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    row, col = i // W, i % W
    total = mk.zeros([BLOCK], x.dtype)
    for a in range(-1, 2):
        for b in range(-1, 2):
            r, c = row + a, col + b
            total += mk.load(x, r * W + c, (i < H * W) & (r >= 0) & (r < H) & (c >= 0) & (c < W))
    mk.store(out, i, total, i < H * W)


@pytest.mark.every_width
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_neighbours(places, dtype):
    for place in places:
        for n in LENGTHS:
            x, out = place.like(numbers(n, dtype=dtype)), place.empty(n, dtype)
            window_kernel(x, out, n, BLOCK=128, _grid=-(-n // 128))
            around = np.pad(x, 2)
            np.testing.assert_array_equal(out, x + sum(around[k : k + n] for k in range(5)))
        for h, w in [(1, 1), (3, 5), (9, 33), (5, 64), (11, 100)]:
            x = place.like(numbers(h, w, dtype=dtype))
            tiled, flat = place.empty((h, w), dtype), place.empty((h, w), dtype)
            filter_kernel(x, tiled, h, w, BM=4, BN=32, _grid=(-(-w // 32), -(-h // 4)))
            flat_filter_kernel(x, flat, h, w, BLOCK=128, _grid=-(-h * w // 128))
            around = np.pad(x, 1)
            want = sum(around[a : a + h, b : b + w] for a in range(3) for b in range(3))
            np.testing.assert_array_equal(tiled, want)
            np.testing.assert_array_equal(flat, want)


# --- rows and tiles ---------------------------------------------------------------------------------


@eas.kernel
def statistics_kernel(x, out, sums, best, n, BLOCK: eas.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    v = mk.load(x, row * n + c, c < n, other=-1)
    mk.store(out, row * n + c, v - mk.max(v), c < n)
    mk.store(sums, row, mk.sum(v))
    mk.store(best, row, mk.argmax(v))


@eas.kernel
def ordered_kernel(x, sums, sorted, n, BLOCK: eas.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    v = mk.load(x, row * n + c, c < n, other=100)
    mk.store(sums, row * n + c, mk.cumsum(v), c < n)
    mk.store(sorted, row * n + c, mk.sort(v), c < n)


@eas.kernel
def tiles_kernel(x, turned, by_row, by_column, M, N, BM: eas.constexpr, BN: eas.constexpr):
    i, j = mk.program_id(1) * BM + mk.arange(0, BM), mk.program_id(0) * BN + mk.arange(0, BN)
    inside = (i[:, None] < M) & (j[None, :] < N)
    v = mk.load(x, i[:, None] * N + j[None, :], inside)
    mk.store(turned, j[None, :] * M + i[:, None], v, inside)
    mk.store(by_row, i * mk.num_programs(0) + mk.program_id(0), mk.sum(v, 1), i < M)
    mk.store(by_column, j * mk.num_programs(1) + mk.program_id(1), mk.max(v, axis=0), j < N)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_rows_that_are_reduced_scanned_and_sorted(places, dtype):
    for place in places:
        for n in (1, 7, 33, 64, 100):
            x, beyond = place.like(numbers(3, n, dtype=dtype)), (64 if n <= 64 else 128) - n
            out, sums, scanned, sort = place.empty((3, n), dtype), place.empty(3, dtype), place.empty((3, n), dtype), place.empty((3, n), dtype)
            best = place.empty(3, np.int32)
            statistics_kernel(x, out, sums, best, n, BLOCK=n + beyond, _grid=3)
            ordered_kernel(x, scanned, sort, n, BLOCK=n + beyond, _grid=3)
            np.testing.assert_array_equal(out, x - x.max(axis=1, keepdims=True))
            np.testing.assert_array_equal(sums, x.sum(axis=1) - beyond)
            np.testing.assert_array_equal(best, x.argmax(axis=1))
            np.testing.assert_array_equal(scanned, x.cumsum(axis=1))
            np.testing.assert_array_equal(sort, np.sort(x, axis=1))


@eas.kernel
def search_kernel(x, best, n, BLOCK: eas.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    mk.store(best, row, mk.argmax(mk.load(x, row * n + c, c < n, other=0)))


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64])
def test_places_of_extremes(places, dtype):
    """The largest element is the last one, so that all are looked at; short rows, and long ones whose steps are read again."""
    for place in places:
        for n in (1, 5, 31, 64, 65, 97, 129, 300, 1000, 2047):
            values = numbers(2, n, dtype=dtype)
            values[:, -1] = 100
            x, best = place.like(values), place.empty(2, np.int32)
            search_kernel(x, best, n, BLOCK=max(16, 1 << (n - 1).bit_length()), _grid=2)
            assert best.tolist() == [n - 1, n - 1], n


@pytest.mark.every_width
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_tiles(places, dtype):
    for place in places:
        for m, n in [(1, 1), (5, 7), (16, 32), (17, 33), (31, 100)]:
            x, grid = place.like(numbers(m, n, dtype=dtype, most=3)), (-(-n // 32), -(-m // 16))
            turned, by_row, by_column = place.empty((n, m), dtype), place.empty((m, grid[0]), dtype), place.empty((n, grid[1]), dtype)
            tiles_kernel(x, turned, by_row, by_column, m, n, BM=16, BN=32, _grid=grid)
            np.testing.assert_array_equal(turned, x.T)
            np.testing.assert_array_equal(by_row.sum(axis=1), x.sum(axis=1))
            np.testing.assert_array_equal(by_column.max(axis=1), x.max(axis=0))


# --- products ---------------------------------------------------------------------------------------


def laid_out(place: Guarded, a: np.ndarray, b: np.ndarray, layout: str):
    """The two sides of a product as they lie in memory, not an element longer than they must be, and their strides."""
    (m, k), n = a.shape, b.shape[1]
    if layout == "rows":
        return place.like(a), place.like(b), (k, 1, n, 1)
    if layout == "columns":
        return place.like(np.ascontiguousarray(a.T)), place.like(np.ascontiguousarray(b.T)), (1, m, 1, k)
    x, y = np.full((m, 2 * k), 99, a.dtype), np.full((k, n, 2), 99, b.dtype)
    x[:, :k], y[:, :, 0] = a, b
    return place.like(x.reshape(-1)[: 2 * m * k - k]), place.like(y.reshape(-1)[:-1]), (2 * k, 1, 2 * n, 2)


@pytest.mark.every_width
@pytest.mark.parametrize(("dtype", "layout"), [(np.float32, "rows"), (np.float32, "columns"), (np.float32, "gaps"), (np.float16, "rows"), (np.int8, "columns")])
def test_products(places, dtype, layout):
    total = np.int32 if dtype == np.int8 else np.float32
    for place in places:
        for m, k, n in [(1, 1, 1), (5, 7, 3), (7, 16, 17), (13, 65, 70), (37, 130, 64)]:
            a, b = numbers(m, k, dtype=dtype, most=3), numbers(k, n, dtype=dtype, most=3)
            x, y, strides = laid_out(place, a, b, layout)
            c = place.empty((m, n), total)
            product(x, y, c, m, n, k, *strides, ACC=eas.base.dtypes.from_numpy(np.dtype(total)), BM=16, BN=64, BK=32, _grid=(-(-n // 64), -(-m // 16)))
            np.testing.assert_array_equal(c, a.astype(total) @ b.astype(total), f"{m} {k} {n}")


LIBRARY = {
    "softmax": lambda x: lib.softmax(x),
    "log_softmax": lambda x: lib.log_softmax(x),
    "layer_norm": lambda x: lib.layer_norm(x),
    "rms_norm": lambda x: lib.rms_norm(x),
    "cumsum": lambda x: lib.cumsum(x),
    "argmax": lambda x: lib.argmax(x),
    "topk": lambda x: np.concatenate(lib.topk(x, 1), axis=1),
    "transpose": lambda x: lib.transpose(x),
    "matmul": lambda x: lib.matmul(x, lib.transpose(x)),
    "sum": lambda x: lib.sum(x),
    "gelu": lambda x: lib.gelu(x),
    "attention": lambda x: lib.attention(x[None, None], x[None, None], x[None, None], causal=True),
    "conv2d": lambda x: lib.conv2d(x[None, None], x[None, None, :1, :1], padding=1),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_library(backend, name):
    for at_end in (False, True):
        for shape in [(3, 33), (6, 300)]:
            place, values = Guarded(at_end), numbers(*shape)
            np.testing.assert_allclose(LIBRARY[name](place.like(values)), LIBRARY[name](values), rtol=1e-6)
            place.check()
