"""Layer norm and RMS norm of the rows of a matrix; a row may be longer than a block."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from typing import Any

from eas import mk
from eas.lib.arrays import Array, check_rows, check_vector, need_float, result
from eas.lib.kernels import Launch, constexpr, kernel, wide, wide_dtype
from eas.lib.sizes import row_block


def scaled(normal, weight, bias, cols, mask):
    """normal * weight + bias, of which either may be absent."""
    if weight is not None:
        normal = normal * wide(mk.load(weight, cols, mask))
    if bias is not None:
        normal = normal + wide(mk.load(bias, cols, mask))
    return normal


@kernel
def layer_norm_kernel(x, weight, bias, y, n_cols, eps, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    cols = mk.arange(0, BLOCK)
    mask = cols < n_cols
    values = wide(mk.load(x, start + cols, mask))
    mean = mk.sum(values) / n_cols
    centred = mk.where(mask, values - mean, 0.0)
    rstd = mk.rsqrt(mk.sum(centred * centred) / n_cols + eps)
    mk.store(y, start + cols, scaled(centred * rstd, weight, bias, cols, mask), mask)


@kernel
def long_layer_norm_kernel(x, weight, bias, y, n_cols, eps, BLOCK: constexpr):
    """Three passes: the squares are of centred values, so that a large mean costs no digits."""
    start = mk.program_id(0) * n_cols
    total = mk.zeros([], wide_dtype(x.dtype))
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        total += mk.sum(wide(mk.load(x, start + cols, cols < n_cols)))
    mean = total / n_cols
    squares = mk.zeros([], wide_dtype(x.dtype))
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        centred = mk.where(mask, wide(mk.load(x, start + cols, mask)) - mean, 0.0)
        squares += mk.sum(centred * centred)
    rstd = mk.rsqrt(squares / n_cols + eps)
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        normal = (wide(mk.load(x, start + cols, mask)) - mean) * rstd
        mk.store(y, start + cols, scaled(normal, weight, bias, cols, mask), mask)


@kernel
def rms_norm_kernel(x, weight, y, n_cols, eps, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    cols = mk.arange(0, BLOCK)
    mask = cols < n_cols
    values = wide(mk.load(x, start + cols, mask))
    rstd = mk.rsqrt(mk.sum(values * values) / n_cols + eps)
    mk.store(y, start + cols, scaled(values * rstd, weight, None, cols, mask), mask)


@kernel
def long_rms_norm_kernel(x, weight, y, n_cols, eps, BLOCK: constexpr):
    start = mk.program_id(0) * n_cols
    squares = mk.zeros([], wide_dtype(x.dtype))
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        values = wide(mk.load(x, start + cols, cols < n_cols))
        squares += mk.sum(values * values)
    rstd = mk.rsqrt(squares / n_cols + eps)
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        normal = wide(mk.load(x, start + cols, mask)) * rstd
        mk.store(y, start + cols, scaled(normal, weight, None, cols, mask), mask)


def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5, out: Array | None = None, *, block: int | None = None) -> Array:
    """Layer norm along the last axis, then times weight, plus bias."""
    need_float(x, "layer_norm")
    rows, cols = check_rows(x)
    for v, name in ((weight, "weight"), (bias, "bias")):
        if v is not None:
            check_vector(v, cols, name)
    out = result(out, x.shape, x.dtype, x)
    launch, grid, rest = layer_norm_launch(x, (rows, cols), eps, block)
    launch[grid](x, weight, bias, out, *rest)
    return out


def layer_norm_launch(x: Any, shape: tuple[int, int], eps: float, block: int | None = None) -> Launch:
    """Layer norm of (rows, columns) where `x` lives: the kernel, its grid, and what follows x, weight, bias, out."""
    rows, cols = shape
    block = block or row_block(x, cols)
    launch = layer_norm_kernel if cols <= block else long_layer_norm_kernel
    return launch, rows, (cols, float(eps), block)


def rms_norm(x: Array, weight: Array | None = None, eps: float = 1e-5, out: Array | None = None, *, block: int | None = None) -> Array:
    """RMS norm along the last axis, then times weight."""
    need_float(x, "rms_norm")
    rows, cols = check_rows(x)
    if weight is not None:
        check_vector(weight, cols, "weight")
    out = result(out, x.shape, x.dtype, x)
    launch, grid, rest = rms_norm_launch(x, (rows, cols), eps, block)
    launch[grid](x, weight, out, *rest)
    return out


def rms_norm_launch(x: Any, shape: tuple[int, int], eps: float, block: int | None = None) -> Launch:
    """RMS norm of (rows, columns) where `x` lives: the kernel, its grid, and what follows x, weight, out."""
    rows, cols = shape
    block = block or row_block(x, cols)
    launch = rms_norm_kernel if cols <= block else long_rms_norm_kernel
    return launch, rows, (cols, float(eps), block)
