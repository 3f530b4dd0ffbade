"""Where `i // w` stays the same: a vector loop goes in runs between the multiples of its divisors.

In a run the quotient is one number and the remainder counts up with the lanes, so that what a
flat index was divided for (rows and columns, channels, pixels) is loaded as neighbours. The vector
that crosses into the next run divides lane by lane. Where a divisor is smaller than a vector, only
the others make runs, and where no divisor is large, all vectors divide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from eas.ir import Inst, Trait, Value
from eas.schedule.elements import I32, TRUE, Elements, Emitter, Index, Known, Line
from eas.schedule.loops import Program
from eas.schedule.masks import I64, Bounds
from eas.types import Type

_DIVISIONS = ("floordiv", "mod")
Body = Callable[[Elements, Value, list[Value]], list[Value]]


@dataclass(eq=False)
class _Mode:
    """Divisions that make runs, and what else is one number or counts up in such a run."""

    divisions: list[Inst] = field(default_factory=list)
    lines: dict[Inst, int] = field(default_factory=dict)  # -> step


def arithmetic(members: Sequence[Inst]) -> dict[Value, Inst]:
    """The results of a nest that are computed from its other values at the same position only."""
    return {
        out: inst
        for inst in members
        if inst.op.is_pure and inst.op.has(Trait.ELEMENTWISE) and not inst.regions
        for out in inst.outs
    }


class Runs:
    """The runs of one vector loop; without `modes` it has none."""

    def __init__(self, program: Program, members: Sequence[Inst], lanes: int) -> None:
        self.p, self.e = program, program.e
        self.members, self.lanes = members, lanes
        self.made = arithmetic(members)
        self.modes: list[_Mode] = []

    def plan(self, index: tuple[Index, ...]) -> None:
        """Find the modes; `index` is any position of a vector."""
        if self.lanes == 1 or not any(inst.op.name in _DIVISIONS for inst in self.members):
            return
        self.e.blocks.append([])  # nothing of this is kept
        everywhere, depth = self._mode(index, deepest=len(self.members))
        if everywhere.divisions:
            self.modes = [everywhere]
        if depth:
            self.modes.append(self._mode(index, deepest=0)[0])
        self.e.blocks.pop()

    def _mode(self, index: tuple[Index, ...], deepest: int) -> tuple[_Mode, int]:
        """Divisions of what is divided at most `deepest` times already; and how often one was."""
        mode, most = _Mode(), 0
        elements = self._elements(frozenset())
        lines: dict[Value, Line] = {}
        depths: dict[Value, int] = {}
        elements.lines = lines
        nothing = self.e.const(0)
        for inst in self.members:
            if inst.op.name not in _DIVISIONS or inst.out.dtype.is_float:
                continue
            dividend, divisor = inst.operands
            steps = [elements.step(v, index) for v in inst.operands]
            if steps[1] != 0 or any(v in lines for v in self._leaves(elements, divisor)):
                continue
            depth = max((depths[v] for v in self._leaves(elements, dividend) if v in depths), default=0)
            if steps[0] == 1 and depth <= deepest and self._may_be_large(elements.literal(divisor)):
                mode.divisions.append(inst)
                most = max(most, depth)
                step = int(inst.op.name == "mod")
                depths[inst.out] = depth + step
            elif steps[0] == 0:
                step = 0
            else:
                continue
            mode.lines[inst] = step
            lines[inst.out] = Line(nothing, step)
        return mode, most

    def _may_be_large(self, divisor: object) -> bool:
        return divisor is None or (isinstance(divisor, int) and divisor >= self.lanes)

    def _leaves(self, elements: Elements, value: Value) -> set[Value]:
        inst = elements.definition(value) if value not in elements.lines else None
        if inst is None:
            return {value}
        return {leaf for operand in inst.operands for leaf in self._leaves(elements, operand)}

    def _elements(self, known: frozenset[Known]) -> Elements:
        elements = self.p.elements(known)
        elements.made = self.made
        return elements

    # --- loops ------------------------------------------------------------------------------

    def emit(
        self,
        end: Value,
        index_at: Callable[[Value], tuple[Index, ...]],
        masks: Sequence[Value],
        known: frozenset[Known],
        carried: Sequence[Value],
        body: Body,
        streams: frozenset[Inst],
        can_stream: Value | None,
    ) -> list[Value]:
        """The loop from 0 to `end`, a multiple of the lanes; `body` writes one vector."""
        e = self.e

        def test(i: Value, *_: Value) -> Sequence[Value]:
            return [e.emit("lt", i, end)]

        def vector(i: Value, *values: Value) -> Sequence[Value]:
            return body(self._elements(known), i, list(values))

        def step(i: Value, *values: Value) -> Sequence[Value]:
            at, held, is_over, rest = i, list(values), None, e.const(self.lanes)
            for mode in self.modes:
                run = _Run(self, mode, index_at(i), known)
                stop, is_over, is_whole = run.stop(i, end, masks, is_over)
                held = run.loops(i, stop, held, body, streams, can_stream)
                at = e.emit("max", at, stop)
                rest = e.emit("select", is_whole, e.const(0), rest)
            following = e.emit("min", e.emit("add", at, rest), end)
            return [following, *_loop(e, at, following, held, self.lanes, vector)]

        wide = _wide(e, carried, self.lanes)
        kinds = [I32, *(v.type for v in wide)]
        regions = [e.region(kinds, test), e.region(kinds, step, ["i"])]
        return list(e.inst("while", [e.const(0), *wide], {}, regions).outs[1:])


class _Run:
    """One run from a position on."""

    def __init__(
        self, runs: Runs, mode: _Mode, index: tuple[Index, ...], known: frozenset[Known]
    ) -> None:
        self.runs, self.mode, self.e = runs, mode, runs.e
        self.index, self.known = index, known
        self.elements = runs._elements(known)
        self.lines: dict[Value, Line] = {}
        self.elements.lines = self.lines
        first = tuple(ix.first() for ix in index)
        for inst, step in mode.lines.items():
            self.lines[inst.out] = Line(self.elements.apply(inst, first)[0], step)

    def stop(
        self, i: Value, end: Value, masks: Sequence[Value], taken: Value | None
    ) -> tuple[Value, Value, Value]:
        """Where the last whole vector of the run ends, whether all divisors are large, and whether no vector crosses."""
        e, elements = self.e, self.elements
        first = tuple(ix.first() for ix in self.index)
        room, is_large = self._wide(e.emit("sub", end, i)), e.const(True, TRUE)
        for inst in self.mode.divisions:
            dividend, divisor = (elements.at(v, first) for v in inst.operands)
            rest = e.emit("sub", divisor, e.emit("mod", dividend, divisor, **dict(inst.attrs)))
            room = e.emit("min", room, self._wide(rest))
            least = e.const(self.runs.lanes, divisor.type)
            is_large = e.emit("and", is_large, e.emit("ge", divisor, least))
        bounds = _RunBounds(self.runs.p)
        bounds.known |= self.known
        for mask in masks:
            bounds.add(elements, mask, self.index)
        self.known = frozenset(bounds.known)
        for limit in bounds.limits:
            room = e.emit("min", room, limit)
        used = is_large
        if taken is not None:
            used = e.emit("and", is_large, e.emit("not", taken))
            is_large = e.emit("or", is_large, taken)
        nothing = e.const(0, I64)
        room = e.emit("select", used, e.emit("max", room, nothing), nothing)
        small = e.emit("cast", room, type=I32)
        whole = e.emit("and", small, e.const(-self.runs.lanes))
        is_whole = e.emit("and", e.emit("eq", small, whole), e.emit("gt", whole, e.const(0)))
        return e.emit("add", i, whole), is_large, is_whole

    def loops(
        self,
        start: Value,
        stop: Value,
        carried: list[Value],
        body: Body,
        streams: frozenset[Inst],
        can_stream: Value | None,
    ) -> list[Value]:
        """The vectors of the run."""
        e, lanes = self.e, self.runs.lanes

        def part(chosen: frozenset[Inst]) -> list[Value]:
            def vector(i: Value, *values: Value) -> Sequence[Value]:
                elements = self.runs._elements(self.known)
                since = e.emit("sub", i, start)
                elements.lines = {
                    v: Line(line.start, line.step, self._like(since, v)) for v, line in self.lines.items()
                }
                elements.streams = chosen
                return body(elements, i, list(values))

            return _loop(e, start, stop, carried, lanes, vector)

        if can_stream is None:
            return part(frozenset())
        sides = [e.region([], lambda s=s: part(s)) for s in (streams, frozenset())]
        return list(e.inst("if", [can_stream], {}, sides).outs)

    def _like(self, since: Value, value: Value) -> Value:
        kind = Type(value.dtype)
        return since if kind == since.type else self.e.emit("cast", since, type=kind)

    def _wide(self, value: Value) -> Value:
        return value if value.type == I64 else self.e.emit("cast", value, type=I64)


class _RunBounds(Bounds):
    """A condition that holds from some lane on counts if it holds in the first one."""

    def _starts_late(self, elements: Elements, condition: Value, where: tuple[Index, ...]) -> bool:
        self._everywhere(elements, condition, where)
        return False


def _loop(
    e: Emitter, start: Value, end: Value, carried: Sequence[Value], lanes: int, body: Callable[..., Sequence[Value]]
) -> list[Value]:
    region = e.region([start.type, *(v.type for v in carried)], body, ["i"])
    return list(e.inst("loop", [start, end, *carried], {"lanes": lanes}, [region]).outs)


def _wide(e: Emitter, carried: Sequence[Value], lanes: int) -> list[Value]:
    """Carried values as vectors, which control flow around loops over lanes has to know: a loop of no steps."""
    if not carried:
        return []
    return _loop(e, e.const(0), e.const(0), carried, lanes, lambda i, *values: values)


__all__ = ["Runs", "arithmetic"]
