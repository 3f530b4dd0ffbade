"""Loads of `x[i // w]` and `x[i % w]` with a small w: lanes share few elements, which one register holds.

A quotient stays or grows by one from lane to lane, so that the lanes of a register ask for no more elements than
it has. A remainder is one of w. Elements are then loaded as neighbours and permuted, not one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from eas.analysis.motion import keeps_steps
from eas.ir import Inst, Value
from eas.schedule.elements.elements import I32, Elements, Index, first_lane, source_index
from eas.schedule.rewrite.natural_divisions import may_wrap

_NBYTES = 4  # of elements that a register can be permuted by


@dataclass(frozen=True, eq=False)
class _Division:
    """What moves an address: the quotient or remainder of something that counts up with the lanes."""

    inst: Inst
    index: tuple[Index, ...]


def near_load(elements: Elements, pointer: Value, index: tuple[Index, ...]) -> Value | None:
    """What the lanes load through few registers; None if nothing says that this is possible."""
    inst = elements.definition(pointer)
    if not elements.context.permutes or pointer.dtype.nbytes != _NBYTES or inst is None or inst.op.name != "addptr":
        return None
    base, offset = inst.operands
    found = _moving(elements, offset, index) if elements.step(base, index) == 0 else None
    if found is None:
        return None
    e, start = elements.e, elements.at(pointer, first_lane(index))
    lanes = _cast(elements, elements.at(found.inst.out, found.index))
    first = _cast(elements, elements.at(found.inst.out, first_lane(found.index)))
    if found.inst.op.name == "floordiv":
        return e.emit("near_load", start, e.emit("sub", lanes, first))
    divisor = _cast(elements, elements.at(found.inst.operands[1], first_lane(found.index)))
    return e.emit("table_load", e.emit("addptr", start, e.emit("neg", first)), lanes, divisor)


def _moving(elements: Elements, value: Value, index: tuple[Index, ...]) -> _Division | None:
    """The one division by which an index moves; all else in it is the same for all lanes."""
    while (inst := elements.definition(value)) is not None and (value not in elements.slots or value in elements.context.made):
        name = inst.op.name
        if name in ("floordiv", "mod"):
            return _Division(inst, index) if not inst.out.dtype.is_float and _divides(elements, inst, index) else None
        source = source_index(inst, index)
        if source is not None:
            index, value = source, inst.operands[0]
        elif keeps_steps(inst) or (name in ("add", "sub") and elements.step(inst.operands[1], index) == 0):
            value = inst.operands[0]
        elif name == "add" and elements.step(inst.operands[0], index) == 0:
            value = inst.operands[1]
        else:
            return None
    return None


def _divides(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> bool:
    """Whether something that counts up with the lanes is divided by one positive number."""
    dividend, divisor = inst.operands
    if may_wrap(inst) or elements.step(dividend, index) != 1 or elements.step(divisor, index) != 0:
        return False
    number = elements.literal(divisor)
    return number > 0 if number is not None else bool(inst["by_positive"])


def _cast(elements: Elements, value: Value) -> Value:
    return value if value.type == I32 else elements.e.emit("cast", value, type=I32)


__all__ = ["near_load"]
