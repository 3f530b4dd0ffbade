"""Masks as loop bounds: up to which lane everything that a nest touches is surely inside."""

from __future__ import annotations

from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Value
from eas.schedule.elements.elements import Elements, Emitter, Index, Known, axes, source_index

I64 = Type(dtypes.i64)
_FAR = 2**31 - 1  # lanes: more than any block has
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
Conjunct = tuple[Value, tuple[Index, ...]]


def conjuncts(elements: Elements, mask: Value, index: tuple[Index, ...]) -> list[Conjunct]:
    """The conditions that a mask is the conjunction of, each with its own index."""
    found: list[Conjunct] = []
    left = [(mask, index)]
    while left:
        value, where = left.pop()
        is_here = value in elements.context.made or (value not in elements.slots and value not in elements.local)
        inst = elements.definition(value) if is_here else None
        mapped = source_index(inst, where) if inst is not None else None
        if inst is not None and inst.op.name == "and":
            left += [(operand, where) for operand in reversed(inst.operands)]
        elif inst is not None and mapped is not None:
            left.append((inst.operands[0], mapped))
        else:
            found.append((value, where))
    return found


class Bounds:
    """Collects the bound of a vector loop from the masks of the accesses in its body."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.known: set[Known] = set()
        self.whole: set[Known] = set()  # those of them that all lanes agree on
        self.limits: list[Value] = []
        self.lanes: dict[Known, Value] = {}  # of those that only the first lanes satisfy: how many
        self.known_later: set[Known] = set()  # those that the first lanes may not satisfy
        self.starts: list[Value] = []
        self.span: Value | None = None  # where the row ends, whatever the masks say

    def end_at(self, span: Value) -> None:
        """Let a row end with a number of elements that only the launch knows."""
        self.span = span
        self.limits.append(span)

    def like(self) -> Bounds:
        """Empty ones that take nothing which is known here."""
        other = Bounds(self.e)
        other.known, other.known_later = set(self.known), set(self.known_later)
        return other

    def add(self, elements: Elements, mask: Value, index: tuple[Index, ...]) -> None:
        """Take what can be decided before the loop out of a mask; `index` has lane 0 at position 0."""
        for condition, where in conjuncts(elements, mask, index):
            if (condition, axes(where)) in self.known or (condition, axes(where)) in self.known_later:
                continue
            if condition.type.is_scalar or elements.step(condition, where) == 0:
                self._everywhere(elements, condition, where)
            else:
                self._compare(elements, condition, where)

    def _everywhere(self, elements: Elements, condition: Value, where: tuple[Index, ...]) -> None:
        """Note a condition that holds in all lanes, or in none, as it does in the first."""
        self.known.add((condition, axes(where)))
        self.whole.add((condition, axes(where)))
        first = tuple(ix.first() for ix in where)
        self.limits.append(self._all_or_none(elements.at(condition, first)))

    def _compare(self, elements: Elements, condition: Value, where: tuple[Index, ...]) -> None:
        """Note the number of lanes that satisfy a comparison, or do not, if those are the first ones."""
        inst = elements.definition(condition)
        if inst is None or inst.op.name not in _MIRRORED:
            return
        a, b = inst.operands
        name, steps = inst.op.name, [elements.step(v, where) for v in (a, b)]
        if steps[0] == 0:
            a, b, name, steps = b, a, _MIRRORED[name], steps[::-1]
        step, fixed = steps
        if step is None or step < 1 or fixed != 0 or a.dtype.is_float or a.dtype.max > dtypes.i64.max:
            return
        # The unsigned numbers of a block may start below 0, as large ones, and be small later.
        if name in ("ge", "gt") and not (a.dtype.is_signed and self._starts_late(elements, condition, where)):
            return
        first = tuple(ix.first() for ix in where)
        left, right = (elements.at(v, first) for v in (a, b))
        count = self._distance(left, right, int(name in ("le", "gt")))
        if step > 1:
            count = self.e.emit("floordiv", self.e.emit("add", count, self.e.const(step - 1, I64)), self.e.const(step, I64))
        if name in ("lt", "le"):
            self.known.add((condition, axes(where)))
            self.limits.append(count)
            if a.dtype.is_signed and step == 1:
                self.lanes[condition, axes(where)] = count
        else:
            self.known_later.add((condition, axes(where)))
            self.starts.append(count)

    def _starts_late(self, elements: Elements, condition: Value, where: tuple[Index, ...]) -> bool:
        """Whether to count the lanes in front of those that satisfy a condition."""
        return True

    def _distance(self, left: Value, right: Value, plus: int) -> Value:
        """right - left + plus; of numbers of 64 bits no more than any block is long, and 0 instead of what is less."""
        e, zero = self.e, self.e.const(0, I64)
        if left.type != I64:
            left, right = self._wide(left), self._wide(right)
            count = e.emit("sub", right, left)
            return e.emit("add", count, e.const(plus, I64)) if plus else count
        count, most = e.emit("sub", right, left), e.const(_FAR, I64)
        count = e.emit("select", e.emit("lt", count, zero), most, e.emit("min", count, most))  # negative: it wrapped
        count = e.emit("add", count, e.const(plus, I64)) if plus else count
        return e.emit("select", e.emit("ge", right, left), count, zero)

    def _wide(self, value: Value) -> Value:
        return value if value.type == I64 else self.e.emit("cast", value, type=I64)

    def _all_or_none(self, condition: Value) -> Value:
        return self.e.emit("select", condition, self.e.const(_FAR, I64), self.e.const(0, I64))

    def stop(self, extent: int) -> Value:
        """The first position from which on every condition on lanes is false."""
        limit, *others = self.lanes.values() or [self.e.const(_FAR, I64)]
        for other in others:
            limit = self.e.emit("max", limit, other)
        limit = self.e.emit("min", limit, self.e.const(extent, I64))
        if self.span is not None:
            limit = self.e.emit("min", limit, self.span)
        return self.e.emit("cast", self.e.emit("max", limit, self.e.const(0, I64)), type=Type(dtypes.i32))

    def room(self, extent: int, lanes: int = 1) -> Value:
        """The elements of the row whatever the masks say, in whole vectors."""
        if self.span is None:
            return self.e.const(extent // lanes * lanes)
        small = self.e.emit("cast", self.e.emit("min", self.span, self.e.const(extent, I64)), type=Type(dtypes.i32))
        return self.e.emit("and", small, self.e.const(-lanes)) if lanes > 1 else small

    def start(self, extent: int, lanes: int) -> Value:
        """The start of the part in which every condition that is known later holds, in whole vectors."""
        first = self.e.const(0, I64)
        for candidate in self.starts:
            first = self.e.emit("max", first, candidate)
        first = self.e.emit("min", first, self.e.const(extent, I64))
        small = self.e.emit("cast", first, type=Type(dtypes.i32))
        up = self.e.emit("add", small, self.e.const(lanes - 1))
        return self.e.emit("min", self.e.emit("and", up, self.e.const(-lanes)), self.e.const(extent))

    def end(self, extent: int, lanes: int) -> Value:
        """The end of the part in which every known condition holds, in whole vectors."""
        limit = self.e.const(extent, I64)
        for candidate in self.limits:
            limit = self.e.emit("min", limit, candidate)
        limit = self.e.emit("max", limit, self.e.const(0, I64))
        small = self.e.emit("cast", limit, type=Type(dtypes.i32))
        return self.e.emit("and", small, self.e.const(-lanes)) if lanes > 1 else small
