"""One nest as loops: what its loops have in common, whatever their kind.

A vector loop over the last axis comes in parts: the part where every mask is known to hold, a general part that
evaluates masks per lane, and single elements at the end when the extent is no multiple of the lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from eas.analysis import mask_of, with_inner
from eas.base.types import Shape, Type
from eas.ir import Inst, Trait, Value
from eas.schedule.cpu.counters import Counters
from eas.schedule.cpu.loops import prefixes
from eas.schedule.cpu.loops.lanes import choose_lanes, is_sum, widest
from eas.schedule.cpu.loops.reductions import Reduction, plan_reduction
from eas.schedule.cpu.loops.row_parts import Gap
from eas.schedule.cpu.loops.runs import Runs
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.cpu.shared_rows import RowSharing
from eas.schedule.cpu.streams import are_apart, is_light, is_stream, is_worth_streaming
from eas.schedule.elements.elements import Context, Elements, Index, Known, Slot
from eas.schedule.elements.members import mask_at, member

X = TypeVar("X")
T = TypeVar("T")
Kinds = Mapping[str, Callable[["NestLoops", X], Callable[[], T] | None]]


def choose(kinds: Kinds[X, T], nest: NestLoops, given: X) -> Callable[[], T]:
    """What emits the loops of the first kind that fits."""
    return next(emit for plan in kinds.values() if (emit := plan(nest, given)) is not None)


class NestLoops:
    """The loops of one nest, once what they start from is emitted."""

    def __init__(
        self,
        program: Lowering,
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
        reduced = {out for inst in members if inst.op.has(Trait.FOLD) for out in inst.outs}
        self.outs = [(inner, outer) for inner, outer in yields if inner not in reduced]
        self.outer_of = dict(yields)
        self.into = into or {}
        self.rank = len(shape)
        self.order = order or range(self.rank)  # the axes, from the outermost loop to the lanes
        self.block = shape[self.order[-1]]
        self.extent = self.block * program.facts.walk
        self.sharing = RowSharing(members, program.formulas)
        self.has_sums = is_sum(members) and tuple(self.order) == tuple(range(self.rank))
        self.lanes = choose_lanes(program, members, shape, self.extent, self.sharing if self.has_sums else None)
        assert self.lanes <= program.target.most_lanes
        self.scans = [inst for inst in members if inst.op.name == "scan"]
        self.runs = Runs(program, members, self.lanes)
        self.is_slow = not reduced and not is_light(members)  # rows that are reduced are often in the cache
        self.stores = [(inner, self.into.get(inner) or program.slot_for(outer)) for inner, outer in self.outs]
        self.reductions = [self._reduction(inst) for inst in members if inst.op.name == "reduce"]
        for reduction in self.reductions:
            if not reduction.is_last and reduction.neutrals is not None:
                self._clear(reduction)
        self.counters = {inst: Counters(program, inst) for inst in members if inst.op.name == "histogram"}
        for counters in self.counters.values():
            counters.clear()
        bases = (self.e.const(0),) * (self.rank - 1)
        # Whether nothing is read where stores past the cache seem to be under way.
        self.apart = are_apart(program, self.streams(bases), members, self.elements(), self.index(bases, self.e.const(0), 2))

    # --- decisions --------------------------------------------------------------------------

    def widest(self) -> int:
        """Bytes of the largest element, of at least a word."""
        return widest(self.members)

    def insts(self) -> list[Inst]:
        return [part for inst in self.members for part in with_inner(inst)]

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
            self.p.fill(slot, neutral.out)

    def rows(self, bases: tuple[Value, ...], row: Callable[[tuple[Value, ...]], None]) -> None:
        """One row after the other."""
        if self.rank == 1:
            row(bases)
            return
        axis = self.rank - 2
        self.p.counted(self.shape[self.order[axis]], lambda i: row((*bases, i)), f"i{axis}", **({"of_rows": True} if self.p.facts.in_rows else {}))

    def index(self, bases: tuple[Value, ...], last: Value, lanes: int) -> tuple[Index, ...]:
        found = {k: Index(base, axis=k) for k, base in zip(self.order, bases, strict=False)}
        found[self.order[-1]] = Index(last, lanes=lanes > 1, axis=self.order[-1])
        return tuple(found[k] for k in range(self.rank))

    def elements(self, known: frozenset[Known] = frozenset()) -> Elements:
        return self.p.within(self.context(known))

    def context(self, known: frozenset[Known] = frozenset()) -> Context:
        """For vectors: what the nest itself computes may be asked for at the first lane."""
        return replace(self.p.context(), known_true=known, made=self.runs.made if self.lanes > 1 else {}, is_slow=self.is_slow)

    def may_skip(self) -> bool:
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
        if self.p.facts.has_many_nests or self.p.facts.is_long or not is_worth_streaming(self.members):
            return []
        elements, first = self.elements(), self.index(bases, self.e.const(0), 2)
        return [i for i in self.members if is_stream(self.p, i, elements, first, self.lanes, self.extent)]

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
            context = self.context(known) if lanes > 1 else self.p.context(known)
            elements = self.p.within(replace(context, streams=streams, past=past))
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

    def totals(
        self, bases: tuple[Value, ...], start: Value, end: Value | None, accumulators: list[Value], gap: Gap | None = None
    ) -> list[Value]:
        """Fold the lanes, and add the elements that fill no vector."""
        if self.lanes > 1:
            accumulators = self._fold(accumulators)
        return accumulators if end is None else self.part(bases, start, end, 1, frozenset(), accumulators, gap=gap)

    def put(self, bases: tuple[Value, ...], totals: list[Value]) -> None:
        """Put the results where they belong."""
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

    def put_counts(self) -> None:
        """Put the sums of the counters of histograms where they belong."""
        for inst, counters in self.counters.items():
            outer = self.outer_of.get(inst.out)
            if outer is not None:
                counters.finish(self.p.slot_for(outer))

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
        self, elements: Elements, index: tuple[Index, ...], reduction: Reduction, rest: Iterator[Value]
    ) -> list[Value]:
        inst = reduction.inst
        new = reduction.element(elements, index)
        axis = inst["axis"] % self.rank
        if reduction.is_last:
            old = [next(rest) for _ in inst.outs]
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


def is_address(inst: Inst) -> bool:
    return len(inst.outs) == 1 and inst.out.type.is_pointer and inst.op.is_pure
