"""Gated and biased activations: SiLU, SwiGLU, and the bias and GELU that end the first half of an MLP."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from typing import Any, Literal

from eas import mk
from eas.lib.arrays import Array, check_rows, check_small, check_vector, need, need_float, result
from eas.lib.kernels import Launch, constexpr, kernel, wide
from eas.lib.sizes import flat_block, tile

EPILOGUE_COLS = 1024  # columns of a program: the bias of a block stays in the L1 cache
EPILOGUE_ROWS = 8


def gelu_of(v, TANH):
    """GELU of a traced value: exact, or the tanh approximation."""
    if TANH:
        inner = 0.7978845608028654 * (v + 0.044715 * v * v * v)  # sqrt(2 / pi)
        return 0.5 * v * (1.0 + mk.tanh(inner))
    return 0.5 * v * (1.0 + mk.erf(v * 0.7071067811865476))  # sqrt(1 / 2)


@kernel
def silu_kernel(x, out, N, BLOCK: constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    v = wide(mk.load(x, offs, mask))
    mk.store(out, offs, v * mk.sigmoid(v), mask)


@kernel
def swiglu_kernel(gate, up, out, N, BLOCK: constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    g = wide(mk.load(gate, offs, mask))
    mk.store(out, offs, g * mk.sigmoid(g) * wide(mk.load(up, offs, mask)), mask)


@kernel
def bias_gelu_kernel(x, bias, out, n_rows, n_cols, TANH: constexpr, BM: constexpr, BN: constexpr):
    """One pass over a matrix that adds a row to every row and applies GELU."""
    rows = mk.program_id(1) * BM + mk.arange(0, BM)[:, None]
    cols = mk.program_id(0) * BN + mk.arange(0, BN)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    v = wide(mk.load(x, rows * n_cols + cols, mask))
    if bias is not None:
        v = v + wide(mk.load(bias, cols, cols < n_cols))
    mk.store(out, rows * n_cols + cols, gelu_of(v, TANH), mask)


def silu(x: Array, out: Array | None = None, *, block: int | None = None) -> Array:
    """x * sigmoid(x) of an array of floats."""
    need_float(x, "silu")
    check_small(x)
    out = result(out, x.shape, x.dtype, x)
    silu_kernel(x, out, x.size, BLOCK=block or flat_block(x.size))
    return out


def swiglu(gate: Array, up: Array, out: Array | None = None, *, block: int | None = None) -> Array:
    """silu(gate) * up of two arrays of one shape and dtype, in one pass."""
    need(gate.shape == up.shape and gate.dtype == up.dtype, lambda: f"swiglu needs equal arrays, got {gate.dtype}{list(gate.shape)} and {up.dtype}{list(up.shape)}")
    need_float(gate, "swiglu")
    check_small(gate)
    out = result(out, gate.shape, gate.dtype, gate)
    swiglu_kernel(gate, up, out, gate.size, BLOCK=block or flat_block(gate.size))
    return out


def bias_gelu(x: Array, bias: Array | None = None, out: Array | None = None, *, approximate: Literal["none", "tanh"] = "none") -> Array:
    """GELU of x + bias, where bias has the length of the last axis: what follows the first product of an MLP."""
    need(approximate in ("none", "tanh"), f"approximate is 'none' or 'tanh', not {approximate!r}")
    need_float(x, "bias_gelu")
    rows, cols = check_rows(x)
    if bias is not None:
        check_vector(bias, cols, "bias")
    out = result(out, x.shape, x.dtype, x)
    launch, grid, rest = bias_gelu_launch(x, (rows, cols), approximate)
    launch[grid](x, bias, out, *rest)
    return out


def bias_gelu_launch(x: Any, shape: tuple[int, int], approximate: str) -> Launch:
    """GELU of (rows, columns) plus bias, where `x` lives: the kernel, its grid, and what follows x, bias, out."""
    rows, cols = shape
    bm, bn = EPILOGUE_ROWS, tile(x, cols, EPILOGUE_COLS)
    return bias_gelu_kernel, (mk.cdiv(cols, bn), mk.cdiv(rows, bm)), (rows, cols, approximate == "tanh", bm, bn)
