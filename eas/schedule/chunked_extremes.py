"""The place of the extreme of a long row of narrow integers: the chunk that has it is found first, without positions.

Positions of 32 bits take two or four registers for each register of 16-bit or 8-bit elements; the extreme alone takes none.
Of wider elements there is nothing to gain: memory is read no faster than both are kept. 16-bit floats are compared as wider ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eas.ir import Value
from eas.schedule.members import member
from eas.schedule.reductions import cast
from eas.schedule.row_parts import Inside

if TYPE_CHECKING:
    from eas.schedule.nest_loops import NestLoops

_STEPS = 8  # vectors of a chunk, of which one position is kept
_LEAST_CHUNKS = 8  # of a row: one chunk is visited twice, and which one it is takes a fold of the lanes


def plan_chunks(nest: NestLoops, part: Inside) -> Callable[[], list[Value]] | None:
    """Where all that the nest does is to look for the place of an extreme of a long row."""
    is_long = nest.extent >= _LEAST_CHUNKS * _STEPS * nest.lanes
    if not is_long or nest.lanes == 1 or nest.e.literals.get(part.begin) != 0 or not _is_search(nest):
        return None
    return lambda: _search(nest, part)


def _is_search(nest: NestLoops) -> bool:
    """Whether the nest is one argmax or argmin of integers narrower than positions, which may be read twice."""
    if len(nest.reductions) != 1 or not nest.may_repeat():
        return False
    reduction = nest.reductions[0]
    if reduction.extreme is None or not reduction.is_ascending:
        return False
    value, position = reduction.inst.operands
    return value.dtype.is_int and value.dtype.nbytes < position.dtype.nbytes


def _search(nest: NestLoops, part: Inside) -> list[Value]:
    """The best of the chunk that has it, then that of the vectors which fill no chunk."""
    e, size = nest.e, _STEPS * nest.lanes
    end = e.emit("and", part.end, e.const(-size))
    first = _best_chunk(nest, part, end)
    stop = e.add(first, e.emit("min", end, e.const(size)))  # nothing where there is no whole chunk
    found = nest.part(part.bases, first, stop, nest.lanes, part.known, part.accumulators)
    return nest.part(part.bases, end, part.end, nest.lanes, part.known, found)


def _best_chunk(nest: NestLoops, part: Inside, end: Value) -> Value:
    """Where the first chunk starts that has the extreme of all of them."""
    e, reduction = nest.e, nest.reductions[0]

    def body(i: Value, *best: Value) -> Sequence[Value]:
        first = e.mul(i, _STEPS)
        here = _vector(nest, part, first)
        for k in range(1, _STEPS):
            here = reduction.better(e, here, _vector(nest, part, e.add(first, e.const(k * nest.lanes))))
        return reduction.merge(nest.elements(), best, [here, first])

    start = [part.accumulators[0], e.const(0, part.accumulators[1].type)]
    region = e.region([end.type, *(a.type for a in start)], body, ["i"])
    ends = [e.const(0), e.emit("truncdiv", end, e.const(_STEPS))]
    value, position = e.inst("loop", [*ends, *start], {"lanes": nest.lanes}, [region]).outs
    return cast(e, reduction.best_lane(e, value, position, nest.lanes)[1], end.type)


def _vector(nest: NestLoops, part: Inside, first: Value) -> Value:
    """The elements of a vector, of which the extreme is asked for."""
    elements, index = nest.elements(part.known), nest.index(part.bases, first, nest.lanes)
    for inst in nest.members:
        nest.e.loc = inst.loc
        if inst is not nest.reductions[0].inst:
            member(elements, inst, index)
    return elements.at(nest.reductions[0].inst.operands[0], index)
