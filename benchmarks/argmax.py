"""`python -m benchmarks --argmax`: argmax and argmin of rows of every dtype and many lengths, beside NumPy and a loop in C."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import eas
from benchmarks.measure import Budget, interleave
from benchmarks.registry import Call
from eas import lib, mk

DTYPES = ["float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
LENGTHS = [7, 33, 64, 100, 257, 1000, 1024, 4096, 50000]
NBYTES = 1 << 22  # of a matrix
BAR = 1.3  # of the better of the two
BUDGET = Budget(samples=9, seconds=1.0)
TILE = 8  # rows
LONGEST_TILE = 1024


@eas.kernel
def place_rows(x, out, n, WORST: mk.constexpr, LOWEST: mk.constexpr, BLOCK: mk.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    values = mk.load(x, row * n + c, c < n, other=WORST)
    mk.store(out, row, mk.argmin(values) if LOWEST else mk.argmax(values))


@eas.kernel
def place_tiles(x, out, m, n, WORST: mk.constexpr, LOWEST: mk.constexpr, ROWS: mk.constexpr, BLOCK: mk.constexpr):
    r, c = mk.program_id(0) * ROWS + mk.arange(0, ROWS), mk.arange(0, BLOCK)
    values = mk.load(x + r[:, None] * n + c[None, :], mask=(r[:, None] < m) & (c[None, :] < n), other=WORST)
    mk.store(out + r, mk.argmin(values, axis=1) if LOWEST else mk.argmax(values, axis=1), mask=r < m)


def run_argmax() -> None:
    """Print a row for each dtype, function and length; `!` marks a ratio above the bar."""
    print(f"{'':24}{'NumPy':>9}{'C':>9}   ns per row; ratios to the better one: a row per program, {TILE} rows, eas.lib")
    over = 0
    for dtype in DTYPES:
        for find in (np.argmax, np.argmin):
            for n in LENGTHS:
                over += _print_row(np.dtype(dtype), find, n)
    print(f"{over} ratios above {BAR}")


def _print_row(dtype: np.dtype, find, n: int) -> int:
    x = _matrix(dtype, n)
    calls = dict(_calls(x, find))
    want = find(x, axis=1)
    for name, call in calls.items():
        np.testing.assert_array_equal(call(), want, name)
    best = {name: t.best / len(x) * 1e9 for name, t in interleave(calls, BUDGET).items()}
    least = min(best["numpy"], best.get("c", np.inf))
    ratios = {name: t / least for name, t in best.items() if name not in ("numpy", "c")}
    shown = "".join(f"{ratios.get(name, np.nan):7.2f}{'!' if ratios.get(name, 0) > BAR else ' '}" for name in ("rows", "tiles", "lib"))
    print(f"{dtype.name:8} {find.__name__} {n:>7} {best['numpy']:9.1f}{best.get('c', np.nan):9.1f}   {shown}".rstrip(), flush=True)
    return sum(r > BAR for r in ratios.values())


def _matrix(dtype: np.dtype, n: int) -> np.ndarray:
    rng, shape = np.random.default_rng(n), (max(2, NBYTES // dtype.itemsize // n), n)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def _calls(x: np.ndarray, find) -> Iterator[tuple[str, Call]]:
    from benchmarks.baselines import bind, why_unavailable

    m, n = x.shape
    out, small = np.empty(m, np.int64), np.empty(m, np.int32)
    lowest, block = find is np.argmin, mk.next_power_of_2(n)
    ends = (-np.inf, np.inf) if x.dtype.kind == "f" else (int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max))
    worst = ends[lowest]
    yield "numpy", lambda: find(x, axis=1, out=out)
    if why_unavailable() is None and x.dtype != np.float16:
        yield "c", bind(f"{find.__name__}_{x.dtype.name}", x, out, m, n, answer=out)
    yield "rows", lambda: (place_rows[m,](x, out, n, WORST=worst, LOWEST=lowest, BLOCK=block), out)[1]
    if block <= LONGEST_TILE:
        yield "tiles", lambda: (place_tiles[-(-m // TILE),](x, out, m, n, WORST=worst, LOWEST=lowest, ROWS=TILE, BLOCK=block), out)[1]
    if not lowest:
        yield "lib", lambda: lib.argmax(x, small)
