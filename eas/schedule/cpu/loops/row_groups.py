"""Some rows of a nest at once: what they have in common is read once, and their sums do not wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.analysis import mask_of
from eas.analysis.combines import identity
from eas.ir import Value
from eas.schedule.cpu.loops.nest import NestLoops
from eas.schedule.elements.elements import Known
from eas.schedule.elements.members import masks_are_slow

_ROWS = 4
_REGISTERS = 2  # per row and step, so that the sums of all rows stay in registers
_LONG_ROW = 1 << 15  # bytes: such a row has work enough of its own


def plan_groups(nest: NestLoops, bases: tuple[Value, ...]) -> Callable[[], None] | None:
    """Where the nest is one sum, or the like, along rows that are not long."""
    if not _takes_groups(nest):
        return None
    axis = nest.rank - 2
    return lambda: nest.p.counted(nest.shape[axis] // _ROWS, lambda i: _emit_group(nest, bases, i), f"i{axis}")


def _takes_groups(nest: NestLoops) -> bool:
    folds = [inst for inst in nest.members if inst.op.name == "reduce"]
    if nest.rank < 2 or nest.lanes == 1 or nest.shape[-2] % _ROWS or nest.outs or len(folds) != 1:
        return False
    fold = folds[0]
    is_last = fold["axis"] % nest.rank == nest.rank - 1
    is_plain = all(i is fold or i.op.name == "load" or (i.op.is_pure and not i.regions) for i in nest.members)
    has_loads = any(i.op.name == "load" for i in nest.members)
    is_short = nest.extent * 4 < _LONG_ROW
    return is_last and is_plain and has_loads and is_short and len(fold.outs) == 1 and identity(fold.regions[0]) is not None


def _emit_group(nest: NestLoops, bases: tuple[Value, ...], group: Value) -> None:
    """The loops of _ROWS rows, the first of which is _ROWS * group."""
    e = nest.e
    nest.lanes = min(nest.lanes, _REGISTERS * nest.p.target.vector_nbytes // nest.widest())
    rows = [(*bases, e.add(e.mul(group, _ROWS), e.const(r))) for r in range(_ROWS)]
    zero, elements = e.const(0), nest.p.elements()
    masks = [m for inst in nest.members if (m := mask_of(inst)) is not None]
    is_slow = masks_are_slow(nest.members, nest.p.target)
    bounds = [nest.p.bounds() for _ in rows]
    for row, found in zip(rows, bounds, strict=True):
        for mask in masks:
            found.add(elements, mask, nest.index(row, zero, 2))
    nest.complete_tails()
    known = frozenset(bounds[0].known)
    whole = nest.extent // nest.lanes * nest.lanes
    last, full = e.const(whole), e.const(whole)
    if masks:
        full = zero
        if known:
            full = bounds[0].end(whole, nest.lanes)
            for found in bounds[1:]:
                full = e.emit("min", full, found.end(whole, nest.lanes))
    sums = [nest.start(row) for row in rows]
    if known or not masks:
        sums = _steps(nest, rows, (zero, full), known, sums)
    if masks and is_slow:
        last = full
    elif masks:
        sums = _steps(nest, rows, (full, last), frozenset(), sums)
    ends = None if not (masks and is_slow) and whole == nest.extent else e.const(nest.extent)
    for row, values in zip(rows, sums, strict=True):
        nest.put(row, nest.totals(row, last, ends, values))


def _steps(
    nest: NestLoops,
    rows: Sequence[tuple[Value, ...]],
    ends: tuple[Value, Value],
    known: frozenset[Known],
    sums: Sequence[Sequence[Value]],
) -> list[list[Value]]:
    """One loop over the lanes of all rows."""
    e, size = nest.e, len(sums[0])

    def body(i: Value, *carried: Value) -> Sequence[Value]:
        new: list[Value] = []
        for r, row in enumerate(rows):
            mine = list(carried[r * size : (r + 1) * size])
            new += nest.body(nest.p.elements(known), nest.index(row, i, nest.lanes), mine)
        return new

    flat = [v for values in sums for v in values]
    region = e.region([ends[0].type, *(v.type for v in flat)], body, ["i"])
    outs = e.inst("loop", [*ends, *flat], {"lanes": nest.lanes}, [region]).outs
    return [list(outs[r * size : (r + 1) * size]) for r in range(len(rows))]
