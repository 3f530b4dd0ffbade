"""Quotients and remainders of a flat index that a loop carries instead of dividing again.

`i // w` and `i % w` of the first lane grow with i, and start again at the multiples of w.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eas.ir import Inst, Value
from eas.schedule.cpu.lane_quotients import Divisor, cast, lane_quotients
from eas.schedule.elements.elements import Elements, Emitter, Index, Line, first_lane

Position = Callable[[Value], tuple[Index, ...]]


@dataclass(frozen=True, eq=False)
class _Root:
    """One dividend and divisor."""

    inst: Inst
    divisor: Value
    quotient: Value
    remainder: Value
    step: _Step | None  # None if the divisor may be negative


@dataclass(frozen=True, eq=False)
class _Step:
    """What a vector adds to the quotient and the remainder."""

    quotient: Value
    remainder: Value
    by: Divisor


@dataclass(frozen=True, eq=False)
class Remainders:
    """The quotients and remainders at one position of a loop over `lanes` lanes."""

    e: Emitter
    lanes: int
    divisions: Sequence[Inst]
    roots: dict[tuple[Value, Value], _Root]

    @classmethod
    def at_start(cls, elements: Callable[[], Elements], lanes: int, divisions: Sequence[Inst], index_at: Position) -> Remainders:
        """Those at position 0."""
        e = elements().e
        roots: dict[tuple[Value, Value], _Root] = {}
        for inst in divisions:
            first = first_lane(index_at(e.const(0)))
            dividend, divisor = (elements().at(v, first) for v in inst.operands)
            quotient, remainder = _both(e, inst, dividend, divisor)
            step = _step(e, inst, divisor, lanes) if inst["by_positive"] else None
            roots.setdefault(_key(inst), _Root(inst, divisor, quotient, remainder, step))
        return cls(e, lanes, divisions, roots)

    def numbers(self) -> list[Value]:
        """What a loop carries."""
        return [v for root in self.roots.values() for v in (root.quotient, root.remainder)]

    def like(self, numbers: Sequence[Value]) -> Remainders:
        """The same divisions elsewhere; further numbers are not looked at."""
        roots = {
            key: replace(root, quotient=numbers[2 * k], remainder=numbers[2 * k + 1])
            for k, (key, root) in enumerate(self.roots.items())
        }
        return replace(self, roots=roots)

    def start(self, inst: Inst) -> Value | None:
        """The quotient or remainder that a division is of the first lane."""
        root = self.roots.get(_key(inst))
        return None if root is None else root.quotient if inst.op.name == "floordiv" else root.remainder

    def remainder(self, inst: Inst) -> Value | None:
        root = self.roots.get(_key(inst))
        return None if root is None else root.remainder

    # --- elsewhere ----------------------------------------------------------------------------

    def behind(self, count: Value) -> Remainders:
        """So many elements later, of which at most one is a multiple of a divisor."""
        zero = self.e.const(0)
        return self.like([v for root in self.roots.values() for v in self._later(root, zero, count)])

    def behind_vector(self, is_behind: Value) -> Remainders:
        """One vector later, or here; divisors may be smaller than that."""
        e, numbers = self.e, list[Value]()
        for root in self.roots.values():
            nothing = e.const(0, root.divisor.type)
            more, rest = nothing, e.const(self.lanes, nothing.type)
            if root.step is not None:
                more, rest = root.step.quotient, root.step.remainder
            more, rest = (e.emit("select", is_behind, v, nothing) for v in (more, rest))
            numbers += self._later(root, more, rest)
        return self.like(numbers)

    def _later(self, root: _Root, more: Value, count: Value) -> list[Value]:
        e, kind = self.e, root.divisor.type
        remainder = e.emit("add", root.remainder, cast(e, count, kind))
        is_over, nothing = e.emit("ge", remainder, root.divisor), e.const(0, kind)
        quotient = e.emit("add", root.quotient, cast(e, more, kind))
        quotient = e.emit("add", quotient, e.emit("select", is_over, e.const(1, kind), nothing))
        return [quotient, e.emit("sub", remainder, e.emit("select", is_over, root.divisor, nothing))]

    # --- lanes --------------------------------------------------------------------------------

    def in_lanes(self, elements: Elements) -> dict[Value, Line]:
        """What the divisions are in each lane of a vector that starts here."""
        lines: dict[Value, Line] = {}
        found: dict[tuple[Value, Value], tuple[Value, Value]] = {}
        for inst in self.divisions:
            root = self.roots[_key(inst)]
            if root.step is None:
                continue
            if _key(inst) not in found:
                found[_key(inst)] = lane_quotients(elements, root.step.by, root.quotient, root.remainder)
            start = self.start(inst)
            assert start is not None
            lines[inst.out] = Line(start, None, lanes=found[_key(inst)][inst.op.name == "mod"])
        return lines


def _both(e: Emitter, inst: Inst, dividend: Value, divisor: Value) -> tuple[Value, Value]:
    attrs = dict(inst.attrs)
    return e.emit("floordiv", dividend, divisor, **attrs), e.emit("mod", dividend, divisor, **attrs)


def _step(e: Emitter, inst: Inst, divisor: Value, lanes: int) -> _Step:
    quotient, remainder = _both(e, inst, e.const(lanes, divisor.type), divisor)
    return _Step(quotient, remainder, Divisor.of(e, divisor, lanes))


def _key(inst: Inst) -> tuple[Value, Value]:
    return inst.operands[0], inst.operands[1]


__all__ = ["Remainders"]
