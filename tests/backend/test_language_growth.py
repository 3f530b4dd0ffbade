"""What users reached for: extents of buffers, x[i], private arrays, threadgroups of two axes, parts of blocks."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk

RNG = np.random.default_rng(7)


def floats(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


# --- extents ----------------------------------------------------------------------------------------


@eas.kernel
def shifted(x, y, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < len(x)) + x.numel() + 2 * y.shape[-1] + x.size, i < y.shape[0])


@eas.kernel
def row_sums(x, out, BLOCK: eas.constexpr):
    rows, cols = x.shape
    at = mk.arange(0, BLOCK)
    for r in range(rows):
        mk.store(out, r, mk.sum(mk.load(x, r * cols + at, at < cols)))


def test_extents_of_buffers(backend):
    for n in (5, 64, 100, 33):
        x, y = floats(n), np.zeros(n, np.float32)
        for _ in range(5):  # the later ones launch natively
            shifted(x, y, BLOCK=16, _grid=7)
        assert np.allclose(y, x + 4 * n)


def test_extents_of_rows_and_of_strided_views(backend):
    for m, n in ((3, 4), (5, 7), (2, 9)):
        x, out = floats(m, n), np.zeros(m, np.float32)
        for view in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
            for _ in range(5):
                out[:] = 0
                row_sums[1](view, out, BLOCK=16)
                assert np.allclose(out, x.sum(1), atol=1e-5)
    with pytest.raises(eas.ArgumentError, match=r"asks for x.shape\[0\] of 2 axes, but argument 'x' has shape \(2, 3, 4\)"):
        row_sums[1](floats(2, 3, 4), out, BLOCK=16)


# --- x[i] -------------------------------------------------------------------------------------------


@eas.kernel
def smoothed(x, y, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i < N:
        y[i] = x[i] * 0.5
        if i > 0:
            y[i] += x[i - 1] * 0.25
        if i < N - 1:
            y[i] += x[i + 1] * 0.25


@eas.kernel
def transposed(x, y, BX: eas.constexpr, BY: eas.constexpr):
    tile = mk.alloc_tg((BY, BX + 1), mk.f32)
    tx, ty = mk.tid(0, BX), mk.tid(0, BY, axis=1)
    col, row = mk.program_id(0) * BX + tx, mk.program_id(1) * BY + ty
    rows, cols = x.shape
    if (row < rows) & (col < cols):
        tile[ty, tx] = x[row, col]
    mk.barrier()
    number = mk.local_id(1) * BX + mk.local_id(0)
    r, c = number % BY, number // BY
    to_row, to_col = mk.program_id(0) * BX + c, mk.program_id(1) * BY + r
    if (to_row < cols) & (to_col < rows):
        y[to_row, to_col] = tile[r, c]


def test_elements_in_brackets(backend):
    x, y = floats(70), np.zeros(70, np.float32)
    smoothed(x, y, 70, BLOCK=32)
    padded = np.pad(x, 1)
    assert np.allclose(y, 0.5 * x + 0.25 * padded[:-2] + 0.25 * padded[2:], atol=1e-6)


def test_threadgroups_of_two_axes(backend):
    x = floats(21, 37)
    for source in (x, np.asfortranarray(x)):
        y = np.zeros((37, 21), np.float32)
        transposed(source, y, BX=8, BY=4, _grid=(5, 6))
        assert np.array_equal(y, x.T)


@eas.kernel
def numbered(out, W, H, D, B: eas.constexpr):
    z, y, x = mk.tid(0, 2, axis=2), mk.tid(1, 4, axis=1), mk.tid(0, 4)
    x += mk.program_id(0) * 4
    y += mk.program_id(1) * 3 - 1
    z += mk.program_id(2) * 2
    if (x < W) & (y < H) & (z < D):
        mk.store(out, (z * H + y) * W + x, 100 * z + 10 * y + x)


def test_threadgroups_of_three_axes_and_their_grid(backend):
    out = np.zeros((3, 5, 6), np.int32)
    for _ in range(4):
        out[:] = -1
        numbered(out, 6, 5, 3, B=1)
        z, y, x = np.indices(out.shape)
        assert np.array_equal(out, 100 * z + 10 * y + x)
    k = numbered.compile(out, 6, 5, 3, B=1)
    assert (k.tptg, k.block_size) == ((4, 3, 2), 4)


# --- private arrays ---------------------------------------------------------------------------------


@eas.kernel
def medians(x, y, N, BLOCK: eas.constexpr, TAPS: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    window = mk.local(TAPS)
    if i < N:
        for k in mk.range(TAPS):
            window[k] = x[mk.clamp(i + k - TAPS // 2, 0, N - 1)]
        for a in mk.range(1, TAPS):  # insertion sort, by runtime indices
            value, b = window[a], a - 1
            while (b >= 0) and (window[b] > value):
                window[b + 1] = window[b]
                b -= 1
            window[b + 1] = value
        y[i] = window[TAPS // 2]


@eas.kernel
def two_rows(x, BLOCK: eas.constexpr):
    i = mk.tid(0, BLOCK)
    table = mk.local((2, 3), mk.i32)
    for r in range(2):
        for c in range(3):
            table[r, c] = 10 * i + 3 * r + c
    last = table + 3
    mk.store(x, i, mk.load(last, i % 3) - mk.load(table, i % 3))


def test_private_arrays(backend):
    x, y = floats(75), np.zeros(75, np.float32)
    medians(x, y, 75, BLOCK=32, TAPS=5)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, 2, mode="edge"), 5)
    assert np.array_equal(y, np.median(windows, axis=1))
    out = np.zeros(32, np.int32)
    two_rows(out, BLOCK=32, _grid=1)
    assert (out == 3).all()


def test_private_arrays_need_their_threads():
    @eas.kernel
    def early(x, BLOCK: eas.constexpr):
        mk.local(4)
        mk.store(x, mk.tid(0, BLOCK), 1.0)

    @eas.kernel
    def late(x, BLOCK: eas.constexpr):
        i = mk.tid(0, BLOCK)
        mk.local(4)
        mk.store(x, i + mk.tid(0, 2, axis=1), 1.0)

    @eas.kernel
    def no_axis(x):
        mk.store(x, mk.tid(0, 8) + mk.tid(1, 8), 1.0)

    x = floats(32)
    with pytest.raises(eas.ModeMismatch, match="their number is not known yet"):
        early(x, BLOCK=8, _grid=1)
    with pytest.raises(eas.ModeMismatch, match=r"tid\(0, 2, axis=1\) changes the number of threads after mk.local"):
        late(x, BLOCK=8, _grid=1)
    with pytest.raises(eas.ModeMismatch, match=r"for axis 1 write mk.tid\(0, 8, axis=1\)"):
        no_axis(x, _grid=1)


# --- elements and parts of blocks -------------------------------------------------------------------


@eas.kernel
def picked(x, y, at, M: eas.constexpr, N: eas.constexpr):
    r, c = mk.arange(0, M), mk.arange(0, N)
    block = mk.load(x, r[:, None] * N + c[None, :])
    line = mk.load(x, c)
    mk.store(y, 0, line[at])
    mk.store(y, 1, line[-1] + block[1, at])
    mk.store(y, 2 + c, block[at])
    mk.store(y, 2 + N + r, block[:, 2])
    small = block[1:3, ::2]
    mk.static_assert(small.shape == (2, (N + 1) // 2))
    mk.store(y, 2 + N + M, mk.sum(small))
    mk.store(y, 3 + N + M + mk.arange(0, 3), line[2:5] * line[:3] + line[::-1][:3])
    mk.store(y, 6 + N + M + c, line[(c + at) % N])


def test_elements_and_parts_of_blocks(backend):
    m, n = 4, 7
    x, y = floats(m, n), np.zeros(6 + 2 * n + m, np.float32)
    for at in (0, 3):
        picked(x, y, at, M=m, N=n, _grid=1)
        line = x[0]
        want = [[line[at]], [line[-1] + x[1, at]], x[at], x[:, 2], [x[1:3, ::2].sum()], line[2:5] * line[:3] + line[::-1][:3], line[(np.arange(n) + at) % n]]
        assert np.allclose(y, np.concatenate(want), atol=1e-6)


def test_parts_say_nothing_about_the_grid():
    @eas.kernel
    def halves(x, y, N, BLOCK: eas.constexpr):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        v = mk.load(x, i, i < N)
        mk.store(y, i, v + mk.sum(v[: BLOCK // 2]), i < N)

    x, y = floats(16), np.zeros(16, np.float32)
    halves(x, y, 16, BLOCK=8)
    assert np.allclose(y.reshape(2, 8), x.reshape(2, 8) + x.reshape(2, 8)[:, :4].sum(1, keepdims=True), atol=1e-6)


def test_what_brackets_refuse():
    def error(body):
        @eas.kernel
        def kernel(x, n, B: eas.constexpr):
            body(x, n, mk.load(x, mk.arange(0, B)))
            mk.store(x, 0, 1.0)

        with pytest.raises(eas.CompileError) as raised:
            kernel.compile(floats(8), 3, B=8)
        return str(raised.value)

    def assign(x, n, v):
        v[0] = 1.0

    assert "its elements cannot be assigned" in error(assign)
    assert "index 8 of an axis of 8 elements" in error(lambda x, n, v: v[8])
    assert "without elements" in error(lambda x, n, v: v[3:3])
    assert "must be known when the kernel is traced" in error(lambda x, n, v: v[:n])
    assert "a step of 0" in error(lambda x, n, v: v[::0])
    assert "an index with 2 axes of a block with 1" in error(lambda x, n, v: v[1, 2])
    assert "index with integers" in error(lambda x, n, v: v[mk.load(x, 0)])
    assert "indexed with integers or blocks" in error(lambda x, n, v: x[1:3])


# --- tables, payloads, vectors, ranges ----------------------------------------------------------------

NORMAL4 = np.array([-1.0, -0.7, -0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.6, 0.7, 1.0], np.float32)
SOBEL = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.int32)
PRIMES = [2, 3, 5, 7, 11]


@eas.kernel
def tables(codes, y, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    code = mk.load(codes, i, i < N)
    low, high = NORMAL4[code & 15], NORMAL4[code >> 4]
    prime = PRIMES[mk.program_id(0) % 5]
    mk.store(y, i, low + 10 * high + prime + SOBEL[code % 3, mk.program_id(0) % 3], i < N)


@eas.kernel
def table_blocks(x, y, B: eas.constexpr):
    r, c = mk.arange(0, 3)[:, None], mk.arange(0, 3)[None, :]
    mk.store(y, 3 * r + c, SOBEL * mk.load(x, 3 * r + c))
    mk.store(y, 9 + mk.arange(0, 5), mk.load(x, mk.arange(0, 5)) + PRIMES)
    mk.store(y, 14 + mk.arange(0, 16), mk.to_tensor(NORMAL4))


@eas.kernel
def threads_of_a_table(y, BLOCK: eas.constexpr):
    i = mk.tid(0, BLOCK)
    y[i] = NORMAL4[i % 16]


def test_constant_tables(backend):
    codes = RNG.integers(0, 256, 45, dtype=np.uint8)
    y = np.zeros(45, np.float32)
    tables(codes, y, 45, BLOCK=16)
    program = np.arange(45) // 16
    want = NORMAL4[codes & 15] + 10 * NORMAL4[codes >> 4] + np.array(PRIMES)[program % 5] + SOBEL[codes % 3, program % 3]
    assert np.allclose(y, want, atol=1e-5)
    x, y = floats(9), np.zeros(30, np.float32)
    table_blocks[1](x, y, B=1)
    assert np.allclose(y, np.concatenate([SOBEL.ravel() * x, x[:5] + PRIMES, NORMAL4]))
    y = np.zeros(32, np.float32)
    threads_of_a_table[1](y, BLOCK=32)
    assert np.array_equal(y, np.tile(NORMAL4, 2))


@eas.kernel
def chosen_sums(x, y, N, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    sums = [mk.load(x, i), mk.load(x, i) * 2, 3.0]
    for k in range(N):
        mk.store(y, k * BLOCK + i, sums[k])


@eas.kernel
def ordered(keys, payload, out, moved, B: eas.constexpr):
    i = mk.arange(0, B)
    value, place, other = mk.sort(mk.load(keys, i), payload=(mk.load(payload, i), i), descending=True)
    mk.store(out, i, value)
    mk.store(moved, i, place + 100 * other)


@eas.kernel
def products(a, v, y, M: eas.constexpr, K: eas.constexpr):
    r, k = mk.arange(0, M), mk.arange(0, K)
    matrix, vector = mk.load(a, r[:, None] * K + k[None, :]), mk.load(v, k)
    column = matrix @ vector
    mk.store(y, r, mk.dot(matrix, vector, column))
    mk.store(y, M + k, mk.load(v, r) @ matrix)
    mk.store(y, M + K, vector @ vector)


@eas.kernel
def counted(y, N, STEP):
    total = 0
    for place, i in enumerate(range(2, N, STEP), 10):
        mk.store(y, place - 10, 1000 * place + i)
        total += i
    for i in reversed(range(N)):
        mk.store(y, 20, i)
    for i, j in zip(range(N), range(N, 0, -2)):  # noqa: B905
        mk.store(y, 30 + i, 100 * i + j)
    for place, (i, j) in enumerate(zip(range(3), reversed(range(1, N)))):  # noqa: B905
        mk.store(y, 50 + place, 100 * i + j)
    mk.store(y, 21, total)


def test_lists_of_values_payloads_and_vectors(backend):
    x, y = floats(8), np.zeros(24, np.float32)
    chosen_sums[1](x, y, 3, BLOCK=8)
    assert np.allclose(y, np.concatenate([x, 2 * x, np.full(8, 3)]))
    keys, payload = RNG.permutation(13).astype(np.float32), RNG.integers(0, 50, 13, dtype=np.int32)
    out, moved = np.zeros(13, np.float32), np.zeros(13, np.int32)
    ordered[1](keys, payload, out, moved, B=13)
    order = np.argsort(-keys)
    assert np.array_equal(out, keys[order])
    assert np.array_equal(moved, payload[order] + 100 * order)
    a, v, y = floats(5, 9), floats(9), np.zeros(15, np.float32)
    products[1](a, v, y, M=5, K=9)
    assert np.allclose(y, np.concatenate([2 * a @ v, v[:5] @ a, [v @ v]]), atol=1e-5)


def test_enumerate_reversed_and_zip_of_runtime_ranges(backend):
    for n, step in ((9, 3), (8, 2), (1, 1)):
        y = np.zeros(80, np.int32)
        counted[1](y, n, step)
        want = np.zeros(80, np.int32)
        for place, i in enumerate(range(2, n, step), 10):
            want[place - 10] = 1000 * place + i
        for i, j in zip(range(n), range(n, 0, -2), strict=False):
            want[30 + i] = 100 * i + j
        for place, (i, j) in enumerate(zip(range(3), reversed(range(1, n)), strict=False)):
            want[50 + place] = 100 * i + j
        want[21] = sum(range(2, n, step))
        assert np.array_equal(y, want)


def test_what_tables_and_ranges_refuse():
    def error(body):
        @eas.kernel
        def kernel(x, n):
            body(x, n)
            mk.store(x, 0, 1.0)

        with pytest.raises(eas.CompileError) as raised:
            kernel.compile(floats(8), 3)
        return str(raised.value)

    large = np.zeros(300, np.float32)

    def too_large(x, n):
        return large[n]

    def rows(x, n):
        return SOBEL[n]

    def words(x, n):
        return ["a", "b"][n]

    def mixed(x, n):
        for _ in zip(range(n), [1, 2]):  # noqa: B905
            pass

    assert "a table of 300 elements" in error(too_large)
    assert "1 runtime indices of a table of shape (3, 3)" in error(rows)
    assert "a table has numbers" in error(words)
    assert "zip of a runtime range and a list" in error(mixed)
