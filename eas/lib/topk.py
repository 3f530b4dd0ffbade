"""The k largest elements of rows; the best of the blocks so far meet those of the next block, or on Metal those of all blocks at once."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import numpy as np

from eas import mk
from eas.lib.arrays import Array, check_count, check_rows, lowest, need, result
from eas.lib.kernels import constexpr, kernel
from eas.lib.sizes import METAL_NBYTES, element_nbytes, on_metal, power_of_2, row_block

METAL_CHUNK = 2048  # elements of a row that a threadgroup sorts


@kernel
def topk_kernel(x, values, indices, n_cols, K: constexpr, LOWEST: constexpr, BLOCK: constexpr):
    row = mk.program_id(0)
    cols = mk.arange(0, BLOCK)
    best, place = mk.topk(mk.load(x, row * n_cols + cols, cols < n_cols, other=LOWEST), K)
    mk.store(values, row * K + mk.arange(0, K), best)
    mk.store(indices, row * K + mk.arange(0, K), place)


@kernel
def long_topk_kernel(x, values, indices, n_cols, K: constexpr, LOWEST: constexpr, BLOCK: constexpr):
    row = mk.program_id(0)
    cols = mk.arange(0, BLOCK)
    best, place = mk.topk(mk.load(x, row * n_cols + cols, cols < n_cols, other=LOWEST), K)
    for first in range(BLOCK, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        more, where = mk.topk(mk.load(x, row * n_cols + cols, cols < n_cols, other=LOWEST), K)
        # Earlier ones stand first: they win ties.
        best, chosen = mk.topk(mk.cat(best, more), K)
        place = mk.gather(mk.cat(place, first + where), chosen, 0)
    mk.store(values, row * K + mk.arange(0, K), best)
    mk.store(indices, row * K + mk.arange(0, K), place)


@kernel
def chunk_topk_kernel(x, places, values, indices, n_cols, n_chunks, K: constexpr, LOWEST: constexpr, BLOCK: constexpr):
    """The best of one chunk of a row, and what `places` says of where they were, or their columns."""
    row, chunk = mk.program_id(1), mk.program_id(0)
    cols = chunk * BLOCK + mk.arange(0, BLOCK)
    best, place = mk.topk(mk.load(x, row * n_cols + cols, cols < n_cols, other=LOWEST), K)
    place = chunk * BLOCK + place
    if places is not None:
        place = mk.load(places, row * n_cols + place, place < n_cols)
    at = (row * n_chunks + chunk) * K + mk.arange(0, K)
    mk.store(values, at, best)
    mk.store(indices, at, place)


def topk(x: Array, k: int, *, block: int | None = None) -> tuple[Array, Array]:
    """(values, indices) of the k largest elements along the last axis, largest first; NaN counts as the largest."""
    rows, cols = check_rows(x)
    need(1 <= k <= cols, f"k is {k}, but rows have {cols} elements")
    shape = (*x.shape[:-1], k)
    if on_metal(x):
        return _by_chunks(x, int(k), block)
    values, indices = result(None, shape, x.dtype, x), result(None, shape, np.int32, x)
    block = max(block or row_block(x, cols), mk.next_power_of_2(k))
    (topk_kernel if cols <= block else long_topk_kernel)[rows](x, values, indices, cols, K=int(k), LOWEST=lowest(x.dtype), BLOCK=block)
    return values, indices


def _by_chunks(x: Array, k: int, block: int | None) -> tuple[Array, Array]:
    """The best of every chunk, then of those, until one chunk holds all: earlier ones stand first, so they win ties."""
    most = power_of_2(METAL_NBYTES // (element_nbytes(x) + 4))  # a threadgroup holds elements and their places
    rows, cols = check_rows(x)
    largest = max(block or METAL_CHUNK, mk.next_power_of_2(2 * k))
    need(min(largest, mk.next_power_of_2(cols)) <= most, lambda: f"k is {k}: of rows of {cols} {x.dtype} elements, Metal finds up to {most // 2}")
    values, indices, places = x, x, None
    n_chunks = 0
    while n_chunks != 1:
        size = min(largest, mk.next_power_of_2(cols))
        n_chunks = mk.cdiv(cols, size)
        check_count(rows * n_chunks * k)
        shape = (*x.shape[:-1], n_chunks * k)
        given, values, indices = values, result(None, shape, x.dtype, x), result(None, shape, np.int32, x)
        chunk_topk_kernel[n_chunks, rows](given, places, values, indices, cols, n_chunks, K=k, LOWEST=lowest(x.dtype), BLOCK=size)
        places, cols = indices, n_chunks * k
    return values, indices
