"""Softmax of the rows of a matrix: in one block if the row fits, else in two passes over it."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from eas import mk
from eas.lib.arrays import Array, check_rows, need_float, result
from eas.lib.kernels import constexpr, kernel, wide, wide_dtype
from eas.lib.sizes import row_block


@kernel
def softmax_kernel(x, y, n_cols, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    cols = mk.arange(0, BLOCK)
    mask = cols < n_cols
    values = wide(mk.load(x, start + cols, mask, other=-float("inf")))
    exps = mk.exp(values - mk.max(values))
    mk.store(y, start + cols, exps * (1.0 / mk.sum(exps)), mask)


def largest_and_sum(x, start, n_cols, BLOCK):
    """The largest value of a row of any length, and the sum of exponentials relative to it."""
    best = mk.full([], -float("inf"), wide_dtype(x.dtype))
    total = mk.zeros([], wide_dtype(x.dtype))
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        values = wide(mk.load(x, start + cols, cols < n_cols, other=-float("inf")))
        new_best = mk.maximum(best, mk.max(values))
        # While all values are -inf, subtracting 0 instead of the maximum avoids inf - inf.
        shift = mk.where(new_best == -float("inf"), 0.0, new_best)
        total = total * mk.exp(best - shift) + mk.sum(mk.exp(values - shift))
        best = new_best
    return best, total


@kernel
def long_softmax_kernel(x, y, n_cols, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    best, total = largest_and_sum(x, start, n_cols, BLOCK)
    scale = 1.0 / total
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        values = wide(mk.load(x, start + cols, mask))
        mk.store(y, start + cols, mk.exp(values - best) * scale, mask)


def softmax(x: Array, out: Array | None = None, *, block: int | None = None) -> Array:
    """Softmax along the last axis of an array of floats."""
    need_float(x, "softmax")
    rows, cols = check_rows(x)
    out = result(out, x.shape, x.dtype, x)
    block = block or row_block(cols)
    (softmax_kernel if cols <= block else long_softmax_kernel)[rows](x, out, cols, BLOCK=block)
    return out
