"""Stores that bypass the cache: which may, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from eas.ir import Inst, Trait, Value
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.elements.addresses import first_address
from eas.schedule.elements.elements import Elements, Index, first_lane

_LIGHT = 12  # instructions
_SHORT_ROW = 256  # bytes: such rows share lines with their neighbours


def is_light(members: Sequence[Inst]) -> bool:
    """Whether one more copy of a loop over these costs little to compile."""
    return len(members) <= _LIGHT and all(inst.op.has(Trait.ELEMENTWISE) and inst.op.cost <= 2 for inst in members)


def is_worth_streaming(members: Sequence[Inst]) -> bool:
    """Whether memory is what a loop waits for.

    A register is taken apart for the pieces that bypass the cache. Scans are bound by such moves between lanes already.
    """
    return not any(inst.op.name == "scan" for inst in members)


def is_stream(
    program: Lowering, inst: Inst, elements: Elements, index: tuple[Index, ...], lanes: int, extent: int
) -> bool:
    """A store of whole registers of neighbours, in rows of several lines, to a buffer that the kernel never reads."""
    if inst.op.name != "store" or lanes * inst.operands[0].dtype.nbytes < program.target.vector_nbytes:
        return False
    if extent * inst.operands[0].dtype.nbytes < _SHORT_ROW:
        return False
    is_unit = elements.step(inst.operands[0], index) == 1
    return is_unit and program.base_of(inst.operands[0]) in program.facts.unread


def are_apart(
    program: Lowering, streams: Sequence[Inst], members: Sequence[Inst], elements: Elements, index: tuple[Index, ...]
) -> Value | None:
    """Whether no load comes to the place in a page where a store that bypasses the cache is under way; None if none matters.

    Loads of what was loaded just before do, where there are many: those that wait for memory anyway wait no longer.
    """
    if is_light(members):
        return None
    pointers = [inst.operands[0] for inst in members if inst.op.name == "load"]
    bases = Counter(program.base_of(p) for p in pointers)
    again = [p for p in pointers if bases[program.base_of(p)] > 1 and elements.step(p, index) == 1]
    e, result = elements.e, None
    for store in streams if again else ():
        one = e.emit("avoids_4k_aliasing", *(first_address(elements, p, index) for p in (store.operands[0], *again)))
        result = one if result is None else e.emit("and", result, one)
    return result


def can_stream(streams: Sequence[Inst], elements: Elements, index: tuple[Index, ...], apart: Value | None) -> Value | None:
    """Whether all these stores may bypass the cache in this launch; None if there are none."""
    e, allowed = elements.e, apart if streams else None
    for store in streams:
        one = e.emit("can_stream", elements.at(store.operands[0], first_lane(index)))
        allowed = one if allowed is None else e.emit("and", allowed, one)
    return allowed
