"""Which loops one row of a nest becomes, and the row with the bounds of its masks that the kinds choose by."""

from __future__ import annotations

from eas.analysis import mask_of
from eas.ir import Value
from eas.schedule.cpu.loops.ends import plan_tail
from eas.schedule.cpu.loops.find_extremes import plan_search
from eas.schedule.cpu.loops.masked_rows import plan_parts, plan_unmasked
from eas.schedule.cpu.loops.nest import Kinds, NestLoops, choose
from eas.schedule.cpu.loops.overlaps import least_run, plan_overlap, plan_repeated
from eas.schedule.cpu.loops.row_parts import Row

# Overlapping vectors visit elements twice, so they exclude reductions but for extremes, runs, late starts and slots.
ALONG: Kinds[Row, None] = {
    "search": plan_search,  # the place of an extreme: the extreme first, without positions, then the first element that equals it
    "repeated": plan_repeated,  # only extremes are asked for: the end of a row is a vector that ends with it
    "unmasked": plan_unmasked,  # nothing to split; or runs, whose vectors take the masks themselves
    "overlap": plan_overlap,  # only stores: likewise
    "parts": plan_parts,  # all masks hold, then vectors with masks or single elements
}


def emit_row(nest: NestLoops, bases: tuple[Value, ...]) -> None:
    """The vector loop and its parts, carrying the reductions along the last axis."""
    facts, e, bounds = nest.p.facts, nest.e, nest.p.bounds()
    if facts.walk > 1:
        bounds.end_at(e.mul(e.emit("programs_left"), nest.block))
    start = nest.index(bases, e.const(0), 2)
    if not facts.is_long:
        nest.runs.plan(start, least_run(nest))
    elements = nest.elements()
    masks = [m for inst in nest.insts() if (m := mask_of(inst)) is not None]
    for mask in masks:
        bounds.add(elements, mask, start)
    tail = None if facts.walk > 1 else plan_tail(nest, bounds, start)
    starts_late = bool(bounds.starts) and nest.may_skip() and not nest.runs.modes
    if starts_late:  # narrow steps: the lanes in front of the start are few
        nest.lanes = min(nest.lanes, max(1, nest.p.target.vector_nbytes // nest.widest()))
    known = frozenset(bounds.known | bounds.known_later if starts_late else bounds.known)
    for reduction in nest.reductions:
        reduction.is_ascending = not starts_late and not nest.runs.modes
    accumulators = nest.start(bases)
    end = tail.stop if tail else bounds.room(nest.extent)
    last = tail.stop if tail else bounds.room(nest.extent, nest.lanes)
    choose(ALONG, nest, Row(bases, bool(masks), bounds, elements, start, known, last, end, accumulators, tail))()
