"""Where `i // w` stays the same: a vector loop goes in runs between the multiples of its divisors.

In a run the quotient is one number and the remainder counts up with the lanes, so that what a
flat index was divided for (rows and columns, channels, pixels) is loaded as neighbours. The vector
that crosses into the next run has its own quotients, unless what it stores may be stored twice: then
runs end with a vector that overlaps the one before. Where a divisor is smaller than a vector, only
the others make runs, and where no divisor is large, all vectors divide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eas.base.trampoline import reached
from eas.base.types import Type
from eas.ir import Inst, Trait, Value
from eas.schedule.cpu.loops.remainders import Remainders
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.elements.elements import I32, TRUE, Context, Elements, Emitter, Index, Known, Line
from eas.schedule.elements.masks import I64, Bounds
from eas.schedule.elements.members import masks_are_slow
from eas.schedule.rewrite.natural_divisions import may_wrap

_DIVISIONS = ("floordiv", "mod")
_LONG = 16  # vectors of a run in which the one that crosses into the next does not count
_FEW = 4  # where masks have to be evaluated to get rid of it
Body = Callable[[Elements, Value, list[Value]], list[Value]]


@dataclass(eq=False)
class _Mode:
    """Divisions that make runs, and what else is one number or counts up in such a run."""

    divisions: list[Inst] = field(default_factory=list)
    lines: dict[Inst, int] = field(default_factory=dict)  # -> step


@dataclass(frozen=True, eq=False)
class Span:
    """A loop from 0 to `end`, a multiple of the lanes, as its nest sees it."""

    end: Value
    index_at: Callable[[Value], tuple[Index, ...]]
    masks: Sequence[Value]
    known: frozenset[Known]
    carried: Sequence[Value]
    body: Body  # writes one vector
    streams: frozenset[Inst]
    can_stream: Value | None


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

    def __init__(self, program: Lowering, members: Sequence[Inst], lanes: int) -> None:
        self.p, self.e = program, program.e
        self.members, self.lanes = members, lanes
        self.made = arithmetic(members)
        self.modes: list[_Mode] = []
        self.least = 0

    def plan(self, index: tuple[Index, ...], least: int) -> None:
        """Find the modes; `index` is any position of a vector.

        With `least`, elements may be computed twice: a run ends with vectors of so many lanes that overlap, and
        with single elements where it has less. Stores past the cache stay aligned instead.
        """
        if self.lanes == 1 or not any(inst.op.name in _DIVISIONS for inst in self.members):
            return
        self.least = least
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
        lines: dict[Value, Line] = {}
        depths: dict[Value, int] = {}
        elements = self.elements(frozenset(), lines)
        nothing = self.e.const(0)
        for inst in self.members:
            if inst.op.name not in _DIVISIONS or inst.out.dtype.is_float:
                continue
            dividend, divisor = inst.operands
            steps = [elements.step(v, index) for v in inst.operands]
            if steps[1] != 0 or any(v in lines for v in self._leaves(elements, divisor)):
                continue
            depth = max((depths[v] for v in self._leaves(elements, dividend) if v in depths), default=0)
            counts_up = steps[0] == 1 and not may_wrap(inst)
            if counts_up and depth <= deepest and self._may_be_large(elements.literal(divisor)):
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
        return divisor is None or (isinstance(divisor, int) and divisor >= (self.least or self.lanes))

    def _leaves(self, elements: Elements, value: Value) -> set[Value]:
        def behind(v: Value) -> tuple[Value, ...] | None:
            inst = elements.definition(v) if v not in elements.context.lines else None
            return None if inst is None else inst.operands

        return {v for v in reached([value], lambda v: behind(v) or ()) if behind(v) is None}

    def elements(self, known: frozenset[Known], lines: Mapping[Value, Line]) -> Elements:
        return self.p.within(self.context(known, lines))

    def context(self, known: frozenset[Known], lines: Mapping[Value, Line]) -> Context:
        return replace(self.p.context(), known_true=known, made=self.made, lines=lines)

    # --- loops ------------------------------------------------------------------------------

    def emit(self, span: Span) -> list[Value]:
        """The loop of a span; what the reductions are after it."""
        e = self.e
        remainders = Remainders.at_start(lambda: self.elements(frozenset(), {}), self.lanes, self.modes[-1].divisions, span.index_at)
        whole = self._run(span, e.const(0), remainders)
        # Another one: a run knows its masks after it was asked.
        has_masks = bool(self._run(span, e.const(0), remainders).limits(span.masks))
        if not self.least or (has_masks and masks_are_slow(self.members, self.p.target)):
            return self._vectors(span, remainders)
        is_exact = whole.are_short(_FEW if has_masks else _LONG)
        if span.can_stream is not None:  # stores past the cache are aligned
            is_exact = e.emit("and", is_exact, e.emit("not", span.can_stream))
        sides = [e.region([], lambda write=write: write(span, remainders)) for write in (self._exactly, self._vectors)]
        e.inst("if", [is_exact], {}, sides)
        return []

    def _run(self, span: Span, i: Value, found: Remainders, mode: _Mode | None = None) -> _Run:
        return _Run(self, mode or self.modes[0], span.index_at(i), span.known, found)

    def _exactly(self, span: Span, remainders: Remainders) -> list[Value]:
        """Run by run, each to its last element."""
        e = self.e

        def step(i: Value, *values: Value) -> Sequence[Value]:
            found = remainders.like(values)
            run = self._run(span, i, found)
            room = e.emit("cast", run.room(i, span.end), type=I32)
            run.to_the_end(i, room, span.body)
            return [e.emit("add", i, room), *found.behind(room).numbers()]

        self._while(span.end, remainders.numbers(), step)
        return []

    def _vectors(self, span: Span, remainders: Remainders) -> list[Value]:
        """Whole vectors, of which those that cross into the next run divide."""
        e, count = self.e, len(remainders.numbers())

        def step(i: Value, *values: Value) -> Sequence[Value]:
            found = remainders.like(values)
            at, held, is_over, rest = i, list(values[count:]), None, e.const(self.lanes)
            for mode in self.modes:
                run = self._run(span, i, found, mode)
                stop, is_over, is_whole = run.stop(i, span.end, span.masks, is_over)
                held = run.loops(i, stop, held, span.body, span.streams, span.can_stream)
                at = e.emit("max", at, stop)
                rest = e.emit("select", is_whole, e.const(0), rest)
            following = e.emit("min", e.emit("add", at, rest), span.end)
            found = found.behind(e.emit("sub", at, i))

            def vector(i: Value, *values: Value) -> Sequence[Value]:
                lines: dict[Value, Line] = {}
                elements = self.elements(span.known, lines)
                lines.update(found.in_lanes(elements))
                return span.body(elements, i, list(values))

            held = _loop(e, at, following, held, self.lanes, vector)
            return [following, *found.behind_vector(e.emit("gt", following, at)).numbers(), *held]

        return self._while(span.end, [*remainders.numbers(), *_wide(e, span.carried, self.lanes)], step)[count:]

    def _while(self, end: Value, carried: Sequence[Value], step: Callable[..., Sequence[Value]]) -> list[Value]:
        """From 0 to `end`, by steps that say where they ended; what is carried, afterwards."""
        e, kinds = self.e, [I32, *(v.type for v in carried)]
        test = e.region(kinds, lambda i, *_: [e.emit("lt", i, end)])
        return list(e.inst("while", [e.const(0), *carried], {}, [test, e.region(kinds, step, ["i"])]).outs[1:])


class _Run:
    """One run from a position on."""

    def __init__(
        self, runs: Runs, mode: _Mode, index: tuple[Index, ...], known: frozenset[Known], found: Remainders
    ) -> None:
        self.runs, self.mode, self.e = runs, mode, runs.e
        self.index, self.known, self.found = index, known, found
        self.lines: dict[Value, Line] = {}
        self.elements = runs.elements(known, self.lines)
        first = tuple(ix.first() for ix in index)
        for inst, step in mode.lines.items():
            start = found.start(inst) or self.elements.apply(inst, first)[0]
            self.lines[inst.out] = Line(start, step)

    def room(self, i: Value, end: Value) -> Value:
        """How many elements are left of the run."""
        e, room = self.e, self._wide(self.e.emit("sub", end, i))
        for inst in self.mode.divisions:
            dividend, divisor = self._operands(inst)
            rest = self.found.remainder(inst) or e.emit("mod", dividend(), divisor(), **dict(inst.attrs))
            room = e.emit("min", room, self._wide(e.emit("sub", divisor(), rest)))
        return room

    def _operands(self, inst: Inst) -> tuple[Callable[[], Value], Callable[[], Value]]:
        """The dividend and the divisor at the start of the run, if they are asked for."""
        first = tuple(ix.first() for ix in self.index)
        dividend, divisor = inst.operands
        return lambda: self.elements.at(dividend, first), lambda: self.elements.at(divisor, first)

    def are_large(self, least: int) -> Value:
        """Whether all runs have so many elements."""
        e, found = self.e, self.e.const(True, TRUE)
        for inst in self.mode.divisions:
            divisor = self._operands(inst)[1]()
            found = e.emit("and", found, e.emit("ge", divisor, e.const(least, divisor.type)))
        return found

    def are_short(self, vectors: int) -> Value:
        """Whether runs are worth to be gone to the end, one by one."""
        is_long = self.are_large(vectors * self.runs.lanes)
        return self.e.emit("and", self.are_large(self.runs.least), self.e.emit("not", is_long))

    def limits(self, masks: Sequence[Value]) -> list[Value]:
        """How long masks hold, which are known afterwards."""
        bounds = _RunBounds(self.e)
        bounds.known |= self.known
        for mask in masks:
            bounds.add(self.elements, mask, self.index)
        self.known = frozenset(bounds.known)
        return bounds.limits

    def stop(self, i: Value, end: Value, masks: Sequence[Value], taken: Value | None) -> tuple[Value, Value, Value]:
        """Where the last whole vector of the run ends, whether all divisors are large, and whether no vector crosses."""
        e = self.e
        room, is_large = self.room(i, end), self.are_large(self.runs.lanes)
        for limit in self.limits(masks):
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
                return body(self._at(start, i, lanes, chosen), i, list(values))

            return _loop(e, start, stop, carried, lanes, vector)

        if can_stream is None:
            return part(frozenset())
        sides = [e.region([], lambda s=s: part(s)) for s in (streams, frozenset())]
        return list(e.inst("if", [can_stream], {}, sides).outs)

    def to_the_end(self, start: Value, room: Value, body: Body) -> None:
        """All elements of the run: vectors, short ones that overlap, or single elements where it is shorter than those."""
        e, least = self.e, self.runs.least
        stop = e.emit("add", start, e.emit("and", room, e.const(-self.runs.lanes)))
        end = e.emit("add", start, room)
        last = e.emit("sub", end, e.const(least))
        fits = e.emit("ge", room, e.const(least))

        def part(lanes: int) -> Callable[..., Sequence[Value]]:
            def vector(i: Value) -> Sequence[Value]:
                body(self._at(start, i, lanes), i, [])
                return ()

            return vector

        def vectors() -> Sequence[Value]:
            first = start
            if self.runs.lanes > least:
                first = stop
                _loop(e, start, stop, [], self.runs.lanes, part(self.runs.lanes))
            _loop(e, first, last, [], least, part(least))
            _loop(e, last, end, [], least, part(least), once=True)
            return ()

        def singles() -> Sequence[Value]:
            _loop(e, start, end, [], 1, part(1))
            return ()

        e.inst("if", [fits], {}, [e.region([], vectors), e.region([], singles)])

    def _at(self, start: Value, i: Value, lanes: int, streams: frozenset[Inst] = frozenset()) -> Elements:
        """Elements of the vector at i."""
        since = self.e.emit("sub", i, start)
        lines = {v: Line(line.start, line.step, self._like(since, v)) for v, line in self.lines.items()}
        context = replace(self.runs.context(self.known, lines), streams=streams)
        return self.runs.p.within(replace(context, made={}) if lanes == 1 else context)

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
    e: Emitter,
    start: Value,
    end: Value,
    carried: Sequence[Value],
    lanes: int,
    body: Callable[..., Sequence[Value]],
    **attrs: bool,
) -> list[Value]:
    region = e.region([start.type, *(v.type for v in carried)], body, ["i"])
    return list(e.inst("loop", [start, end, *carried], {"lanes": lanes, **attrs}, [region]).outs)


def _wide(e: Emitter, carried: Sequence[Value], lanes: int) -> list[Value]:
    """Carried values as vectors, which control flow around loops over lanes has to know: a loop of no steps."""
    if not carried:
        return []
    return _loop(e, e.const(0), e.const(0), carried, lanes, lambda i, *values: values)


__all__ = ["Runs", "arithmetic"]
