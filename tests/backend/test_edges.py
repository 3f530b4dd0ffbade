"""Every comparison, bound and offset dtype at the edges of vectors, against NumPy.

One launch runs one program per case, so that a kernel is compiled once for all bounds. Extents, starts and
bounds lie around the lengths of vectors of 16 to 64 bytes and around the ends of the dtypes.
"""

from __future__ import annotations

import operator

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from tests.backend.formats import buffer, contents, poison
from tests.backend.launches import METAL, launch

COMPARE = {op.__name__: op for op in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)}
INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
EXTENT = 320  # five vectors of 64 bytes of f32: loops may end early
AROUND = sorted({n + d for n in (0, 4, 8, 16, 32, 64, 128, 256, EXTENT) for d in (-1, 0, 1)})


def numpy_type(name: str) -> np.dtype:
    return np.dtype(name.replace("i", "int").replace("u", "uint"))


def cases(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a start and a bound: small ones around the lengths of vectors, and those at the ends of the dtype."""
    info = np.iinfo(numpy_type(name))
    ends = [info.min, info.min + 1, info.max - 1, info.max]
    bounds = [b for b in AROUND if info.min <= b <= info.max] + ends
    starts = [s for s in (0, -3, 5) if s >= info.min] + [info.min]
    # Signed masks of 32 and 64 bits that wrap are errors of the kernel (docs/numbers.md); all others wrap.
    starts.append(info.max - (EXTENT if name in ("i32", "i64") else 40))
    pairs = [(s, b) for s in starts for b in bounds]
    return tuple(np.array(side, numpy_type(name)) for side in zip(*pairs, strict=True))


def compared(name: str, swapped: bool, i, k):
    return COMPARE[name](k, i) if swapped else COMPARE[name](i, k)


@eas.kernel
def loads_kernel(x, out, starts, bounds, OP: eas.constexpr, SWAPPED: eas.constexpr, EXTENT: eas.constexpr):
    p, j = mk.program_id(0), mk.arange(0, EXTENT)
    i = mk.cast(j, starts.dtype) + mk.load(starts, p)
    mask = compared(OP, SWAPPED, i, mk.load(bounds, p))
    mk.store(out, p * EXTENT + j, mk.load(x, j, mask, other=-3))


@eas.kernel
def stores_kernel(x, out, starts, bounds, OP: eas.constexpr, SWAPPED: eas.constexpr, EXTENT: eas.constexpr):
    p, j = mk.program_id(0), mk.arange(0, EXTENT)
    i = mk.cast(j, starts.dtype) + mk.load(starts, p)
    mask = compared(OP, SWAPPED, i, mk.load(bounds, p))
    mk.store(out, p * EXTENT + j, mk.load(x, j) * 2, mask)


@eas.kernel
def sums_kernel(x, out, starts, bounds, OP: eas.constexpr, SWAPPED: eas.constexpr, EXTENT: eas.constexpr):
    p, j = mk.program_id(0), mk.arange(0, EXTENT)
    i = mk.cast(j, starts.dtype) + mk.load(starts, p)
    v = mk.load(x, j, compared(OP, SWAPPED, i, mk.load(bounds, p)), other=2)
    mk.store(out, p * EXTENT, mk.sum(v))
    mk.store(out, p * EXTENT + 1, mk.max(v))


FORMS = {"loads": loads_kernel, "stores": stores_kernel, "sums": sums_kernel}


def expected(form: str, x: np.ndarray, on: np.ndarray) -> np.ndarray:
    if form == "loads":
        return np.where(on, x, -3)
    if form == "stores":
        return np.where(on, x * 2, 0)
    want, v = np.zeros(on.shape, np.float32), np.where(on, x, 2)
    want[:, 0], want[:, 1] = v.sum(axis=1), v.max(axis=1)
    return want


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", COMPARE)
def test_bounds_by_every_comparison(backend, op, dtype):
    x = np.random.default_rng(1).integers(-9, 9, EXTENT).astype(np.float32)
    starts, bounds = cases(dtype)
    with np.errstate(over="ignore"):
        i = starts[:, None] + np.arange(EXTENT).astype(numpy_type(dtype))[None, :]
    # The dtypes that users count in take every form; the others one of them, and Metal's compiler is slow.
    every = list(FORMS) if dtype in ("i32", "u32", "i64") else [list(FORMS)[(len(op) + len(dtype) + (op < "le")) % 3]]
    for n, form in enumerate(every[:1] if backend in METAL else every):
        for swapped in (False, True) if n == 0 and backend not in METAL else (bool(len(op) % 2),):
            out = np.zeros((starts.size, EXTENT), np.float32)
            launch(backend, FORMS[form], x, out, starts, bounds, grid=starts.size, OP=op, SWAPPED=swapped, EXTENT=EXTENT)
            np.testing.assert_array_equal(out, expected(form, x, compared(op, swapped, i, bounds[:, None])), f"{form} {swapped}")


# --- a bound that is a scalar argument, and programs side by side -----------------------------------


@eas.kernel
def tiles_kernel(x, out, K, OP: eas.constexpr, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = COMPARE[OP](i, K)
    mk.store(out, i, mk.load(x, i, mask, other=-1) + 1, mask)


@pytest.mark.parametrize("block", [32, 100])
@pytest.mark.parametrize("op", COMPARE)
def test_bounds_across_programs(backend, op, block):
    """`offs > K` starts one lane behind K, `offs >= K` at it, in whichever program that is."""
    grid = -(-EXTENT // block)
    i = np.arange(grid * block)
    x = np.random.default_rng(2).integers(-9, 9, i.size).astype(np.float32)
    for k in (*AROUND, -100, 2**31 - 1):
        out = np.full_like(x, 99)
        launch(backend, tiles_kernel, x, out, k, grid=grid, OP=op, BLOCK=block)
        np.testing.assert_array_equal(out, np.where(COMPARE[op](i, k), x + 1, 99), f"K={k}")


@eas.kernel
def between_kernel(x, out, lo, hi, LOW: eas.constexpr, HIGH: eas.constexpr, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = COMPARE[LOW](i, lo) & COMPARE[HIGH](i, hi)
    mk.store(out, i, mk.load(x, i, mask, other=7), mask)
    mk.store(out, EXTENT * 2 + mk.program_id(0), mk.sum(mk.load(x, i, mask)))


@eas.kernel
def copied_between_kernel(x, out, lo, hi, LOW: eas.constexpr, HIGH: eas.constexpr, BLOCK: eas.constexpr):
    """Does nothing but to store: an element may be stored twice, but none that is masked off."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i) + 1, COMPARE[LOW](i, lo) & COMPARE[HIGH](i, hi))


@pytest.mark.parametrize(("low", "high"), [("ge", "lt"), ("gt", "le"), ("gt", "lt"), ("ge", "le")])
def test_bounds_on_both_sides(backend, low, high):
    block = 128
    grid = -(-EXTENT // block)
    i = np.arange(grid * block)
    x = np.random.default_rng(3).integers(-9, 9, i.size).astype(np.float32)
    for lo, hi in [(0, 1), (3, 3), (7, 8), (15, 33), (16, 32), (-5, 64), (63, 129), (65, 300), (127, 128), (200, 100), (0, 1000)]:
        out = np.zeros(EXTENT * 2 + grid, np.float32)
        launch(backend, between_kernel, x, out, lo, hi, grid=grid, LOW=low, HIGH=high, BLOCK=block)
        on = COMPARE[low](i, lo) & COMPARE[high](i, hi)
        np.testing.assert_array_equal(out[: i.size], np.where(on, x, 0), f"{lo} {hi}")
        np.testing.assert_array_equal(out[EXTENT * 2 :], np.where(on, x, 0).reshape(grid, block).sum(axis=1), f"{lo} {hi}")
        copied = np.full_like(x, 99)
        launch(backend, copied_between_kernel, x, copied, lo, hi, grid=grid, LOW=low, HIGH=high, BLOCK=block)
        np.testing.assert_array_equal(copied, np.where(on, x + 1, 99), f"{lo} {hi}")


# --- what masked-off lanes read, for every format ---------------------------------------------------


@eas.kernel
def other_kernel(x, out, n, FORM: eas.constexpr, BLOCK: eas.constexpr):
    j = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = (j < n) if FORM != "holes" else (j % 3 != 1) & (j < n)
    at = {"row": j, "holes": j, "strided": j * 2, "reversed": BLOCK - 1 - j, "third": j // 3, "gathered": (j * 7) % BLOCK}[FORM]
    mk.store(out, j, mk.load(x, at, mask, other=5))


@pytest.mark.left_out(lambda backend, dtype, form: backend in METAL and (dtype is dtypes.f64 or form in ("reversed", "third")))  # Metal has no f64; its loads know no such forms
@pytest.mark.parametrize("form", ["row", "holes", "strided", "reversed", "third", "gathered"])
@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d is not dtypes.bool_], ids=str)
def test_masked_lanes_read_other(backend, dtype, form):
    block = 96
    numbers = np.arange(2 * block) % 4 * 2 + 8  # 5 is none of them, and every format has all of them exactly
    x, out = buffer(numbers, dtype), poison(block, dtype)
    j = np.arange(block)
    at = {"row": j, "holes": j, "strided": j * 2, "reversed": block - 1 - j, "third": j // 3, "gathered": (j * 7) % block}[form]
    for n in (0, 1, 15, 33, 64, 95, 96, 200):
        launch(backend, other_kernel, x, out, n, grid=1, FORM=form, BLOCK=block)
        on = (j < n) if form != "holes" else (j % 3 != 1) & (j < n)
        np.testing.assert_array_equal(contents(out).astype(np.float64), np.where(on, numbers[at], 5), f"n={n}")


# --- offsets of every dtype -------------------------------------------------------------------------


@eas.kernel
def offsets_kernel(x, offsets, out, base, back, FORM: eas.constexpr, BLOCK: eas.constexpr):
    j = mk.arange(0, BLOCK)
    if FORM == "loaded":
        at = mk.load(offsets, j)
    elif FORM == "counted":
        at = mk.cast(j, offsets.dtype) + mk.load(offsets, 0)
    else:
        at = mk.load(offsets, 0)
    mk.store(out, j, mk.load((x + at) - mk.load(back, 0)))


@pytest.mark.left_out(lambda backend, dtype, form: backend in METAL and dtype in ("i64", "u64") and form == "scalar")  # as the blocks
@pytest.mark.parametrize("form", ["loaded", "counted", "scalar"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_offsets_extend_by_their_sign(backend, dtype, form):
    """Unsigned offsets from half of their range on are positive, signed ones may be negative."""
    block, info = 64, np.iinfo(numpy_type(dtype))
    x = np.arange(4 * block, dtype=np.int32)
    for first in {0, info.min, int(info.max) // 2 - 20, int(info.max) - block}:
        if abs(first) > 2**40:
            continue
        numbers = (first + np.arange(block)).astype(numpy_type(dtype))
        back = np.array([first - block], np.int64)  # the pointer comes back into the buffer
        out = np.zeros(block, np.int32)
        launch(backend, offsets_kernel, x, numbers, out, 0, back, grid=1, FORM=form, BLOCK=block)
        want = block + (np.arange(block) if form != "scalar" else np.zeros(block, int))
        np.testing.assert_array_equal(out, want, f"from {first}")


@eas.kernel
def wrapping_kernel(x, out, first, FORM: eas.constexpr, BLOCK: eas.constexpr):
    """Offsets of 32 bits that pass 2**32 in the middle of a block; in front of that they are far behind the buffer."""
    j = mk.arange(0, BLOCK)
    i = mk.cast(j, mk.u32)
    first = mk.cast(first, mk.u32)
    if FORM == "sum":
        at = (i + first) + i
    elif FORM == "difference":
        at = (first + i * 3) - i
    elif FORM == "product":
        at = i * 2 + first
    elif FORM == "doubled":
        at = (i + first) * 2
    elif FORM == "more":
        at = first + i + i + i - i
    else:
        at = first + i
    small = at < 3 * BLOCK
    if FORM == "pointers":
        mk.store(out, j, mk.load((x + j) + at, mask=small, other=-1))
        mk.store(out + BLOCK, j, mk.load(x + (mk.cast(j, mk.i64) + mk.cast(at, mk.i64)), mask=small, other=-1))
    else:
        mk.store(out, j, mk.load(x + at, mask=small, other=-1))
        mk.store(out + BLOCK, j, mk.load(x + mk.cast(at, mk.i64), mask=small, other=-1))


@pytest.mark.parametrize("form", ["sum", "difference", "product", "doubled", "more", "pointers"])
def test_offsets_that_pass_their_end_start_again(backend, form):
    block = 64
    x = np.arange(4 * block, dtype=np.int32)
    for back in (0, 1, 8, 31, 64, 127, 200):
        first, j = -back % 2**32, np.arange(block)
        at = {"doubled": (j + first) * 2, "pointers": j + first}.get(form, 2 * j + first) % 2**32
        out = np.zeros(2 * block, np.int32)
        launch(backend, wrapping_kernel, x, out, np.uint32(first), grid=1, FORM=form, BLOCK=block)
        want = np.where(at < 3 * block, at + (j if form == "pointers" else 0), -1)
        np.testing.assert_array_equal(out, np.concatenate([want, want]), f"{back} before the end")


# --- what reductions start from ---------------------------------------------------------------------


@eas.kernel
def neutral_kernel(x, out, ROWS: eas.constexpr, BLOCK: eas.constexpr):
    v = mk.load(x, mk.arange(0, ROWS)[:, None] * BLOCK + mk.arange(0, BLOCK)[None, :])
    mk.store(out, 0, mk.sum(mk.sum(v, 0)))
    mk.store(out, 1, mk.sum(mk.sum(v, 1)))
    mk.store(out, 2, mk.max(mk.max(v, axis=0)))
    mk.store(out, 3, mk.min(mk.min(v, axis=1)))
    mk.store(out, 4, mk.max(mk.cumsum(mk.sum(v, 0))))


@pytest.mark.parametrize("shape", [(4, 64), (3, 7), (1, 100)], ids=str)
@pytest.mark.parametrize("number", [-0.0, -7.5, 7.5, -np.inf, np.inf, np.nan])
def test_reductions_start_from_a_neutral_element(backend, number, shape):
    """Nothing but -0.0 sums up to -0.0; the largest of negative numbers is negative."""
    out = np.full(5, 3, np.float32)
    launch(backend, neutral_kernel, np.full(shape, number, np.float32), out, grid=1, ROWS=shape[0], BLOCK=shape[1])
    total = np.float32(number * shape[0] * shape[1])
    largest = np.float32(number * shape[0]) if number < 0 else total
    want = np.array([total, total, number, number, largest], np.float32)
    np.testing.assert_array_equal(out, want)
    if backend == "cpu":  # Metal's own sums start from 0.0
        np.testing.assert_array_equal(np.signbit(out[:4]), np.signbit(want[:4]))


@pytest.mark.left_out(lambda backend, number: backend in METAL and number in (0, 5))  # as -7 and the largest one
@pytest.mark.parametrize("number", [-7, 0, 5, None])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_reduced_from_a_neutral_element(backend, dtype, number):
    info, shape = np.iinfo(numpy_type(dtype)), (4, 33)
    for value in [info.min, info.max] if number is None else [max(number, int(info.min))]:
        out = np.full(5, 3, numpy_type(dtype))
        launch(backend, neutral_kernel, np.full(shape, value, numpy_type(dtype)), out, grid=1, ROWS=shape[0], BLOCK=shape[1])
        assert out[2:4].tolist() == [value, value]
        total = value * shape[0] * shape[1]
        assert out[:2].tolist() == [np.array(total % (1 << info.bits)).astype(f"uint{info.bits}").astype(info.dtype)] * 2


# --- masks of the first and last iterations of loops ------------------------------------------------


def surrounded(values: np.ndarray) -> np.ndarray:
    """A view of the values in memory whose neighbours would be seen in any result."""
    memory = np.full(values.size + 128, 1e6, np.float32)
    memory[64 : 64 + values.size] = values
    return memory[64 : 64 + values.size]


@eas.kernel
def window_kernel(x, w, out, n, first, last, OP: eas.constexpr, STEP: eas.constexpr, SIGN: eas.constexpr, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    total = mk.zeros([BLOCK], mk.f32)
    for k in range(first, last, STEP):
        at = i + k if SIGN > 0 else i - k
        inside = (at >= 0) & ((at < n) if OP == "lt" else (n > at) if OP == "gt" else (at <= n - 1))
        total += mk.load(x, at, inside, other=0) * mk.load(w, k + 16)
    mk.store(out, i, total, i < n)


@pytest.mark.left_out(lambda backend, op, step, sign: sign < 0 and (backend in METAL or step > 1) and op != "lt")  # as `lt`
@pytest.mark.every_width
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("op", ["lt", "gt", "le"])
def test_windows_end_where_their_masks_end(backend, op, step, sign):
    """Forwards the last tap ends first and the first one starts last; backwards it is the other way round."""
    block, w = 128, np.arange(100, 132).astype(np.float32)
    for n in (1, 31, 65, 128, 200, 520):
        x, grid = surrounded(np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)), -(-n // block)
        for first, last in [(-1, 2), (0, 3), (-4, 1), (-3, 4), (2, 2), (-2, 9), (5, 6)]:
            out = np.zeros(n, np.float32)
            launch(backend, window_kernel, x, w, out, n, first, last, grid=grid, OP=op, STEP=step, SIGN=sign, BLOCK=block)
            padded = np.concatenate([np.zeros(16, np.float32), x, np.zeros(16, np.float32)])
            want = sum((padded[16 + sign * k : 16 + sign * k + n] * w[k + 16] for k in range(first, last, step)), np.zeros(n, np.float32))
            np.testing.assert_array_equal(out, want, f"n={n} taps {first} {last}")


@eas.kernel
def bent_window_kernel(x, w, out, n, reach, FORM: eas.constexpr, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    total = mk.zeros([BLOCK], mk.f32)
    for k in range(-reach, reach + 1):
        at = {"square": i + reach * reach - k * k, "other square": i + k * k, "distance": i + reach - mk.abs(k), "turned": i + k % 3}[FORM]
        total += mk.load(x, at, at < n, other=0) * mk.load(w, k + 16)
    mk.store(out, i, total, i < n)


@pytest.mark.parametrize("form", ["square", "other square", "distance", "turned"])
def test_windows_that_go_there_and_back(backend, form):
    """Between the first and the last tap a mask may end earlier than at both."""
    block, w = 128, np.arange(100, 132).astype(np.float32)
    for n in (1, 31, 65, 128, 200):
        x, i = surrounded(np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)), np.arange(n)
        for reach in (1, 3, 4):
            out, want = np.zeros(n, np.float32), np.zeros(n, np.float32)
            launch(backend, bent_window_kernel, x, w, out, n, reach, grid=-(-n // block), FORM=form, BLOCK=block)
            for k in range(-reach, reach + 1):
                at = {"square": i + reach * reach - k * k, "other square": i + k * k, "distance": i + reach - abs(k), "turned": i + k % 3}[form]
                want += np.where(at < n, x[np.minimum(at, n - 1)], 0) * w[k + 16]
            np.testing.assert_array_equal(out, want, f"n={n}, taps {reach}")


@eas.kernel
def counted_window_kernel(x, w, out, start, bound, first, last, OP: eas.constexpr, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    begin, end = mk.cast(i, bound.dtype) + mk.load(start, 0), mk.load(bound, 0)
    total = mk.zeros([BLOCK], mk.f32)
    for k in range(first, last):
        on = COMPARE[OP](begin + mk.cast(k, bound.dtype), end)
        total += mk.load(x, i + k + 16, on, other=0) * mk.load(w, k + 16)
    mk.store(out, i, total)


@pytest.mark.left_out(lambda backend, op: backend in METAL and op != "lt")  # as `lt`
@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_windows_whose_masks_wrap(backend, dtype, op):
    """Masks of short and unsigned numbers may hold in the first and in the last iteration and not in between."""
    block, w, info = 128, np.arange(100, 132).astype(np.float32), np.iinfo(numpy_type(dtype))
    x, i = np.random.default_rng(4).integers(-9, 9, block + 32).astype(np.float32), np.arange(block)
    near = int(info.max) - (block + 16 if dtype in ("i32", "i64") else 60)  # signed masks of 32 and 64 bits may not wrap
    for start, bound in [(0, 64), (near, info.max // 2), (near, info.max), (20, info.min), (info.min + 20, 3), (near - 40, near)]:
        for first, last in [(-8, 8), (0, 16), (5, 6)]:
            out = np.zeros(block, np.float32)
            given = [np.array([number], numpy_type(dtype)) for number in (start, bound)]
            launch(backend, counted_window_kernel, x, w, out, *given, first, last, grid=1, OP=op, BLOCK=block)
            want = np.zeros(block, np.float32)
            for k in range(first, last):
                with np.errstate(over="ignore"):
                    at = i.astype(numpy_type(dtype)) + given[0] + np.array(k).astype(numpy_type(dtype))
                want += np.where(COMPARE[op](at, given[1]), x[i + k + 16], 0) * w[k + 16]
            np.testing.assert_array_equal(out, want, f"{start} {bound}, taps {first} {last}")


@eas.kernel
def scaled_kernel(x, out, n, first, OP: eas.constexpr, STEP: eas.constexpr, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    at = i * STEP + first
    mask = COMPARE[OP](at, n)
    mk.store(out, i, mk.load(x, at, mask & (at < 1000), other=-1), mask & (at < 1000))


@pytest.mark.parametrize("step", [2, 3, 5])
@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
def test_bounds_of_every_few_elements(backend, op, step):
    """A bound between two elements counts the one before it."""
    block, grid = 128, 2
    x = surrounded(np.random.default_rng(5).integers(-9, 9, 1000).astype(np.float32))
    i = np.arange(grid * block)
    for n in (0, 1, 2, 3, 31, 32, 33, 97, 255, 256, 257, 511, 700):
        for first in (0, 1):
            out, at = np.zeros(i.size, np.float32), i * step + first
            launch(backend, scaled_kernel, x, out, n, first, grid=grid, OP=op, STEP=step, BLOCK=block)
            want = np.where(COMPARE[op](at, n) & (at < 1000), x[np.minimum(at, 999)], 0)
            np.testing.assert_array_equal(out, want, f"n={n} from {first}")


@eas.kernel
def rows_kernel(x, out, n, stride, BLOCK: eas.constexpr):
    row = mk.program_id(0)
    total = mk.zeros([BLOCK], mk.f32)
    largest = mk.full([BLOCK], -99.0, mk.f32)
    for start in range(0, n, BLOCK):
        c = start + mk.arange(0, BLOCK)
        v = mk.load(x, row * stride + c, c < n, other=1)
        total += v
        largest = mk.maximum(largest, v)
    mk.store(out, row * 2, mk.sum(total))
    mk.store(out, row * 2 + 1, mk.max(largest))


@pytest.mark.parametrize("block", [16, 64, 256])
def test_rows_in_blocks_end_inside_of_the_last_one(backend, block):
    """What lanes behind the end read counts: `other` is 1."""
    for n in (1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 300):
        x = np.random.default_rng(n).integers(-9, 9, (3, n + 2)).astype(np.float32)
        out = np.zeros((3, 2), np.float32)
        launch(backend, rows_kernel, x, out, n, n + 2, grid=3, BLOCK=block)
        beyond = -n % block
        np.testing.assert_array_equal(out[:, 0], x[:, :n].sum(axis=1) + beyond, f"n={n}")
        np.testing.assert_array_equal(out[:, 1], np.maximum(x[:, :n].max(axis=1), 1 if beyond else -99), f"n={n}")
