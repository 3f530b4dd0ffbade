"""One nest as loops: a vector loop over the last axis, counted loops around it.

The vector loop comes in parts: the part where every mask is known to hold, a general part that
evaluates masks per lane, and single elements at the end when the extent is no multiple of the lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.base.types import Shape, Type
from eas.ir import Inst, Trait, Value, walk
from eas.schedule.cpu.counters import Counters
from eas.schedule.cpu.elements import Elements, Index, Known, Slot
from eas.schedule.cpu.loops import prefixes
from eas.schedule.cpu.loops.ends import TailPlan, end_with_tail, plan_tail
from eas.schedule.cpu.loops.kinds import ALONG, AROUND, INSIDE, choose
from eas.schedule.cpu.loops.overlaps import least_run
from eas.schedule.cpu.loops.reductions import Reduction, plan_reduction
from eas.schedule.cpu.loops.row_parts import Gap, Inside, Row
from eas.schedule.cpu.loops.runs import Runs
from eas.schedule.cpu.loops.sums import is_sum, lanes_of
from eas.schedule.cpu.lower import Program
from eas.schedule.cpu.members import mask_at, mask_of, member
from eas.schedule.cpu.relayout import contiguous, moved_into
from eas.schedule.cpu.shared_rows import RowSharing
from eas.schedule.cpu.streams import are_apart, is_light, is_stream, is_worth_streaming
from eas.schedule.nest.combines import neutrals
from eas.schedule.nest.partition import FOLDS
from eas.schedule.nest.program_order import axes_of
from eas.schedule.target import MOST_UPDATES

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

_FEW_COUNTERS = 1024  # up to which wide loops are as fast, or faster
_MANY_LOADS = 4  # of which the processor finds enough to do at once without more lanes


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
        self.block = shape[self.order[-1]]
        self.extent = self.block * program.walk
        self.sharing = RowSharing(members, program.formulas)
        self.has_sums = is_sum(members) and tuple(self.order) == tuple(range(self.rank))
        self.lanes = self._choose_lanes()
        assert self.lanes <= program.target.most_lanes
        self.reductions: list[Reduction] = []
        self.scans = [inst for inst in members if inst.op.name == "scan"]
        self.counters: dict[Inst, Counters] = {}
        self.stores: list[tuple[Value, Slot]] = []
        self.runs = Runs(program, members, self.lanes)
        self.is_slow = not reduced and not is_light(members)  # rows that are reduced are often in the cache
        self.apart: Value | None = None  # whether nothing is read where stores past the cache seem to be under way

    def emit(self) -> None:
        self.stores = [
            (inner, self.into.get(inner) or self.p.slot_for(outer)) for inner, outer in self.outs
        ]
        self.reductions = [
            self._reduction(inst) for inst in self.members if inst.op.name == "reduce"
        ]
        for reduction in self.reductions:
            if not reduction.is_last and reduction.neutrals is not None:
                self._clear(reduction)
        for inst in self.members:
            if inst.op.name == "histogram":
                self.counters[inst] = Counters(self.p, inst)
                self.counters[inst].clear()
        bases = (self.e.const(0),) * (self.rank - 1)
        self.apart = are_apart(self.p, self.streams(bases), self.members, self.elements(), self.index(bases, self.e.const(0), 2))
        self._around(0, ())
        for inst, counters in self.counters.items():
            outer = self.outer_of.get(inst.out)
            if outer is not None:
                counters.finish(self.p.slot_for(outer))

    # --- decisions --------------------------------------------------------------------------

    def _choose_lanes(self) -> int:
        """Elements per step: several registers for light work, fewer where a function needs many or much is read."""
        if any(self._is_ordered(inst) for inst in self.members if inst.op.name == "reduce"):
            return 1
        widest = self.widest()
        if self.has_sums:
            return lanes_of(self)
        loads = sum(inst.op.name == "load" for inst in self.members)
        is_much = loads > _MANY_LOADS or any(inst.op.name in _HEAVY for inst in self.insts())
        registers = 1 if self.p.is_very_long else 2 if is_much else 4
        lanes = self.p.target.vector_nbytes * registers // widest
        if any(map(_updates_much, self.members)):
            lanes = min(lanes, MOST_UPDATES)
        one = self.p.target.vector_nbytes // widest
        while lanes > self.extent or (lanes > one and self.extent % lanes and self.p.walk == 1):
            lanes //= 2  # what fills no vector is done element by element
        return lanes if lanes >= 4 else 1

    def widest(self) -> int:
        """Bytes of the largest element, of at least a word."""
        values = [v for inst in self.insts() for v in (*inst.operands, *inst.outs)]
        return max(4, *(v.dtype.nbytes for v in values if not v.type.is_pointer), 0)

    def _is_ordered(self, inst: Inst) -> bool:
        """A combine function that is not known to commute needs its elements in order."""
        return inst["axis"] % self.rank == self.rank - 1 and neutrals(inst.regions[0]) is None

    def insts(self) -> list[Inst]:
        return [
            part
            for inst in self.members
            for part in (inst, *(w for r in inst.regions for w in walk(r)))
        ]

    def _reduction(self, inst: Inst) -> Reduction:
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
        return plan_reduction(self.p.elements(), inst, is_last, slots)

    # --- loops ------------------------------------------------------------------------------

    def _clear(self, reduction: Reduction) -> None:
        """A reduction over an outer axis starts from its neutral elements."""
        assert reduction.neutrals is not None
        for slot, value, out in zip(reduction.slots, reduction.neutrals, reduction.inst.outs, strict=True):
            self.e.blocks.append([])
            neutral = self.e.inst("const", (), {"value": value, "type": Type(out.dtype, slot.shape)})
            self.e.blocks.pop()
            self.p.formulas[neutral.out] = neutral
            copy_loops(self.p, slot, neutral.out)

    def _around(self, axis: int, bases: tuple[Value, ...]) -> None:
        """Counted loops up to the last two axes, which are done by the first kind of loops that fits."""
        if axis < self.rank - 2:
            self.p.counted(self.shape[self.order[axis]], lambda i: self._around(axis + 1, (*bases, i)), f"i{axis}")
        else:
            choose(AROUND, self, bases)()

    def rows(self, bases: tuple[Value, ...], row: Callable[[tuple[Value, ...]], None]) -> None:
        """One row after the other."""
        if self.rank == 1:
            row(bases)
            return
        axis = self.rank - 2
        self.p.counted(self.shape[self.order[axis]], lambda i: row((*bases, i)), f"i{axis}")

    def index(self, bases: tuple[Value, ...], last: Value, lanes: int) -> tuple[Index, ...]:
        found = {k: Index(base, axis=k) for k, base in zip(self.order, bases, strict=False)}
        found[self.order[-1]] = Index(last, lanes=lanes > 1, axis=self.order[-1])
        return tuple(found[k] for k in range(self.rank))

    def elements(self, known: frozenset[Known] = frozenset()) -> Elements:
        """For vectors: what the nest itself computes may be asked for at the first lane."""
        elements = self.p.elements(known)
        elements.made = self.runs.made if self.lanes > 1 else {}
        elements.is_slow = self.is_slow
        return elements

    def row(self, bases: tuple[Value, ...]) -> None:
        """The vector loop and its parts, carrying the reductions along the last axis."""
        bounds = self.p.bounds()
        if self.p.walk > 1:
            bounds.end_at(self.e.mul(self.e.emit("programs_left"), self.block))
        start = self.index(bases, self.e.const(0), 2)
        if not self.p.is_long:
            self.runs.plan(start, least_run(self))
        elements = self.elements()
        masks = [m for inst in self.insts() if (m := mask_of(inst)) is not None]
        for mask in masks:
            bounds.add(elements, mask, start)
        tail = None if self.p.walk > 1 else plan_tail(self, bounds, start)
        starts_late = bool(bounds.starts) and self._may_skip() and not self.runs.modes
        if starts_late:  # narrow steps: the lanes in front of the start are few
            self.lanes = min(self.lanes, max(1, self.p.target.vector_nbytes // self.widest()))
        known = frozenset(bounds.known | bounds.known_later if starts_late else bounds.known)
        for reduction in self.reductions:
            reduction.is_ascending = not starts_late and not self.runs.modes
        accumulators = self.start(bases)
        end = tail.stop if tail else bounds.room(self.extent)
        last = tail.stop if tail else bounds.room(self.extent, self.lanes)
        choose(ALONG, self, Row(bases, bool(masks), bounds, elements, start, known, last, end, accumulators, tail))()

    def _may_skip(self) -> bool:
        """Whether elements may be visited out of order."""
        return not self.scans and all(r.neutrals is not None for r in self.reductions)

    def may_repeat(self) -> bool:
        """Whether all that the nest does are reductions along a row for which an element may come twice."""
        are_pure = all(i.op.is_pure or i.op.name == "load" for i in self.members)
        is_only = are_pure and bool(self.reductions) and not (self.stores or self.scans or self.counters)
        return is_only and all(r.is_last and r.is_idempotent for r in self.reductions)

    @property
    def whole(self) -> int:
        """The elements of a row that fill vectors."""
        return self.extent // self.lanes * self.lanes

    def complete_tails(self) -> None:
        """Fill the slots that are read, and are not filled so far."""
        for value in dict.fromkeys(v for i in self.members for v in i.operands if v in self.p.tails):
            self.p.complete(value)

    def start(self, bases: tuple[Value, ...]) -> list[Value]:
        """What the lanes of a row carry at first."""
        elements, first = self.p.elements(), self.index(bases, self.e.const(0), 1)
        values = [v for r in self.reductions if r.is_last for v in r.start(elements, first, self.lanes > 1)]
        return values + [prefixes.start(self.e, inst) for inst in self.scans]

    def streams(self, bases: tuple[Value, ...]) -> list[Inst]:
        """The stores that may bypass the cache, where that is worth it."""
        if self.p.has_many_nests or self.p.is_long or not is_worth_streaming(self.members):
            return []
        elements, first = self.elements(), self.index(bases, self.e.const(0), 2)
        return [i for i in self.members if is_stream(self.p, i, elements, first, self.lanes, self.extent)]

    def full(
        self,
        bases: tuple[Value, ...],
        ends: tuple[Value, Value],
        known: frozenset[Known],
        accumulators: list[Value],
    ) -> list[Value]:
        """The part of a row where all masks hold."""
        return self.inside(Inside(bases, *ends, known, accumulators, self.streams(bases)))

    def inside(self, part: Inside) -> list[Value]:
        """The loops of a part where all masks hold."""
        return choose(INSIDE, self, part)()

    def part(
        self,
        bases: tuple[Value, ...],
        start: Value,
        end: Value,
        lanes: int,
        known: frozenset[Known],
        accumulators: list[Value],
        streams: frozenset[Inst] = frozenset(),
        gap: Gap | None = None,
        last: Value | None = None,
        past: Value | None = None,
    ) -> list[Value]:
        if self.e.literals.get(start, -1) == self.e.literals.get(end, -2):
            return accumulators
        if gap is not None:
            end = self.e.emit("sub", end, gap.length)

        def body(i: Value, *carried: Value) -> Sequence[Value]:
            elements = self.elements(known) if lanes > 1 else self.p.elements(known)
            elements.streams, elements.past = streams, past
            if gap is not None:
                i = self._behind(gap, i)
            if last is not None:
                i = self.e.emit("min", i, last)
            return self.body(elements, self.index(bases, i, lanes), list(carried))

        region = self.e.region([start.type, *(a.type for a in accumulators)], body, ["i"])
        return list(
            self.e.inst("loop", [start, end, *accumulators], {"lanes": lanes}, [region]).outs
        )

    def _behind(self, gap: Gap, i: Value) -> Value:
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
        gap: Gap | None = None,
    ) -> None:
        """Add the elements that fill no vector, and put the results where they belong."""
        self.put(bases, self.totals(bases, start, end, accumulators, gap), tail)

    def totals(
        self, bases: tuple[Value, ...], start: Value, end: Value | None, accumulators: list[Value], gap: Gap | None = None
    ) -> list[Value]:
        """Fold the lanes, and add the elements that fill no vector."""
        if self.lanes > 1:
            accumulators = self._fold(accumulators)
        return accumulators if end is None else self.part(bases, start, end, 1, frozenset(), accumulators, gap=gap)

    def put(self, bases: tuple[Value, ...], totals: list[Value], tail: TailPlan | None = None) -> None:
        """Add what is behind the bound of the masks, and put the results where they belong."""
        if tail is not None:
            totals = end_with_tail(self, bases, tail, totals)
        rest = iter(totals)
        for r in self.reductions:
            if not r.is_last:
                continue
            for k, out in enumerate(r.inst.outs):
                result = next(rest)
                if r.slots and out in self.outer_of:
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
                folded += r.fold(self.e, lanes, self.lanes)
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
        self, elements: Elements, index: tuple[Index, ...], reduction: Reduction, rest: object
    ) -> list[Value]:
        inst = reduction.inst
        new = reduction.element(elements, index)
        axis = inst["axis"] % self.rank
        if reduction.is_last:
            old = [next(rest) for _ in inst.outs]  # type: ignore[call-overload]
            merged = reduction.merge(elements, old, new)
            return self._first(reduction, index[axis], new, merged)
        kept = index[:axis] + index[axis + 1 :]
        places = [elements.address(slot, kept) for slot in reduction.slots]
        old = [
            self.e.emit("vload" if unit and varies else "load", address)
            for address, unit, varies in places
        ]
        merged = self._first(reduction, index[axis], new, reduction.merge(elements, old, new))
        for (address, unit, varies), value in zip(places, merged, strict=True):
            self.e.inst("vstore" if unit and varies else "store", [address, value])
        return []

    def _first(
        self, reduction: Reduction, position: Index, new: list[Value], merged: list[Value]
    ) -> list[Value]:
        """Without a neutral element the first elements stand for themselves."""
        if reduction.neutrals is not None:
            return merged
        base = position.base if position.base is not None else self.e.const(0)
        is_first = self.e.emit("eq", base, self.e.const(0))
        return [self.e.emit("select", is_first, a, b) for a, b in zip(new, merged, strict=True)]


def _updates_much(inst: Inst) -> bool:
    """Whether each lane reads and writes memory of its own; few counters have copies for lanes side by side."""
    return inst.op.has(Trait.ATOMIC) or (inst.op.name == "histogram" and inst.out.shape[0] > _FEW_COUNTERS)


def is_address(inst: Inst) -> bool:
    return len(inst.outs) == 1 and inst.out.type.is_pointer and inst.op.is_pure


__all__ = ["copy_loops", "lower_nest"]
