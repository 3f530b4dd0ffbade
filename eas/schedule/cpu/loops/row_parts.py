"""What the kinds of loops of a nest are told: a row, its end, a part of it in which all masks hold, a gap that another loop visits."""

from __future__ import annotations

from dataclasses import dataclass, field

from eas.ir import Inst, Value
from eas.schedule.cpu.tails import Tail
from eas.schedule.elements.elements import Elements, Index, Known
from eas.schedule.elements.masks import Bounds


@dataclass(eq=False)
class TailPlan:
    """Behind `stop` the conditions of `key` are false, and the blocks in `read` have one value."""

    key: frozenset[Known]
    index: tuple[Index, ...]
    read: dict[Value, Tail]
    stop: Value = field(init=False)


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a nest, with the conditions of its masks."""

    bases: tuple[Value, ...]  # the positions along the other axes
    has_masks: bool
    bounds: Bounds
    elements: Elements
    start: tuple[Index, ...]  # its first vector
    known: frozenset[Known]  # conditions that hold between the bounds
    last: Value  # where vectors end
    end: Value  # where elements do
    accumulators: list[Value]
    tail: TailPlan | None


@dataclass(frozen=True, eq=False)
class Inside:
    """A part of a row in which all masks hold, in whole vectors."""

    bases: tuple[Value, ...]
    begin: Value
    end: Value
    known: frozenset[Known]
    accumulators: list[Value]
    streams: list[Inst]  # stores that may bypass the cache


@dataclass(frozen=True)
class Gap:
    """Positions that another loop visits."""

    start: Value
    length: Value
