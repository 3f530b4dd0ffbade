"""Products summed over a runtime loop, as users write them: edges, strides, dtypes, epilogues."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from tests.backend.formats import buffer, contents, poison
from tests.backend.launches import METAL, launch, need_dtype

ACCUMULATORS = {"f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64", "i8": "i32", "u8": "i32", "i32": "i32", "i64": "i64"}
SHAPES = [(1, 1, 1), (5, 7, 3), (13, 40, 70), (37, 300, 50), (64, 32, 64)]  # m, k, n


@eas.kernel
def product(a, b, c, M, N, K, am, ak, bk, bn, ACC: eas.constexpr, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)
    cols = mk.program_id(0) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], ACC)
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * am + inner[None, :] * ak, (rows[:, None] < M) & (inner[None, :] < K))
        right = mk.load(b, inner[:, None] * bk + cols[None, :] * bn, (inner[:, None] < K) & (cols[None, :] < N))
        acc = mk.dot(left, right, acc)
    mk.store(c, rows[:, None] * N + cols[None, :], acc, (rows[:, None] < M) & (cols[None, :] < N))


def small_integers(*shape: int) -> np.ndarray:
    """Exact in every dtype, and so are their sums."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape)


@pytest.mark.parametrize("dtype", ACCUMULATORS)
def test_product_of_every_dtype(backend, dtype):
    src, acc = dtypes.parse(dtype), dtypes.parse(ACCUMULATORS[dtype])
    need_dtype(backend, acc)
    m, k, n = 13, 70, 40
    a, b = abs(small_integers(m, k)), abs(small_integers(k, n))
    number = float if src.is_float else int
    given = [buffer([number(v) for v in x.ravel()], src) for x in (a, b)]
    c = poison(m * n, acc)
    launch(backend, product, *given, c, m, n, k, k, 1, n, 1, grid=(2, 1), ACC=acc, BM=16, BN=32, BK=16)
    np.testing.assert_array_equal(contents(c).reshape(m, n), a @ b)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", ["rows", "columns", "gaps"])
def test_product_of_all_edges_and_strides(backend, shape, layout):
    m, k, n = shape
    a, b = (small_integers(*s).astype(np.float32) for s in ((m, k), (k, n)))
    strides = (k, 1, n, 1)
    x, y = a, b
    if layout == "columns":
        x, y, strides = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), (1, m, 1, k)
    elif layout == "gaps":  # rows of a two apart, b in steps of two
        x, y, strides = np.zeros((m, 2, k), np.float32), np.zeros((k, n, 2), np.float32), (2 * k, 1, 2 * n, 2)
        x[:, 0], y[:, :, 0] = a, b
    c = np.full((m + 1, n), math.nan, np.float32)
    grid = (-(-n // 16), -(-m // 8))
    launch(backend, product, x, y, c, m, n, k, *strides, grid=grid, ACC=mk.f32, BM=8, BN=16, BK=32)
    np.testing.assert_array_equal(c[:m], a @ b)
    assert np.isnan(c[m]).all()


@pytest.mark.parametrize("shape", [(37, 300, 50), (64, 32, 64), (13, 40, 70), (30, 128, 130), (23, 97, 16)], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
def test_product_whose_left_side_is_stored_by_columns(backend, shape, dtype):
    """Many rows and steps: columns of a are copied, those far apart (30 x 128 with a gap) as well."""
    m, k, n = shape
    src, acc = dtypes.parse(dtype), dtypes.parse(ACCUMULATORS[dtype])
    need_dtype(backend, acc)
    a, b = small_integers(m, k), small_integers(k, n)
    apart = 256 if k == 128 else m
    x = np.zeros((k, apart), a.dtype)
    x[:, :m] = a.T
    number = float if src.is_float else int
    given = [buffer([number(v) for v in y.ravel()], src) for y in (x, b)]
    c = poison(m * n, acc)
    launch(backend, product, *given, c, m, n, k, 1, apart, n, 1, grid=(-(-n // 32), -(-m // 32)), ACC=acc, BM=32, BN=32, BK=32)
    np.testing.assert_array_equal(contents(c).reshape(m, n), a @ b)


@eas.kernel
def wrapping_product(a, b, c, M, N, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """Rows and columns behind the end wrap around; pointers move from step to step."""
    across = mk.cdiv(N, BN)
    top, left = mk.program_id(0) // across * BM, mk.program_id(0) % across * BN
    rows, cols = (top + mk.arange(0, BM)) % M, (left + mk.arange(0, BN)) % N
    inner = mk.arange(0, BK)
    a_ptrs = a + rows[:, None] * K + inner[None, :]
    b_ptrs = b + inner[:, None] * N + cols[None, :]
    acc = mk.zeros([BM, BN], mk.f32)
    for step in range(mk.cdiv(K, BK)):
        part = mk.load(a_ptrs, mask=inner[None, :] < K - step * BK, other=0.0)
        acc = mk.dot(part, mk.load(b_ptrs, mask=inner[:, None] < K - step * BK, other=0.0), acc)
        a_ptrs += BK
        b_ptrs += BK * N
    rows, cols = top + mk.arange(0, BM), left + mk.arange(0, BN)
    mk.store(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_product_whose_edges_wrap_around(backend, shape):
    m, k, n = shape
    a, b = (small_integers(*s).astype(np.float32) for s in ((m, k), (k, n)))
    c = np.full((m, n), math.nan, np.float32)
    launch(backend, wrapping_product, a, b, c, m, n, k, grid=-(-n // 16) * -(-m // 8), BM=8, BN=16, BK=32)
    np.testing.assert_array_equal(c, a @ b)


@eas.kernel
def product_from_below_zero(a, b, c, M, N, K, start, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """Rows from `start` on, which may be negative, as may M: `%` then wraps around inside of the block."""
    places = start + mk.arange(0, BM)
    rows, cols, inner = 20 + places % M, mk.arange(0, BN), mk.arange(0, BK)
    acc = mk.zeros([BM, BN], mk.f32)
    for step in range(mk.cdiv(K, BK)):
        left = mk.load(a + rows[:, None] * K + step * BK + inner[None, :], mask=inner[None, :] < K - step * BK, other=0.0)
        right = mk.load(b + (step * BK + inner[:, None]) * N + cols[None, :], mask=inner[:, None] < K - step * BK, other=0.0)
        acc = mk.dot(left, right, acc)
    mk.store(c + (places - start)[:, None] * N + cols[None, :], acc, mask=places[:, None] < M)


@pytest.mark.parametrize(("start", "m"), [(0, 5), (-8, 5), (-16, 3), (-8, 20), (-16, -5), (0, -5), (8, 3)])
def test_rows_that_wrap_around_below_zero(backend, start, m):
    k, n = 20, 16
    a, b = (small_integers(*s).astype(np.float32) for s in ((40, k), (k, n)))
    c = np.full((8, n), math.nan, np.float32)
    launch(backend, product_from_below_zero, a, b, c, m, n, k, start, grid=1, BM=8, BN=16, BK=16)
    places = start + np.arange(8)
    want = np.where((places < m)[:, None], a[20 + places % m] @ b, math.nan)
    np.testing.assert_array_equal(c, want)


@eas.kernel
def product_with_all_stored(a, b, bias, c, M, N, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """The whole tile is stored, and starts from a bias: what is masked off counts as zero."""
    rows, cols = mk.arange(0, BM), mk.arange(0, BN)
    acc = mk.broadcast_to(mk.load(bias, cols)[None, :], [BM, BN])
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
        right = mk.load(b, inner[:, None] * N + cols[None, :], (inner[:, None] < K) & (cols[None, :] < N))
        acc = mk.dot(left, right, acc)
    mk.store(c, rows[:, None] * BN + cols[None, :], mk.maximum(acc, 0.0))


@pytest.mark.parametrize("k", [0, 1, 20])
def test_a_tile_that_is_stored_as_a_whole_has_its_masked_rows(backend, k):
    m, n = 5, 9
    a, b = (small_integers(*s).astype(np.float32) for s in ((m, max(k, 1)), (max(k, 1), n)))
    a, b, bias = a[:, :k], b[:k], np.arange(16, dtype=np.float32)
    c = np.full((8, 16), math.nan, np.float32)
    given = [np.ascontiguousarray(x) if x.size else np.zeros(1, np.float32) for x in (a, b)]
    launch(backend, product_with_all_stored, *given, bias, c, m, n, k, grid=1, BM=8, BN=16, BK=8)
    want = np.broadcast_to(bias, (8, 16)).copy()
    want[:m, :n] += a @ b
    np.testing.assert_array_equal(c, np.maximum(want, 0))


@eas.kernel
def product_in_place(a, c, N, BN: eas.constexpr):
    """c = a @ c, tile by tile: the right side is what earlier tiles wrote."""
    i = mk.arange(0, BN)
    for start in range(0, N, BN):
        acc = mk.zeros([BN, BN], mk.f32)
        for first in range(0, N, BN):
            left = mk.load(a, (start + i)[:, None] * N + (first + i)[None, :])
            acc = mk.dot(left, mk.load(c, (first + i)[:, None] * N + i[None, :]), acc)
        mk.store(c, (start + i)[:, None] * N + i[None, :], acc)


def test_a_right_side_that_the_kernel_writes_is_read_anew(backend):
    a, c = small_integers(24, 24).astype(np.float32), small_integers(24, 24).astype(np.float32)
    want = c.copy()
    for start in range(0, 24, 8):
        want[start : start + 8, :8] = a[start : start + 8] @ want[:, :8]
    launch(backend, product_in_place, a, c, 24, grid=1, BN=8)
    np.testing.assert_array_equal(c, want)


def test_infinities_reach_only_their_own_rows_and_columns(backend):
    m, k, n = 5, 9, 11
    a, b = (small_integers(*s).astype(np.float32) for s in ((m, k), (k, n)))
    a[2, 3], b[4, 5] = math.inf, math.nan
    c = np.zeros((m, n), np.float32)
    launch(backend, product, a, b, c, m, n, k, k, 1, n, 1, grid=(1, 1), ACC=mk.f32, BM=8, BN=16, BK=4)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(c, a @ b)


@eas.kernel
def every_other(a, b, c, N, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """Columns of b that are two apart in memory."""
    rows, cols = mk.arange(0, BM), mk.program_id(0) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], c.dtype)
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * K + inner[None, :], inner[None, :] < K)
        right = mk.load(b, inner[:, None] * (2 * N) + cols[None, :] * 2, (inner[:, None] < K) & (cols[None, :] < N))
        acc = mk.dot(left, right, acc)
    mk.store(c, rows[:, None] * N + cols[None, :], acc, cols[None, :] < N)


@contextmanager
def end_of_page(count, dtype):
    """An array behind which no memory can be read."""
    nbytes = count * np.dtype(dtype).itemsize
    size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    behind = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)) + size)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    assert protect(behind, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    yield np.frombuffer(memory, dtype, count, size - nbytes)
    assert protect(behind, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.left_out(lambda backend, columns: backend in METAL and columns not in (16, 65))  # panels are a matter of the CPU
@pytest.mark.skipif(sys.platform != "linux", reason="mprotect by ctypes")
@pytest.mark.parametrize("columns", [8, 16, 24, 32, 64, 65, 128])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32], ids=["f32", "f64", "i32"])
def test_columns_two_apart_end_with_the_last(backend, dtype, columns):
    need_dtype(backend, dtypes.f64 if dtype is np.float64 else dtypes.f32)
    m, k, block = 16, 40, max(8, columns // 8 * 8) if columns <= 64 else 64
    a, b = (small_integers(*s).astype(dtype) for s in ((m, k), (k, columns)))
    c = np.zeros((m, columns), dtype)
    with end_of_page((k - 1) * 2 * columns + 2 * columns - 1, dtype) as y:
        y[:] = 9
        for row, values in enumerate(b):
            y[row * 2 * columns :][: 2 * columns - 1 : 2] = values
        launch(backend, every_other, a, y, c, columns, k, grid=-(-columns // block), BM=m, BN=block, BK=32)
    np.testing.assert_array_equal(c, a @ b)


@eas.kernel
def seen_product(a, b, y, seen, M, N, K, FORM: eas.constexpr, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """Elements behind the edges are what the sum began with; the store leaves them out, something else looks at them."""
    rows, cols, k = mk.program_id(0) * BM + mk.arange(0, BM), mk.program_id(1) * BN + mk.arange(0, BN), mk.arange(0, BK)
    acc = mk.full([BM, BN], 5.0)
    for s in range(0, K, BK):
        x = mk.load(a, rows[:, None] * K + (s + k)[None, :], (rows[:, None] < M) & ((s + k)[None, :] < K), other=0.0)
        w = mk.load(b, (s + k)[:, None] * N + cols[None, :], ((s + k)[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = mk.dot(x, w, acc)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    mk.store(y, rows[:, None] * N + cols[None, :], acc, inside)
    place = mk.program_id(0) * mk.num_programs(1) + mk.program_id(1)
    if FORM == "assert":
        mk.device_assert(mk.where(inside, True, acc == 5.0), "an element behind the edge")
    elif FORM == "sum":
        mk.store(seen, place, mk.sum(mk.where(inside, 0.0, acc)))
    else:
        mk.store(seen, place, mk.max(mk.where(inside, 5.0, acc)) * BM * BN)


@pytest.mark.parametrize("form", ["assert", "sum", "max"])
def test_elements_behind_the_edges_that_are_seen(backend, form):
    (m, n, k), bm, bn = (37, 45, 50), 32, 32
    a, b = np.abs(small_integers(m, k)).astype(np.float32) + 1, np.abs(small_integers(k, n)).astype(np.float32) + 1
    y, seen = np.zeros((m, n), np.float32), np.zeros((2, 2), np.float32)
    launch(backend, seen_product, a, b, y, seen, m, n, k, grid=(2, 2), FORM=form, BM=bm, BN=bn, BK=16)
    np.testing.assert_array_equal(y, a @ b + 5)
    counts = np.array([[min(bm, m - i * bm) * min(bn, n - j * bn) for j in range(2)] for i in range(2)])
    want = {"assert": 0 * counts, "sum": 5 * (bm * bn - counts), "max": 0 * counts + 5 * bm * bn}[form]
    np.testing.assert_array_equal(seen, want)


@eas.kernel
def product_with_others(a, b, c, M, N, K, IS_WHOLE: eas.constexpr, LEFT: eas.constexpr, RIGHT: eas.constexpr, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """Behind the edges operands are numbers that the caller chooses."""
    rows, cols = mk.program_id(1) * BM + mk.arange(0, BM), mk.program_id(0) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], mk.f32)
    for first in range(0, K, BK):
        k = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * K + k[None, :], (rows < M)[:, None] & (k < K)[None, :], LEFT)
        right = mk.load(b, k[:, None] * N + cols[None, :], (k < K)[:, None] & (cols < N)[None, :], RIGHT)
        acc = mk.dot(left, right, acc)
    mk.store(c, rows[:, None] * 32 + cols[None, :], acc, None if IS_WHOLE else (rows < M)[:, None] & (cols < N)[None, :])


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(("left", "right"), [(0, 0), (1, 0), (0, 2), (1, 2)])
def test_what_is_behind_the_edges_takes_part(backend, left, right, is_whole):
    (m, k, n), block = (13, 21, 27), 16
    a, b = (small_integers(*s).astype(np.float32) for s in ((m, k), (k, n)))
    c = np.full((16, 32), np.nan, np.float32)
    launch(backend, product_with_others, a, b, c, m, n, k, grid=(2, 1), IS_WHOLE=is_whole, LEFT=left, RIGHT=right, BM=block, BN=block, BK=block)
    wide = [np.pad(x, [(0, up - size) for up, size in zip(shape, x.shape, strict=True)], constant_values=v) for x, shape, v in ((a, (16, 32), left), (b, (32, 32), right))]
    seen = np.s_[:] if is_whole else np.s_[:m, :n]
    np.testing.assert_array_equal(c[seen], (wide[0] @ wide[1])[seen])


@eas.kernel
def product_of_gathered(a, b, c, places, K, N, WHERE: eas.constexpr, LOOP: eas.constexpr, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """Rows, columns or steps of k by number, as experts and pages of memory are; whole tiles, without masks."""
    rows, cols = mk.arange(0, BM), mk.arange(0, BN)
    rows = mk.load(places, rows) if WHERE == "rows" else rows
    cols = mk.load(places, cols) if WHERE == "columns" else cols
    acc = mk.zeros([BM, BN], mk.f32)
    for first in range(0, K if LOOP else BK, BK):
        inner = first + mk.arange(0, BK)
        inner = mk.load(places, inner) if WHERE == "k" else inner
        acc = mk.dot(mk.load(a, rows[:, None] * K + inner[None, :]), mk.load(b, inner[:, None] * N + cols[None, :]), acc)
    mk.store(c, mk.arange(0, BM)[:, None] * BN + mk.arange(0, BN)[None, :], acc)


@pytest.mark.parametrize("loop", [True, False])
@pytest.mark.parametrize("where", ["rows", "columns", "k"])
def test_sides_that_are_gathered(backend, where, loop):
    m, n, k = 32, 32, 64 if loop else 16
    a, b = small_integers(40, k).astype(np.float32), small_integers(k, 48).astype(np.float32)
    places = np.random.default_rng(5).permutation(k if where == "k" else 40).astype(np.int32)
    c = np.full((m, n), np.nan, np.float32)
    launch(backend, product_of_gathered, a, b, c, places, k, 48, grid=1, WHERE=where, LOOP=loop, BM=m, BN=n, BK=16)
    rows, cols, inner = ([places[:length] if where == name else np.arange(length) for name, length in (("rows", m), ("columns", n), ("k", k))])
    np.testing.assert_array_equal(c, a[rows][:, inner] @ b[inner][:, cols])
