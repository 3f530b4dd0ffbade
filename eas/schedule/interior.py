"""Tiles whose masks hold everywhere: most tiles of an image are not at its border, and are done without masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eas.ir import Value
from eas.schedule.elements import Elements, Index, Known, axes
from eas.schedule.masks import Bounds, Conjunct, conjuncts
from eas.schedule.members import mask_of

if TYPE_CHECKING:
    from eas.schedule.nest_loops import NestLoops

_ORDERS = ("lt", "le", "gt", "ge")


def split_border(nest: NestLoops, bases: tuple[Value, ...], rows: Callable[[frozenset[Known] | None], None]) -> bool:
    """Emit the rows of a tile twice, without masks and with them, and a test which to take; False if it is not worth it.

    Masks that have a start as well as an end are those of windows around each element. Their
    conditions move evenly along rows and columns: they hold everywhere if they do in the first row and in the last.
    """
    masks = [m for inst in nest.insts() if (m := mask_of(inst)) is not None]
    if not masks or nest.reductions or nest.scans or nest.counters or nest.lanes == 1 or tuple(nest.order) != tuple(range(nest.rank)):
        return False
    e, elements = nest.e, nest.elements()
    nest.complete_tails()
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
            return False
        if not all(_is_even(elements, c) for c in conditions):
            return False
        tests += _covers(nest, bounds)
    inside = tests[0]
    for test in tests[1:]:
        inside = e.emit("and", inside, test)

    def side(given: frozenset[Known] | None) -> Sequence[Value]:
        rows(given)
        return ()

    e.inst("if", [inside], {}, [e.region([], lambda: side(known)), e.region([], lambda: side(None))])
    return True


def _covers(nest: NestLoops, bounds: Bounds) -> list[Value]:
    """Whether all conditions hold from the first lane to the last."""
    e, extent = nest.e, nest.extent
    starts = e.emit("le", bounds.start(extent, 1), e.const(0))
    return [starts, e.emit("ge", bounds.end(extent, 1), e.const(extent))]


def _is_even(elements: Elements, condition: Conjunct) -> bool:
    """Whether both sides of a comparison move by the same number from row to row."""
    value, where = condition
    inst = elements.definition(value)
    if value.type.is_scalar:
        return True
    if inst is None or inst.op.name not in _ORDERS:
        return False
    turned = tuple(Index(ix.base, lanes=ix.axis >= 0 and not ix.lanes, axis=ix.axis) for ix in where)
    return all(elements.step(v, turned) is not None for v in inst.operands)
