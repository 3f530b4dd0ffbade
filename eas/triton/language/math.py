"""Elementwise functions: `tl.math`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eas.base import dtypes
from eas.frontend.block import Block
from eas.frontend.lang import math as eas_math
from eas.frontend.values import cast_to, constant, emit, is_number, plain
from eas.triton.language import meaning
from eas.triton.language.meaning import operands, refuse, to_tensor
from eas.triton.language.types import PropagateNan

Unary = Callable[[Any], Block]


def floating(name: str, x: Any, allowed: tuple[dtypes.DType, ...] = (dtypes.f32, dtypes.f64)) -> Block:
    """x as an operand of a function of floats; literals are f32."""
    block = constant(float(plain(x)), dtypes.f32) if is_number(x) else to_tensor(x)
    if not block.type.is_value or block.dtype not in allowed:
        refuse(f"Expected dtype {[str(t) for t in allowed]} but got {block.dtype}: {name}", f"tl.{name}(x.to(tl.float32))")
    return block


def unary(name: str, row: str = "") -> Unary:
    """The function of floats of a row of ours."""

    def function(x: Any) -> Block:
        return emit(row or name, floating(name, x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of f32 and f64."
    return function


exp, exp2, log, log2 = unary("exp"), unary("exp2"), unary("log"), unary("log2")
cos, sin, sqrt, rsqrt = unary("cos"), unary("sin"), unary("sqrt"), unary("rsqrt")
erf, floor, ceil, sqrt_rn = unary("erf"), unary("floor"), unary("ceil"), unary("sqrt_rn", "sqrt")


def abs(x: Any) -> Block:
    """The magnitude; of unsigned integers and bools the number itself."""
    block = to_tensor(x)
    return block if block.dtype.is_bool or (block.dtype.is_int and not block.dtype.is_signed) else emit("abs", block)


def fma(x: Any, y: Any, z: Any) -> Block:
    """x * y + z with one rounding."""
    a, b = operands("fma", x, y)
    a, c = operands("fma", a, z)
    b, c = operands("fma", b, c)
    return emit("fma", a, b, c) if a.dtype.is_float else emit("add", emit("mul", a, b), c)


def fdiv(x: Any, y: Any, ieee_rounding: Any = False) -> Block:
    """x / y of floats, correctly rounded in any case."""
    return meaning.binary("div", to_tensor(x), y)  # type: ignore[no-any-return]


def div_rn(x: Any, y: Any) -> Block:
    """x / y, correctly rounded."""
    return meaning.binary("div", to_tensor(x), y)  # type: ignore[no-any-return]


def umulhi(x: Any, y: Any) -> Block:
    """The high half of the product of two integers taken as unsigned."""
    left, right = operands("umulhi", x, y)
    return meaning.bitcast(eas_math.umulhi(left, right), left.dtype)


def sigmoid(x: Any) -> Block:
    """1 / (1 + exp(-x)) of f32 and f64."""
    return emit("sigmoid", floating("sigmoid", x))


def _wide(x: Any) -> Any:
    """bf16 as f32, in which Triton compares it."""
    return cast_to(x, dtypes.f32) if isinstance(x, Block) and x.type.is_value and x.dtype is dtypes.bf16 else x


def _extreme(name: str, x: Any, y: Any, propagate_nan: PropagateNan) -> Any:
    if is_number(x) and is_number(y):
        return max(plain(x), plain(y)) if name == "max" else min(plain(x), plain(y))
    left, right = operands(name, _wide(x), _wide(y))
    if left.dtype.is_bool:
        return emit("or" if name == "max" else "and", left, right)
    ignores = left.dtype.is_float and propagate_nan is not PropagateNan.ALL
    return emit(f"f{name}" if ignores else name, left, right)


def maximum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> Any:
    """The larger per element; NaN only if both are, unless told."""
    return _extreme("max", x, y, propagate_nan)


def minimum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> Any:
    """The smaller per element; NaN only if both are, unless told."""
    return _extreme("min", x, y, propagate_nan)


def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = PropagateNan.NONE) -> Block:
    """min(max(x, lo), hi) of floats per element; NaN gives lo, unless told."""
    block = to_tensor(_wide(x))
    lo, hi = operands("clamp", _wide(min), _wide(max))
    if not block.dtype.is_float:
        refuse(f"Unexpected dtype {block.dtype}. Only floating point clamp is supported", "tl.minimum(tl.maximum(x, lo), hi)")
    return minimum(maximum(block, lo, propagate_nan), hi, propagate_nan)  # type: ignore[no-any-return]


def add(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """x + y."""
    return meaning.binary("add", x, y)


def sub(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """x - y."""
    return meaning.binary("sub", x, y)


def mul(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """x * y."""
    return meaning.binary("mul", x, y)


