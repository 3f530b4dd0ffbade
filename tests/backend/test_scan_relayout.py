"""Scans in registers, counters in copies, transposed blocks: extents around the width of a vector."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch

WAYS = ((0, False), (0, True), (1, False), (1, True))  # axis, reverse


@eas.kernel
def scan_kernel(x, sums, largest, M: mk.constexpr, N: mk.constexpr):
    offs = mk.arange(0, M)[:, None] * N + mk.arange(0, N)[None, :]
    values = mk.load(x, offs)
    for k, (axis, reverse) in enumerate(WAYS):
        mk.store(sums, k * M * N + offs, mk.cumsum(values, axis, reverse=reverse))
        mk.store(largest, k * M * N + offs, mk.associative_scan(values, axis, mk.maximum, reverse=reverse))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int32, np.int64])
@pytest.mark.parametrize("shape", [(3, 5), (5, 8), (2, 33), (9, 64)])
def test_scans(backend, dtype, shape):
    x = np.random.default_rng(0).integers(-4, 5, shape).astype(dtype)
    sums, largest = (np.zeros((len(WAYS), *shape), dtype) for _ in range(2))
    launch(backend, scan_kernel, x, sums, largest, grid=1, M=shape[0], N=shape[1])
    for k, (axis, reverse) in enumerate(WAYS):
        ordered = np.flip(x, axis) if reverse else x
        for got, want in ((sums[k], np.cumsum(ordered, axis, dtype)), (largest[k], np.maximum.accumulate(ordered, axis))):
            np.testing.assert_array_equal(got, np.flip(want, axis) if reverse else want)


BINS = (3, 128, 256)


@eas.kernel
def count_kernel(x, counts, n, BLOCK: mk.constexpr):
    offs = mk.arange(0, BLOCK)
    mask = offs < n
    first = 0
    for bins in BINS:
        mk.store(counts, first + mk.arange(0, bins), mk.histogram(mk.load(x, offs, mask), bins, mask=mask))
        first += bins


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.uint32, np.int64])
@pytest.mark.parametrize(("n", "block"), [(0, 64), (30, 33), (2999, 3000), (3000, 4096)])
def test_histogram_of_masked_keys(backend, dtype, n, block):
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(
        max(info.min, -9), min(info.max, 300), block, dtype, endpoint=True
    )
    x[: n // 3] = 1
    counts = np.zeros(sum(BINS), np.int32)
    launch(backend, count_kernel, x, counts, n, grid=1, BLOCK=block)
    keys = x[:n].astype(np.int64)
    want = [np.bincount(keys[(keys >= 0) & (keys < bins)], minlength=bins) for bins in BINS]
    np.testing.assert_array_equal(counts, np.concatenate(want))


@eas.kernel
def permute_kernel(x, y, A: mk.constexpr, B: mk.constexpr, C: mk.constexpr):
    a, b, c = mk.arange(0, A), mk.arange(0, B), mk.arange(0, C)
    values = mk.load(x, (a[:, None, None] * B + b[None, :, None]) * C + c[None, None, :])
    moved = mk.permute(values, (2, 0, 1))
    mk.store(y, (c[:, None, None] * A + a[None, :, None]) * B + b[None, None, :], moved + moved)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8])
@pytest.mark.parametrize("shape", [(3, 16, 8), (2, 9, 12), (1, 5, 33), (2, 3, 64)])
def test_last_axis_moves(backend, dtype, shape):
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    y = np.zeros((shape[2], shape[0], shape[1]), dtype)
    launch(backend, permute_kernel, x, y, grid=1, A=shape[0], B=shape[1], C=shape[2])
    np.testing.assert_array_equal(y, 2 * x.transpose(2, 0, 1))


@eas.kernel
def turning_kernel(x, y, steps, N: mk.constexpr):
    offs = mk.arange(0, N)[:, None] * N + mk.arange(0, N)[None, :]
    values = mk.load(x, offs)
    for _ in range(steps):
        values = mk.trans(values)
    mk.store(y, offs, values)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_block_transposed_in_a_loop(backend, steps):
    x = np.arange(144, dtype=np.float32).reshape(12, 12)
    y = np.zeros_like(x)
    launch(backend, turning_kernel, x, y, steps, grid=1, N=12)
    np.testing.assert_array_equal(y, x.T if steps % 2 else x)


@eas.kernel
def fold_kernel(x, out, n, BLOCK: mk.constexpr, SUM: mk.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    values = mk.load(x, offs, offs < n, other=0)
    mk.store(out, mk.program_id(0), mk.sum(values) if SUM else mk.max(values))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8])
@pytest.mark.parametrize("n", [1, 16384, 16390, 49152 - 77])
@pytest.mark.parametrize("is_sum", [True, False])
def test_long_folds_visit_every_element_once(backend, dtype, n, is_sum):
    block = 32768
    x = np.random.default_rng(0).integers(0, 5, n).astype(dtype)
    x[-1] = 99  # the last one is the largest
    got = np.zeros(-(-n // block), np.int32 if dtype is np.int8 and is_sum else dtype)
    launch(backend, fold_kernel, x, got, n, grid=got.size, BLOCK=block, SUM=is_sum)
    padded = np.zeros(got.size * block, dtype)
    padded[:n] = x
    rows = padded.reshape(got.size, block)
    np.testing.assert_array_equal(got, rows.sum(1, dtype=got.dtype) if is_sum else rows.max(1))


@eas.kernel
def running_kernel(x, y, z, n, N: mk.constexpr, BLOCK: mk.constexpr):
    row = mk.program_id(0) * n
    cols = mk.arange(0, BLOCK)
    values = mk.load(x, row + cols, cols < n)
    sums = mk.cumsum(values * 2)
    mk.store(y, row + cols, sums + values, cols < n)
    mk.store(z, row + cols, mk.cumsum(sums), cols < n)  # a scan of a scan, in one loop
    mk.atomic_add(z, row, mk.max(sums))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
@pytest.mark.parametrize(("n", "block"), [(1, 1), (5, 8), (31, 33), (64, 64), (100, 128), (130, 300)])
def test_scans_share_the_loop_of_their_loads_and_stores(backend, dtype, n, block):
    x = np.random.default_rng(0).integers(0, 5, (3, n)).astype(dtype)
    y, z = np.zeros_like(x), np.zeros_like(x)
    launch(backend, running_kernel, x, y, z, n, grid=3, N=n, BLOCK=block)
    sums = np.cumsum(x * 2, 1, dtype)
    np.testing.assert_array_equal(y, sums + x)
    want = np.cumsum(sums, 1, dtype)
    want[:, 0] += sums.max(1)
    np.testing.assert_array_equal(z, want)


@eas.kernel
def count_two_kernel(x, counts, sums, M: mk.constexpr, N: mk.constexpr, BINS: mk.constexpr):
    offs = mk.arange(0, M)[:, None] * N + mk.arange(0, N)[None, :]
    keys = mk.load(x, offs)
    bins = mk.arange(0, BINS)
    mk.store(counts, bins, mk.histogram(keys, BINS) + mk.histogram(keys // 2, BINS, mask=keys >= 4))
    mk.store(sums, 0, mk.sum(mk.sum(keys, 1), 0))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 64), (5, 70)])
def test_histograms_share_the_loop_of_their_keys(backend, shape):
    x = np.random.default_rng(0).integers(-3, 12, shape).astype(np.int32)
    counts, sums = np.zeros(7, np.int32), np.zeros(1, np.int32)
    launch(backend, count_two_kernel, x, counts, sums, grid=1, M=shape[0], N=shape[1], BINS=7)
    large = x[x >= 4] // 2
    want = [np.sum(x == k) + np.sum(large == k) for k in range(7)]
    np.testing.assert_array_equal(counts, want)
    assert sums[0] == x.sum()


def _better(a, i, b, j):
    """The combine function of argmax."""
    first = (a > b) | ((a == b) & (i < j)) | (mk.isnan(a) & (~mk.isnan(b) | (i < j)))
    return mk.where(first, a, b), mk.where(first, i, j)


@eas.kernel
def running_best_kernel(x, y, N: eas.constexpr):
    i = mk.arange(0, N)
    _, at = mk.associative_scan((mk.load(x, i), i), 0, _better)
    mk.store(y, i, at)


@pytest.mark.parametrize("n", [200, 512])
def test_place_of_the_best_so_far(backend, n):
    """A function that reductions know the neutral elements of, as a scan."""
    x = np.random.default_rng(5).integers(0, 50, n).astype(np.float32)
    y = np.full(n, -1, np.int32)
    launch(backend, running_best_kernel, x, y, grid=1, N=n)
    np.testing.assert_array_equal(y, [int(np.argmax(x[: k + 1])) for k in range(n)])


@eas.kernel
def scanned_sums_kernel(x, out, AXIS: eas.constexpr, REVERSE: eas.constexpr, SHAPE: eas.constexpr):
    n = mk.arange(0, SHAPE[0])[:, None] * SHAPE[1] + mk.arange(0, SHAPE[1])[None, :]
    sums = mk.sum(mk.load(x, n), AXIS)
    mk.store(out, mk.arange(0, SHAPE[1 - AXIS]), mk.cumsum(sums, 0, reverse=REVERSE))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(4, 64), (3, 7), (33, 5)], ids=str)
def test_what_is_scanned_may_be_a_reduction(backend, shape, axis, reverse):
    """On Metal it was to be made in the layout of the scan, which has another rank."""
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
    out = np.zeros(shape[1 - axis], np.float32)
    launch(backend, scanned_sums_kernel, x, out, grid=1, AXIS=axis, REVERSE=reverse, SHAPE=shape)
    sums = x.sum(axis=axis)
    np.testing.assert_array_equal(out, sums[::-1].cumsum()[::-1] if reverse else sums.cumsum())
