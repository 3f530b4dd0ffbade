"""The end of a row that fills no whole vector: a vector that ends with the last element, some of them once more.

Where nothing that is written is read, an element may be computed twice. That is faster than masked
accesses, and much faster than single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.analysis import mask_of
from eas.ir import Value
from eas.schedule.cpu.loops.ends import put
from eas.schedule.cpu.loops.inside import emit_full, emit_inside
from eas.schedule.cpu.loops.masked_rows import emit_parts, totals_of_parts
from eas.schedule.cpu.loops.nest import NestLoops
from eas.schedule.cpu.loops.row_parts import Inside, Row
from eas.schedule.cpu.loops.stream_rows import StreamRow, are_alike, is_repeatable
from eas.schedule.cpu.streams import is_light
from eas.schedule.elements.elements import Known, axes
from eas.schedule.elements.masks import conjuncts

_LEAST = 4  # lanes
_FEW = 8  # vectors of a row that is not worth a loop of its own for those that do not overlap, or elements


def plan_overlap(nest: NestLoops, row: Row) -> Callable[[], None] | None:
    """Where all that the nest does is to store, up to a bound, to memory that the kernel never reads."""
    bounds = row.bounds
    if bounds.starts or nest.runs.modes or nest.extent < nest.lanes or not is_repeatable(nest):
        return None
    masks = [mask_of(inst) for inst in nest.insts() if inst.op.name == "store"]
    if bounds.lanes and not (nest.p.facts.has_many_nests or nest.p.facts.is_long) and all(mask is not None and _ends(mask, row) for mask in masks):
        return lambda: _overlap(nest, row, bounds.stop(nest.extent), len(bounds.lanes) == 1)
    if bounds.span is None or nest.p.facts.is_very_long:
        return None
    return lambda: _overlap(nest, row, row.end, not bounds.lanes)


def plan_repeated(nest: NestLoops, row: Row) -> Callable[[], None] | None:
    """Where all that the nest does is to look for extremes up to a bound: the last vector ends with it."""
    bounds = row.bounds
    if nest.lanes == 1 or nest.runs.modes or bounds.starts or bounds.span is not None or not nest.may_repeat():
        return None
    if not row.has_masks:
        ends_inside = nest.lanes < nest.extent and nest.whole < nest.extent
        return (lambda: nest.put(row.bases, _repeated(nest, row, nest.e.const(nest.extent)))) if ends_inside else None
    is_bound = len(bounds.limits) == len(bounds.lanes) == 1
    if row.tail is None or row.tail.read or not is_bound:
        return None
    return lambda: put(nest, row.bases, _repeated_up_to(nest, row), row.tail)


def _repeated_up_to(nest: NestLoops, row: Row) -> list[Value]:
    """The reductions of the elements in front of the bound."""
    e, count = nest.e, row.bounds.end(nest.extent, 1)
    regions = [e.region([], lambda: _repeated(nest, row, count)), e.region([], lambda: totals_of_parts(nest, row, has_full=False))]
    return list(e.inst("if", [e.emit("ge", count, e.const(nest.lanes))], {}, regions).outs)


def _repeated(nest: NestLoops, row: Row, count: Value) -> list[Value]:
    """Whole vectors, and one that ends with the last element."""
    e, lanes = nest.e, nest.lanes
    whole = e.emit("and", count, e.const(-lanes))
    accumulators = emit_full(nest, row.bases, (e.const(0), whole), row.known, row.accumulators)
    accumulators = nest.part(row.bases, whole, count, lanes, row.known, accumulators, last=e.emit("sub", count, e.const(lanes)))
    return nest.totals(row.bases, count, None, accumulators)


def least_run(nest: NestLoops) -> int:
    """The lanes of the vectors by which runs may overlap; 0 if none may."""
    return min(_FEW, register_lanes(nest)) if is_repeatable(nest) else 0


def _ends(mask: Value, row: Row) -> bool:
    """Whether a mask ends with a bound of the row."""
    return any((c, axes(where)) in row.bounds.lanes for c, where in conjuncts(row.elements, mask, row.start))


def _overlap(nest: NestLoops, row: Row, stop: Value, is_one: bool) -> None:
    """The loop up to the bound of the masks, and one in parts for where that is not where stores end.

    `is_one`: no two conditions on lanes end in different places.
    """
    e, bases, bounds, known = nest.e, row.bases, row.bounds, frozenset(row.bounds.known)
    least = register_lanes(nest)
    count = bounds.end(nest.extent, 1)
    fits = e.emit("ge", count, e.const(least))
    is_bound = is_one and len(bounds.limits) == len(bounds.lanes) + (bounds.span is not None)
    if not is_bound:  # behind the bound of some masks others may still hold
        fits = e.emit("and", fits, e.emit("eq", count, stop))

    streams = nest.streams(bases)

    def vectors() -> Sequence[Value]:
        if are_alike(streams):
            StreamRow(nest, bases, count, known, streams).emit(ordinary)
        else:
            ordinary()
        return ()

    def ordinary() -> None:
        start = e.const(0)
        if least < nest.lanes or nest.extent > _FEW * nest.lanes or are_alike(streams):
            start = e.emit("and", count, e.const(-nest.lanes))
            emit_inside(nest, Inside(bases, e.const(0), start, known, [], []))
        nest.part(bases, start, count, least, known, [], last=e.emit("sub", count, e.const(least)))

    def rest() -> Sequence[Value]:
        if is_bound and is_light(nest.members):
            _short_row(nest, bases, count, least, known)
        else:
            emit_parts(nest, row, has_full=not is_bound)
        return ()

    e.inst("if", [fits], {}, [e.region([], vectors), e.region([], rest)])


def register_lanes(nest: NestLoops) -> int:
    """The lanes of one register of the elements in memory."""
    accesses = [inst.operands[0] for inst in nest.insts() if inst.op.name in ("load", "store")]
    return min(nest.lanes, nest.p.target.vector_nbytes // max(p.dtype.nbytes for p in accesses))


def _short_row(nest: NestLoops, bases: tuple[Value, ...], count: Value, lanes: int, known: frozenset[Known]) -> None:
    """Fewer elements than there are lanes in a register."""
    e, left = nest.e, count
    for size in (lanes // 2, lanes // 8):
        if size >= _LEAST:
            fits = e.emit("ge", left, e.const(size))
            stop = e.emit("select", fits, left, e.const(0))
            nest.part(bases, e.const(0), stop, size, known, [], last=e.emit("sub", count, e.const(size)))
            left = e.emit("select", fits, e.const(0), left)
    nest.part(bases, e.const(0), left, 1, known, [])
