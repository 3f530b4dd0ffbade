"""Masks and divisions of numbers at the ends of their types: limits that mean `none`, unsigned ones that wrap."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch

N, BLOCK = 300, 128
GRID = mk.cdiv(N, BLOCK)


@eas.kernel
def limits_kernel(x, out, sums, low, high, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    at = i.to(mk.int64)
    inside = (at > low) & (at <= high) & (i < 300)
    v = mk.load(x + i, mask=inside, other=2)
    mk.store(out + i, v + 1, mask=inside)
    mk.store(sums + mk.program_id(0), mk.sum(mk.load(x + i, mask=at <= high, other=2)))


@pytest.mark.parametrize("high", [2**63 - 1, 2**40, 2**31, 100, 0, -1, -(2**63)])
def test_limits_of_64_bits(backend, high):
    x = np.random.default_rng(0).integers(-9, 9, GRID * BLOCK).astype(np.float32)
    i = np.arange(x.size)
    for low in (-(2**63), -(2**40), -1, 50, 2**63 - 1):
        out, sums = np.zeros(x.size, np.float32), np.zeros(GRID, np.float32)
        launch(backend, limits_kernel, x, out, sums, low, high, grid=GRID, BLOCK=BLOCK)
        np.testing.assert_array_equal(out, np.where((i > low) & (i <= high) & (i < N), x + 1, 0))
        np.testing.assert_array_equal(sums, np.where(i <= high, x, 2).reshape(GRID, BLOCK).sum(axis=1))


@eas.kernel
def unsigned_kernel(x, out, low, size, DTYPE: mk.constexpr, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    inside = (i - low).to(DTYPE) < size.to(DTYPE)
    mk.store(out + i, mk.load(x + i, mask=inside, other=7) + 1, mask=inside)


@pytest.mark.parametrize("dtype", ["u16", "u32", "u64"])
@pytest.mark.parametrize("low", [0, 5, 150, -7])
def test_one_unsigned_comparison_for_both_ends(backend, dtype, low):
    """(i - low) as an unsigned number is large where it is negative."""
    x = np.random.default_rng(0).integers(-9, 9, N).astype(np.float32)
    i = np.arange(N)
    for size in (0, 3, 100):
        out = np.zeros(N, np.float32)
        launch(backend, unsigned_kernel, x, out, low, size, grid=GRID, DTYPE=getattr(mk, dtype), BLOCK=BLOCK)
        np.testing.assert_array_equal(out, np.where((i >= low) & (i < low + size), x + 1, 0))


@eas.kernel
def border_kernel(x, out, low, rows, first, BLOCK: mk.constexpr):
    r, c = mk.arange(0, 8)[:, None], mk.arange(0, BLOCK)[None, :]
    inside = ((r - low).to(mk.u32) >= 2) & (c - first >= 0) & (c - first < 200) & (r < rows)
    mk.store(out + r * BLOCK + c, mk.load(x + r * BLOCK + c, mask=inside, other=7), mask=r < rows)


@pytest.mark.parametrize("low", [0, 3, 8])
def test_rows_between_two_that_are_inside(backend, low):
    x = np.random.default_rng(0).integers(-9, 9, 8 * BLOCK).astype(np.float32)
    out = np.zeros_like(x)
    launch(backend, border_kernel, x, out, low, 8, -1, grid=1, BLOCK=BLOCK)
    r = np.arange(8)[:, None]
    np.testing.assert_array_equal(out.reshape(8, BLOCK), np.where((r - low >= 2) | (r < low), x.reshape(8, BLOCK), 7))


@eas.kernel
def taps_kernel(x, out, low, n, taps, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    total = mk.zeros([BLOCK], mk.float32)
    for k in range(taps):
        total += mk.load(x + i + k, mask=((k - low).to(mk.u32) >= 2) & (i + k < n), other=0)
    mk.store(out + i, total, mask=i < n)


@pytest.mark.parametrize("low", [0, 3, 9])
def test_iterations_between_two_that_are_inside(backend, low):
    x = np.random.default_rng(0).integers(-9, 9, N).astype(np.float32)
    out = np.zeros_like(x)
    launch(backend, taps_kernel, x, out, low, N, 9, grid=GRID, BLOCK=BLOCK)
    padded = np.append(x, np.zeros(9, np.float32))
    np.testing.assert_array_equal(out, sum(padded[k : k + N] for k in range(9) if k < low or k >= low + 2))


@eas.kernel
def weighted_kernel(x, weights, out, n, taps, BLOCK: mk.constexpr):
    i = mk.arange(0, BLOCK)
    total = mk.zeros([BLOCK], mk.int64)
    for k in range(taps):
        w = mk.load(weights + k).to(mk.int64)  # no number that is known before the loop
        for j in range(2):
            total += mk.load(x + i + k + j, mask=i + k + j < n, other=0) * (w + j)
    mk.store(out + i, total, mask=i < n)


def test_masks_of_iterations_beside_numbers_that_are_loaded(backend):
    n, weights = 100, np.array([3, -1, 2], np.int32)
    x, out = np.random.default_rng(0).integers(-9, 9, n), np.zeros(n, np.int64)
    launch(backend, weighted_kernel, x, weights, out, n, 3, grid=1, BLOCK=BLOCK)
    padded = np.append(x, np.zeros(8, np.int64))
    np.testing.assert_array_equal(out, sum(padded[k + j : k + j + n] * (weights[k] + j) for k in range(3) for j in range(2)))


@eas.kernel
def divided_kernel(out, start, w, DTYPE: mk.constexpr, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    v, by = i.to(DTYPE) + start.to(DTYPE), w.to(DTYPE)
    mk.store(out + i, (v // by * 3 + v % by).to(out.dtype), mask=i < 300)


@pytest.mark.parametrize("dtype", ["i32", "u32", "i64"])
@pytest.mark.parametrize("start", [0, -40, 2**31 - 40])
def test_what_is_divided_may_wrap(backend, dtype, start):
    as_numpy = {"i32": np.int32, "u32": np.uint32, "i64": np.int64}[dtype]
    with np.errstate(over="ignore"):
        v = np.arange(N).astype(as_numpy) + np.int64(start).astype(as_numpy)
    for w in (1, 33, 100, 1000):
        out = np.zeros(N, as_numpy)
        launch(backend, divided_kernel, out, start, w, grid=GRID, DTYPE=getattr(mk, dtype), BLOCK=BLOCK)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(out, v // as_numpy(w) * as_numpy(3) + v % as_numpy(w))


@eas.kernel
def through_zero_kernel(x, out, back, n, low, WIDE: mk.constexpr, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    at = i.to(mk.u32) - low.to(mk.u32)
    place = at.to(mk.i64) if WIDE else at
    inside = place < n.to(place.dtype)
    mk.store(out + i, mk.load(x + place, mask=inside, other=7))
    mk.store(back + place, i, mask=inside)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("low", [0, 5, 130, 2**31 - 1])
def test_unsigned_offsets_go_through_zero(backend, low, wide):
    """The first lanes are off, at the far end of 32 bits; their neighbours are at the start of the buffer."""
    x, i = np.arange(N, dtype=np.float32), np.arange(GRID * BLOCK)
    out, back = np.zeros(i.size, np.float32), np.full(N, -1, np.int32)
    launch(backend, through_zero_kernel, x, out, back, N, low, grid=GRID, WIDE=wide, BLOCK=BLOCK)
    inside = (i >= low) & (i - low < N)
    np.testing.assert_array_equal(out, np.where(inside, i - low, 7))
    want = np.full(N, -1)
    want[i[inside] - low] = i[inside]
    np.testing.assert_array_equal(back, want)


def test_parts_of_a_position_that_do_not_fit_32_bits(monkeypatch):
    """Parts that only together are a position: the first two are beyond 32 bits."""
    from eas.ir.text import print_module
    from eas.schedule.cpu_steps import schedule
    from eas.schedule.target import AVX2

    @eas.kernel
    def kernel(x, out, a, b, BLOCK: mk.constexpr):
        i = mk.arange(0, BLOCK)
        mk.store(out + i, mk.load(x + ((i - 200) + a + b)))

    monkeypatch.setenv("EAS_BACKEND", "cpu")
    x, out = np.arange(300, dtype=np.int8), np.zeros(64, np.int8)
    kernel(x, out, 100, 150, BLOCK=64, _grid=1)
    np.testing.assert_array_equal(out, x[50 : 50 + 64])
    module = kernel.compile(x, out, 100, 150, BLOCK=64).traced
    text = print_module(schedule(module, AVX2))
    assert " = add %a, %b : i32" not in text, text


DECIDED = {
    "some & always": lambda some, always, never: some & always,
    "always & some": lambda some, always, never: always & some,
    "some & never": lambda some, always, never: some & never,
    "never & some": lambda some, always, never: never & some,
    "some | always": lambda some, always, never: some | always,
    "always | some": lambda some, always, never: always | some,
    "some | never": lambda some, always, never: some | never,
    "never | some": lambda some, always, never: never | some,
    "~always & some": lambda some, always, never: ~always & some,
    "~never & some": lambda some, always, never: ~never & some,
    "~(some & always)": lambda some, always, never: ~(some & always),
    "(some | never) & ~never": lambda some, always, never: (some | never) & ~never,
    "some ^ always": lambda some, always, never: some ^ always,
}


@eas.kernel
def decided_kernel(x, chosen, loaded, stored, n, MASK: eas.constexpr, BLOCK: eas.constexpr):
    first = mk.program_id(0) * BLOCK
    i = first + mk.arange(0, BLOCK)
    mask = MASK(i < n, i < first + BLOCK, i >= first + BLOCK)  # by formulas: no range of numbers decides them
    mk.store(chosen, i, mk.where(mask, 1, 2))
    mk.store(loaded, i, mk.load(x, i, mask, other=7))
    mk.store(stored, i, 1, mask)


@pytest.mark.parametrize("mask", DECIDED)
def test_parts_of_masks_that_formulas_decide(backend, mask):
    block, programs = 64, 3
    x, i = np.arange(10, 10 + block * programs, dtype=np.int32), np.arange(block * programs)
    for n in (0, 1, 70, block * programs):
        chosen, loaded, stored = (np.zeros_like(x) for _ in range(3))
        launch(backend, decided_kernel, x, chosen, loaded, stored, n, grid=programs, MASK=DECIDED[mask], BLOCK=block)
        want = DECIDED[mask](i < n, i < i + 1, i < i)
        np.testing.assert_array_equal(chosen, np.where(want, 1, 2))
        np.testing.assert_array_equal(loaded, np.where(want, x, 7))
        np.testing.assert_array_equal(stored, want)
