"""Masks as loop bounds: up to which lane everything that a nest touches is surely inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eas import dtypes
from eas.ir import Inst, Value
from eas.schedule.elements import INDEX_MAPS, Elements, Index, Known, axes
from eas.types import Type

if TYPE_CHECKING:
    from eas.schedule.loops import Program

I64 = Type(dtypes.i64)
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
Conjunct = tuple[Value, tuple[Index, ...]]


def conjuncts(elements: Elements, mask: Value, index: tuple[Index, ...]) -> list[Conjunct]:
    """The conditions that a mask is the conjunction of, each with its own index."""
    inst = elements.formulas.get(mask)
    if inst is not None and mask not in elements.slots and mask not in elements.local:
        if inst.op.name == "and":
            return [c for operand in inst.operands for c in conjuncts(elements, operand, index)]
        mapped = index_of_source(inst, index)
        if mapped is not None:
            return conjuncts(elements, inst.operands[0], mapped)
    return [(mask, index)]


def index_of_source(inst: Inst, index: tuple[Index, ...]) -> tuple[Index, ...] | None:
    mapper = INDEX_MAPS.get(inst.op.name)
    return mapper(inst, index) if mapper is not None else None


class Bounds:
    """Collects the bound of a vector loop from the masks of the accesses in its body."""

    def __init__(self, program: Program) -> None:
        self.e = program.e
        self.known: set[Known] = set()
        self.limits: list[Value] = []

    def add(self, elements: Elements, mask: Value, index: tuple[Index, ...]) -> None:
        """Take what can be decided before the loop out of a mask; `index` has lane 0 at position 0."""
        for condition, where in conjuncts(elements, mask, index):
            if (condition, axes(where)) in self.known:
                continue
            limit = self._limit(elements, condition, where)
            if limit is not None:
                self.known.add((condition, axes(where)))
                self.limits.append(limit)

    def _limit(
        self, elements: Elements, condition: Value, where: tuple[Index, ...]
    ) -> Value | None:
        """How many lanes from position 0 on satisfy the condition, if they are the first ones."""
        first = tuple(ix.first() for ix in where)
        if condition.type.is_scalar or elements.step(condition, where) == 0:
            return self._all_or_none(elements.at(condition, first))
        inst = elements.formulas.get(condition)
        if inst is None or inst.op.name not in _MIRRORED:
            return None
        a, b = inst.operands
        name, steps = inst.op.name, [elements.step(v, where) for v in (a, b)]
        if steps == [0, 1]:
            a, b, name, steps = b, a, _MIRRORED[name], [1, 0]
        if steps != [1, 0] or name not in ("lt", "le") or a.dtype.is_float:
            return None
        left, right = (self._wide(elements.at(v, first)) for v in (a, b))
        room = self.e.emit("sub", right, left)
        return room if name == "lt" else self.e.emit("add", room, self.e.const(1, I64))

    def _wide(self, value: Value) -> Value:
        return value if value.type == I64 else self.e.emit("cast", value, type=I64)

    def _all_or_none(self, condition: Value) -> Value:
        return self.e.emit("select", condition, self.e.const(2**31 - 1, I64), self.e.const(0, I64))

    def end(self, extent: int, lanes: int) -> Value:
        """The end of the part in which every known condition holds, in whole vectors."""
        limit = self.e.const(extent, I64)
        for candidate in self.limits:
            limit = self.e.emit("min", limit, candidate)
        limit = self.e.emit("max", limit, self.e.const(0, I64))
        small = self.e.emit("cast", limit, type=Type(dtypes.i32))
        return self.e.emit("and", small, self.e.const(-lanes)) if lanes > 1 else small
