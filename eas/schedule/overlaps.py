"""The end of a row that fills no whole vector: a vector that ends with the last element, some of them once more.

Where nothing that is written is read, an element may be computed twice. That is faster than masked
accesses, and much faster than single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eas.ir import Inst, Trait, Value
from eas.schedule.elements import Elements, Index, Known
from eas.schedule.masks import Bounds, conjuncts
from eas.schedule.members import mask_of
from eas.schedule.streams import is_light

if TYPE_CHECKING:
    from eas.schedule.nest_loops import NestLoops

_LEAST = 4  # lanes
_FEW = 8  # vectors of a row that is not worth a loop of its own for those that do not overlap, or elements


def can_overlap(nest: NestLoops, bounds: Bounds, elements: Elements, index: tuple[Index, ...]) -> bool:
    """Whether all that the nest does is to store, up to a bound, to memory that the kernel never reads."""
    if nest.reductions or nest.scans or nest.counters or nest.stores or nest.runs.modes or nest.lanes < _LEAST:
        return False
    if not bounds.lanes or bounds.starts or nest.extent < nest.lanes:
        return False
    return all(_is_repeatable(nest, inst, bounds, elements, index) for inst in nest.insts())


def _is_repeatable(nest: NestLoops, inst: Inst, bounds: Bounds, elements: Elements, index: tuple[Index, ...]) -> bool:
    if inst.op.name != "store":
        return not (inst.op.has(Trait.WRITES) or inst.op.has(Trait.EFFECT) or inst.op.has(Trait.ATOMIC))
    mask = mask_of(inst)
    if mask is None or nest.p.base_of(inst.operands[0]) not in nest.p.unread:
        return False
    return any((c, tuple(ix.axis for ix in where)) in bounds.lanes for c, where in conjuncts(elements, mask, index))


def overlap(nest: NestLoops, bases: tuple[Value, ...], bounds: Bounds, otherwise: Callable[[bool], None]) -> None:
    """The loop up to the bound of the masks; `otherwise` writes one for where that is not possible.

    It is told whether there still are whole vectors in which all masks hold.
    """
    e, known = nest.e, frozenset(bounds.known)
    least = _register(nest)
    count = bounds.end(nest.extent, 1)
    fits = e.emit("ge", count, e.const(least))
    is_bound = len(bounds.lanes) == len(bounds.limits) == 1
    if not is_bound:  # behind the bound of some masks others may still hold
        fits = e.emit("and", fits, e.emit("eq", count, bounds.stop(nest.extent)))

    def vectors() -> Sequence[Value]:
        start = e.const(0)
        if least < nest.lanes or nest.extent > _FEW * nest.lanes or nest.streams(bases):
            start = e.emit("and", count, e.const(-nest.lanes))
            nest.full(bases, (e.const(0), start), known, [])
        nest.part(bases, start, count, least, known, [], last=e.emit("sub", count, e.const(least)))
        return ()

    def rest() -> Sequence[Value]:
        if is_bound and is_light(nest.members):
            _short_row(nest, bases, count, least, known)
        else:
            otherwise(not is_bound)
        return ()

    e.inst("if", [fits], {}, [e.region([], vectors), e.region([], rest)])


def _register(nest: NestLoops) -> int:
    """The lanes of one register of the elements in memory."""
    accesses = [inst.operands[0] for inst in nest.insts() if inst.op.name in ("load", "store")]
    return min(nest.lanes, nest.p.target.vector_nbytes // max(p.dtype.nbytes for p in accesses))


def _short_row(nest: NestLoops, bases: tuple[Value, ...], count: Value, lanes: int, known: frozenset[Known]) -> None:
    """Fewer elements than there are lanes in a register."""
    e, left = nest.e, count
    for size in (lanes // 2, lanes // 8):
        if size >= _LEAST and lanes > _FEW:  # few elements are as quick one by one
            fits = e.emit("ge", left, e.const(size))
            stop = e.emit("select", fits, left, e.const(0))
            nest.part(bases, e.const(0), stop, size, known, [], last=e.emit("sub", count, e.const(size)))
            left = e.emit("select", fits, e.const(0), left)
    nest.part(bases, e.const(0), left, 1, known, [])
