"""One nest as loops: a vector loop over the last axis, counted loops around it.

The vector loop comes in parts: the part where every mask is known to hold, a general part that
evaluates masks per lane, and single elements at the end when the extent is no multiple of the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eas.ir import Inst, Region, Value, walk
from eas.passes.rewriting import clone_region
from eas.schedule import prefixes
from eas.schedule.combines import identity, inline
from eas.schedule.counters import Counters
from eas.schedule.elements import Elements, Index, Known, Slot
from eas.schedule.interior import split_border
from eas.schedule.loops import Program
from eas.schedule.masks import Bounds
from eas.schedule.members import mask_at, mask_of, masks_are_slow, member
from eas.schedule.nest_tails import TailPlan, end_with_tail, plan_tail
from eas.schedule.nests import FOLDS
from eas.schedule.overlaps import can_overlap, overlap
from eas.schedule.program_order import axes_of
from eas.schedule.relayout import contiguous, moved_into
from eas.schedule.row_groups import ROWS, emit_group, takes_groups
from eas.schedule.runs import Runs
from eas.schedule.streams import can_stream, is_light, is_stream, stream_unaligned
from eas.schedule.sums import emit_sums, is_sum, lanes_of, takes_sums
from eas.schedule.tails import nothing
from eas.types import Shape, Type

_HEAVY = frozenset(
    {
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "erfc",
        "pow",
        "sigmoid",
        "philox",
        "atan2",
    }
)


_SHORT = 8  # lanes
_LONG_RUN = 1 << 15  # bytes: several pages for each of two runs


def lower_nest(program: Program, nest: Inst) -> None:
    """Emit the loops of a nest; what it yields is in slots (or scalars) afterwards."""
    with contiguous(program, (v for inst in walk(nest.regions[0]) for v in inst.operands)):
        NestLoops(
            program,
            nest["shape"],
            nest.regions[0].body[:-1],
            tuple(zip(nest.regions[0].yields, nest.outs, strict=True)),
            order=axes_of(nest),
        ).emit()


def copy_loops(program: Program, slot: Slot, value: Value) -> None:
    """Write every element of `value` into `slot`."""
    if moved_into(program, slot, value):
        return
    with contiguous(program, [value]):
        NestLoops(program, value.shape, (), ((value, value),), {value: slot}).emit()


@dataclass(eq=False)
class _Reduction:
    """A reduction of the nest: per lane along the vector axis, or element by element into a slot."""

    inst: Inst
    is_last: bool
    slots: list[Slot]
    neutral: object


@dataclass(frozen=True)
class _Gap:
    """Positions that another loop visits."""

    start: Value
    length: Value


class NestLoops:
    def __init__(
        self,
        program: Program,
        shape: Shape,
        members: Sequence[Inst],
        yields: Sequence[tuple[Value, Value]],
        into: dict[Value, Slot] | None = None,
        order: Sequence[int] = (),
    ) -> None:
        self.p = program
        self.e = program.e
        self.shape = shape
        # Addresses made of values of the nest are formulas here: computed where they are needed.
        program.formulas.update((inst.out, inst) for inst in members if is_address(inst))
        self.members = members = [inst for inst in members if not is_address(inst)]
        reduced = {out for inst in members if inst.op.name in FOLDS for out in inst.outs}
        self.outs = [(inner, outer) for inner, outer in yields if inner not in reduced]
        self.outer_of = dict(yields)
        self.into = into or {}
        self.rank = len(shape)
        self.order = order or range(self.rank)  # the axes, from the outermost loop to the lanes
        self.extent = shape[self.order[-1]]
        self.has_sums = is_sum(members) and tuple(self.order) == tuple(range(self.rank))
        self.lanes = self._choose_lanes()
        self.reductions: list[_Reduction] = []
        self.scans = [inst for inst in members if inst.op.name == "scan"]
        self.counters: dict[Inst, Counters] = {}
        self.stores: list[tuple[Value, Slot]] = []
        self.runs = Runs(program, members, self.lanes)

    def emit(self) -> None:
        self.stores = [
            (inner, self.into.get(inner) or self.p.slot_for(outer)) for inner, outer in self.outs
        ]
        self.reductions = [
            self._reduction(inst) for inst in self.members if inst.op.name == "reduce"
        ]
        for reduction in self.reductions:
            if not reduction.is_last and reduction.neutral is not None:
                self._clear(reduction)
        for inst in self.members:
            if inst.op.name == "histogram":
                self.counters[inst] = Counters(self.p, inst)
                self.counters[inst].clear()
        self._outer(0, ())
        for inst, counters in self.counters.items():
            outer = self.outer_of.get(inst.out)
            if outer is not None:
                counters.finish(self.p.slot_for(outer))

    # --- decisions --------------------------------------------------------------------------

    def _choose_lanes(self) -> int:
        """Elements per step: several registers for light work, fewer where a function needs many."""
        if any(self._is_ordered(inst) for inst in self.members if inst.op.name == "reduce"):
            return 1
        widest = self.widest()
        if self.has_sums:
            return lanes_of(self.extent, widest, self.p.target.vector_nbytes)
        registers = 2 if any(inst.op.name in _HEAVY for inst in self.insts()) else 4
        lanes = self.p.target.vector_nbytes * registers // widest
        one = self.p.target.vector_nbytes // widest
        while lanes > self.extent or (lanes > one and self.extent % lanes):
            lanes //= 2  # what fills no vector is done element by element
        return lanes if lanes >= 4 else 1

    def widest(self) -> int:
        """Bytes of the largest element, of at least a word."""
        values = [v for inst in self.insts() for v in (*inst.operands, *inst.outs)]
        return max(4, *(v.dtype.nbytes for v in values if not v.type.is_pointer), 0)

    def _is_ordered(self, inst: Inst) -> bool:
        """A combine function of the user's own may need its elements in order."""
        return inst["axis"] % self.rank == self.rank - 1 and identity(inst.regions[0]) is None

    def insts(self) -> list[Inst]:
        return [
            part
            for inst in self.members
            for part in (inst, *(w for r in inst.regions for w in walk(r)))
        ]

    def _reduction(self, inst: Inst) -> _Reduction:
        axis = inst["axis"] % self.rank
        is_last = axis == self.rank - 1
        slots: list[Slot] = []
        if not (is_last and self.rank == 1):
            for out in inst.outs:
                outer = self.outer_of.get(out)
                shape = self.shape[:axis] + self.shape[axis + 1 :]
                slots.append(
                    self.p.slot_for(outer)
                    if outer is not None
                    else self.p.new_slot(shape, out.dtype)
                )
        return _Reduction(inst, is_last, slots, identity(inst.regions[0]))

    # --- loops ------------------------------------------------------------------------------

    def _clear(self, reduction: _Reduction) -> None:
        """A reduction over an outer axis starts from its neutral element."""
        (out,) = reduction.inst.outs
        slot = reduction.slots[0]
        self.e.blocks.append([])
        neutral = self.e.inst(
            "const", (), {"value": reduction.neutral, "type": Type(out.dtype, slot.shape)}
        )
        self.e.blocks.pop()
        self.p.formulas[neutral.out] = neutral
        copy_loops(self.p, slot, neutral.out)

    def _outer(self, axis: int, bases: tuple[Value, ...]) -> None:
        if axis == max(0, self.rank - 2) and takes_sums(self):
            emit_sums(self, bases)
            return
        if axis == self.rank - 1:
            self._inner(bases)
            return
        if axis == self.rank - 2 and takes_groups(self):
            self.p.counted(self.shape[axis] // ROWS, lambda i: emit_group(self, bases, i), f"i{axis}")
            return

        def rows(inside: frozenset[Known] | None) -> None:
            extent = self.shape[self.order[axis]]
            self.p.counted(extent, lambda i: self._row(axis, (*bases, i), inside), f"i{axis}")

        if axis != self.rank - 2 or self.p.in_rows or not split_border(self, bases, rows):
            rows(None)

    def _row(self, axis: int, bases: tuple[Value, ...], inside: frozenset[Known] | None) -> None:
        """One step along an axis; `inside` are the masks, if all hold."""
        if inside is None:
            self._outer(axis + 1, bases)
            return
        zero, whole = self.e.const(0), self.extent // self.lanes * self.lanes
        self.full(bases, (zero, self.e.const(whole)), inside, [])
        if whole < self.extent:
            self.part(bases, self.e.const(whole), self.e.const(self.extent), 1, inside, [])

    def index(self, bases: tuple[Value, ...], last: Value, lanes: int) -> tuple[Index, ...]:
        found = {k: Index(base, axis=k) for k, base in zip(self.order, bases, strict=False)}
        found[self.order[-1]] = Index(last, lanes=lanes > 1, axis=self.order[-1])
        return tuple(found[k] for k in range(self.rank))

    def elements(self, known: frozenset[Known] = frozenset()) -> Elements:
        """For vectors: what the nest itself computes may be asked for at the first lane."""
        elements = self.p.elements(known)
        elements.made = self.runs.made if self.lanes > 1 else {}
        return elements

    def _inner(self, bases: tuple[Value, ...]) -> None:
        """The vector loop and its parts, carrying the reductions along the last axis."""
        accumulators = self.start()
        bounds = self.p.bounds()
        start = self.index(bases, self.e.const(0), 2)
        self.runs.plan(start)
        elements = self.elements()
        masks = [m for inst in self.insts() if (m := mask_of(inst)) is not None]
        for mask in masks:
            bounds.add(elements, mask, start)
        tail = plan_tail(self, bounds, start)
        starts_late = bool(bounds.starts) and self._may_skip() and not self.runs.modes
        if starts_late:  # narrow steps: the lanes in front of the start are few
            self.lanes = min(self.lanes, max(1, self.p.target.vector_nbytes // self.widest()))
        known = frozenset(bounds.known | bounds.known_later if starts_late else bounds.known)
        whole = self.extent // self.lanes * self.lanes
        zero, end = self.e.const(0), tail.stop if tail else self.e.const(self.extent)
        last = tail.stop if tail else self.e.const(whole)
        if not masks or (self.runs.modes and not known):
            accumulators = self.full(bases, (zero, last), known, accumulators)
            self.finish(bases, last, end if whole < self.extent else None, accumulators, tail)
            return

        def parts(has_full: bool) -> None:
            self._parts(bases, bounds, known if has_full else frozenset(), (last, end), accumulators, tail)

        if can_overlap(self, bounds, elements, start):
            overlap(self, bases, bounds, parts)
        else:
            parts(True)

    def _parts(
        self,
        bases: tuple[Value, ...],
        bounds: Bounds,
        known: frozenset[Known],
        ends: tuple[Value, Value],
        accumulators: list[Value],
        tail: TailPlan | None,
    ) -> None:
        """The part in which the masks of `known` hold, then those in which they may not."""
        last, end = ends
        whole = self.extent // self.lanes * self.lanes
        zero = self.e.const(0)
        full = bounds.end(whole, self.lanes) if known else zero
        first, rest, gap = zero, full, None
        if bounds.known_later & known:
            first = bounds.start(whole, self.lanes)
            full = self.e.emit("max", first, full)
            gap = _Gap(first, self.e.emit("sub", full, first))
            # What is in front of the full part and what is behind it are one loop.
            rest = zero
        if known:
            accumulators = self.full(bases, (first, full), known, accumulators)
        if masks_are_slow(self.insts(), self.p.target):
            if tail is not None and gap is None and not accumulators and not self.stores:
                rest, end = self._short_vectors(bases, full, bounds), bounds.stop(self.extent)
            self.finish(bases, rest, end, accumulators, tail, gap)
            return
        accumulators = self.part(bases, rest, last, self.lanes, frozenset(), accumulators, gap=gap)
        self.finish(bases, last, end if whole < self.extent else None, accumulators, tail)

    def _may_skip(self) -> bool:
        """Whether elements may be visited out of order."""
        return not self.scans and all(r.neutral is not None for r in self.reductions)

    def _short_vectors(self, bases: tuple[Value, ...], start: Value, bounds: Bounds) -> Value:
        """Where the part in which all masks hold goes on in short vectors, which single elements are slower than."""
        if not is_light(self.members) or self.lanes <= _SHORT:
            return start
        stop = bounds.end(self.extent, _SHORT)
        self.part(bases, start, stop, _SHORT, frozenset(bounds.known), [])
        return stop

    def complete_tails(self) -> None:
        """Fill the slots that are read, and are not filled so far."""
        for value in dict.fromkeys(v for i in self.members for v in i.operands if v in self.p.tails):
            self.p.complete(value)

    def start(self) -> list[Value]:
        values = []
        for r in self.reductions:
            if r.is_last:
                values += [
                    self.e.const(
                        r.neutral if r.neutral is not None else nothing(out), Type(out.dtype)
                    )
                    for out in r.inst.outs
                ]
        return values + [prefixes.start(self.e, inst) for inst in self.scans]

    def streams(self, bases: tuple[Value, ...]) -> list[Inst]:
        """The stores that may bypass the cache."""
        elements, first = self.elements(), self.index(bases, self.e.const(0), 2)
        return [i for i in self.members if is_stream(self.p, i, elements, first, self.lanes, self.extent)]

    def full(
        self,
        bases: tuple[Value, ...],
        ends: tuple[Value, Value],
        known: frozenset[tuple[Value, tuple[int, ...]]],
        accumulators: list[Value],
    ) -> list[Value]:
        """The part where all masks hold; large outputs that nobody reads bypass the cache."""
        begin, end = ends
        first, streams, elements = self.index(bases, begin, 2), self.streams(bases), self.elements()
        is_plain = not accumulators and not self.runs.modes and self.e.literals.get(begin) == 0
        if len(streams) == 1 and is_plain and is_light(self.members):
            chosen = frozenset(streams)

            def vectors(start: Value, stop: Value, lanes: int, streamed: bool) -> None:
                self.part(bases, start, stop, lanes, known, [], chosen if streamed else frozenset())

            def single(i: Value) -> None:
                inner = self.p.elements(known)
                inner.streams = chosen
                self.body(inner, self.index(bases, i, 1), [])

            stream_unaligned(elements, streams[0], first, end, self.lanes, vectors, single)
            return []
        allowed = can_stream(streams, elements, first)
        if self.runs.modes:
            return self._in_runs(bases, end, known, accumulators, frozenset(streams), allowed)
        if allowed is None and self._only_folds() and self.e.literals.get(begin) == 0:
            return self._two_runs(bases, end, known, accumulators)
        if allowed is None:
            return self.part(bases, begin, end, self.lanes, known, accumulators)

        def side(chosen: frozenset[Inst]) -> Region:
            def body() -> Sequence[Value]:
                return self.part(
                    bases, begin, end, self.lanes, known, accumulators, chosen
                )

            return self.e.region([], body)

        regions = [side(frozenset(streams)), side(frozenset())]
        return list(self.e.inst("if", [allowed], {}, regions).outs)

    def _in_runs(
        self,
        bases: tuple[Value, ...],
        end: Value,
        known: frozenset[Known],
        accumulators: list[Value],
        streams: frozenset[Inst],
        can_stream: Value | None,
    ) -> list[Value]:
        """The part where all masks hold, between the multiples of what indices are divided by."""

        def vector(elements: Elements, i: Value, carried: list[Value]) -> list[Value]:
            return self.body(elements, self.index(bases, i, self.lanes), carried)

        masks = [m for inst in self.members if (m := mask_of(inst)) is not None]
        at = lambda i: self.index(bases, i, 2)  # noqa: E731
        return self.runs.emit(end, at, masks, known, accumulators, vector, streams, can_stream)

    def _only_folds(self) -> bool:
        """Whether a lot of memory is only read, and only by one reduction along the last axis."""
        loads = [inst for inst in self.members if inst.op.name == "load"]
        nbytes = self.extent * min((i.operands[0].dtype.nbytes for i in loads), default=0)
        return (
            nbytes >= _LONG_RUN
            and not self.stores
            and len(self.reductions) == 1
            and all(r.is_last and r.neutral is not None for r in self.reductions)
            and all(i.op.is_pure or i.op.name == "load" for i in self.members)
            and not self.scans
            and not self.counters
        )

    def _two_runs(
        self,
        bases: tuple[Value, ...],
        end: Value,
        known: frozenset[tuple[Value, tuple[int, ...]]],
        accumulators: list[Value],
    ) -> list[Value]:
        """Both halves at once: memory is read faster as two runs, as each restarts at every page."""
        half = self.e.emit("and", self.e.emit("truncdiv", end, self.e.const(2)), self.e.const(-self.lanes))
        n = len(accumulators)

        def body(i: Value, *carried: Value) -> Sequence[Value]:
            first = self.index(bases, i, self.lanes)
            second = self.index(bases, self.e.emit("add", i, half), self.lanes)
            updated = self.body(self.elements(known), first, list(carried[:n]))
            return updated + self.body(self.elements(known), second, list(carried[n:]))

        starts = [*accumulators, *self.start()]
        region = self.e.region([half.type, *(a.type for a in starts)], body, ["i"])
        operands = [self.e.const(0), half, *starts]
        sums = self.e.inst("loop", operands, {"lanes": self.lanes}, [region]).outs
        merged = inline(self.e, self.reductions[0].inst.regions[0], sums)
        return self.part(bases, self.e.mul(half, 2), end, self.lanes, known, merged)

    def part(
        self,
        bases: tuple[Value, ...],
        start: Value,
        end: Value,
        lanes: int,
        known: frozenset[tuple[Value, tuple[int, ...]]],
        accumulators: list[Value],
        streams: frozenset[Inst] = frozenset(),
        gap: _Gap | None = None,
        last: Value | None = None,
    ) -> list[Value]:
        if self.e.literals.get(start, -1) == self.e.literals.get(end, -2):
            return accumulators
        if gap is not None:
            end = self.e.emit("sub", end, gap.length)

        def body(i: Value, *carried: Value) -> Sequence[Value]:
            elements = self.elements(known) if lanes > 1 else self.p.elements(known)
            elements.streams = streams
            if gap is not None:
                i = self._behind(gap, i)
            if last is not None:
                i = self.e.emit("min", i, last)
            return self.body(elements, self.index(bases, i, lanes), list(carried))

        region = self.e.region([start.type, *(a.type for a in accumulators)], body, ["i"])
        return list(
            self.e.inst("loop", [start, end, *accumulators], {"lanes": lanes}, [region]).outs
        )

    def _behind(self, gap: _Gap, i: Value) -> Value:
        """The position of the i-th element that is not in the gap."""
        is_before = self.e.emit("lt", i, gap.start)
        return self.e.emit("select", is_before, i, self.e.emit("add", i, gap.length))

    def finish(
        self,
        bases: tuple[Value, ...],
        start: Value,
        end: Value | None,
        accumulators: list[Value],
        tail: TailPlan | None = None,
        gap: _Gap | None = None,
    ) -> None:
        """Fold the lanes, add the elements that fill no vector, and put the results where they belong."""
        if self.lanes > 1:
            accumulators = self._fold(accumulators)
        if end is not None:
            accumulators = self.part(bases, start, end, 1, frozenset(), accumulators, gap=gap)
        if tail is not None:
            accumulators = end_with_tail(self, bases, tail, accumulators)
        rest = iter(accumulators)
        for r in self.reductions:
            if not r.is_last:
                continue
            for k, out in enumerate(r.inst.outs):
                result = next(rest)
                if r.slots:
                    index = tuple(Index(b) for b in bases)
                    address, _, _ = self.p.elements().address(r.slots[k], index)
                    self.e.inst("store", [address, result])
                elif out in self.outer_of:
                    self.p.scalars[self.outer_of[out]] = result

    def _fold(self, accumulators: list[Value]) -> list[Value]:
        folded: list[Value] = []
        rest = iter(accumulators)
        for r in self.reductions:
            if r.is_last:
                lanes = [next(rest) for _ in r.inst.outs]
                folded += self.e.inst(
                    "hreduce", lanes, {"lanes": self.lanes}, [clone_region(r.inst.regions[0])]
                ).outs
        return folded + [prefixes.total_of(self.e, lanes, self.lanes) for lanes in rest]

    # --- one iteration ----------------------------------------------------------------------

    def body(
        self, elements: Elements, index: tuple[Index, ...], accumulators: list[Value]
    ) -> list[Value]:
        rest = iter(accumulators)
        updated: list[Value] = []
        totals: list[Value] = []
        befores = iter(accumulators[len(accumulators) - len(self.scans) :])
        reductions = iter(self.reductions)
        for inst in self.members:
            self.e.loc = inst.loc
            if inst.op.name == "reduce":
                updated += self._reduce(elements, index, next(reductions), rest)
            elif inst.op.name == "scan":
                totals.append(prefixes.step(elements, inst, index, next(befores)))
            elif inst.op.name == "histogram":
                self.counters[inst].step(elements, index, mask_at(elements, mask_of(inst), index))
            else:
                member(elements, inst, index)
        self.keep(elements, index)
        return updated + totals

    def keep(self, elements: Elements, index: tuple[Index, ...]) -> None:
        """Store what is needed outside of the nest."""
        for value, slot in self.stores:
            element = elements.at(value, index)
            address, is_unit, varies = elements.address(slot, index)
            self.e.inst("vstore" if is_unit and varies else "store", [address, element])

    def _reduce(
        self, elements: Elements, index: tuple[Index, ...], reduction: _Reduction, rest: object
    ) -> list[Value]:
        inst, combine = reduction.inst, reduction.inst.regions[0]
        new = [elements.at(v, index) for v in inst.operands]
        axis = inst["axis"] % self.rank
        if reduction.is_last:
            old = [next(rest) for _ in inst.outs]  # type: ignore[call-overload]
            merged = inline(self.e, combine, [*old, *new])
            return self._first(reduction, index[axis], new, merged)
        kept = index[:axis] + index[axis + 1 :]
        places = [elements.address(slot, kept) for slot in reduction.slots]
        old = [
            self.e.emit("vload" if unit and varies else "load", address)
            for address, unit, varies in places
        ]
        merged = self._first(reduction, index[axis], new, inline(self.e, combine, [*old, *new]))
        for (address, unit, varies), value in zip(places, merged, strict=True):
            self.e.inst("vstore" if unit and varies else "store", [address, value])
        return []

    def _first(
        self, reduction: _Reduction, position: Index, new: list[Value], merged: list[Value]
    ) -> list[Value]:
        """Without a neutral element the first elements stand for themselves."""
        if reduction.neutral is not None:
            return merged
        base = position.base if position.base is not None else self.e.const(0)
        is_first = self.e.emit("eq", base, self.e.const(0))
        return [self.e.emit("select", is_first, a, b) for a, b in zip(new, merged, strict=True)]


def is_address(inst: Inst) -> bool:
    return len(inst.outs) == 1 and inst.out.type.is_pointer and inst.op.is_pure


__all__ = ["copy_loops", "lower_nest"]
