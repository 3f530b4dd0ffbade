"""Atomics: what memory holds after all lanes of all programs met, and what each lane found."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import dtypes, mk
from eas.dtypes import DType
from eas.ops import TABLE
from tests.backend.formats import assert_identical, buffer, contents, poison, sample, wrapped
from tests.backend.launches import launch, need_dtype, op_names

COVERS = {op for op in TABLE if op.startswith("atomic_")}
UPDATES = {
    "atomic_add": (mk.atomic_add, lambda old, new: old + new),
    "atomic_max": (mk.atomic_max, max),
    "atomic_min": (mk.atomic_min, min),
    "atomic_and": (mk.atomic_and, lambda old, new: old & new),
    "atomic_or": (mk.atomic_or, lambda old, new: old | new),
    "atomic_xor": (mk.atomic_xor, lambda old, new: old ^ new),
    "atomic_xchg": (mk.atomic_xchg, lambda old, new: new),
}
BINS, BLOCK = 5, 33


@eas.kernel
def meeting_kernel(x, bins, own, found, n, F: eas.constexpr):
    """All lanes meet in a few bins; then each lane updates a cell of its own and keeps what it found."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = i < n
    value = mk.load(x, i, mask)
    F(bins, i % BINS, value, mask=mask)
    mk.store(found, i, F(own + i, value, mask=mask), i < n + 1)


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


@pytest.mark.parametrize(("op", "dtype"), [pytest.param(op, d, id=f"{op}-{d}") for op in UPDATES for d in TABLE[op].dtypes])
def test_update_loses_nothing(backend, op, dtype):
    need_dtype(backend, dtype)
    fn, update = UPDATES[op]
    n = 70
    values, start, cells = small(dtype, n, 0), small(dtype, BINS, 1), small(dtype, n, 2)
    bins, own, found = buffer(start, dtype), buffer([*cells, 1], dtype), poison(n + 2, dtype)
    args = (buffer(values, dtype), bins, own, found, n)
    launch(backend, meeting_kernel, *args, grid=3, F=fn)
    assert op in op_names(meeting_kernel, *args, F=fn)
    if op == "atomic_xchg":
        for b in range(BINS):  # one of the values won
            assert contents(bins)[b] in contents(buffer(values[b::BINS], dtype))
    else:
        assert_identical(contents(bins), contents(buffer(folded(start, values, update, dtype), dtype)), dtype, False)
    after = [update(c, v) for c, v in zip(cells, values, strict=True)]
    after = [x if dtype.is_float else wrapped(x, dtype) for x in after]
    assert_identical(contents(own), contents(buffer([*after, 1], dtype)), dtype, False)
    assert_identical(contents(found)[: n + 1], contents(buffer([*cells, 0], dtype)), dtype, False)  # 0 where masked off
    assert_identical(contents(found)[n + 1 :], contents(poison(1, dtype)), dtype)


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
        launch(backend, meeting_kernel, buffer(values, dtype), bins, own, found, 50, grid=2, F=UPDATES[op][0])
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
