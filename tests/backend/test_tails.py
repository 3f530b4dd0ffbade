"""Blocks longer than what they cover: lanes behind the bound count as the mask says, whatever `other` is."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import walk
from eas.schedule.cpu_steps import schedule
from eas.schedule.target import AVX2
from tests.backend.launches import METAL, launch

pytestmark = pytest.mark.every_width

COLS = (0, 1, 31, 32, 33, 100, 256)


def rows(cols, dtype=np.float32):
    return np.random.default_rng(cols).integers(-9, 10, (3, max(cols, 1))).astype(dtype)


@eas.kernel
def fold_kernel(x, out, n_cols, OTHER: eas.constexpr, BLOCK: eas.constexpr):
    cols = mk.arange(0, BLOCK)
    values = mk.load(x, mk.program_id(0) * n_cols + cols, cols < n_cols, other=OTHER)
    at = out + 4 * mk.program_id(0)
    mk.store(at, mk.sum(values))
    mk.store(at + 1, mk.max(values))
    mk.store(at + 2, mk.min(values * 2))
    mk.store(at + 3, mk.sum(mk.where(cols < n_cols, values - mk.max(values), 5)))


@pytest.mark.left_out(lambda backend, dtype: backend in METAL and dtype in (np.float64, np.int64))  # Metal has no f64, and i64 adds nothing here
@pytest.mark.parametrize("cols", COLS)
@pytest.mark.parametrize("other", [0, 3, -20, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64, np.int64], ids=lambda d: d.__name__)
def test_reductions_count_every_lane_behind_the_bound(backend, cols, other, dtype):
    x, block = rows(cols, dtype), 256
    out = np.zeros((3, 4), dtype)
    launch(backend, fold_kernel, x, out, cols, grid=3, OTHER=dtype(other).item(), BLOCK=block)
    padded = np.full((3, block), other, dtype)
    padded[:, :cols] = x[:, :cols]
    rest = 5 * (block - cols)
    want = [padded.sum(1), padded.max(1), 2 * padded.min(1), (padded - padded.max(1, keepdims=True))[:, :cols].sum(1) + rest]
    np.testing.assert_allclose(out, np.stack(want, 1), rtol=1e-6)


@eas.kernel
def cross_kernel(x, y, whole, n_cols, m_cols, BLOCK: eas.constexpr):
    """`centred` ends early for the first reader, is stored under another mask, then everywhere."""
    start = mk.program_id(0) * n_cols
    cols = mk.arange(0, BLOCK)
    values = mk.load(x, start + cols, cols < n_cols, other=2)
    centred = mk.sqrt(mk.abs(values - mk.max(values)))
    scale = mk.sum(centred)
    mk.store(y, mk.program_id(0) * m_cols + cols, centred * scale, cols < m_cols)
    mk.store(whole, mk.program_id(0) * BLOCK + cols, centred)


@pytest.mark.parametrize("cols", COLS)
@pytest.mark.parametrize("kept", [1, 64, 200, 256])
def test_blocks_that_end_early_are_whole_for_other_masks(backend, cols, kept):
    x, block = rows(cols), 256
    y, whole = np.zeros((3, kept), np.float32), np.zeros((3, block), np.float32)
    launch(backend, cross_kernel, x, y, whole, cols, kept, grid=3, BLOCK=block)
    padded = np.full((3, block), 2, np.float32)
    padded[:, :cols] = x[:, :cols]
    centred = np.sqrt(np.abs(padded - padded.max(1, keepdims=True)))
    np.testing.assert_allclose(whole, centred, rtol=1e-6)
    np.testing.assert_allclose(y, (centred * centred.sum(1, keepdims=True))[:, :kept], rtol=1e-4)


@eas.kernel
def product_kernel(x, out, n_cols, OTHER: eas.constexpr, BLOCK: eas.constexpr):
    cols = mk.arange(0, BLOCK)
    values = mk.load(x, mk.program_id(0) * n_cols + cols, cols < n_cols, other=OTHER)
    mk.store(out, mk.program_id(0), mk.reduce(values, 0, lambda a, b: a * b))
    mk.store(out, 3 + mk.program_id(0), mk.argmax(values))


@pytest.mark.parametrize("cols", [1, 33, 100])
def test_reductions_without_a_shortcut_visit_every_lane(backend, cols):
    x, block = np.where(rows(cols) > 0, 1, -1).astype(np.float32), 128
    out = np.zeros(6, np.float32)
    launch(backend, product_kernel, x, out, cols, grid=3, OTHER=-1.0, BLOCK=block)
    padded = np.full((3, block), -1, np.float32)
    padded[:, :cols] = x
    np.testing.assert_array_equal(out, np.concatenate([padded.prod(1), padded.argmax(1)]))


@eas.kernel
def plane_kernel(x, out, n_rows, n_cols, ROWS: eas.constexpr, BLOCK: eas.constexpr):
    r, c = mk.arange(0, ROWS)[:, None], mk.arange(0, BLOCK)[None, :]
    inside = (r < n_rows) & (c < n_cols)
    values = mk.load(x, r * n_cols + c, inside, other=1.5)
    mk.store(out, mk.arange(0, ROWS), mk.sum(values, axis=1))
    mk.store(out + ROWS, mk.arange(0, BLOCK), mk.sum(values, axis=0))


@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (8, 128), (5, 97)])
def test_planes_count_lanes_behind_both_bounds(backend, shape):
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(np.float32)
    out = np.zeros(8 + 128, np.float32)
    launch(backend, plane_kernel, x, out, *shape, grid=1, ROWS=8, BLOCK=128)
    padded = np.full((8, 128), 1.5, np.float32)
    padded[: shape[0], : shape[1]] = x
    np.testing.assert_allclose(out, np.concatenate([padded.sum(1), padded.sum(0)]), rtol=1e-6)


@eas.kernel
def in_place_kernel(x, n_cols, BLOCK: eas.constexpr):
    """What is stored must not be read again by the second use of `values`."""
    at = mk.program_id(0) * n_cols + mk.arange(0, BLOCK)
    mask = mk.arange(0, BLOCK) < n_cols
    values = mk.load(x, at, mask)
    mk.store(x, at, values - mk.max(values), mask)
    mk.store(x, at, values * mk.sum(values), mask)


def test_a_row_that_is_written_is_not_read_twice(backend):
    x = rows(100)
    want = x * x.sum(1, keepdims=True)
    launch(backend, in_place_kernel, x, 100, grid=3, BLOCK=128)
    np.testing.assert_allclose(x, want, rtol=1e-6)


@eas.kernel
def copied_kernel(x, y, n_cols, BLOCK: eas.constexpr):
    at = mk.program_id(0) * n_cols + mk.arange(0, BLOCK)
    mask = mk.arange(0, BLOCK) < n_cols
    values = mk.load(x, at, mask)
    mk.store(y, at, values - mk.max(values), mask)
    mk.store(y, at, values * mk.sum(values), mask)


def test_an_alias_that_is_written_is_not_read_twice(backend):
    x = rows(100)
    want = x * x.sum(1, keepdims=True)
    launch(backend, copied_kernel, x, x, 100, grid=3, BLOCK=128)
    np.testing.assert_allclose(x, want, rtol=1e-6)


@eas.kernel
def carried_kernel(x, total, kept, peak, n_cols, OTHER: eas.constexpr, BLOCK: eas.constexpr):
    """A loop whose blocks are longer than the row: sums and largest values per lane, of two carried blocks."""
    row, sums, tops = mk.program_id(0), mk.zeros([BLOCK]), mk.full([BLOCK], -100.0)
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        values = mk.load(x, row * n_cols + cols, cols < n_cols, other=OTHER)
        sums = sums * 2 + values
        tops = mk.maximum(tops, values)
    mk.store(total, row, mk.sum(sums))
    mk.store(peak, row, mk.max(tops))
    mk.store(kept, row * BLOCK + mk.arange(0, BLOCK), sums + tops)


@pytest.mark.parametrize("cols", [0, 1, 40, 256, 257, 700])
@pytest.mark.parametrize("other", [0.0, 3.0])
def test_blocks_that_a_loop_carries_may_be_longer_than_the_row(backend, cols, other):
    x, block = rows(cols), 256
    total, kept, peak = np.zeros(3, np.float32), np.zeros((3, block), np.float32), np.zeros(3, np.float32)
    launch(backend, carried_kernel, x, total, kept, peak, cols, grid=3, OTHER=other, BLOCK=block)
    sums, tops = np.zeros((3, block)), np.full((3, block), -100.0)
    for first in range(0, cols, block):
        step = np.full((3, block), other)
        step[:, : min(block, cols - first)] = x[:, first : first + block]
        sums, tops = 2 * sums + step, np.maximum(tops, step)
    np.testing.assert_allclose(total, sums.sum(1), rtol=1e-6)
    np.testing.assert_allclose(peak, tops.max(1), rtol=1e-6)
    np.testing.assert_allclose(kept, sums + tops, rtol=1e-6)


@eas.kernel
def uneven_kernel(x, out, n, BLOCK: eas.constexpr):
    """Every step covers less than the one before; a while loop asks for a sum of what it carries."""
    cols, sums, k = mk.arange(0, BLOCK), mk.zeros([BLOCK]), n
    while (k > 0) & (mk.sum(sums) < 1000):
        sums += mk.load(x, cols, cols < k)
        k -= 37
    mk.store(out, cols, sums, cols < n)
    for _ in range(2):  # read again by another loop, which starts from what is not one value
        sums += mk.load(x, cols, cols < 5)
    mk.store(out + BLOCK, cols, sums)


@pytest.mark.parametrize("n", [0, 3, 100, 256])
def test_carried_blocks_are_filled_as_far_as_any_step_reached(backend, n):
    x, block = np.abs(rows(256)[0]) + 1, 256
    out = np.zeros(2 * block, np.float32)
    launch(backend, uneven_kernel, x, out, n, grid=1, BLOCK=block)
    sums, k = np.zeros(block, np.float32), n
    while k > 0 and sums.sum() < 1000:
        sums[:k] += x[:k]
        k -= 37
    np.testing.assert_array_equal(out[:block], np.where(np.arange(block) < n, sums, 0))
    sums[:5] += 2 * x[:5]
    np.testing.assert_array_equal(out[block:], sums)


@eas.kernel
def counts_kernel(x, y, n, low, BINS: mk.constexpr, BLOCK: mk.constexpr):
    c, bins = mk.arange(0, BLOCK), mk.arange(0, BINS)
    keys = mk.load(x, c, c < n, other=1)
    mk.store(y, bins, mk.histogram(keys, BINS, mask=c < n))
    mk.store(y, BINS + bins, mk.histogram(keys, BINS))
    mk.store(y, 2 * BINS + bins, mk.histogram(keys, BINS, mask=(c >= low) & (c < n)))
    mk.store(y, 3 * BINS + bins, mk.histogram(keys, BINS, mask=c >= low))


@pytest.mark.parametrize("bins", [5, 300])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 1000, 4095, 4096])
def test_histograms_count_up_to_their_own_bound(backend, n, bins):
    low, block = 70, 4096
    x = np.random.default_rng(n).integers(-2, bins + 2, n).astype(np.int32)
    keys, lanes = np.concatenate([x, np.ones(block - n, np.int32)]), np.arange(block)
    y = np.zeros((4, bins), np.int32)
    launch(backend, counts_kernel, np.append(x, 0).astype(np.int32), y, n, low, grid=1, BINS=bins, BLOCK=block)
    for got, mask in zip(y, (lanes < n, lanes >= 0, (lanes >= low) & (lanes < n), lanes >= low), strict=True):
        chosen = keys[mask & (keys >= 0) & (keys < bins)]
        np.testing.assert_array_equal(got, np.bincount(chosen, minlength=bins))


@eas.kernel
def one_histogram_kernel(x, y, n, BINS: mk.constexpr, BLOCK: mk.constexpr):
    c = mk.arange(0, BLOCK)
    mk.store(y, mk.arange(0, BINS), mk.histogram(mk.load(x, c, c < n), BINS, mask=c < n))


@pytest.mark.parametrize("n", [0, 1, 63, 64, 1000, 4095, 4096])
def test_a_histogram_ends_with_its_keys(backend, n):
    x, y = np.random.default_rng(n).integers(-2, 9, n + 1).astype(np.int32), np.zeros(7, np.int32)
    launch(backend, one_histogram_kernel, x, y, n, grid=1, BINS=7, BLOCK=4096)
    np.testing.assert_array_equal(y, np.histogram(x[:n], np.arange(8) - 0.5)[0])


def histogram_code(target, bins, block):
    """The loops that count, and the copies of their counters."""
    key = np.zeros(1, np.int32)
    compiled = one_histogram_kernel.compile(key, key.copy(), 1, BINS=bins, BLOCK=block)
    scheduled = schedule(compiled.variant(frozenset(compiled.facts)).module, target)
    loops = [i for i in walk(scheduled.body) if i.op.name == "loop" and any(j.op.name == "count" for j in i.regions[0].body)]
    (copies,) = {j["copies"] for i in loops for j in i.regions[0].body if j.op.name == "count"}
    constants = {i.out: i["value"] for i in walk(scheduled.body) if i.op.name == "const"}
    return [constants.get(i.operands[1]) for i in loops], copies


def test_no_step_of_a_histogram_is_behind_its_keys():
    ends, _ = histogram_code(AVX2, 16, 1 << 17)
    assert ends
    assert 1 << 17 not in ends


@pytest.mark.parametrize(
    ("bins", "block", "copies"),
    [(16, 1 << 17, 16), (256, 1 << 17, 8), (500, 1 << 17, 4), (1000, 1 << 17, 2), (4000, 1 << 17, 1), (16, 1024, 8), (256, 1024, 4), (256, 256, 1)],
)
def test_copies_of_counters_fit_l1_and_pay_for_themselves(bins, block, copies):
    assert histogram_code(AVX2, bins, block)[1] == copies
