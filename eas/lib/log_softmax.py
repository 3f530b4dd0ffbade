"""Logarithm of the softmax of rows, and cross entropy, which needs one element of it."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from eas import mk
from eas.lib.arrays import Array, check_rows, dtype_of, need, need_float, result
from eas.lib.kernels import constexpr, kernel, wide
from eas.lib.sizes import row_block
from eas.lib.softmax import largest_and_sum


@kernel
def log_softmax_kernel(x, y, n_cols, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    cols = mk.arange(0, BLOCK)
    mask = cols < n_cols
    values = wide(mk.load(x, start + cols, mask, other=-float("inf")))
    shifted = values - mk.max(values)
    mk.store(y, start + cols, shifted - mk.log(mk.sum(mk.exp(shifted))), mask)


def log_of_sum(x, start, n_cols, BLOCK):
    """log(sum(exp(x))) of a row of any length."""
    best, total = largest_and_sum(x, start, n_cols, BLOCK)
    return best + mk.log(total)


@kernel
def long_log_softmax_kernel(x, y, n_cols, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    norm = log_of_sum(x, start, n_cols, BLOCK)
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        mk.store(y, start + cols, wide(mk.load(x, start + cols, mask)) - norm, mask)


@kernel
def cross_entropy_kernel(x, target, losses, norms, n_cols, ignored, BLOCK: constexpr, LONG: constexpr):
    """Loss of one row, and the logarithm that its gradient needs."""
    row = mk.program_id(0)
    start = row * n_cols
    if LONG:
        norm = log_of_sum(x, start, n_cols, BLOCK)
    else:
        cols = mk.arange(0, BLOCK)
        values = wide(mk.load(x, start + cols, cols < n_cols, other=-float("inf")))
        best = mk.max(values)
        norm = best + mk.log(mk.sum(mk.exp(values - best)))
    wanted = mk.load(target, row)
    counts = wanted != ignored
    is_class = (wanted >= 0) & (wanted < n_cols)
    mk.device_assert(is_class | (wanted == ignored), "target is no class")
    right = wide(mk.load(x, start + wanted.to(mk.i32), counts & is_class))
    mk.store(losses, row, mk.where(counts, norm - right, 0.0))
    mk.store(norms, row, norm)


def log_softmax(x: Array, out: Array | None = None, *, block: int | None = None) -> Array:
    """log(softmax(x)) along the last axis of an array of floats."""
    need_float(x, "log_softmax")
    rows, cols = check_rows(x)
    out = result(out, x.shape, x.dtype, x)
    block = block or row_block(x, cols)
    (log_softmax_kernel if cols <= block else long_log_softmax_kernel)[rows](x, out, cols, BLOCK=block)
    return out


def row_losses(x: Array, target: Array, ignore_index: int = -100, *, block: int | None = None) -> tuple[Array, Array]:
    """(losses, log-sums) of every row of x, in at least f32: what cross_entropy adds up."""
    need_float(x, "cross_entropy")
    rows, cols = check_rows(x)
    need(target.shape == x.shape[:-1] and dtype_of(target).is_int, lambda: f"cross_entropy needs a class (an integer) for each row of {x.shape}, got {target.dtype}{list(target.shape)}")
    dtype = np.float64 if dtype_of(x).bits == 64 else np.float32
    losses, norms = result(None, x.shape[:-1], dtype, x), result(None, x.shape[:-1], dtype, x)
    block = block or row_block(x, cols)
    cross_entropy_kernel[rows](x, target, losses, norms, cols, ignore_index, BLOCK=block, LONG=cols > block)
    return losses, norms


def cross_entropy(x: Array, target: Array, *, ignore_index: int = -100, reduction: Literal["mean", "sum", "none"] = "mean", block: int | None = None) -> Any:
    """-log(softmax(x)[target]) of every row of logits; its mean or sum over the rows that count, or all of them."""
    need(reduction in ("mean", "sum", "none"), f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    losses, _ = row_losses(x, target, ignore_index, block=block)
    if reduction == "none":
        return losses
    values = np.asarray(losses)
    total = values.sum(dtype=np.float64)
    if reduction == "mean":
        total = total / np.count_nonzero(np.asarray(target) != ignore_index)
    return values.dtype.type(total)
