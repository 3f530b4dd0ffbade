"""Laws of arithmetic and logic that hold bit for bit: from an instruction to a simpler value."""

from __future__ import annotations

import math

from eas.analysis.effects import is_commutative
from eas.base.dtypes import DType
from eas.ir import Inst, Value
from eas.ir.rewriting import Rewriter
from eas.passes.fold_constants import Number, folded

_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
# For these, (x op c) op d = x op (c op d); with wrapping that holds for every integer.
_ASSOCIATIVE = ("add", "mul", "and", "or", "xor", "min", "max")


def value_law(inst: Inst, rw: Rewriter) -> Value | None:
    """Something equal to the result that costs less, from laws that need no permission."""
    xs = inst.operands
    match inst.op.name:
        case "select":
            return _select(inst, rw)
        case "cast":
            return _cast(inst, rw)
        case "bitcast":
            return _bitcast(inst, rw)
        case "neg" | "not" as name if (inner := rw.produced_by(name, xs[0])) is not None:
            return inner.operands[0]  # -(-x) = x, ~~x = x
        case "not":
            return _not(inst, rw)
    if len(xs) != 2:
        return None
    if xs[0] is xs[1]:
        return _same_operands(inst, rw)
    x, c = _constant_last(inst, rw)
    if c is None:
        return None
    if x.dtype.is_int:
        return _integer_law(inst, x, c, rw)
    if x.dtype.is_float:
        return _float_law(inst.op.name, x, c)
    return _bool_law(inst.op.name, x, bool(c), rw)


def relaxed_law(inst: Inst, rw: Rewriter) -> Value | None:
    """Laws that forget the sign of zero."""
    if inst.op.name not in ("add", "sub") or not inst.out.dtype.is_float:
        return None
    x, c = _constant_last(inst, rw)
    return x if c == 0 else None  # x + 0.0 = x but for x = -0.0


def fast_law(inst: Inst, rw: Rewriter) -> Value | None:
    """Laws that assume finite numbers."""
    if inst.op.name != "mul" or not inst.out.dtype.is_float:
        return None
    _, c = _constant_last(inst, rw)
    return rw.const(0.0, inst.out.type) if c == 0 else None  # x * 0.0 = 0.0 but for inf, NaN, signs


def _constant_last(inst: Inst, rw: Rewriter) -> tuple[Value, Number | None]:
    """(x, c) of `x op c`, or of `c op x` where the two may be swapped."""
    x, y = inst.operands
    c = rw.literal(y)
    if c is None and is_commutative(inst.op):
        x, c = y, rw.literal(x)
    return x, c


def _same_operands(inst: Inst, rw: Rewriter) -> Value | None:
    x = inst.operands[0]
    match inst.op.name:
        case "min" | "max" | "fmin" | "fmax" | "and" | "or":
            return x  # also for NaN
        case "sub" | "xor" if not x.dtype.is_float:
            return _zero(inst, rw)  # x - x = 0, x ^ x = 0
        case "eq" | "le" | "ge" if not x.dtype.is_float:
            return rw.const(True, inst.out.type)  # NaN is not equal to itself
        case "ne" | "lt" | "gt" if not x.dtype.is_float:
            return rw.const(False, inst.out.type)
    return None


def _integer_law(inst: Inst, x: Value, c: Number, rw: Rewriter) -> Value | None:
    ones = -1 if x.dtype.is_signed else x.dtype.max
    match inst.op.name:
        case "add" | "sub" | "or" | "xor" | "shl" | "shr" if c == 0:
            return x
        case "mul" | "and" if c == 0:
            return _zero(inst, rw)
        case "mul" | "floordiv" | "truncdiv" if c == 1:
            return x
        case "mod" | "truncmod" if c == 1:
            return _zero(inst, rw)
        case "and" if c == ones:
            return x
        case "or" if c == ones:
            return rw.const(ones, inst.out.type)
    return _reassociate(inst, x, c, rw) if inst.op.name in _ASSOCIATIVE else None


def _reassociate(inst: Inst, x: Value, c: Number, rw: Rewriter) -> Value | None:
    inner = rw.produced_by(inst.op.name, x)
    if inner is None:
        return None
    base, d = _constant_last(inner, rw)
    if d is None:
        return None
    numbers = folded(inst.op, (c, d), x.type, (x.type,), {})
    assert numbers is not None  # integers have no NaN
    return rw.emit(
        inst.op.name, base, rw.const(numbers[0], x.type)
    )  # (x op c) op d = x op (c op d)


def _float_law(name: str, x: Value, c: Number) -> Value | None:
    match name:
        case "mul" | "div" if c == 1:
            return x
        case "sub" if c == 0 and math.copysign(1, c) > 0:
            return x  # x - 0.0 = x, also -0.0; but -0.0 - -0.0 is 0.0
        case "add" if c == 0 and math.copysign(1, c) < 0:
            return x  # x + -0.0 = x, also -0.0; but -0.0 + 0.0 is 0.0
    return None


def _bool_law(name: str, x: Value, c: bool, rw: Rewriter) -> Value | None:
    match name, c:
        case ("and", True) | ("or", False) | ("xor", False) | ("eq", True) | ("ne", False):
            return x
        case ("and", False) | ("or", True):
            return rw.const(c, x.type)
        case ("xor", True) | ("eq", False) | ("ne", True):
            return rw.emit("not", x)
    return None


def _not(inst: Inst, rw: Rewriter) -> Value | None:
    compare = rw.producer.get(inst.operands[0])
    if compare is None or compare.op.name not in _OPPOSITE:
        return None
    if compare.operands[0].dtype.is_float and compare.op.name not in ("eq", "ne"):
        return None  # with NaN, both a < b and a >= b are false
    return rw.emit(_OPPOSITE[compare.op.name], *compare.operands)


def _select(inst: Inst, rw: Rewriter) -> Value | None:
    condition, a, b = inst.operands
    if a is b:
        return a
    if a.dtype.is_bool:
        match rw.literal(a), rw.literal(b):
            case True, False:
                return condition
            case False, True:
                return rw.emit("not", condition)
    if (inverted := rw.produced_by("not", condition)) is not None:
        return rw.emit("select", inverted.operands[0], b, a)
    return None


def _cast(inst: Inst, rw: Rewriter) -> Value | None:
    x, target = inst.operands[0], inst.out.dtype
    if x.dtype is target:
        return x
    inner = rw.produced_by("cast", x)
    if inner is None:
        return None
    source = inner.operands[0]
    if not _holds(x.dtype, source.dtype):
        return None
    if (
        source.dtype.is_int
        and x.dtype.is_float
        and target.is_int
        and not _holds(target, source.dtype)
    ):
        return None  # float to integer saturates where integer to integer wraps
    return source if source.dtype is target else rw.emit("cast", source, type=inst.out.type)


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if narrow.is_bool or wide is narrow:
        return True
    if wide.is_float and narrow.is_float:
        return (
            wide.mantissa_bits >= narrow.mantissa_bits
            and wide.exponent_bits >= narrow.exponent_bits
        )
    if wide.is_float:
        # The lowest signed integer is a power of two; f16 would overflow only beyond its mantissa.
        return narrow.bits - narrow.is_signed <= wide.mantissa_bits + 1
    return wide.is_int and narrow.is_int and wide.min <= narrow.min and narrow.max <= wide.max


def _bitcast(inst: Inst, rw: Rewriter) -> Value | None:
    x = inst.operands[0]
    if x.dtype is inst.out.dtype:
        return x
    inner = rw.produced_by("bitcast", x)
    if inner is None:
        return None
    source = inner.operands[0]
    if source.dtype is inst.out.dtype:
        return source
    return rw.emit("bitcast", source, type=inst.out.type)


def _zero(inst: Inst, rw: Rewriter) -> Value:
    return rw.const(False if inst.out.dtype.is_bool else 0, inst.out.type)
