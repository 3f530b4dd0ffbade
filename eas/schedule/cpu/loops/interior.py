"""Tiles whose masks hold everywhere: most tiles of an image are not at its border, and are done without masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.analysis import mask_of
from eas.ir import Region, Value
from eas.schedule.cpu.loops.along import emit_row
from eas.schedule.cpu.loops.inside import emit_full
from eas.schedule.cpu.loops.nest import NestLoops
from eas.schedule.elements.elements import Elements, Index, Known, axes
from eas.schedule.elements.masks import Bounds, Conjunct, conjuncts

_ORDERS = ("lt", "le", "gt", "ge")


def plan_interior(nest: NestLoops, bases: tuple[Value, ...]) -> Callable[[], None] | None:
    """The rows of a tile twice, without masks and with them, and a test which to take.

    Masks that have a start as well as an end are those of windows around each element. Their
    conditions move evenly along rows and columns: they hold everywhere if they do in the first row and in the last.
    """
    e = nest.e
    e.blocks.append([])  # kept if all conditions are of this kind
    found = _conditions(nest, bases) if _may_have_border(nest) else None
    tests = e.blocks.pop()
    if found is None:
        return None
    known, inside = found

    def emit() -> None:
        nest.complete_tails()
        e.blocks[-1] += tests
        e.inst("if", [inside], {}, [_side(nest, bases, lambda at: _row(nest, at, known)), _side(nest, bases, lambda at: emit_row(nest, at))])

    return emit


def _may_have_border(nest: NestLoops) -> bool:
    if nest.rank == 1 or nest.p.facts.in_rows or nest.reductions or nest.scans or nest.counters or nest.lanes == 1 or nest.p.facts.is_long:
        return False
    return tuple(nest.order) == tuple(range(nest.rank))


def _conditions(nest: NestLoops, bases: tuple[Value, ...]) -> tuple[frozenset[Known], Value] | None:
    """All conditions of the masks, and whether they hold in the whole tile."""
    e, elements = nest.e, nest.elements()
    masks = [m for inst in nest.insts() if (m := mask_of(inst)) is not None]
    tests: list[Value] = []
    known: frozenset[Known] = frozenset()
    for row in (0, nest.shape[-2] - 1):
        index = nest.index((*bases, e.const(row)), e.const(0), 2)
        conditions = [c for mask in masks for c in conjuncts(elements, mask, index)]
        bounds = nest.p.bounds()
        for mask in masks:
            bounds.add(elements, mask, index)
        known = frozenset(bounds.known | bounds.known_later)
        if not bounds.starts or any((c, axes(where)) not in known for c, where in conditions):
            return None
        if not all(_is_even(elements, c) for c in conditions):
            return None
        tests += _covers(nest, bounds)
    inside = tests[0]
    for test in tests[1:]:
        inside = e.emit("and", inside, test)
    return known, inside


def _side(nest: NestLoops, bases: tuple[Value, ...], row: Callable[[tuple[Value, ...]], None]) -> Region:
    def rows() -> Sequence[Value]:
        nest.rows(bases, row)
        return ()

    return nest.e.region([], rows)


def _row(nest: NestLoops, bases: tuple[Value, ...], known: frozenset[Known]) -> None:
    """A row in which all masks hold."""
    e, whole = nest.e, nest.e.const(nest.whole)
    emit_full(nest, bases, (e.const(0), whole), known, [])
    if nest.whole < nest.extent:
        nest.part(bases, whole, e.const(nest.extent), 1, known, [])


def _covers(nest: NestLoops, bounds: Bounds) -> list[Value]:
    """Whether all conditions hold from the first lane to the last."""
    e, extent = nest.e, nest.extent
    starts = e.emit("le", bounds.start(extent, 1), e.const(0))
    return [starts, e.emit("ge", bounds.end(extent, 1), e.const(extent))]


def _is_even(elements: Elements, condition: Conjunct) -> bool:
    """Whether both sides of a comparison move by the same number from row to row, and do not wrap as unsigned ones may."""
    value, where = condition
    inst = elements.definition(value)
    if value.type.is_scalar:
        return True
    if inst is None or inst.op.name not in _ORDERS or not inst.operands[0].dtype.is_signed:
        return False
    turned = tuple(Index(ix.base, lanes=ix.axis >= 0 and not ix.lanes, axis=ix.axis) for ix in where)
    return all(elements.step(v, turned) is not None for v in inst.operands)
