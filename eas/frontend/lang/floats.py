"""Floats as exponent and digits: neighbours, exponents, exact remainders."""

from __future__ import annotations

import math
from typing import Any

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.frontend.block import Block, Operand
from eas.frontend.hints import checked
from eas.frontend.lang.cast import cast
from eas.frontend.lang.math import abs, copysign, fmod, isfinite, isinf, isnan, where
from eas.frontend.values import as_block, constant, fit
from eas.ops.rules import need_dtype

_WORDS = {dtypes.f32: dtypes.i32, dtypes.f64: dtypes.i64}


def _floats(name: str, *operands: Operand) -> tuple[list[Any], DType]:
    """Operands of f32 or f64, and the integer type of their bits."""
    blocks = fit(name, operands) if len(operands) > 1 else [as_block(operands[0], f"the operand of mk.{name}")]
    for block in blocks:
        checked(need_dtype, name, block.type, tuple(_WORDS))
    return list(blocks), _WORDS[blocks[0].dtype]


def nextafter(x: Operand, y: Operand) -> Block:
    """The neighbour of x toward y, in f32 or f64; y where they are equal."""
    (a, b), word = _floats("nextafter", x, y)
    step = where((a < b) == (a > 0), constant(1, word), constant(-1, word))
    moved = cast(cast(a, word, bitcast=True) + step, a.dtype, bitcast=True)
    least = copysign(cast(constant(1, word), a.dtype, bitcast=True), b)
    found = where(a == 0, least, moved)
    return where(isnan(a) | isnan(b), a + b, where(a == b, b, found))


def logb(x: Operand) -> Block:
    """The exponent of f32 or f64, as a float: that of 1.0 is 0; -inf of 0, inf of infinities."""
    (a,), _ = _floats("logb", x)
    found = where(isfinite(a), cast(_exponent(a), a.dtype), a * a)
    return where(a == 0, -math.inf, found)


def ilogb(x: Operand) -> Block:
    """The exponent of f32 or f64, as an i32: the largest one of infinities, the least of 0 and NaN."""
    (a,), _ = _floats("ilogb", x)
    none = constant(dtypes.i32.min, dtypes.i32)
    return where((a == 0) | isnan(a), none, where(isinf(a), constant(dtypes.i32.max, dtypes.i32), _exponent(a)))


def _exponent(a: Any) -> Block:
    """Of finite numbers but 0; numbers below the normal ones are scaled first."""
    word, digits, bias = (dtypes.i64, 52, 1023) if a.dtype is dtypes.f64 else (dtypes.i32, 23, 127)
    is_small = abs(a) < 2.0 ** (1 - bias)
    scaled = where(is_small, a * 2.0 ** (digits + 1), a)
    raw = (cast(scaled, word, bitcast=True) >> digits) & (2 * bias + 1)
    return cast(raw, dtypes.i32) - where(is_small, bias + digits + 1, bias)


def remainder(x: Operand, y: Operand) -> Block:
    """x - n * y, exactly, for the integer n next to x / y (the even one of two), in f32 or f64; NaN of infinite x and of y = 0."""
    (a, b), _ = _floats("remainder", x, y)
    size, by = abs(a), abs(b)
    twice = by + by
    rest = where(isinf(twice) & isfinite(by), size, fmod(size, twice))
    # Half of the divisor may not be a number, twice the rest may be too large: never both.
    is_small = by < 1.0
    one = where(where(is_small, rest + rest > by, rest > 0.5 * by), rest - by, rest)
    is_over = where(is_small, one + one >= by, one >= 0.5 * by) & (rest != one)
    found = where(is_over, one - by, one)
    signed = where(a < 0, -found, found)
    return where(isnan(b) | ~isfinite(a), math.nan, where(isinf(b), a, where(found == 0, copysign(found, a), signed)))
