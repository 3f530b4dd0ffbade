"""Which loops a nest becomes: three questions, and for each a table of which the first kind that fits is taken.

The questions are about the last two axes (`AROUND`), one row (`ALONG` in along.py), and a part of a row where all
masks hold (`INSIDE` in inside.py); the kinds of one table ask the next. A kind is a function that returns what emits
its loops, or None if it does not fit. The last kind of each table always fits, and every kind takes all that can
reach it: what another kind changes in a row or a part (a late start, a tail, runs) is either asked about by a kind,
or the same to it.
"""

from __future__ import annotations

from collections.abc import Callable

from eas.ir import Inst, Value, walk
from eas.schedule.cpu.loops.along import emit_row
from eas.schedule.cpu.loops.interior import plan_interior
from eas.schedule.cpu.loops.nest import Kinds, NestLoops, choose
from eas.schedule.cpu.loops.row_groups import plan_groups
from eas.schedule.cpu.loops.sums import plan_sums
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.cpu.relayout import contiguous, moved_into
from eas.schedule.elements.elements import Slot
from eas.schedule.nest.program_order import axes_of


def _plan_rows(nest: NestLoops, bases: tuple[Value, ...]) -> Callable[[], None]:
    return lambda: nest.rows(bases, lambda at: emit_row(nest, at))


# Sums and groups do several rows at once and have loops of their own along them; they exclude each other (a group is
# one reduction, a sum has a loop and none). Tiles inside come last, because their rows are written twice.
AROUND: Kinds[tuple[Value, ...], None] = {
    "sums": plan_sums,  # a loop that adds up what it reads: more sums than one row has wait for each other less
    "groups": plan_groups,  # a reduction of short rows: likewise
    "interior": plan_interior,  # windows around elements: the tiles that are not at the border need no masks
    "rows": _plan_rows,
}


def lower_nest(p: Lowering, nest: Inst) -> None:
    """Emit the loops of a nest; what it yields is in slots (or scalars) afterwards."""
    region = nest.regions[0]
    with contiguous(p, (v for inst in walk(region) for v in inst.operands)):
        yields = tuple(zip(region.yields, nest.outs, strict=True))
        _emit(NestLoops(p, nest["shape"], region.body[:-1], yields, order=axes_of(nest)))


def copy_loops(p: Lowering, slot: Slot, value: Value) -> None:
    """Write every element of `value` into `slot`."""
    if moved_into(p, slot, value):
        return
    with contiguous(p, [value]):
        _emit(NestLoops(p, value.shape, (), ((value, value),), {value: slot}))


def _emit(nest: NestLoops) -> None:
    _loops(nest, 0, ())
    nest.put_counts()


def _loops(nest: NestLoops, axis: int, bases: tuple[Value, ...]) -> None:
    """Counted loops up to the last two axes, which are done by the first kind of loops that fits."""
    if axis < nest.rank - 2:
        nest.p.counted(nest.shape[nest.order[axis]], lambda i: _loops(nest, axis + 1, (*bases, i)), f"i{axis}")
    else:
        choose(AROUND, nest, bases)()
