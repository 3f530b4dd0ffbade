"""One nest as loops: a vector loop over the last axis, counted loops around it.

The vector loop comes in parts: the part where every mask is known to hold, a general part that
evaluates masks per lane, and single elements at the end when the extent is no multiple of the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from eas.ir import Inst, Region, Value, walk
from eas.passes.rewriting import clone_region
from eas.schedule import prefixes
from eas.schedule.combines import identity, inline
from eas.schedule.counters import Counters
from eas.schedule.elements import Elements, Index, Known, Slot
from eas.schedule.loops import Program
from eas.schedule.masks import Bounds
from eas.schedule.members import mask_at, mask_of, member
from eas.schedule.nests import FOLDS
from eas.schedule.relayout import contiguous, moved_into
from eas.schedule.tails import Tail, TailValues, fill_tail, repeated, stop_of, tail_of
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


_LONG_RUN = 1 << 15  # bytes: several pages for each of two runs


def lower_nest(program: Program, nest: Inst) -> None:
    """Emit the loops of a nest; what it yields is in slots (or scalars) afterwards."""
    with contiguous(program, (v for inst in walk(nest.regions[0]) for v in inst.operands)):
        _NestLoops(
            program,
            nest["shape"],
            nest.regions[0].body[:-1],
            tuple(zip(nest.regions[0].yields, nest.outs, strict=True)),
        ).emit()


def copy_loops(program: Program, slot: Slot, value: Value) -> None:
    """Write every element of `value` into `slot`."""
    if moved_into(program, slot, value):
        return
    with contiguous(program, [value]):
        _NestLoops(program, value.shape, (), ((value, value),), {value: slot}).emit()


@dataclass(eq=False)
class _Reduction:
    """A reduction of the nest: per lane along the vector axis, or element by element into a slot."""

    inst: Inst
    is_last: bool
    slots: list[Slot]
    neutral: object


@dataclass(eq=False)
class _TailPlan:
    """Behind `stop` the conditions of `key` are false, and the blocks in `read` have one value."""

    key: frozenset[Known]
    index: tuple[Index, ...]
    read: dict[Value, Tail]
    stop: Value = field(init=False)


class _NestLoops:
    def __init__(
        self,
        program: Program,
        shape: Shape,
        members: Sequence[Inst],
        yields: Sequence[tuple[Value, Value]],
        into: dict[Value, Slot] | None = None,
    ) -> None:
        self.p = program
        self.e = program.e
        self.shape = shape
        self.members = members
        reduced = {out for inst in members if inst.op.name in FOLDS for out in inst.outs}
        self.outs = [(inner, outer) for inner, outer in yields if inner not in reduced]
        self.outer_of = dict(yields)
        self.into = into or {}
        self.rank = len(shape)
        self.extent = shape[-1]
        self.lanes = self._choose_lanes()
        self.reductions: list[_Reduction] = []
        self.scans = [inst for inst in members if inst.op.name == "scan"]
        self.counters: dict[Inst, Counters] = {}
        self.stores: list[tuple[Value, Slot]] = []

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
        widest, heavy = 4, False
        for inst in self._insts():
            for value in (*inst.operands, *inst.outs):
                if not value.type.is_pointer:
                    widest = max(widest, value.dtype.nbytes)
            heavy |= inst.op.name in _HEAVY
        registers = 2 if heavy else 4
        lanes = self.p.target.vector_nbytes * registers // widest
        one = self.p.target.vector_nbytes // widest
        while lanes > self.extent or (lanes > one and self.extent % lanes):
            lanes //= 2  # what fills no vector is done element by element
        return lanes if lanes >= 4 else 1

    def _is_ordered(self, inst: Inst) -> bool:
        """A combine function of the user's own may need its elements in order."""
        return inst["axis"] % self.rank == self.rank - 1 and identity(inst.regions[0]) is None

    def _insts(self) -> list[Inst]:
        return [
            part
            for inst in self.members
            for part in (inst, *(w for r in inst.regions for w in walk(r)))
        ]

    def _masks_are_slow(self) -> bool:
        """Masked accesses of 8 and 16 bits are a branch per lane; single elements are better."""
        return (
            any(
                inst.operands[0].dtype.nbytes < 4
                for inst in self._insts()
                if inst.op.name in ("load", "store")
                and len(inst.operands) > (1 if inst.op.name == "load" else 2)
            )
            or not self.p.target.has_cheap_masks
        )

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
        if axis == self.rank - 1:
            self._inner(bases)
            return
        self.p.counted(self.shape[axis], lambda i: self._outer(axis + 1, (*bases, i)), f"i{axis}")

    def _index(self, bases: tuple[Value, ...], last: Value, lanes: int) -> tuple[Index, ...]:
        outer = [Index(base, axis=k) for k, base in enumerate(bases)]
        return (*outer, Index(last, lanes=lanes > 1, axis=self.rank - 1))

    def _inner(self, bases: tuple[Value, ...]) -> None:
        """The vector loop and its parts, carrying the reductions along the last axis."""
        accumulators = self._start()
        bounds = self.p.bounds()
        start = self._index(bases, self.e.const(0), 2)
        elements = self.p.elements()
        masks = [m for inst in self._insts() if (m := mask_of(inst)) is not None]
        for mask in masks:
            bounds.add(elements, mask, start)
        known = frozenset(bounds.known)
        tail = self._plan_tail(bounds, start)
        whole = self.extent // self.lanes * self.lanes
        zero, end = self.e.const(0), tail.stop if tail else self.e.const(self.extent)
        last = tail.stop if tail else self.e.const(whole)
        if not masks:
            accumulators = self._full(bases, last, known, accumulators)
        else:
            full = bounds.end(whole, self.lanes) if known else zero
            if known:
                accumulators = self._full(bases, full, known, accumulators)
            if self._masks_are_slow():
                self._finish(bases, full, end, accumulators, tail)
                return
            accumulators = self._part(bases, full, last, self.lanes, frozenset(), accumulators)
        self._finish(bases, last, end if whole < self.extent else None, accumulators, tail)

    # --- behind the bound of the masks --------------------------------------------------------

    def _plan_tail(self, bounds: Bounds, index: tuple[Index, ...]) -> _TailPlan | None:
        """Where the loops may end before the extent; slots that are not filled so far are, if not."""
        step = self.p.target.vector_nbytes  # a multiple of the lanes of every loop
        read = {v: t for i in self.members for v in i.operands if (t := self.p.tails.get(v))}
        keys = {t.key for t in read.values()} | ({frozenset(bounds.known)} if bounds.known else set())
        if len(keys) == 1 and self.extent % step == 0 and self.extent > step and self._may_end_early():
            (key,) = keys
            plan = _TailPlan(key, index, read)
            self.e.blocks.append([])
            works = self._tail_values(plan) is not None
            self.e.blocks.pop()
            if works:
                known_stops = [t.stop for t in read.values()]
                plan.stop = known_stops[0] if known_stops else stop_of(self.e, bounds, self.extent, step)
                return plan
        for value in read:
            self.p.complete(value)
        return None

    def _may_end_early(self) -> bool:
        if self.scans or self.counters:
            return False
        return all(r.is_last and r.neutral is not None for r in self.reductions)

    def _tail_values(self, plan: _TailPlan) -> tuple[list[Value], list[Value]] | None:
        values = TailValues(self.p.elements(), self.members, plan.index, plan.key, plan.read)
        return tail_of(values, self.members, [inner for inner, _ in self.stores])

    def _end_with_tail(
        self, bases: tuple[Value, ...], plan: _TailPlan, accumulators: list[Value]
    ) -> list[Value]:
        """Add what the lanes behind the bound contribute, if there are any."""
        e, inners = self.e, [inner for inner, _ in self.stores]
        if not accumulators and not inners:
            return []

        def behind() -> Sequence[Value]:
            found = self._tail_values(plan)
            assert found is not None, "planned"
            count = e.emit("sub", e.const(self.extent), plan.stop)
            merged: list[Value] = []
            for r, old, value in zip(self.reductions, accumulators, found[0], strict=True):
                merged += inline(e, r.inst.regions[0], [old, repeated(e, r.inst, value, count)])
            return [*merged, *found[1]]

        def nothing() -> Sequence[Value]:
            return [*accumulators, *(e.const(_nothing(v), Type(v.dtype)) for v in inners)]

        is_shorter = e.emit("lt", plan.stop, e.const(self.extent))
        regions = [e.region([], behind), e.region([], nothing)]
        outs = list(e.inst("if", [is_shorter], {}, regions).outs)
        outer = [Index(base) for base in bases]
        for (inner, slot), value in zip(self.stores, outs[len(accumulators) :], strict=True):
            crossing = self.outer_of[inner]
            if crossing in self.p.may_end_early and inner not in self.into:
                self.p.tails[crossing] = Tail(plan.key, plan.stop, value)
            else:
                fill_tail(e, self.p.elements, slot, outer, self.lanes, plan.stop, value)
        return outs[: len(accumulators)]

    def _start(self) -> list[Value]:
        values = []
        for r in self.reductions:
            if r.is_last:
                values += [
                    self.e.const(
                        r.neutral if r.neutral is not None else _nothing(out), Type(out.dtype)
                    )
                    for out in r.inst.outs
                ]
        return values + [prefixes.start(self.e, inst) for inst in self.scans]

    def _full(
        self,
        bases: tuple[Value, ...],
        end: Value,
        known: frozenset[tuple[Value, tuple[int, ...]]],
        accumulators: list[Value],
    ) -> list[Value]:
        """The part where all masks hold; large outputs that nobody reads bypass the cache."""
        zero = self.e.const(0)
        first = self._index(bases, zero, 2)
        elements = self.p.elements()
        streams = [inst for inst in self.members if self._is_stream(inst, elements, first)]
        if not streams and self._only_folds():
            return self._two_runs(bases, end, known, accumulators)
        if not streams:
            return self._part(bases, zero, end, self.lanes, known, accumulators)
        starts = [elements.at(s.operands[0], tuple(ix.first() for ix in first)) for s in streams]
        allowed = self.e.emit("can_stream", starts[0])
        for start in starts[1:]:
            allowed = self.e.emit("and", allowed, self.e.emit("can_stream", start))

        def side(chosen: frozenset[Inst]) -> Region:
            def body() -> Sequence[Value]:
                return self._part(
                    bases, self.e.const(0), end, self.lanes, known, accumulators, chosen
                )

            return self.e.region([], body)

        regions = [side(frozenset(streams)), side(frozenset())]
        return list(self.e.inst("if", [allowed], {}, regions).outs)

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
            first = self._index(bases, i, self.lanes)
            second = self._index(bases, self.e.emit("add", i, half), self.lanes)
            updated = self._body(self.p.elements(known), first, list(carried[:n]))
            return updated + self._body(self.p.elements(known), second, list(carried[n:]))

        starts = [*accumulators, *self._start()]
        region = self.e.region([half.type, *(a.type for a in starts)], body, ["i"])
        operands = [self.e.const(0), half, *starts]
        sums = self.e.inst("loop", operands, {"lanes": self.lanes}, [region]).outs
        merged = inline(self.e, self.reductions[0].inst.regions[0], sums)
        return self._part(bases, self.e.mul(half, 2), end, self.lanes, known, merged)

    def _is_stream(self, inst: Inst, elements: Elements, index: tuple[Index, ...]) -> bool:
        """A store of neighbouring words to a buffer that the kernel never reads."""
        if inst.op.name != "store" or self.lanes < 4 or inst.operands[0].dtype.nbytes < 4:
            return False
        is_unit = elements.step(inst.operands[0], index) == 1
        return is_unit and self.p.base_of(inst.operands[0]) in self.p.unread

    def _part(
        self,
        bases: tuple[Value, ...],
        start: Value,
        end: Value,
        lanes: int,
        known: frozenset[tuple[Value, tuple[int, ...]]],
        accumulators: list[Value],
        streams: frozenset[Inst] = frozenset(),
    ) -> list[Value]:
        if self.e.literals.get(start, -1) == self.e.literals.get(end, -2):
            return accumulators

        def body(i: Value, *carried: Value) -> Sequence[Value]:
            elements = self.p.elements(known)
            elements.streams = streams
            return self._body(elements, self._index(bases, i, lanes), list(carried))

        region = self.e.region([start.type, *(a.type for a in accumulators)], body, ["i"])
        return list(
            self.e.inst("loop", [start, end, *accumulators], {"lanes": lanes}, [region]).outs
        )

    def _finish(
        self,
        bases: tuple[Value, ...],
        start: Value,
        end: Value | None,
        accumulators: list[Value],
        tail: _TailPlan | None = None,
    ) -> None:
        """Fold the lanes, add the elements that fill no vector, and put the results where they belong."""
        if self.lanes > 1:
            accumulators = self._fold(accumulators)
        if end is not None:
            accumulators = self._part(bases, start, end, 1, frozenset(), accumulators)
        if tail is not None:
            accumulators = self._end_with_tail(bases, tail, accumulators)
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

    def _body(
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
        for value, slot in self.stores:
            element = elements.at(value, index)
            address, is_unit, varies = elements.address(slot, index)
            self.e.inst("vstore" if is_unit and varies else "store", [address, element])
        return updated + totals

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


def _nothing(value: Value) -> object:
    return 0.0 if value.dtype.is_float else False if value.dtype.is_bool else 0


__all__ = ["copy_loops", "lower_nest"]
