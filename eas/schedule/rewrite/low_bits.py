"""Of a sum or product that ends in 8 or 16 bits only the low bits matter: those are computed in 16."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eas.analysis import source_of, uses
from eas.base import dtypes
from eas.base.trampoline import Definition, evaluate, every
from eas.base.types import Type
from eas.ir import Inst, IRModule, Value
from eas.ir.rewriting import Rewriter

_WRAPPING = frozenset({"add", "sub", "mul", "neg", "and", "or", "xor", "not"})  # low bits are made of low bits


Short = Mapping[Value, tuple[Value, Any]]  # of values of 32 bits: the same in fewer, and their range


class LowBits:
    """Finds the low 16 bits of values of 32 bits that nothing else looks at."""

    def __init__(self, module: IRModule) -> None:
        self._uses = uses(module)

    def cast(self, source: Value, wanted: Type, short: Short, rw: Rewriter) -> Value | None:
        """What a cast to 8 or 16 bits gives, from 16 bits of what `source` is made of; `short` are the short forms of values."""
        if not self._may(source, short, rw):
            return None
        inst = rw.producer.get(source)
        if inst is not None and inst.op.name == "shr" and self._is_alone(inst):
            shift = rw.literal(inst.operands[1])
            if wanted.dtype.bits != 8 or shift is None or not 0 <= shift <= 8 or not self._has_short(inst.operands[0], short, rw):
                return None
            low = self._low(inst.operands[0], short, rw)
            low = rw.emit("shr", low, rw.const(int(shift), low.type))
        elif self._has_short(source, short, rw):
            low = self._low(source, short, rw)
        else:
            return None
        return rw.emit("cast", low, type=wanted)

    def _may(self, source: Value, short: Short, rw: Rewriter) -> bool:
        return source not in short and source.dtype.is_int and source.dtype.bits == 32 and rw.producer.get(source) is not None

    def _is_alone(self, inst: Inst) -> bool:
        return self._uses[inst.out] == 1

    def _has_short(self, value: Value, short: Short, rw: Rewriter) -> bool:
        """Whether all leaves are short blocks or single numbers, at least one of them a block."""
        found, left = False, [value]
        while left:
            value = left.pop()
            if value in short or rw.literal(value) is not None or _number(value, rw) is not None:
                found = found or value in short
                continue
            inst = rw.producer.get(value)
            if inst is None or inst.op.name not in _WRAPPING or not self._is_alone(inst):
                return False
            left += inst.operands
        return found

    def _low(self, value: Value, short: Short, rw: Rewriter) -> Value:
        """The value modulo 2^16, as an unsigned number."""
        return evaluate(lambda v: self._lowered(v, short, rw), value)

    def _lowered(self, value: Value, short: Short, rw: Rewriter) -> Definition[Value, Value]:
        wanted = Type(dtypes.u16, value.shape)
        if value in short:
            known, _ = short[value]
            return known if known.type == wanted else rw.emit("cast", known, type=wanted)
        literal, number = rw.literal(value), _number(value, rw)
        if literal is not None:
            return rw.const(int(literal) & dtypes.u16.max, wanted)
        if number is not None:
            return rw.emit("broadcast", rw.emit("cast", number, type=Type(dtypes.u16)), shape=value.shape)
        inst = rw.producer[value]
        return rw.emit(inst.op.name, *(yield from every(inst.operands)))


def _number(value: Value, rw: Rewriter) -> Value | None:
    """The integer that all elements of a block are."""
    source = source_of(value, rw.producer)
    return source if source.type.is_scalar and source.dtype.is_int else None


__all__ = ["LowBits"]
