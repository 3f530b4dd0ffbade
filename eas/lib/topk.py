"""The k largest elements of rows; the best of the blocks so far meet those of the next block."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import numpy as np

from eas import mk
from eas.lib.arrays import Array, check_rows, lowest, need, result
from eas.lib.kernels import constexpr, kernel
from eas.lib.sizes import row_block


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


def topk(x: Array, k: int, *, block: int | None = None) -> tuple[Array, Array]:
    """(values, indices) of the k largest elements along the last axis, largest first; NaN counts as the largest."""
    rows, cols = check_rows(x)
    need(1 <= k <= cols, f"k is {k}, but rows have {cols} elements")
    shape = (*x.shape[:-1], k)
    values, indices = result(None, shape, x.dtype, x), result(None, shape, np.int32, x)
    block = max(block or row_block(cols), mk.next_power_of_2(k))
    (topk_kernel if cols <= block else long_topk_kernel)[rows](x, values, indices, cols, K=int(k), LOWEST=lowest(x.dtype), BLOCK=block)
    return values, indices
