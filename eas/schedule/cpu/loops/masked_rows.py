"""Rows in parts: where all masks hold, and where they may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eas.ir import Trait, Value
from eas.schedule.cpu.loops.ends import put
from eas.schedule.cpu.loops.inside import emit_full
from eas.schedule.cpu.loops.nest import NestLoops
from eas.schedule.cpu.loops.row_parts import Gap, Row
from eas.schedule.cpu.streams import can_stream, is_light
from eas.schedule.elements.masks import Bounds
from eas.schedule.elements.members import masks_are_slow

_SHORT = 8  # lanes


def plan_unmasked(nest: NestLoops, row: Row) -> Callable[[], None] | None:
    """Without masks, or with none that could be decided before the runs of a divided index."""
    if row.has_masks and not (nest.runs.modes and not row.known):
        return None

    def emit() -> None:
        accumulators = emit_full(nest, row.bases, (nest.e.const(0), row.last), row.known, row.accumulators)
        put(nest, row.bases, nest.totals(row.bases, row.last, _rest(nest, row), accumulators), row.tail)

    return emit


def plan_parts(nest: NestLoops, row: Row) -> Callable[[], None]:
    """The part in which the masks of `known` hold, then those in which they may not; of very long kernels only the latter."""
    return lambda: emit_parts(nest, row, _has_full(nest))


def _has_full(nest: NestLoops) -> bool:
    """Whether the part in which all masks hold has loops of its own."""
    are_slow = masks_are_slow(nest.insts(), nest.p.target) or any(inst.op.has(Trait.ATOMIC) for inst in nest.insts())
    return are_slow or not (nest.p.facts.has_hundreds_of_nests or nest.p.facts.is_very_long)


def emit_parts(nest: NestLoops, row: Row, has_full: bool = True) -> None:
    """All parts of a row, or only those in which masks may not hold."""
    put(nest, row.bases, totals_of_parts(nest, row, has_full), row.tail)


def totals_of_parts(nest: NestLoops, row: Row, has_full: bool = True) -> list[Value]:
    """What the reductions of a row are after these parts."""
    if not has_full:
        row = replace(row, known=frozenset())
    e, bounds, accumulators, end = nest.e, row.bounds, row.accumulators, row.end
    zero = e.const(0)
    full = bounds.end(nest.whole, nest.lanes) if row.known else zero
    first, rest, gap = zero, full, None
    if bounds.known_later & row.known:
        first = bounds.start(nest.whole, nest.lanes)
        full = e.emit("max", first, full)
        gap = Gap(first, e.emit("sub", full, first))
        # What is in front of the full part and what is behind it are one loop.
        rest = zero
    if row.known:
        accumulators = emit_full(nest, row.bases, (first, full), row.known, accumulators)
    if masks_are_slow(nest.insts(), nest.p.target):
        if row.tail is not None and gap is None and not accumulators and not nest.stores:
            rest, end = _short_vectors(nest, row.bases, full, bounds), bounds.stop(nest.extent)
        return nest.totals(row.bases, rest, end, accumulators, gap)
    streams = nest.streams(row.bases) if row.known else []
    past = can_stream(streams, nest.elements(), nest.index(row.bases, first, 2), nest.apart)
    accumulators = nest.part(row.bases, rest, row.last, nest.lanes, frozenset(), accumulators, frozenset(streams), gap, past=past)
    return nest.totals(row.bases, row.last, _rest(nest, row), accumulators)


def _rest(nest: NestLoops, row: Row) -> Value | None:
    """Where the elements behind the last vector end, if there are any."""
    return row.end if nest.whole < nest.extent or row.bounds.span is not None else None


def _short_vectors(nest: NestLoops, bases: tuple[Value, ...], start: Value, bounds: Bounds) -> Value:
    """Where the part in which all masks hold goes on in short vectors, which single elements are slower than."""
    if not is_light(nest.members) or nest.lanes <= _SHORT:
        return start
    stop = bounds.end(nest.extent, _SHORT)
    nest.part(bases, start, stop, _SHORT, frozenset(bounds.known), [])
    return stop
