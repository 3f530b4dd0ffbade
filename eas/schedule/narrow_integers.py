"""Arithmetic on integers of 8 and 16 bits that was widened to 32 is done in 16 where it fits: twice as many per register."""

from __future__ import annotations

from collections.abc import Sequence

from eas import dtypes
from eas.analysis import COMPARES
from eas.dtypes import DType
from eas.ir import Inst, IRModule, Value, walk
from eas.passes.rewriting import Rewriter, rewrite
from eas.ranges import Range, Ranges, value_ranges
from eas.types import Type

# Right in 16 bits when operands and result fit: wrapping does not matter to the first, the others never wrap then.
_ARITHMETIC = frozenset({"add", "sub", "mul", "neg", "and", "or", "xor", "min", "max", "abs", "select"})
_SHIFTS = frozenset({"shl", "shr"})
_SHORT = (dtypes.i16, dtypes.u16)


def narrow_integers(module: IRModule) -> IRModule:
    """The module with such arithmetic in 16 bits; what needs the wide number gets it by a cast."""
    if not any(_is_widening(inst) for inst in walk(module.body)):
        return module
    return rewrite(module, _Narrowing(value_ranges(module)).rule)


def _is_widening(inst: Inst) -> bool:
    return inst.op.name == "cast" and bool(inst.out.shape) and _is_wide(inst.out) and _is_short(inst.operands[0])


def _is_wide(value: Value) -> bool:
    return value.dtype.is_int and value.dtype.bits == 32


def _is_short(value: Value) -> bool:
    return value.dtype.is_int and value.dtype.bits <= 16


class _Narrowing:
    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._short: dict[Value, tuple[Value, Range]] = {}  # of wide values: the same in fewer bits

    def rule(self, inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if _is_widening(inst):
            self._short[inst.out] = inst.operands[0], self._ranges[inst.out]
            return None
        name = inst.op.name
        if name == "cast" and inst.operands[0] in self._short and inst.out.dtype.bits < 32:
            return (rw.emit("cast", self._short[inst.operands[0]][0], type=inst.out.type),)
        if len(inst.outs) != 1 or not inst.out.shape:
            return None
        if name in COMPARES:
            operands = self._operands(inst.operands, (), rw)
            return None if operands is None else (rw.emit(name, *operands),)
        if not _is_wide(inst.out) or name not in _ARITHMETIC | _SHIFTS:
            return None
        return self._arithmetic(inst, rw)

    def _arithmetic(self, inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        result = self._ranges[inst.out]
        if inst.op.name in _SHIFTS and not self._is_small_shift(inst.operands[1], rw):
            return None
        conditions = inst.operands[:1] if inst.op.name == "select" else ()
        operands = self._operands(inst.operands[len(conditions) :], (result,), rw)
        if operands is None:
            return None
        short = rw.emit(inst.op.name, *conditions, *operands)
        wide = rw.emit("cast", short, type=inst.out.type)
        self._short[wide] = short, result
        return (wide,)

    def _is_small_shift(self, amount: Value, rw: Rewriter) -> bool:
        literal = rw.literal(amount)
        return literal is not None and 0 <= literal < 16

    def _operands(self, values: Sequence[Value], results: Sequence[Range], rw: Rewriter) -> list[Value] | None:
        """All of them in one type of 16 bits that holds the results too; at least one was short anyway."""
        if not any(v in self._short for v in values):
            return None
        ranges = [self._range(v, rw) for v in values]
        known = [r for r in ranges if r is not None]
        if len(known) < len(values):
            return None
        for dtype in _SHORT:
            if all(_fits(r, dtype) for r in (*known, *results)):
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


def _fits(r: Range, dtype: DType) -> bool:
    return dtype.min <= r.lo and r.hi <= dtype.max


__all__ = ["narrow_integers"]
