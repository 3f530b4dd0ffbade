"""The reductions of a nest: what they start from, and how they take the next element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eas.analysis.combines import (
    IDENTITIES,
    indexed_extreme,
    is_idempotent,
    neutrals,
)
from eas.base.types import Type
from eas.ir import Inst, Value
from eas.ir.rewriting import clone_region
from eas.schedule.elements.elements import I64, Elements, Emitter, Index, Slot, first_lane, nothing

_ALIKE = frozenset({"broadcast", "expand_dims", "reshape"})


@dataclass(eq=False)
class Reduction:
    """Per lane along the vector axis, or element by element into slots."""

    inst: Inst
    is_last: bool
    slots: list[Slot]
    neutrals: list[Any] | None  # what changes nothing, None where elements stay in order
    extreme: str | None  # "max" or "min" of an argmax or argmin over positions along the last axis
    is_ascending: bool = False  # whether the loops of a row visit its elements from the first to the last

    @property
    def is_idempotent(self) -> bool:
        """Whether it does no harm to take an element twice."""
        return is_idempotent(self.inst.regions[0]) or self.extreme is not None

    def start(self, elements: Elements, first: tuple[Index, ...], has_lanes: bool) -> list[Value]:
        """What a lane holds in front of its first element; `first` is that of the row."""
        e, outs = elements.e, self.inst.outs
        if self.extreme is not None and self.is_ascending:
            # The first position with the worst of all values: the first element is never worse.
            worst = e.const(IDENTITIES[self.extreme](outs[0].dtype), Type(outs[0].dtype))
            position = elements.at(self.inst.operands[1], first)
            # A choice of lanes is cheapest if what is chosen is all of one width.
            is_wide = has_lanes and worst.dtype.nbytes == I64.dtype.nbytes
            return [worst, e.emit("cast", position, type=I64) if is_wide else position]
        values = self.neutrals or [nothing(out) for out in outs]
        return [e.const(value, Type(out.dtype)) for value, out in zip(values, outs, strict=True)]

    def element(self, elements: Elements, index: tuple[Index, ...]) -> list[Value]:
        """What is combined at a position; of positions along the lanes, the first stands for all."""
        new = [elements.at(v, index) for v in self.inst.operands[:-1]]
        is_first = self.extreme is not None and self.is_ascending
        return [*new, elements.at(self.inst.operands[-1], first_lane(index) if is_first else index)]

    def merge(self, elements: Elements, old: Sequence[Value], new: Sequence[Value]) -> list[Value]:
        """One more element, or one for each lane."""
        if self.extreme is None or not self.is_ascending:
            return elements.e.inline(self.inst.regions[0], [*old, *new])
        # What comes later has the higher position, so that it only wins if it is better.
        e, value = elements.e, old[0]
        wins = e.emit("not", e.emit("ge" if self.extreme == "max" else "le", value, new[0]))
        if value.dtype.is_float:
            wins = e.emit("and", wins, e.emit("not", e.emit("isnan", value)))
        return [e.emit("select", wins, cast(e, b, a.type), a) for a, b in zip(old, new, strict=True)]

    def fold(self, e: Emitter, values: Sequence[Value], lanes: int) -> list[Value]:
        """The lanes of what a loop carried as one element."""
        if self.extreme is not None:
            value, position = values
            return self._fold_extreme(e, value, position, lanes)
        return list(e.inst("hreduce", values, {"lanes": lanes}, [clone_region(self.inst.regions[0])]).outs)

    def _fold_extreme(self, e: Emitter, value: Value, position: Value, lanes: int) -> list[Value]:
        """The best of the lanes, and the lowest of the positions at which that is."""
        if self.is_ascending:
            position = e.add(position, cast(e, e.emit("lane", lanes=lanes), position.type))
        best, lowest = self._best_lane(e, value, position, lanes)
        return [best, cast(e, lowest, Type(self.inst.outs[1].dtype))]

    def _best_lane(self, e: Emitter, value: Value, position: Value, lanes: int) -> tuple[Value, Value]:
        """The extreme of all lanes, and the lowest position of those that hold it."""
        assert self.extreme is not None
        best = _hreduce(e, self.extreme, value, lanes)
        is_best = e.emit("eq", value, best)
        if value.dtype.is_float:
            is_best = e.emit("or", is_best, e.emit("isnan", value))  # if there is one, it is the best
        others = e.const(position.dtype.max, position.type)
        return best, _hreduce(e, "min", e.emit("select", is_best, position, others), lanes)


def _hreduce(e: Emitter, name: str, value: Value, lanes: int) -> Value:
    region = e.region([value.type, value.type], lambda a, b: [e.emit(name, a, b)])
    return e.inst("hreduce", [value], {"lanes": lanes}, [region]).out


def cast(e: Emitter, value: Value, type: Type) -> Value:
    return value if value.type == type else e.emit("cast", value, type=type)


def plan_reduction(elements: Elements, inst: Inst, is_last: bool, slots: list[Slot]) -> Reduction:
    combine = inst.regions[0]
    is_pair = is_last and len(inst.operands) == 2 and not inst.operands[0].dtype.is_bool
    is_of_positions = is_pair and _counts_along(elements, inst.operands[1])
    return Reduction(inst, is_last, slots, neutrals(combine), indexed_extreme(combine) if is_of_positions else None)


def _counts_along(elements: Elements, value: Value) -> bool:
    """Whether a block counts the positions along its last axis."""
    extent = value.shape[-1]
    inst = elements.definition(value)
    while inst is not None and inst.op.name in _ALIKE and inst.out.shape[-1] == extent:
        inst = elements.definition(inst.operands[0])
    return inst is not None and inst.op.name == "arange" and inst.out.shape == (extent,)
