"""Vector loops where all masks hold: past the cache, in runs of a divided index, in two places at once, or plain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.analysis import mask_of
from eas.ir import Inst, Region, Value
from eas.schedule.cpu.loops.nest import Kinds, NestLoops, choose
from eas.schedule.cpu.loops.row_parts import Inside
from eas.schedule.cpu.loops.runs import Span
from eas.schedule.cpu.loops.stream_rows import StreamRow, are_alike, is_repeatable
from eas.schedule.cpu.streams import can_stream
from eas.schedule.elements.elements import Elements, Known

_LONG_RUN = 1 << 15  # bytes: several pages for each of two runs
Loops = Callable[[], list[Value]]  # emits loops, and returns what the reductions are after them


def plan_row_stream(nest: NestLoops, part: Inside) -> Loops | None:
    """Stores to large outputs that nobody reads: past the cache from any address on."""
    is_plain = not part.accumulators and not nest.runs.modes and _is_from_0(nest, part)
    if not are_alike(part.streams) or not is_plain or not is_repeatable(nest):
        return None

    def ordinary() -> None:
        _vectors(nest, part)

    def emit() -> list[Value]:
        StreamRow(nest, part.bases, part.end, part.known, part.streams).emit(ordinary)
        return []

    return emit


def plan_runs(nest: NestLoops, part: Inside) -> Loops | None:
    """Between the multiples of what indices are divided by."""
    if not nest.runs.modes:
        return None
    assert _is_from_0(nest, part), "runs do not start late"

    def vector(elements: Elements, i: Value, carried: list[Value]) -> list[Value]:
        return nest.body(elements, nest.index(part.bases, i, 2 if elements.context.made else 1), carried)

    def emit() -> list[Value]:
        masks = [m for inst in nest.members if (m := mask_of(inst)) is not None]
        at = lambda i: nest.index(part.bases, i, 2)  # noqa: E731
        allowed, streams = _allowed(nest, part), frozenset(part.streams)
        return nest.runs.emit(Span(part.end, at, masks, part.known, part.accumulators, vector, streams, allowed))

    return emit


def plan_two_runs(nest: NestLoops, part: Inside) -> Loops | None:
    """Both halves at once: memory is read faster as two runs, as each restarts at every page."""
    if part.streams or not _only_folds(nest) or not _is_from_0(nest, part):
        return None
    e, n = nest.e, len(part.accumulators)

    def emit() -> list[Value]:
        half = e.emit("and", e.emit("truncdiv", part.end, e.const(2)), e.const(-nest.lanes))

        def body(i: Value, *carried: Value) -> Sequence[Value]:
            first = nest.index(part.bases, i, nest.lanes)
            second = nest.index(part.bases, e.emit("add", i, half), nest.lanes)
            updated = nest.body(nest.elements(part.known), first, list(carried[:n]))
            return updated + nest.body(nest.elements(part.known), second, list(carried[n:]))

        starts = [*part.accumulators, *nest.start(part.bases)]
        region = e.region([half.type, *(a.type for a in starts)], body, ["i"])
        sums = e.inst("loop", [e.const(0), half, *starts], {"lanes": nest.lanes}, [region]).outs
        merged = e.inline(nest.reductions[0].inst.regions[0], sums)
        return nest.part(part.bases, e.mul(half, 2), part.end, nest.lanes, part.known, merged)

    return emit


def plan_stream(nest: NestLoops, part: Inside) -> Loops | None:
    """Large outputs that nobody reads bypass the cache, if they happen to be aligned."""
    if not part.streams:
        return None

    def side(chosen: frozenset[Inst]) -> Region:
        return nest.e.region([], lambda: _vectors(nest, part, chosen))

    def emit() -> list[Value]:
        allowed = _allowed(nest, part)
        assert allowed is not None
        return list(nest.e.inst("if", [allowed], {}, [side(frozenset(part.streams)), side(frozenset())]).outs)

    return emit


def plan_plain(nest: NestLoops, part: Inside) -> Loops:
    return lambda: _vectors(nest, part)


def _vectors(nest: NestLoops, part: Inside, streams: frozenset[Inst] = frozenset()) -> list[Value]:
    return nest.part(part.bases, part.begin, part.end, nest.lanes, part.known, part.accumulators, streams)


def _is_from_0(nest: NestLoops, part: Inside) -> bool:
    return nest.e.literals.get(part.begin) == 0


def _allowed(nest: NestLoops, part: Inside) -> Value | None:
    return can_stream(part.streams, nest.elements(), nest.index(part.bases, part.begin, 2), nest.apart)


def _only_folds(nest: NestLoops) -> bool:
    """Whether a lot of memory is only read, and only by one reduction along the last axis."""
    loads = [inst for inst in nest.members if inst.op.name == "load"]
    nbytes = nest.extent * min((i.operands[0].dtype.nbytes for i in loads), default=0)
    return (
        nbytes >= _LONG_RUN
        and not nest.stores
        and len(nest.reductions) == 1
        and len(nest.reductions[0].inst.outs) == 1  # two accumulators of several values each would leave the registers
        and all(r.is_last and r.neutrals is not None for r in nest.reductions)
        and all(i.op.is_pure or i.op.name == "load" for i in nest.members)
        and not nest.scans
        and not nest.counters
    )


# Runs and streamed rows start at the beginning of the row: a late start excludes runs, and parts that start late are
# streamed if at all by aligned luck.
INSIDE: Kinds[Inside, list[Value]] = {
    "row stream": plan_row_stream,  # one store past the cache: single elements at the ends, vectors from an aligned address on
    "runs": plan_runs,  # a divided index: vectors between the multiples of the divisor
    "two runs": plan_two_runs,  # a long reduction: memory is read faster in two places
    "stream": plan_stream,  # other stores past the cache, where their address happens to be aligned
    "plain": plan_plain,
}


def emit_inside(nest: NestLoops, part: Inside) -> list[Value]:
    """The loops of a part where all masks hold."""
    return choose(INSIDE, nest, part)()


def emit_full(
    nest: NestLoops, bases: tuple[Value, ...], ends: tuple[Value, Value], known: frozenset[Known], accumulators: list[Value]
) -> list[Value]:
    """The part of a row where all masks hold, with stores past the cache where that is worth it."""
    return emit_inside(nest, Inside(bases, *ends, known, accumulators, nest.streams(bases)))
