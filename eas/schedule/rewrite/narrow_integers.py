"""Integers of 8 and 16 bits that were widened stay short where that makes no difference: more of them fit into a register.

Arithmetic in 32 bits is done in 16 where ranges prove that everything fits. What is only compared with one
number stays as short as it is, whatever the number. What ends in 8 or 16 bits is computed there if only low bits matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from eas.analysis import source_of
from eas.analysis.ranges import Range, Ranges, value_ranges
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.types import Type
from eas.ir import Inst, IRModule, Value
from eas.ir.rewriting import Rewriter, rewrite
from eas.schedule.rewrite.low_bits import LowBits

# Right in 16 bits when operands and result fit: wrapping does not matter to the first, the others never wrap then.
_ARITHMETIC = frozenset({"add", "sub", "mul", "neg", "and", "or", "xor", "min", "max", "abs", "select"})
_SHIFTS = frozenset({"shl", "shr"})
_SHORT = (dtypes.i16, dtypes.u16)
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_NEGATED = {"le": "gt", "ge": "lt", "ne": "eq"}


def narrow_integers(module: IRModule) -> IRModule:
    """Compute on widened 8- and 16-bit integers in 16 bits where ranges prove that it fits; other users get the wide number by a cast.

    In textbooks: demanded bits, type narrowing.

        %a = cast %x : i32[n] (from u8); %b = add %a, %one
        %y = cast %b : u8[n]
        ->
        %b = add (cast %x : i16[n]), %one : i16[n]; %y = cast %b : u8[n]
    """
    return rewrite(module, _Narrowing(module).rule)


class _Narrowing:
    def __init__(self, module: IRModule) -> None:
        self._module = module
        self._widened: dict[Value, Value] = {}  # blocks, and the short ones that they are casts of
        self._short: dict[Value, tuple[Value, Range]] = {}  # of values of 32 bits: the same in fewer

    @cached_property
    def _low_bits(self) -> LowBits:
        return LowBits(self._module)

    @cached_property
    def _ranges(self) -> Ranges:
        return value_ranges(self._module)

    def rule(self, inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        name = inst.op.name
        if len(inst.outs) != 1 or not inst.out.shape:
            return None
        if name == "cast":
            return self._cast(inst, rw)
        if name in _MIRRORED:
            return self._comparison(inst, rw)
        if _is_wide(inst.out) and (name in _ARITHMETIC or (name in _SHIFTS and _is_small_shift(inst.operands[1], rw))):
            return self._arithmetic(inst, rw)
        return None

    def _cast(self, inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        (source,) = inst.operands
        if _is_widening(source.dtype, inst.out.dtype):
            self._widened[inst.out] = source
            if _is_wide(inst.out):
                self._short[inst.out] = source, self._ranges[inst.out]
        elif source in self._short and inst.out.dtype.bits < 32:
            return (rw.emit("cast", self._short[source][0], type=inst.out.type),)
        elif self._short and inst.out.dtype.is_int and inst.out.dtype.bits in (8, 16):
            low = self._low_bits.cast(source, inst.out.type, self._short, rw)
            return None if low is None else (low,)
        return None

    def _comparison(self, inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        left, right = inst.operands
        for name, wide, other in ((inst.op.name, left, right), (_MIRRORED[inst.op.name], right, left)):
            number = _scalar(other, rw) if wide in self._widened else None
            if number is not None:
                return (_compare(name, self._widened[wide], number, rw),)
        operands = self._operands(inst.operands, (), rw)
        return None if operands is None else (rw.emit(inst.op.name, *operands),)

    def _arithmetic(self, inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        conditions = inst.operands[:1] if inst.op.name == "select" else ()
        values = inst.operands[len(conditions) :]
        if not any(v in self._short for v in values):
            return None
        result = self._ranges[inst.out]
        operands = self._operands(values, (result,), rw)
        if operands is None:
            return None
        short = rw.emit(inst.op.name, *conditions, *operands)
        wide = rw.emit("cast", short, type=inst.out.type)
        self._short[wide] = short, result
        return (wide,)

    def _operands(self, values: Sequence[Value], results: Sequence[Range], rw: Rewriter) -> list[Value] | None:
        """All of them in one type of 16 bits that holds the results too; at least one was short anyway."""
        if not any(v in self._short for v in values):
            return None
        ranges = [self._range(v, rw) for v in values]
        known = [r for r in ranges if r is not None]
        if len(known) < len(values):
            return None
        for dtype in _SHORT:
            if all(dtype.min <= r.lo and r.hi <= dtype.max for r in (*known, *results)):
                return [self._as(v, dtype, rw) for v in values]
        return None

    def _range(self, value: Value, rw: Rewriter) -> Range | None:
        if value in self._short:
            return self._short[value][1]
        literal = rw.literal(value)
        return None if literal is None or not value.dtype.is_int else Range(int(literal), int(literal))

    def _as(self, value: Value, dtype: DType, rw: Rewriter) -> Value:
        wanted = Type(dtype, value.shape)
        if value not in self._short:
            return rw.const(int(rw.literal(value) or 0), wanted)
        short = self._short[value][0]
        return short if short.type == wanted else rw.emit("cast", short, type=wanted)


def _is_wide(value: Value) -> bool:
    return value.dtype.is_int and value.dtype.bits == 32


def _is_widening(short: DType, wide: DType) -> bool:
    """Whether a cast keeps every number of a short type."""
    if not (short.is_int and short.bits <= 16 and wide.is_int and short.bits < wide.bits):
        return False
    return wide.min <= short.min and short.max <= wide.max


def _is_small_shift(amount: Value, rw: Rewriter) -> bool:
    literal = rw.literal(amount)
    return literal is not None and 0 <= literal < 16


def _scalar(value: Value, rw: Rewriter) -> Value | None:
    """The one number that all elements of a block are."""
    literal = rw.literal(value)
    if literal is not None:
        return rw.const(literal, Type(value.dtype))
    source = source_of(value, rw.producer)
    return source if source.type.is_scalar else None


def _compare(name: str, x: Value, number: Value, rw: Rewriter) -> Value:
    """x `name` number, where the number may be outside of what x can be: then x is one that gives the answer."""
    if name in _NEGATED:
        return rw.emit("not", _compare(_NEGATED[name], x, number, rw))
    short, ends = Type(x.dtype), (x.dtype.min, x.dtype.max)
    least, most = (rw.const(end, number.type) for end in ends)
    inside = rw.emit("cast", rw.emit("min", rw.emit("max", number, least), most), type=short)
    if name == "eq":
        is_there = rw.emit("eq", rw.emit("cast", inside, type=number.type), number)
        return rw.emit("and", rw.emit("eq", x, _spread(inside, x, rw)), _spread(is_there, x, rw))
    is_outside = rw.emit("gt", number, most) if name == "lt" else rw.emit("lt", number, least)
    first, second = (rw.const(end, short) for end in (ends if name == "lt" else ends[::-1]))
    limit = rw.emit("select", is_outside, first, second)
    return rw.emit(name, rw.emit("min" if name == "lt" else "max", x, _spread(limit, x, rw)), _spread(inside, x, rw))


def _spread(scalar: Value, x: Value, rw: Rewriter) -> Value:
    return rw.emit("broadcast", scalar, shape=x.shape)


__all__ = ["narrow_integers"]
