"""Softmax of the rows of a matrix: in one block if the row fits, else in steps through it."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from eas import mk
from eas.lib.arrays import Array, check_rows, dtype_of, need_float, result
from eas.lib.kernels import constexpr, kernel, wide, wide_dtype
from eas.lib.sizes import ROW_BLOCK, row_block


@kernel
def softmax_kernel(x, y, n_cols, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    cols = mk.arange(0, BLOCK)
    mask = cols < n_cols
    values = wide(mk.load(x, start + cols, mask, other=-float("inf")))
    exps = mk.exp(values - mk.max(values))
    mk.store(y, start + cols, exps * (1.0 / mk.sum(exps)), mask)


@kernel
def stepped_softmax_kernel(x, y, n_cols, BLOCK: constexpr):
    """In steps through a row that the cache holds: the output keeps the exponentials until their sum is known."""
    start = mk.program_id(0) * n_cols
    best = mk.full([], -float("inf"), x.dtype)
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        best = mk.maximum(best, mk.max(mk.load(x, start + cols, cols < n_cols, other=-float("inf"))))
    total = mk.zeros([], x.dtype)
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        exps = mk.exp(mk.load(x, start + cols, mask, other=-float("inf")) - best)
        mk.store(y, start + cols, exps, mask)
        total += mk.sum(exps)
    scale = 1.0 / total
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        mk.store(y, start + cols, mk.load(y, start + cols, mask) * scale, mask)


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
    block = block or row_block(x, cols)
    if cols <= block:
        chosen = softmax_kernel
    else:  # a narrow output would round what it keeps
        keeps = cols <= ROW_BLOCK and dtype_of(x).bits >= 32
        chosen = stepped_softmax_kernel if keeps else long_softmax_kernel
    chosen[rows](x, out, cols, BLOCK=block)
    return out
