"""Rows past the cache, from any address on: vectors from the first aligned one, and single elements at both ends.

Ordinary stores at the ends would share lines with the others: each waits until memory has taken such a line and given
it back. So the last vector overlaps the one before it, and the few elements that fill no piece go past the cache one
by one. Elements of fewer than 4 bytes cannot: their rows are whole pieces, or ordinary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from eas.ir import Inst, Trait, Value
from eas.schedule.cpu.loops.nest import NestLoops
from eas.schedule.cpu.streams import is_light
from eas.schedule.elements.elements import Known, first_lane
from eas.schedule.target import STREAM_NBYTES

_LEAST = 4  # lanes
_SINGLE_NBYTES = 4  # of the smallest element that can go past the cache alone


def is_repeatable(nest: NestLoops) -> bool:
    """Whether it makes no difference if an element is computed twice."""
    if nest.reductions or nest.scans or nest.counters or nest.stores or nest.lanes < _LEAST:
        return False
    return all(_is_repeatable(nest, inst) for inst in nest.insts())


def _is_repeatable(nest: NestLoops, inst: Inst) -> bool:
    if inst.op.name == "store":
        return nest.p.base_of(inst.operands[0]) in nest.p.facts.unread
    return not (inst.op.has(Trait.WRITES) or inst.op.has(Trait.EFFECT) or inst.op.has(Trait.ATOMIC))


def are_alike(streams: Sequence[Inst]) -> bool:
    """Whether stores that start alike reach an aligned address at once."""
    return len({store.operands[0].dtype.nbytes for store in streams}) == 1


class StreamRow:
    """The elements from 0 to `end` of a repeatable nest whose masks hold there."""

    def __init__(self, nest: NestLoops, bases: tuple[Value, ...], end: Value, known: frozenset[Known], streams: Sequence[Inst]) -> None:
        self.nest, self.e, self.bases, self.end, self.known = nest, nest.e, bases, end, known
        self.streams = frozenset(streams)
        self.nbytes = streams[0].operands[0].dtype.nbytes
        self.piece = STREAM_NBYTES // self.nbytes
        # Short rows share the lines at their ends with others that come much later, unless they start with a line.
        self.is_short = nest.extent == nest.lanes
        align = nest.p.target.caches.line if self.is_short else STREAM_NBYTES
        elements, first = nest.elements(), first_lane(nest.index(bases, self.e.const(0), 2))
        self.heads = [self.e.emit("stream_head", elements.at(store.operands[0], first), align=align) for store in streams]

    def emit(self, ordinary: Callable[[], None]) -> None:
        """Past the cache if that pays in this launch, else by `ordinary` loops."""

        def side(loops: Callable[[], None]) -> Sequence[Value]:
            loops()
            return ()

        regions = [self.e.region([], lambda loops=loops: side(loops)) for loops in (self._past, ordinary)]
        self.e.inst("if", [self._pays()], {}, regions)

    def _pays(self) -> Value:
        e, (head, *others) = self.e, self.heads
        starts = e.emit("eq" if self.is_short else "ge", head, e.const(0))
        room = self.nest.lanes if self.is_short else self.nest.lanes + self.piece
        conditions = [starts, e.emit("ge", self.end, e.const(room))]
        conditions += [e.emit("eq", other, head) for other in others]
        if self.nbytes < _SINGLE_NBYTES:
            conditions.append(e.emit("eq", e.emit("and", self.end, e.const(self.piece - 1)), e.const(0)))
        if self.nest.apart is not None:
            conditions.append(self.nest.apart)
        result = conditions[0]
        for condition in conditions[1:]:
            result = e.emit("and", result, condition)
        return result

    def _past(self) -> None:
        e, nest, head, lanes = self.e, self.nest, self.heads[0], self.nest.lanes
        whole = e.emit("and", e.emit("sub", self.end, head), e.const(-self.piece))
        stop = e.emit("add", head, whole)
        begin, last = head, e.emit("sub", stop, e.const(lanes))
        if is_light(nest.members):  # too light to ask in each iteration if that is the last
            begin = e.emit("add", head, e.emit("and", whole, e.const(-lanes)))
            nest.part(self.bases, head, begin, lanes, self.known, [], self.streams)
        nest.part(self.bases, begin, stop, lanes, self.known, [], self.streams, last=last)
        if self.nbytes >= _SINGLE_NBYTES:
            self._ends(head, stop)

    def _ends(self, head: Value, stop: Value) -> None:
        """The elements before `head`, and those behind `stop`: two vectors of which few lanes are stored, if any."""
        e, nest, lanes = self.e, self.nest, max(_LEAST, self.piece)
        zero, few = e.const(0), e.const(lanes)
        rest = e.emit("sub", self.end, stop)
        first = e.emit("select", e.emit("eq", head, zero), few, zero)
        last = e.emit("select", e.emit("eq", rest, zero), few, e.const(2 * lanes))

        def body(i: Value) -> Sequence[Value]:
            is_first = e.emit("eq", i, zero)
            low = e.emit("select", is_first, zero, e.emit("sub", few, rest))
            high = e.emit("select", is_first, head, few)
            at = e.emit("select", is_first, zero, e.emit("sub", self.end, few))
            elements = nest.elements(self.known)
            lane = elements.lane()
            some = e.emit("and", e.emit("ge", lane, low), e.emit("lt", lane, high))
            elements = elements.within(replace(elements.context, streams=self.streams, some=some))
            nest.body(elements, nest.index(self.bases, at, lanes), [])
            return ()

        e.inst("loop", [first, last], {"lanes": lanes}, [e.region([rest.type], body, ["i"])])


__all__ = ["StreamRow", "are_alike", "is_repeatable"]
