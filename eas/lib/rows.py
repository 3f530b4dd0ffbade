"""Prefix sums and argmax of the rows of a matrix; what a row has seen so far goes from block to block."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import numpy as np

from eas import mk
from eas.lib.arrays import Array, check_rows, lowest, result
from eas.lib.kernels import constexpr, kernel, wide, wide_dtype
from eas.lib.sizes import on_metal, row_block

LONGEST_SEARCH = 1 << 24  # elements of a row that a CPU searches as one block, of which nothing is kept
SEARCH_BLOCK = 512  # elements of a longer row: so few that it hardly matters that one block is read twice
INDEX = np.dtype(np.int32)


@kernel
def cumsum_kernel(x, y, n_cols, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    cols = mk.arange(0, BLOCK)
    mask = cols < n_cols
    mk.store(y, start + cols, mk.cumsum(wide(mk.load(x, start + cols, mask))), mask)


@kernel
def long_cumsum_kernel(x, y, n_cols, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    carry = mk.zeros([], wide_dtype(x.dtype))
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        part = wide(mk.load(x, start + cols, mask))
        mk.store(y, start + cols, mk.cumsum(part) + carry, mask)
        carry += mk.sum(part)


@kernel
def argmax_kernel(x, out, n_cols, LOWEST: constexpr, BLOCK: constexpr):
    cols = mk.arange(0, BLOCK)
    values = mk.load(x, mk.program_id(0) * n_cols + cols, cols < n_cols, other=LOWEST)
    mk.store(out, mk.program_id(0), mk.argmax(values))


@kernel
def long_argmax_kernel(x, out, n_cols, LOWEST: constexpr, BLOCK: constexpr):
    """The first block that has the largest value, or the first NaN; then the place in it."""
    start = mk.program_id(0) * n_cols
    best = mk.full([], LOWEST, x.dtype)
    place = mk.zeros([], mk.i32)
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        here = mk.max(mk.load(x, start + cols, cols < n_cols, other=LOWEST))
        is_better = (here > best) | ((here != here) & (best == best))
        place = mk.where(is_better, first, place)
        best = mk.where(is_better, here, best)
    cols = place + mk.arange(0, BLOCK)
    values = mk.load(x, start + cols, cols < n_cols, other=LOWEST)
    mk.store(out, mk.program_id(0), place + mk.argmax(values))


def cumsum(x: Array, out: Array | None = None, *, block: int | None = None) -> Array:
    """Inclusive prefix sum along the last axis, in its dtype."""
    rows, cols = check_rows(x)
    out = result(out, x.shape, x.dtype, x)
    block = block or row_block(x, cols)
    (cumsum_kernel if cols <= block else long_cumsum_kernel)[rows](x, out, cols, BLOCK=block)
    return out


def argmax(x: Array, out: Array | None = None, *, block: int | None = None) -> Array:
    """Index (i32) of the largest element along the last axis; a NaN wins, then the lowest index."""
    rows, cols = check_rows(x)
    out = result(out, x.shape[:-1], INDEX, x)
    block = block or _search_block(x, cols)
    (argmax_kernel if cols <= block else long_argmax_kernel)[rows](x, out, cols, LOWEST=lowest(x.dtype), BLOCK=block)
    return out


def _search_block(x: Array, cols: int) -> int:
    """The whole row, or blocks of which one is read twice."""
    if on_metal(x):
        return row_block(x, cols)
    return int(mk.next_power_of_2(cols)) if cols <= LONGEST_SEARCH else SEARCH_BLOCK
