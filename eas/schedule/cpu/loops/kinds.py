"""Which loops a nest becomes: three questions, and for each a table of which the first kind that fits is taken.

A kind is a function that returns what emits its loops, or None if it does not fit. The last kind of each
table always fits, and every kind takes all that can reach it: what another kind changes in a row or a part
(a late start, a tail, runs) is either asked about by a kind, or the same to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from eas.ir import Value
from eas.schedule.cpu.loops.find_extremes import plan_search
from eas.schedule.cpu.loops.inside import (
    plan_plain,
    plan_row_stream,
    plan_runs,
    plan_stream,
    plan_two_runs,
)
from eas.schedule.cpu.loops.interior import plan_interior
from eas.schedule.cpu.loops.masked_rows import plan_parts, plan_unmasked
from eas.schedule.cpu.loops.overlaps import plan_overlap, plan_repeated
from eas.schedule.cpu.loops.row_groups import plan_groups
from eas.schedule.cpu.loops.row_parts import Inside, Row
from eas.schedule.cpu.loops.sums import plan_sums

if TYPE_CHECKING:
    from eas.schedule.cpu.loops.nest import NestLoops

X = TypeVar("X")
T = TypeVar("T")
Kinds = Mapping[str, Callable[["NestLoops", X], Callable[[], T] | None]]


def _plan_rows(nest: NestLoops, bases: tuple[Value, ...]) -> Callable[[], None]:
    return lambda: nest.rows(bases, nest.row)


# The last two axes. Sums and groups do several rows at once and have loops of their own along them; they
# exclude each other (a group is one reduction, a sum has a loop and none). Tiles inside come last, because
# their rows are written twice.
AROUND: Kinds[tuple[Value, ...], None] = {
    "sums": plan_sums,  # a loop that adds up what it reads: more sums than one row has wait for each other less
    "groups": plan_groups,  # a reduction of short rows: likewise
    "interior": plan_interior,  # windows around elements: the tiles that are not at the border need no masks
    "rows": _plan_rows,
}

# One row. Overlapping vectors visit elements twice, so they exclude reductions but for extremes, runs, late starts and slots.
ALONG: Kinds[Row, None] = {
    "search": plan_search,  # the place of an extreme: the extreme first, without positions, then the first element that equals it
    "repeated": plan_repeated,  # only extremes are asked for: the end of a row is a vector that ends with it
    "unmasked": plan_unmasked,  # nothing to split; or runs, whose vectors take the masks themselves
    "overlap": plan_overlap,  # only stores: likewise
    "parts": plan_parts,  # all masks hold, then vectors with masks or single elements
}

# Where all masks hold. Runs and streamed rows start at the beginning of the row: a late start excludes runs,
# and parts that start late are streamed if at all by aligned luck.
INSIDE: Kinds[Inside, list[Value]] = {
    "row stream": plan_row_stream,  # one store past the cache: single elements at the ends, vectors from an aligned address on
    "runs": plan_runs,  # a divided index: vectors between the multiples of the divisor
    "two runs": plan_two_runs,  # a long reduction: memory is read faster in two places
    "stream": plan_stream,  # other stores past the cache, where their address happens to be aligned
    "plain": plan_plain,
}


def choose(kinds: Kinds[X, T], nest: NestLoops, given: X) -> Callable[[], T]:
    """What emits the loops of the first kind that fits."""
    return next(emit for plan in kinds.values() if (emit := plan(nest, given)) is not None)
