"""Atomics: what memory holds after all lanes of all programs met, and what each lane found."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.ops import TABLE
from eas.schedule.target import CpuTarget
from tests.backend.formats import assert_identical, buffer, contents, poison, sample, wrapped
from tests.backend.launches import METAL, launch, need_dtype, op_groups, op_names

UPDATES = {
    "atomic_add": (mk.atomic_add, lambda old, new: old + new),
    "atomic_max": (mk.atomic_max, max),
    "atomic_min": (mk.atomic_min, min),
    "atomic_and": (mk.atomic_and, lambda old, new: old & new),
    "atomic_or": (mk.atomic_or, lambda old, new: old | new),
    "atomic_xor": (mk.atomic_xor, lambda old, new: old ^ new),
    "atomic_xchg": (mk.atomic_xchg, lambda old, new: new),
}
COVERS = {*UPDATES, "atomic_cas"}
BINS, BLOCK = 5, 33


@eas.kernel
def meeting_kernel(x, bins, own, found, n, FS: eas.constexpr):
    """All lanes meet in a few bins; then each lane updates a cell of its own and keeps what it found. Once per update."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = i < n
    value = mk.load(x, i, mask)
    for k, update in enumerate(FS):
        update(bins + k * BINS, i % BINS, value, mask=mask)
        mk.store(found + k * (n + 2), i, update(own + k * (n + 1) + i, value, mask=mask), i < n + 1)


def small(dtype: DType, n: int, seed: int) -> list:
    """Values whose sums are exact in any order."""
    if not dtype.is_float:
        return sample(dtype, n, seed)
    low = -1 if dtype is dtypes.bf16 else -4
    return [float(v) for v in np.random.default_rng(seed).integers(low, -low + 1, n)]


def folded(start: list, values: list, update, dtype: DType) -> list:
    """The bins after every value, in any order that gives the same."""
    state = list(start)
    for i, v in enumerate(values):
        state[i % BINS] = update(state[i % BINS], v)
    return [x if dtype.is_float else wrapped(x, dtype) for x in state]


@pytest.mark.parametrize(("ops", "dtype"), op_groups(UPDATES))
def test_updates_lose_nothing(backend, ops, dtype):
    need_dtype(backend, dtype)
    n = 70
    values, start, cells = small(dtype, n, 0), small(dtype, BINS, 1), small(dtype, n, 2)
    bins, own, found = buffer(start * len(ops), dtype), buffer([*cells, 1] * len(ops), dtype), poison((n + 2) * len(ops), dtype)
    args = (buffer(values, dtype), bins, own, found, n)
    meta = {"FS": tuple(UPDATES[op][0] for op in ops)}
    launch(backend, meeting_kernel, *args, grid=3, **meta)
    assert set(ops) <= op_names(meeting_kernel, *args, **meta)
    for op, *got in zip(ops, *(contents(a).reshape(len(ops), -1) for a in (bins, own, found)), strict=True):
        check_update(op, dtype, values, start, cells, *got)


def check_update(op: str, dtype: DType, values: list, start: list, cells: list, bins: np.ndarray, own: np.ndarray, found: np.ndarray) -> None:
    update = UPDATES[op][1]
    if op == "atomic_xchg":
        for b in range(BINS):  # one of the values won
            assert bins[b] in contents(buffer(values[b::BINS], dtype))
    else:
        assert_identical(bins, contents(buffer(folded(start, values, update, dtype), dtype)), dtype, False, op)
    after = [update(c, v) for c, v in zip(cells, values, strict=True)]
    after = [x if dtype.is_float else wrapped(x, dtype) for x in after]
    assert_identical(own, contents(buffer([*after, 1], dtype)), dtype, False, op)
    assert_identical(found[:-1], contents(buffer([*cells, 0], dtype)), dtype, False, op)  # 0 where masked off
    assert_identical(found[-1:], contents(poison(1, dtype)), dtype, where=op)


@eas.kernel
def swap_kernel(cells, expected, new, found, n):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = i < n
    old = mk.atomic_cas(cells, i, mk.load(expected, i, mask), mk.load(new, i, mask), mask=mask)
    mk.store(found, i, old, mask)


@pytest.mark.parametrize("dtype", TABLE["atomic_cas"].dtypes, ids=str)
def test_cas_swaps_where_the_bits_agree(backend, dtype):
    need_dtype(backend, dtype)
    n = 50
    cells, new = sample(dtype, n, 0), sample(dtype, n, 1)
    expected = [c if i % 3 else other for i, (c, other) in enumerate(zip(cells, sample(dtype, n, 2), strict=True))]
    if dtype.is_float:
        cells[:3], expected[:3] = [0.0, -0.0, math.nan], [-0.0, -0.0, math.nan]
    same = [repr(c) == repr(e) for c, e in zip(cells, expected, strict=True)]  # -0.0 is not 0.0, NaN is itself
    memory, found = buffer(cells, dtype), poison(n + 1, dtype)
    args = (memory, buffer(expected, dtype), buffer(new, dtype), found, n)
    launch(backend, swap_kernel, *args, grid=2)
    assert "atomic_cas" in op_names(swap_kernel, *args)
    want = [v if s else c for v, s, c in zip(new, same, cells, strict=True)]
    assert_identical(contents(memory), contents(buffer(want, dtype)), dtype)
    assert_identical(contents(found)[:-1], contents(buffer(cells, dtype)), dtype)


@eas.kernel
def ticket_kernel(counter, taken, n, BLOCK: eas.constexpr):
    """Every lane draws a number; a scalar atomic is done once per program."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(taken, mk.atomic_add(counter, mk.zeros([BLOCK], mk.i32), 1, mask=i < n), i, i < n)
    mk.atomic_add(counter, 1, 1)
    turn = mk.atomic_max(counter + 2, mk.program_id(0))
    mk.device_assert(turn < mk.num_programs(0))


def test_no_two_lanes_draw_the_same_ticket(backend):
    counter, taken = np.array([0, 0, -1], np.int32), np.full(101, -1, np.int32)
    launch(backend, ticket_kernel, counter, taken, 100, grid=4, BLOCK=33)
    assert counter.tolist() == [100, 4, 3]
    assert sorted(taken[:100]) == list(range(100))
    assert taken[100] == -1


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f16], ids=str)
def test_float_max_and_min_propagate_nan(backend, dtype):
    values = [1.0, math.nan, 3.0, -2.0, math.inf] * 10
    for op in ("atomic_max", "atomic_min"):
        start = [0.0, 0.0, math.nan, 5.0, -math.inf]
        bins, own, found = buffer(start, dtype), buffer([*values[::-1], 1], dtype), poison(52, dtype)
        launch(backend, meeting_kernel, buffer(values, dtype), bins, own, found, 50, grid=2, FS=(UPDATES[op][0],))
        pick = np.maximum if op == "atomic_max" else np.minimum
        want = [float(pick.reduce([start[b], *values[b::BINS]])) for b in range(BINS)]
        assert_identical(contents(bins), contents(buffer(want, dtype)), dtype, False)


@eas.kernel
def float_sum_kernel(x, total, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.atomic_add(total, mk.zeros_like(i), mk.load(x, i, i < N), mask=i < N)


@pytest.mark.parametrize("n", [1, 33, 257])
def test_float_sums_agree_but_for_the_order(backend, n):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    total = np.zeros(1, np.float32)
    launch(backend, float_sum_kernel, x, total, n, BLOCK=64)
    np.testing.assert_allclose(total[0], x.sum(dtype=np.float64), atol=2e-7 * np.abs(x).sum())


@eas.kernel
def spread_kernel(x, bins, total, n, SIZE: eas.constexpr):
    """A histogram and a sum, as a user writes them: nobody asks for the old values."""
    i = mk.program_id(0) * SIZE + mk.arange(0, SIZE)
    v = mk.load(x, i, i < n, 0)
    mk.atomic_add(bins, v, 1, i < n)
    mk.atomic_add(total, 0, mk.sum(v))


@pytest.mark.parametrize(("count", "n"), [(7, 5000), (300, 5000), (9000, 20000), (9000, 50)])
def test_every_change_arrives_however_many_places_there_are(backend, count, n):
    """Small buffers are changed in copies, large ones as they are."""
    x = np.random.default_rng(count).integers(0, count, n).astype(np.int32)
    bins, total = np.arange(count, dtype=np.int32), np.full(1, 5, np.int32)
    for _ in range(2):
        launch(backend, spread_kernel, x, bins, total, n, grid=-(-n // 128), SIZE=128)
    np.testing.assert_array_equal(bins, np.arange(count) + 2 * np.bincount(x, minlength=count))
    assert total[0] == 5 + 2 * x.sum()


def test_a_buffer_that_is_also_read_is_changed_in_place(backend):
    x = np.zeros(256, np.int32)
    launch(backend, spread_kernel, x, x[:64], x[64:65], 64, grid=1, SIZE=64)
    assert (x[0], x[1:].sum()) == (64, 0)


@eas.kernel
def peaks_kernel(x, top, low, n, SIZE: eas.constexpr):
    for first in range(0, n, SIZE):
        i = first + mk.arange(0, SIZE)
        mk.atomic_max(top, i % 3, mk.load(x, i, i < n), i < n)
        mk.atomic_min(low, i % 3, mk.load(x, i, i < n), i < n)


def test_copies_start_from_what_changes_nothing(backend):
    """Bins that nobody reaches keep their bits; NaN wins, as without a copy."""
    x = np.array([3.0, -1.0, -np.inf, 7.0, np.nan, -np.inf], np.float32)
    top, low = (np.array([5, 0, -np.inf, np.nan, -0.0], np.float32) for _ in range(2))
    launch(backend, peaks_kernel, x, top, low, len(x), grid=1, SIZE=32)
    np.testing.assert_array_equal(top, np.array([7, np.nan, -np.inf, np.nan, -0.0], np.float32))
    np.testing.assert_array_equal(low, np.array([3, np.nan, -np.inf, np.nan, -0.0], np.float32))
    assert np.signbit(top[4])
    assert np.signbit(low[4])


@eas.kernel
def tally_kernel(x, bins, n, count, F: eas.constexpr):
    """Nobody asks what was in a bin: each run of programs may keep a copy of all bins."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    F(bins, i % count, mk.load(x, i, i < n), mask=i < n)


@pytest.mark.left_out(lambda backend: backend in METAL)  # only threads of the CPU keep copies
@pytest.mark.parametrize("op", [op for op in UPDATES if op != "atomic_xchg"])
def test_bins_of_which_threads_may_keep_copies(backend, op):
    """From the ends of a dtype on, with bins that fit and bins that programs hardly touch."""
    n, update = 40 * BLOCK - 7, UPDATES[op][1]
    few = (dtypes.u32, dtypes.i64, dtypes.u8, dtypes.i16, dtypes.f32, dtypes.f64)
    for dtype in [d for d in TABLE[op].dtypes if d in few]:
        values = small(dtype, n, 5)
        if not dtype.is_float:
            values[:4] = [dtype.max, dtype.min, 0, dtype.max // 2 + 1]
        for count in (BINS, 60 * BLOCK):
            start = small(dtype, count, 6)
            if not dtype.is_float:
                start[0] = dtype.min if op == "atomic_min" else dtype.max
            bins, want = buffer(start, dtype), list(start)
            launch(backend, tally_kernel, buffer(values, dtype), bins, n, count, grid=40, F=UPDATES[op][0])
            for i, value in enumerate(values):
                want[i % count] = update(want[i % count], value)
            want = [v if dtype.is_float else wrapped(v, dtype) for v in want]
            assert_identical(contents(bins), contents(buffer(want, dtype)), dtype, False, f"{op} {dtype} {count}")


def test_sums_of_zeros_keep_their_sign(backend):
    """0.0 and -0.0 are 0.0, two times -0.0 is -0.0, in a copy as in the buffer itself."""
    count, n = 4, 4 * BLOCK
    for value, start, sign in ((0.0, -0.0, False), (-0.0, -0.0, True), (-0.0, 0.0, False)):
        bins = np.full(count, start, np.float32)
        launch(backend, tally_kernel, np.full(n, value, np.float32), bins, n, count, grid=4, F=mk.atomic_add)
        assert np.signbit(bins).tolist() == [sign] * count, f"{start} + {value}"


@eas.kernel
def two_tallies_kernel(x, bins, others, n, count):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.atomic_add(bins, i % count, mk.load(x, i, i < n), mask=i < n)
    mk.atomic_add(others, (i + 1) % count, mk.load(x, i, i < n), mask=i < n)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float32])
def test_copies_fit_their_room(monkeypatch, dtype):
    """Two buffers around the size up to which a thread keeps copies: larger ones would lie in each other, and behind their memory."""
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("EAS_CACHE", "0")
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setattr(CpuTarget, "copy_nbytes", 128)
    kernel, n, room = eas.kernel(two_tallies_kernel.fn), 100 * BLOCK - 3, 128 // np.dtype(dtype).itemsize
    x = np.random.default_rng(room).integers(0, 3, n).astype(dtype)
    for count in (room - 1, room, room + 1, 2 * room, 4 * room):
        bins, others = np.ones(count, dtype), np.zeros(count, dtype)
        kernel(x, bins, others, n, count, _grid=100)
        places = np.arange(n) % count
        np.testing.assert_array_equal(bins, 1 + np.bincount(places, x, count).astype(dtype))
        np.testing.assert_array_equal(others, np.bincount((np.arange(n) + 1) % count, x, count).astype(dtype))


@eas.kernel
def in_order_kernel(cells, found, SIZE: eas.constexpr):
    """What comes second in a program finds what all lanes did first, in every lane."""
    i = mk.arange(0, SIZE)
    mk.atomic_add(cells, i % 3, 1)
    mk.store(found, i, mk.atomic_max(cells, i % 3, 0))
    mk.atomic_add(cells, i % 3, -2)
    mk.store(found + SIZE, i, mk.load(cells, i % 3))


def test_atomics_of_a_program_come_one_after_the_other(backend):
    size = 256
    cells, found = np.zeros(3, np.int32), np.full(2 * size, -1, np.int32)
    launch(backend, in_order_kernel, cells, found, grid=1, SIZE=size)
    each = np.bincount(np.arange(size) % 3)
    np.testing.assert_array_equal(found.reshape(2, size), np.stack([each, -each])[:, np.arange(size) % 3])


@eas.kernel
def shared_cells_kernel(x, start, out, found, FS: eas.constexpr, CELLS: eas.constexpr, THREADS: eas.constexpr):
    """As `meeting_kernel`, in the memory of a threadgroup: neighbours share a word."""
    t = mk.tid(0, THREADS)
    for k, update in enumerate(FS):
        cells = mk.alloc_tg(CELLS, x.dtype)
        if t < CELLS:
            mk.store(cells + t, mk.load(start + t))
        mk.barrier()
        if t % CELLS != 1:
            update(cells + t % CELLS, mk.load(x + t))
        mk.barrier()
        if t < CELLS:
            mk.store(out + k * CELLS + t, mk.load(cells + t))
        own = mk.alloc_tg(THREADS, x.dtype)
        mk.store(own + t, mk.load(x + t))
        mk.barrier()  # an update of a narrow cell is one of its word, so of the neighbour's cell
        mk.store(found + k * THREADS + t, update(own + t, mk.load(x + THREADS - 1 - t)))
        mk.barrier()
        mk.store(found + (len(FS) + k) * THREADS + t, mk.load(own + t))


@pytest.mark.parametrize("dtype", [dtypes.u8, dtypes.i8, dtypes.i16, dtypes.u16, dtypes.i32, dtypes.u32, dtypes.f16, dtypes.bf16, dtypes.f32], ids=str)
def test_cells_of_a_threadgroup(backend, dtype):
    cells, threads = 7, 64
    ops = [op for op in UPDATES if op != "atomic_xchg" and dtype in TABLE[op].dtypes]
    values, start = small(dtype, threads, 8), small(dtype, cells, 9)
    out, found = poison(len(ops) * cells, dtype), poison(2 * len(ops) * threads, dtype)
    meta = {"FS": tuple(UPDATES[op][0] for op in ops), "CELLS": cells, "THREADS": threads}
    launch(backend, shared_cells_kernel, buffer(values, dtype), buffer(start, dtype), out, found, grid=1, **meta)
    old, new = contents(found).reshape(2, len(ops), threads)
    for k, op in enumerate(ops):
        want = list(start)
        for t, value in enumerate(values):
            if t % cells != 1:
                want[t % cells] = UPDATES[op][1](want[t % cells], value)
        after = [UPDATES[op][1](a, b) for a, b in zip(values, values[::-1], strict=True)]
        want, after = ([v if dtype.is_float else wrapped(v, dtype) for v in some] for some in (want, after))
        assert_identical(contents(out)[k * cells : (k + 1) * cells], contents(buffer(want, dtype)), dtype, False, op)
        assert_identical(old[k], contents(buffer(values, dtype)), dtype, False, op)
        assert_identical(new[k], contents(buffer(after, dtype)), dtype, False, op)


@eas.kernel
def bins_kernel(x, b0, b1, b2, b3, b4, b5, n, FS: eas.constexpr, BINS: eas.constexpr, BLOCK: eas.constexpr):
    """Each buffer is changed in one way only, and never asked: threads may do it in copies."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    value = mk.load(x, i, i < n)
    for update, bins in zip(FS, (b0, b1, b2, b3, b4, b5), strict=True):
        update(bins, i % BINS, value, mask=i < n)


@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.u32, dtypes.i64, dtypes.f32], ids=str)
@pytest.mark.parametrize("programs", [1, 40])
def test_buffers_that_are_changed_in_one_way_only(backend, dtype, programs):
    """From what was there: the ends of the type, zeros of both signs, and plain numbers."""
    if dtype is dtypes.i64 and backend in METAL:
        pytest.skip("Metal has no atomics of signed 64 bits")
    ops = [op for op in list(UPDATES)[:6] if not dtype.is_float or op in ("atomic_add", "atomic_max", "atomic_min")]
    ops = (ops * 2)[:6]
    bins, block = 9, 64
    n = programs * block - 5
    start = [dtype.min, dtype.max, 0, 1, 7, 3, 2, 5, dtype.max // 3] if not dtype.is_float else [0.0, -0.0, 1.5, -2.0, math.inf, 3.0, -7.0, 1e5, -1e5]
    values = small(dtype, n, 4) if not dtype.is_float else [*small(dtype, n - 4, 4), 9.0, -9.0, 2.0, 1.0]
    made = [buffer(start, dtype) for _ in ops]
    launch(backend, bins_kernel, buffer(values, dtype), *made, n, grid=programs, FS=tuple(UPDATES[op][0] for op in ops), BINS=bins, BLOCK=block)
    for op, got in zip(ops, made, strict=True):
        state = list(start)
        for i, v in enumerate(values):
            state[i % bins] = UPDATES[op][1](state[i % bins], v)
        want = state if dtype.is_float else [wrapped(x, dtype) for x in state]
        assert_identical(contents(got), contents(buffer(want, dtype)), dtype, zero_sign=False, where=op)
