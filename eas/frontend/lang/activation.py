"""Activation functions, made of elementwise ones; floats of 16 bits are computed in f32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eas.base import dtypes
from eas.frontend.block import Block, Operand
from eas.frontend.hints import need_choice
from eas.frontend.lang.math import abs, erf, exp, log1p, maximum, sigmoid, tanh, where
from eas.frontend.values import as_block, cast_to, check_operands


def _in_f32(name: str, x: Any, function: Callable[[Any], Any]) -> Block:
    """A function of x in f32 (f64 of f64), in the dtype of x again; f32 of integers."""
    block = as_block(x, f"the operand of {name}")
    check_operands(name, (block,))
    result = dtypes.div_type(block.dtype)
    wide = cast_to(block, dtypes.f64 if result is dtypes.f64 else dtypes.f32)
    return cast_to(function(wide), result)


def relu(x: Operand) -> Any:
    """max(x, 0) per element; NaN stays NaN."""
    return maximum(x, 0)


def leaky_relu(x: Operand, slope: Operand = 0.01) -> Block:
    """x where it is positive, else slope * x."""
    return _in_f32("leaky_relu", x, lambda v: where(v > 0, v, v * slope))


def softplus(x: Operand) -> Block:
    """log(1 + exp(x)), which does not overflow."""
    return _in_f32("softplus", x, lambda v: maximum(v, 0.0) + log1p(exp(-abs(v))))


def silu(x: Operand) -> Block:
    """x * sigmoid(x)."""
    return _in_f32("silu", x, lambda v: v * sigmoid(v))


def gelu(x: Operand, approximate: str = "none") -> Block:
    """x times the normal distribution at x: by erf, or with approximate="tanh" by the usual polynomial."""
    need_choice("gelu", "approximate", approximate, ("none", "tanh"))
    if approximate == "tanh":
        return _in_f32("gelu", x, lambda v: 0.5 * v * (1.0 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))))  # sqrt(2 / pi)
    return _in_f32("gelu", x, lambda v: 0.5 * v * (1.0 + erf(v * 0.7071067811865476)))  # sqrt(1 / 2)
