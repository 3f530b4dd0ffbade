"""Thread mode: ids, threadgroup memory, barriers, divergence, and arithmetic per thread."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.testing import assert_close
from tests.backend.formats import assert_identical, buffer, contents, edges, poison, sample, wrapped
from tests.backend.launches import launch, need_dtype, op_names

COVERS = {"tid", "local_id", "lane_id", "sg_id", "alloc_tg", "barrier"}


@eas.kernel
def ids_kernel(y, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    group = mk.program_id(0) + mk.program_id(1) * mk.num_programs(0)
    at = (group * BLOCK + t) * 8
    ids = (t, mk.tid(10, 10 + BLOCK), mk.local_id(0), mk.local_id(1), mk.local_id(2), mk.lane_id(), mk.sg_id(), mk.program_id(1))
    for k, value in enumerate(ids):
        mk.store(y, at + k, value)


@pytest.mark.parametrize("block", [1, 7, 32, 96, 100])
def test_every_thread_knows_where_it_is(backend, block):
    y = np.full((6, block, 8), -1, np.int32)
    launch(backend, ids_kernel, y, grid=(3, 2), BLOCK=block)
    assert {"tid", "local_id", "lane_id", "sg_id"} <= op_names(ids_kernel, y, BLOCK=block)
    for group in range(6):
        want = [[t, 10 + t, t, 0, 0, t % 32, t // 32, group // 3] for t in range(block)]
        np.testing.assert_array_equal(y[group], want)


@eas.kernel
def reversed_kernel(x, y, n, BLOCK: eas.constexpr):
    """Each threadgroup turns its part around through threadgroup memory."""
    t = mk.tid(0, BLOCK)
    first = mk.program_id(0) * BLOCK
    count = mk.minimum(n - first, BLOCK)
    tile = mk.alloc_tg(BLOCK, x.dtype)
    if t < count:
        mk.store(tile, t, mk.load(x, first + t))
    mk.barrier()
    mk.store(y, first + t, mk.load(tile, count - 1 - t, t < count), t < count)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_threadgroup_memory_holds_every_dtype(backend, dtype):
    need_dtype(backend, dtype)
    values = edges(dtype) + sample(dtype, 70, 0)
    n, block = len(values), 64
    y = poison(n + 1, dtype)
    args = (buffer(values, dtype), y, n)
    launch(backend, reversed_kernel, *args, grid=-(-n // block), BLOCK=block)
    assert {"alloc_tg", "barrier"} <= op_names(reversed_kernel, *args, BLOCK=block)
    want = [v for i in range(0, n, block) for v in values[i : i + block][::-1]]
    assert_identical(contents(y)[:-1], contents(buffer(want, dtype)), dtype)
    assert_identical(contents(y)[-1:], contents(poison(1, dtype)), dtype)


@eas.kernel
def collatz_kernel(x, steps, N, BLOCK: eas.constexpr):
    """Every thread loops as long as its own number needs, and returns early past N."""
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i >= N:
        return
    value = mk.load(x, i)
    count = 0
    while value != 1:
        odd = value % 2 == 1
        if odd:
            value = 3 * value + 1
        if not odd:
            value = value // 2
        count += 1
        if count == 50:
            break
    mk.store(steps, i, count)


@pytest.mark.parametrize("n", [1, 33, 100])
def test_threads_diverge(backend, n):
    x = np.arange(1, n + 1, dtype=np.int32)
    steps = np.full(n, -1, np.int32)
    launch(backend, collatz_kernel, x, steps, n, BLOCK=64)

    def collatz(v: int) -> int:
        count = 0
        while v != 1 and count < 50:
            v, count = (v // 2 if v % 2 == 0 else 3 * v + 1), count + 1
        return count

    assert steps.tolist() == [collatz(v) for v in range(1, n + 1)]


@eas.kernel
def shared_histogram_kernel(x, counts, N, BLOCK: eas.constexpr, BINS: eas.constexpr):
    t = mk.tid(0, BLOCK)
    i = mk.program_id(0) * BLOCK + t
    local = mk.alloc_tg(BINS, mk.i32)
    if t < BINS:
        mk.store(local, t, 0)
    mk.barrier()
    mk.atomic_add(local, mk.load(x, i, i < N), 1, mask=i < N)
    mk.barrier()
    if t < BINS:
        mk.atomic_add(counts, t, mk.load(local, t))


@pytest.mark.parametrize("n", [1, 65, 200])
def test_atomics_on_threadgroup_memory(backend, n):
    x = np.random.default_rng(n).integers(0, 7, n, dtype=np.int32)
    counts = np.zeros(7, np.int32)
    launch(backend, shared_histogram_kernel, x, counts, n, BLOCK=64, BINS=7)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=7))


@eas.kernel
def neighbours_kernel(x, y, N, BLOCK: eas.constexpr):
    """A barrier makes device writes of the threadgroup visible as well."""
    t = mk.tid(0, BLOCK)
    i = mk.program_id(0) * BLOCK + t
    mk.store(y, i, mk.load(x, i, i < N) * 2, i < N)
    mk.barrier()
    last = mk.minimum(BLOCK, N - mk.program_id(0) * BLOCK)
    other = mk.load(y, mk.program_id(0) * BLOCK + (t + 1) % mk.maximum(last, 1), t < last)
    mk.barrier()
    mk.store(y, i, other + 1, i < N)


@pytest.mark.parametrize("n", [1, 40, 100])
def test_barriers_order_device_memory(backend, n):
    x = np.arange(n, dtype=np.int32)
    y = np.zeros(n, np.int32)
    launch(backend, neighbours_kernel, x, y, n, BLOCK=32)
    want = np.concatenate([np.roll(x[i : i + 32] * 2, -1) + 1 for i in range(0, n, 32)])
    np.testing.assert_array_equal(y, want)


@eas.kernel
def polynomial_kernel(x, y, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    value = mk.load(x, i, i < N)
    mk.store(y, i, value * value - value // 3 + value % 7, i < N)


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.is_int], ids=str)
def test_arithmetic_of_threads_wraps(backend, dtype):
    values = edges(dtype) + sample(dtype, 90, 0)
    y = poison(len(values) + 1, dtype)
    launch(backend, polynomial_kernel, buffer(values, dtype), y, len(values), BLOCK=64)
    want = [wrapped(v * v - v // 3 + v % 7, dtype) for v in values]
    assert_identical(contents(y)[:-1], contents(buffer(want, dtype)), dtype)


@eas.kernel
def row_norm_kernel(x, y, cols, BLOCK: eas.constexpr):
    """A threadgroup per row: strided loop, simdgroup sums, then a sum over the simdgroups."""
    t, row = mk.tid(0, BLOCK), mk.program_id(0)
    partial = 0.0
    for c in range(t, cols, BLOCK):
        v = mk.load(x, row * cols + c)
        partial += v * v
    sums = mk.alloc_tg(32, mk.f32)
    partial = mk.simd_sum(partial)
    if mk.lane_id() == 0:
        mk.store(sums, mk.sg_id(), partial)
    mk.barrier()
    total = 0.0
    for s in range(BLOCK // 32):
        total += mk.load(sums, s)
    scale = mk.rsqrt(total)
    for c in range(t, cols, BLOCK):
        mk.store(y, row * cols + c, mk.load(x, row * cols + c) * scale)


@pytest.mark.parametrize("cols", [1, 33, 200])
def test_rows_are_normalised_by_threadgroups(backend, cols):
    x = np.random.default_rng(cols).standard_normal((3, cols)).astype(np.float32)
    y = np.zeros_like(x)
    launch(backend, row_norm_kernel, x, y, cols, grid=3, BLOCK=64)
    assert_close(y, x / np.sqrt((x.astype(np.float64) ** 2).sum(axis=1, keepdims=True)), "f32", scale=8)


@eas.kernel
def filter_kernel(x, w, out, H, W, K, THREADS: mk.constexpr):
    i = mk.program_id(0) * THREADS + mk.tid(0, THREADS)
    if i < H * W:
        row, column = i // W, i % W
        total = 0.0
        for a in range(K):
            for b in range(K):
                y, z = row + a - K // 2, column + b - K // 2
                if y >= 0 and y < H and z >= 0 and z < W:
                    total += mk.load(x, y * W + z) * mk.load(w, a * K + b)
        mk.store(out, i, total)


@pytest.mark.every_width
def test_taps_under_a_condition(backend):
    """A weight that no pixel of a border asks for is not looked at there, whatever it is."""
    h, w, k = 13, 23, 3
    x = np.random.default_rng(0).integers(-9, 9, (h, w)).astype(np.float32)
    weights = np.array([[np.inf, 2, 3], [4, 5, 6], [7, 8, np.nan]], np.float32)
    out = np.zeros((h, w), np.float32)
    launch(backend, filter_kernel, x, weights, out, h, w, k, grid=mk.cdiv(h * w, 128), THREADS=128)
    want = np.zeros((h, w), np.float32)
    with np.errstate(invalid="ignore"):
        for a in range(k):
            for b in range(k):
                rows, columns = slice(max(0, 1 - a), min(h, h + 1 - a)), slice(max(0, 1 - b), min(w, w + 1 - b))
                moved = x[rows.start + a - 1 : rows.stop + a - 1, columns.start + b - 1 : columns.stop + b - 1]
                want[rows, columns] += moved * weights[a, b]
    np.testing.assert_array_equal(out, want)


@eas.kernel
def stride_loop_kernel(x, out, counts, n, first, end, T: mk.constexpr):
    """The threads of all groups step through memory together; each has trips of its own."""
    t = mk.tid(0, T)
    group = mk.program_id(0)
    total, trips = 0.0, 0
    for i in range(group * T + t, n, mk.num_programs(0) * T):
        if i % 3 == 0:
            total += mk.load(x, i)
        trips += 1
    last = 0
    for i in range(first + t, end, T):
        last = end - i
    at = group * T + t
    mk.store(out, at, total)
    mk.store(counts, at * 2, trips)
    mk.store(counts, at * 2 + 1, last)


@pytest.mark.parametrize(("n", "first", "end"), [(1000, 0, 100), (37, 2**31 - 100, 2**31 - 1), (0, -(2**31), -(2**31) + 33), (256, 5, 5)])
def test_loops_that_threads_step_through_together(backend, n, first, end):
    threads, groups = 32, 3
    x = np.random.default_rng(0).integers(0, 9, max(n, 1)).astype(np.float32)
    out, counts = np.ones(threads * groups, np.float32), np.ones((threads * groups, 2), np.int32)
    launch(backend, stride_loop_kernel, x, out, counts, n, first, end, grid=groups, T=threads)
    for at in range(threads * groups):
        mine = range(at, n, threads * groups)
        rest = range(first + at % threads, end, threads)
        assert out[at] == sum(x[i] for i in mine if i % 3 == 0)
        assert list(counts[at]) == [len(mine), end - rest[-1] if len(rest) else 0]
