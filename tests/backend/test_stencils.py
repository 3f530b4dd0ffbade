"""Convolutions as users write them: masks with two ends, sums of blocks by rows, loads of several shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from benchmarks import convolution_kernels
from eas import mk
from eas.base import dtypes
from tests.backend.formats import buffer
from tests.backend.launches import METAL, launch, need_dtype
from tests.unit.fixed_target import llvm_text

pytestmark = pytest.mark.every_width


def small_integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape)


@eas.kernel
def stencil(x, w, y, H, W, SIZE: eas.constexpr, BM: eas.constexpr, BN: eas.constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)[:, None]
    cols = mk.program_id(0) * BN + mk.arange(0, BN)[None, :]
    acc = mk.zeros([BM, BN], mk.f32)
    for i in mk.static_range(SIZE):
        for j in mk.static_range(SIZE):
            r, c = rows + i - SIZE // 2, cols + j - SIZE // 2
            value = mk.load(x, r * W + c, (r >= 0) & (r < H) & (c >= 0) & (c < W), 0)
            acc += value.to(mk.f32) * mk.load(w, i * SIZE + j)
    mk.store(y, rows * W + cols, acc, (rows < H) & (cols < W))


@pytest.mark.parametrize("dtype", ["f32", "i8", "f16"])
@pytest.mark.parametrize(("shape", "tile"), [((5, 70), (4, 64)), ((9, 33), (8, 16)), ((3, 3), (4, 8)), ((2, 130), (2, 128))])
def test_stencil(backend, dtype, shape, tile):
    (h, w), (bm, bn), size = shape, tile, 5 if dtype == "f32" else 3
    src = dtypes.parse(dtype)
    need_dtype(backend, src)
    x, weights = small_integers(h, w), small_integers(size, size).astype(np.float32)
    number = float if src.is_float else int
    given = buffer([number(v) for v in x.ravel()], src)
    y = np.full((h, w), math.nan, np.float32)
    launch(backend, stencil, given, weights, y, h, w, grid=(-(-w // bn), -(-h // bm)), SIZE=size, BM=bm, BN=bn)
    around = np.pad(x, size // 2)
    want = sum(around[i : i + h, j : j + w] * weights[i, j] for i in range(size) for j in range(size))
    np.testing.assert_array_equal(y, want)


@pytest.mark.left_out(lambda backend: backend != "cpu")  # only the CPU has such stores
@pytest.mark.parametrize(("shape", "away"), [((1026, 2052), 0), ((1026, 2052), 1000), ((1027, 2050), 4), ((2100, 1024), 16)], ids=str)
def test_images_larger_than_the_cache(backend, shape, away):
    """Stores past it go to the ends of rows too, unless the image that is read has the same places in pages."""
    h, w = shape
    x, weights = small_integers(h, w).astype(np.float32), small_integers(3, 3).astype(np.float32)
    memory = np.full(h * w + 2000, 7, np.float32)
    y = memory[away : away + h * w].reshape(h, w)
    launch(backend, stencil, x, weights, y, h, w, grid=(-(-w // 512), -(-h // 8)), SIZE=3, BM=8, BN=512)
    around = np.pad(x, 1)
    np.testing.assert_array_equal(y, sum(around[i : i + h, j : j + w] * weights[i, j] for i in range(3) for j in range(3)))
    assert (memory[:away] == 7).all()
    assert (memory[away + h * w :] == 7).all()


def test_ends_of_rows_may_be_stored_past_the_cache(monkeypatch):
    monkeypatch.setenv("EAS_NOOPT", "0")
    x, weights = np.zeros((16, 1024), np.float32), np.zeros((3, 3), np.float32)
    code = llvm_text(stencil, x, weights, np.empty_like(x), 16, 1024, facts=(), SIZE=3, BM=8, BN=512)
    pieces = code.split("call void @llvm.masked.store.v4f32")
    assert len(pieces) > 2, "of a vector whose lanes are not all on"
    assert all("nontemporal" in before for before in pieces[:-1])


@eas.kernel
def sums_between(x, y, z, first, last, N, BM: eas.constexpr, BN: eas.constexpr):
    """Sums and largest elements of a part of each row that starts and ends anywhere."""
    rows, cols = mk.arange(0, BM)[:, None], mk.arange(0, BN)[None, :]
    inside = (cols >= first) & (cols < last)
    mk.store(y, mk.arange(0, BM), mk.sum(mk.load(x, rows * N + cols, inside, 0.0), axis=1))
    mk.store(z, mk.arange(0, BM), mk.max(mk.load(x, rows * N + cols, inside & (rows > 0), -5.0), axis=1))


@pytest.mark.parametrize("ends", [(0, 64), (1, 63), (9, 9), (17, 40), (60, 3), (-4, 100), (64, 64)], ids=str)
def test_part_of_a_row(backend, ends):
    first, last = ends
    x = small_integers(8, 64).astype(np.float32)
    y, z = (np.full(8, math.nan, np.float32) for _ in range(2))
    launch(backend, sums_between, x, y, z, first, min(last, 64), 64, grid=1, BM=8, BN=64)
    part = x[:, max(first, 0) : max(last, 0)]
    np.testing.assert_array_equal(y, part.sum(axis=1))
    part = np.concatenate([np.full((8, 1), -5.0), part], axis=1)
    part[0] = -5.0
    np.testing.assert_array_equal(z, part.max(axis=1))


@eas.kernel
def matvec(a, x, y, M, K, BM: eas.constexpr, BK: eas.constexpr):
    rows = mk.program_id(0) * BM + mk.arange(0, BM)
    acc = mk.zeros([BM], mk.f32)
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        part = mk.load(a, rows[:, None] * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
        acc += mk.sum(part.to(mk.f32) * mk.load(x, inner, inner < K)[None, :], axis=1)
    mk.store(y, rows, acc, rows < M)


@pytest.mark.parametrize("dtype", ["f32", "i8", "f16"])
@pytest.mark.parametrize(("shape", "tile"), [((13, 70), (8, 32)), ((6, 40), (4, 64)), ((7, 33), (8, 20)), ((16, 128), (16, 128))])
def test_matrix_times_vector(backend, dtype, shape, tile):
    (m, k), (bm, bk) = shape, tile
    src = dtypes.parse(dtype)
    a, x = small_integers(m, k), small_integers(k).astype(np.float32)
    number = float if src.is_float else int
    y = np.full(m, math.nan, np.float32)
    launch(backend, matvec, buffer([number(v) for v in a.ravel()], src), x, y, m, k, grid=-(-m // bm), BM=bm, BK=bk)
    np.testing.assert_array_equal(y, a @ x)


@eas.kernel
def overwritten_vector(a, x, y, BM: eas.constexpr, BK: eas.constexpr):
    """x changes between two loads of it, while the block of a is still to be used."""
    rows, inner = mk.arange(0, BM), mk.arange(0, BK)
    block = mk.load(a, rows[:, None] * BK + inner[None, :])
    before = mk.load(x, inner)
    mk.store(x, inner, before + 1)
    after = mk.load(x, inner)
    mk.store(y, rows, mk.sum(block * (after - before * 2)[None, :], axis=1))


def test_loads_around_a_store_keep_their_order(backend):
    a, x = small_integers(8, 32).astype(np.float32), small_integers(32).astype(np.float32)
    y, given = np.zeros(8, np.float32), x.copy()
    launch(backend, overwritten_vector, a, given, y, grid=1, BM=8, BK=32)
    np.testing.assert_array_equal(y, a @ (x + 1 - 2 * x))
    np.testing.assert_array_equal(given, x + 1)


@eas.kernel
def two_filters(x, w, y, M, N, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    """A product per tap of a filter: each has a right side of its own, which all programs share."""
    rows, cols = mk.program_id(1) * BM + mk.arange(0, BM), mk.program_id(0) * BN + mk.arange(0, BN)
    acc = mk.zeros([BM, BN], mk.f32)
    for tap in range(2):
        for first in range(0, K, BK):
            inner = first + mk.arange(0, BK)
            left = mk.load(x, (rows[:, None] + tap) * K + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K))
            right = mk.load(w, (tap * K + inner[:, None]) * N + cols[None, :], (inner[:, None] < K) & (cols[None, :] < N))
            acc = mk.dot(left, right, acc)
    mk.store(y, cols[:, None] * M + rows[None, :], mk.trans(acc), (cols[:, None] < N) & (rows[None, :] < M))


@pytest.mark.parametrize("shape", [(70, 24, 40), (33, 300, 16), (5, 7, 3)], ids=str)
def test_products_per_tap_whose_result_is_stored_transposed(backend, shape):
    m, k, n = shape
    x, w = small_integers(m + 1, k).astype(np.float32), small_integers(2, k, n).astype(np.float32)
    y = np.full((n, m), math.nan, np.float32)
    launch(backend, two_filters, x, w, y, m, n, k, grid=(-(-n // 16), -(-m // 16)), BM=16, BN=16, BK=16)
    np.testing.assert_array_equal(y, (x[:-1] @ w[0] + x[1:] @ w[1]).T)


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    h, width, size = *x.shape[2:], w.shape[-1]
    around = np.pad(x, ((0, 0), (0, 0), *[(size // 2, size - 1 - size // 2)] * 2))
    taps = [(i, j) for i in range(size) for j in range(size)]
    return sum(np.einsum("nchw,oc->nohw", around[:, :, i : i + h, j : j + width], w[:, :, i, j]) for i, j in taps)


# Rows that end in the last vector of a step or in the middle of one, that need several steps or none, borders only.
@pytest.mark.parametrize("width", [56, 64, 41, 130, 7, 1])
@pytest.mark.parametrize("form", ["rows", "loops", "flat", "tiles"])
def test_one_output_channel_per_program(backend, form, width):
    n, c, h, o, size = (1, 2, 5, 2, 3) if width != 56 else (2, 3, 4, 2, 2)
    x, w = small_integers(n, c, h, width).astype(np.float32), small_integers(o, c, size, size).astype(np.float32)
    y = np.full((n, o, h, width), math.nan, np.float32)
    block = max(16, 1 << (width - 1).bit_length())
    sizes = (c, h, width, o)
    if form == "rows":
        launch(backend, convolution_kernels.rows, x, w, y, *sizes, grid=(h, o, n), SIZE=size, BLOCK=block)
    elif form == "loops":
        launch(backend, convolution_kernels.loops, x, w, y, *sizes, size, grid=(h, o, n), BLOCK=block)
    elif form == "flat":
        launch(backend, convolution_kernels.flat, x, w, y, *sizes, grid=(-(-h * width // 64), o, n), SIZE=size, BLOCK=64)
    else:
        grid = (-(-h // 4) * -(-width // 16), o, n)
        launch(backend, convolution_kernels.tiles, x, w, y, *sizes, grid=grid, SIZE=size, BM=4, BN=16)
    np.testing.assert_array_equal(y, convolved(x, w))


@eas.kernel
def running_sums(x, y, n, K, BLOCK: eas.constexpr):
    """Stores where it loads: elements must not be computed twice."""
    i = mk.arange(0, BLOCK)
    acc = mk.load(x, i, i < n, 0.0)
    for k in range(K):
        acc += mk.load(x, i + k + n, i < n, 0.0)
    mk.store(y, i, acc, i < n)


@pytest.mark.parametrize("n", [100, 128, 37])
def test_sums_of_a_moving_window_in_place(backend, n):
    x = small_integers(2 * n + 3).astype(np.float32)
    want = x[:n] + x[n : 2 * n] + x[n + 1 : 2 * n + 1] + x[n + 2 : 2 * n + 2]
    launch(backend, running_sums, x, x, n, 3, grid=1, BLOCK=128)
    np.testing.assert_array_equal(x[:n], want)


@eas.kernel
def taken_apart(x, y, n, H, W, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    plane, row, col = i // (H * W), i // W % H, i % W
    mk.store(y, i, mk.load(x, (plane * H + row) * W + col, i < n) + 2 * mk.load(x, row * W + col, i < n), i < n)


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 1, 9), (4, 3, 1), (2, 0, 0)], ids=str)
def test_flat_index_that_is_put_together_again(backend, shape):
    """Also by sizes of 0, of which quotients and remainders are 0."""
    planes, h, w = shape
    n = max(planes * h * w, 20)
    x, y = small_integers(n).astype(np.float32), np.full(n, math.nan, np.float32)
    n = n if not h else planes * h * w
    launch(backend, taken_apart, x, y, n, h, w, grid=-(-n // 32), BLOCK=32)
    i = np.arange(n)
    inside = i % (h * w) if h else 0 * i
    np.testing.assert_array_equal(y[:n], x[i if h else 0 * i] + 2 * x[inside])


@eas.kernel
def framed_kernel(x, taps, y, H, W, KH, KW, BLOCK: eas.constexpr):
    """What is outside of the image is 1."""
    row, col = mk.program_id(1), mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    acc = mk.zeros([BLOCK], mk.f32)
    for dy in range(KH):
        for dx in range(KW):
            yy, xx = row + dy - 1, col + dx - 1
            inside = (yy >= 0) & (yy < H) & (xx >= 0) & (xx < W)
            acc += mk.load(x, yy * W + xx, inside, other=1.0) * mk.load(taps + dy * KW + dx)
    mk.store(y, row * W + col, acc, col < W)


@pytest.mark.parametrize("w", [70, 64, 200])
def test_what_is_outside_has_a_value(backend, w):
    rng = np.random.default_rng(w)
    x, taps = rng.integers(-4, 5, (5, w)).astype(np.float32), rng.integers(-4, 5, (3, 3)).astype(np.float32)
    y = np.zeros_like(x)
    launch(backend, framed_kernel, x, taps, y, 5, w, 3, 3, grid=(-(-w // 128), 5), BLOCK=128)
    framed = np.pad(x, 1, constant_values=1)
    np.testing.assert_array_equal(y, sum(taps[i, j] * framed[i : i + 5, j : j + w] for i in range(3) for j in range(3)))


@eas.kernel
def uneven_kernel(x, y, n, K, BLOCK: eas.constexpr):
    """The inner loop is longest in the middle of the outer one."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    acc = mk.zeros([BLOCK], mk.f32)
    for a in range(K):
        for b in range((a * 7) % 5):
            acc += mk.load(x, i + b, i + b < n, other=0.5)
    mk.store(y, i, acc, i < n)


@pytest.mark.parametrize("n", [64, 100, 256])
def test_ends_of_loops_that_other_loops_decide(backend, n):
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    launch(backend, uneven_kernel, x, y, n, 6, grid=-(-n // 128), BLOCK=128)
    longer = np.concatenate([x, np.full(8, 0.5, np.float32)])
    np.testing.assert_array_equal(y, sum(longer[b : b + n] for a in range(6) for b in range(a * 7 % 5)))


@eas.kernel
def cross_kernel(x, y, H, W, BM: eas.constexpr, BN: eas.constexpr):
    r, c = mk.program_id(0) * BM + mk.arange(0, BM)[:, None], mk.program_id(1) * BN + mk.arange(0, BN)[None, :]
    total = mk.zeros([BM, BN], mk.f32)
    for dr, dc in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)):
        row, col = r + dr, c + dc
        total += mk.load(x, row * W + col, (row >= 0) & (row < H) & (col >= 0) & (col < W), 0.0)
    mk.store(y, r * W + c, total, (r < H) & (c < W))


@pytest.mark.parametrize("tile", [(8, 64), (16, 32), (4, 1024)], ids=str)
def test_cross_on_tiles(backend, tile):
    """Tiles that are walked row by row with those beside them, and tiles of long rows."""
    h, w = 37, 150
    x = small_integers(h, w).astype(np.float32)
    y, around = np.full_like(x, math.nan), np.pad(x, 1)
    launch(backend, cross_kernel, x, y, h, w, grid=(-(-h // tile[0]), -(-w // tile[1])), BM=tile[0], BN=tile[1])
    np.testing.assert_array_equal(y, x + around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:])


@eas.kernel
def filter_rows(x, w, y, W, K, STRIDE: eas.constexpr, OTHER: eas.constexpr, BN: eas.constexpr):
    row, cols = mk.program_id(0), mk.arange(0, BN)
    acc = mk.zeros([BN], x.dtype)
    for k in range(K):
        c = cols * STRIDE + k - K // 2
        acc += mk.load(x, row * W + c, (c >= 0) & (c < W), OTHER) * mk.load(w, k)
    mk.store(y, row * W + cols, acc, cols < W)


@pytest.mark.every_width
@pytest.mark.left_out(lambda backend: backend in METAL)  # ends of vectors
@pytest.mark.parametrize(("dtype", "stride", "other"), [("float32", 1, 0), ("float32", 1, 2), ("float32", 2, 0), ("float32", 3, 1), ("int32", 1, 0), ("float64", 1, 0), ("float16", 1, 1)])
def test_rows_of_every_length(backend, dtype, stride, other):
    """Windows around each element, in rows that end at every lane: one kernel for all of them."""
    block, rows = 256, 2
    for width in (*range(1, 12), *range(22, 72, 1 if stride == 1 else 5), *range(90, 140, 3), 255, 256):
        for size in (1, 3, 8):
            x, w = small_integers(rows, width).astype(dtype), small_integers(size).astype(dtype)
            y = np.full((rows, width), 77, dtype)
            launch(backend, filter_rows, x, w, y, width, size, grid=rows, STRIDE=stride, OTHER=other, BN=block)
            want = np.zeros((rows, width), dtype)
            for k in range(size):
                c = np.arange(width) * stride + k - size // 2
                inside = (c >= 0) & (c < width)
                want += np.where(inside, x[:, np.where(inside, c, 0)], np.array(other, dtype)) * w[k]
            np.testing.assert_array_equal(y, want, f"{width} wide, {size} taps")
