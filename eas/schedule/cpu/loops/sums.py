"""Nests around a loop that adds up what it reads: the sums of several vectors stay in registers while it runs.

Vectors whose masks are known to hold are loaded without. Elsewhere the first vector of a step and its last
ones take the masks, if those in between are known to be inside: that is what the borders of images need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eas.analysis import mask_of
from eas.ir import Value
from eas.schedule.cpu.loops.counter_ends import add_inner_masks
from eas.schedule.cpu.loops.joint import Position, joint_loop
from eas.schedule.cpu.loops.nest import NestLoops
from eas.schedule.cpu.opaque_masks import OpaqueMasks
from eas.schedule.elements.elements import Known
from eas.schedule.elements.masks import Bounds, conjuncts
from eas.schedule.elements.members import masks_are_slow, member
from eas.schedule.target import SUMS

Rows = Sequence[tuple[Value, ...]]


def plan_sums(nest: NestLoops, bases: tuple[Value, ...]) -> Callable[[], None] | None:
    """Where the nest is such a loop, and vectors with masks are quick."""
    if not nest.has_sums or nest.lanes == 1 or masks_are_slow(nest.insts(), nest.p.target):
        return None
    return lambda: _emit_sums(nest, bases)


def _emit_sums(nest: NestLoops, bases: tuple[Value, ...]) -> None:
    """The loops of the last two axes, some rows at a time if they are short."""
    nest.complete_tails()
    if nest.rank == 1:
        _Steps(nest, [()]).emit()
        return
    count = max(1, SUMS * nest.p.target.vector_nbytes // nest.widest() // nest.lanes)
    rows = nest.shape[-2]
    while rows % count:
        count //= 2

    def group(i: Value) -> None:
        first = nest.e.mul(i, count)
        _Steps(nest, [(*bases, nest.e.add(first, nest.e.const(r))) for r in range(count)]).emit()

    nest.p.counted(rows // count, group, f"i{nest.rank - 2}")


@dataclass(frozen=True)
class _Part:
    """What is known in a loop: conditions that hold, and some that hold between two lanes of a step."""

    known: frozenset[Known] = frozenset()
    middle: tuple[int, int] | None = None
    inside: frozenset[Known] = frozenset()


class _Steps:
    """The vector loop of some rows."""

    def __init__(self, nest: NestLoops, rows: Rows) -> None:
        self.nest, self.e, self.rows = nest, nest.e, rows
        self.lanes = nest.lanes
        self.bounds = self._bounds()

    def _bounds(self) -> Bounds:
        """Where masks hold, in all rows."""
        nest, zero = self.nest, self.e.const(0)
        joined = nest.p.bounds()
        for k, row in enumerate(self.rows):
            index, bounds = nest.index(row, zero, 2), nest.p.bounds()
            elements = nest.elements()
            for inst in nest.insts():
                mask = mask_of(inst)
                if mask is not None:
                    bounds.add(elements, mask, index)
            for inst in nest.members:
                if inst.op.name == "for":
                    add_inner_masks(bounds, elements, inst, index)
            joined.limits += bounds.limits
            joined.starts += bounds.starts
            if k == 0:
                joined.known, joined.whole = bounds.known, bounds.whole
                joined.known_later, joined.lanes = bounds.known_later, bounds.lanes
            else:
                joined.lanes = {key: self.e.emit("max", old, bounds.lanes[key]) for key, old in joined.lanes.items()}
        return joined

    def emit(self) -> None:
        e, nest, bounds = self.e, self.nest, self.bounds
        extent, lanes = nest.extent, self.lanes
        zero = e.const(0)
        has_masks = any(mask_of(inst) is not None for inst in nest.insts())
        if not has_masks:
            self._loop(zero, e.const(extent), self._body(_Part()))
            return
        known = frozenset(bounds.known | bounds.known_later)
        first, full = zero, zero
        if known:
            full = bounds.end(extent, lanes)
            if bounds.starts:
                first = bounds.start(extent, lanes)
                full = e.emit("max", first, full)
            self._loop(first, full, self._body(_Part(known)))
        self._rest(first, full, known)

    def _rest(self, first: Value, full: Value, known: frozenset[Known]) -> None:
        """The steps in front of those where all masks hold, and behind them."""
        e, nest, lanes = self.e, self.nest, self.lanes
        end = e.const(nest.extent)
        stop = self._stop()
        if stop is not None:
            up = e.emit("and", e.emit("add", stop, e.const(lanes - 1)), e.const(-lanes))
            end = e.emit("min", end, up)
        gap = e.emit("sub", full, first)
        general = self._choice(known)
        last = None
        if stop is not None and self._may_repeat():
            # The last step moves back until it ends with the row.
            last = e.emit("max", e.emit("sub", stop, e.const(lanes)), e.const(0))

        def body(i: Value) -> None:
            is_before = e.emit("lt", i, first)
            at = e.emit("select", is_before, i, e.emit("add", i, gap))
            general(at if last is None else e.emit("min", at, last))

        self._loop(e.const(0), e.emit("sub", end, gap), body)

    def _stop(self) -> Value | None:
        """Behind this position nothing is stored."""
        nest, bounds = self.nest, self.bounds
        if nest.stores or not bounds.lanes:
            return None
        index = nest.index(self.rows[0], self.e.const(0), 2)
        elements = nest.elements()
        for inst in nest.members:
            if inst.op.name != "store":
                continue
            mask = mask_of(inst)
            parts = conjuncts(elements, mask, index) if mask is not None else []
            if not any((c, tuple(ix.axis for ix in where)) in bounds.lanes for c, where in parts):
                return None
        return bounds.stop(nest.extent)

    def _may_repeat(self) -> bool:
        """Whether elements may be computed and stored twice."""
        stores = [inst for inst in self.nest.members if inst.op.name == "store"]
        return all(self.nest.p.base_of(inst.operands[0]) in self.nest.p.facts.unread for inst in stores)

    def _choice(self, known: frozenset[Known]) -> Callable[[Value], None]:
        """A step where masks may be off: only at its ends, if what is between them is inside."""
        e, lanes, bounds = self.e, self.lanes, self.bounds
        general = self._body(_Part())
        one = self.nest.p.target.vector_nbytes // self.nest.widest()
        middle = (one, lanes - lanes // 4) if lanes >= 4 * one else None
        if not known or not (middle or bounds.whole) or not OpaqueMasks(self.nest.p.target).needs_words:
            return general
        # Conditions that lanes agree on hold where the end is not 0.
        ends = self._body(_Part(frozenset(bounds.whole), middle, known if middle else frozenset()))
        on = bounds.start(self.nest.extent, 1) if bounds.starts else e.const(0)
        off = bounds.end(self.nest.extent, 1)

        def body(i: Value) -> None:
            is_inside = e.emit("gt", off, e.const(0))
            if middle:
                starts = e.emit("le", on, e.add(i, e.const(middle[0])))
                is_inside = e.emit("and", starts, e.emit("ge", off, e.add(i, e.const(middle[1]))))

            def side(step: Callable[[Value], None]) -> Sequence[Value]:
                step(i)
                return ()

            e.inst("if", [is_inside], {}, [e.region([], lambda: side(ends)), e.region([], lambda: side(general))])

        return body

    def _loop(self, start: Value, end: Value, body: Callable[[Value], None]) -> None:
        def inside(i: Value) -> Sequence[Value]:
            body(i)
            return ()

        region = self.e.region([start.type], inside, ["i"])
        self.e.inst("loop", [start, end], {"lanes": self.lanes}, [region])

    def _body(self, part: _Part) -> Callable[[Value], None]:
        nest = self.nest

        def body(i: Value) -> None:
            positions: list[Position] = []
            for row in self.rows:
                masks = OpaqueMasks(nest.p.target, part.middle, part.inside)
                elements = nest.p.within(replace(nest.context(part.known), load=masks.load))
                positions.append(Position(elements, nest.index(row, i, self.lanes), masks))
            for inst in nest.members:
                nest.e.loc = inst.loc
                if inst.op.name == "for":
                    joint_loop(positions, inst, frozenset(i for i in nest.sharing.loads if nest.sharing.is_shared(i, nest.rank - 2)) if nest.rank > 1 else frozenset())
                    continue
                for at in positions:
                    member(at.elements, inst, at.index)
            for at in positions:
                nest.keep(at.elements, at.index)

        return body
