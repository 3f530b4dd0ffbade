"""Elementwise kernels: sum of two arrays, GELU of an affine map."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from typing import Literal

from eas import mk
from eas.base.errors import ArgumentError
from eas.lib.arrays import Array, check_count, need, result
from eas.lib.kernels import constexpr, kernel, wide
from eas.lib.sizes import flat_block


@kernel
def add_kernel(x, y, out, N, BLOCK: constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    mk.store(out, offs, mk.load(x, offs, mask) + mk.load(y, offs, mask), mask)


@kernel
def gelu_kernel(x, a, b, out, N, TANH: constexpr, BLOCK: constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    v = wide(mk.load(x, offs, mask))
    a, b = mk.cast(a, v.dtype), mk.cast(b, v.dtype)
    half = mk.fma(v, 0.5 * a, 0.5 * b)
    if TANH:
        v = mk.fma(v, a, b)
        inner = v * mk.fma(v * v, 0.044715 * 0.7978845608028654, 0.7978845608028654)  # sqrt(2 / pi)
        result = mk.fma(half, mk.tanh(inner), half)
    else:
        r = 0.7071067811865476  # sqrt(1 / 2)
        result = mk.fma(half, mk.erf(mk.fma(v, r * a, r * b)), half)
    mk.store(out, offs, result, mask)


def add(x: Array, y: Array, out: Array | None = None, *, block: int | None = None) -> Array:
    """x + y of two arrays of one shape and dtype."""
    shape, dtype, size = x.shape, x.dtype, x.size
    if y.shape != shape or y.dtype != dtype:
        raise ArgumentError(f"add needs equal arrays, got {dtype}{list(shape)} and {y.dtype}{list(y.shape)}")
    check_count(size)
    out = result(out, shape, dtype, x)
    add_kernel(x, y, out, size, BLOCK=block or flat_block(size))
    return out


def gelu(x: Array, a: float = 1.0, b: float = 0.0, out: Array | None = None, *, approximate: Literal["none", "tanh"] = "none", block: int | None = None) -> Array:
    """GELU of a * x + b (a and b are f32): the exact one with erf, or its tanh approximation."""
    need(approximate in ("none", "tanh"), lambda: f"approximate is 'none' or 'tanh', not {approximate!r}")
    size = x.size
    check_count(size)
    out = result(out, x.shape, x.dtype, x)
    gelu_kernel(x, float(a), float(b), out, size, TANH=approximate == "tanh", BLOCK=block or flat_block(size))
    return out
