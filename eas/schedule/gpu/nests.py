"""One nest on the threads of a threadgroup: a loop over each thread's registers, and reductions across threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from eas.base.types import Shape
from eas.ir import Inst, Trait, Value, walk
from eas.schedule.elements.elements import Index
from eas.schedule.elements.members import member
from eas.schedule.gpu.lanes import LaneElements, Lanes, LaneSlot, NotVectors
from eas.schedule.gpu.layouts import Layout, contiguous
from eas.schedule.gpu.reduce import Reduction, commutes
from eas.schedule.gpu.vectors import vector_axis, vector_width


def lower_nest(p: Lanes, nest: Inst) -> None:
    """Emit a nest; what it yields is in slots (or scalars) afterwards."""
    region = nest.regions[0]
    yields = tuple((inner, outer) for inner, outer in zip(region.yields, nest.outs, strict=True) if outer not in p.rereads)
    members: list[Inst] = []
    needed = {inner for inner, _ in yields}
    for inst in reversed(region.body[:-1]):  # readers may do without some of it
        if inst.op.name not in ("load", "cast") or inst.out in needed:
            members.insert(0, inst)
            needed.update(v for w in (inst, *_inner(inst)) for v in w.operands)
    _lower_parts(p, nest["shape"], _split(members, nest["shape"], [inner for inner, _ in yields]), yields)


def _lower_parts(p: Lanes, shape: Shape, parts: Sequence[Sequence[Inst]], yields: Sequence[tuple[Value, Value]]) -> None:
    """Emit parts of a nest one after the other; what a later one needs is yielded too."""
    for k, part in enumerate(parts):
        made = {out for inst in part for out in inst.outs}
        later = {v for rest in parts[k + 1 :] for inst in rest for w in (inst, *_inner(inst)) for v in w.operands}
        own = [(inner, outer) for inner, outer in yields if inner in made]
        own += [(v, v) for inst in part for v in inst.outs if v in later and v not in dict(own)]
        Nest(p, shape, part, own).emit()
        for inner, outer in own:
            if inner in later and outer in p.slots:
                p.slots[inner] = p.slots[outer]


def copy_nest(p: Lanes, slot: LaneSlot, value: Value) -> None:
    """Write every element of `value` into `slot`."""
    Nest(p, value.shape, (), ((value, value),), {value: slot}).emit()


def _is_act(inst: Inst) -> bool:
    """Whether it must happen once per element, however many threads hold it."""
    return any(
        w.op.has(Trait.WRITES) or (w.op.has(Trait.EFFECT) and not w.regions and not w.op.has(Trait.TERMINATOR))
        for w in (inst, *_inner(inst))
    )


def _inner(inst: Inst) -> list[Inst]:
    return [w for r in inst.regions for w in walk(r)]


def _split(members: Sequence[Inst], shape: Shape, yields: Sequence[Value]) -> list[list[Inst]]:
    """Parts that each have one layout; an act (such as an atomic) whose result is used ends its part."""
    parts: list[list[Inst]] = [[]]
    ordered: set[int] = set()
    used = {*yields, *(v for inst in members for w in (inst, *_inner(inst)) for v in w.operands)}
    for inst in members:
        is_told = _is_act(inst) and any(v in used for v in inst.outs)
        if is_told and any(i.op.name == "reduce" for i in parts[-1]):
            parts.append([])
            ordered = set()
        if inst.op.name == "reduce":
            axis = inst["axis"] % len(shape)
            is_ordered = not commutes(inst.regions[0])
            others = {i["axis"] % len(shape) for i in parts[-1] if i.op.name == "reduce"} - {axis}
            if parts[-1] and others and (is_ordered or ordered):
                parts.append([])
                ordered = set()
            elif len(inst.outs) > 1 and parts[-1] and not is_ordered:  # runs element by element; what it reads need not
                parts.append([])
            if is_ordered:
                ordered.add(axis)
        parts[-1].append(inst)
        if is_told:
            parts.append([])
            ordered = set()
    return [part for part in parts if part]


@dataclass(eq=False)
class Nest:
    """A nest being emitted."""

    p: Lanes
    shape: Shape
    members: Sequence[Inst]
    yields: Sequence[tuple[Value, Value]]
    into: dict[Value, LaneSlot] = field(default_factory=dict)
    vector: int = 1

    def emit(self) -> None:
        p = self.p
        self.layout = self._choose_layout()
        if self.layout.replicated_threads and self.yields:
            clash = self._first_clash()
            if clash is not None:
                _lower_parts(p, self.shape, (self.members[:clash], self.members[clash:]), self.yields)
                return
        self.parts = p.thread_parts(self.layout)
        self.has_padding = not bool(self.layout.is_inside().all()) and not self._counts_extent()
        self.owner = p.owner(self.layout) if self._acts() else None
        outer_of = dict(self.yields)
        reduced = {out for inst in self.members if inst.op.name == "reduce" for out in inst.outs}
        self.stores = [
            (inner, self.into.get(inner) or p.slot_for(outer, self.layout))
            for inner, outer in self.yields
            if inner not in reduced
        ]
        if self.layout.replicated_threads and self._update_in_steps(reduced):
            return
        if self._owner_only():
            for _, slot in self.stores:
                p.share(slot)
        self.reductions = [
            Reduction(p, inst, self.layout, self.has_padding, [outer_of.get(v) for v in inst.outs])
            for inst in self.members
            if inst.op.name == "reduce"
        ]
        self._register_loop()
        for reduction in self.reductions:
            reduction.finish()

    def _update_in_steps(self, reduced: set[Value]) -> bool:
        """Whether the nest reads shared memory that it writes: then results wait in registers, as one of the threads that read an element writes it."""
        p = self.p
        operands = {v for inst in self.members for w in (inst, *_inner(inst)) for v in w.operands}
        updated = [(inner, slot) for inner, slot in self.stores if not slot.in_registers and any(p.is_same_place(p.slots.get(v), slot) for v in operands)]
        if not updated or any(inner in p.slots for inner, _ in updated):
            return False
        waiting = {inner for inner, _ in updated}
        Nest(p, self.shape, self.members, [(inner, inner if inner in waiting else outer) for inner, outer in self.yields], {k: v for k, v in self.into.items() if k not in waiting}, self.vector).emit()
        for inner, slot in updated:
            copy_nest(p, slot, inner)
        return True

    # --- decisions --------------------------------------------------------------------------

    def _choose_layout(self) -> Layout:
        for value, slot in self.into.items():
            source = self.p.lane_slot(value)
            # Memory takes elements from whoever has them.
            is_free = not slot.in_registers and source is not None and source.in_registers and not source.is_opaque
            return source.layout if source is not None and is_free else slot.layout
        for inst in self.members:
            if inst.op.name == "reduce" and not commutes(inst.regions[0]):
                return contiguous(self.shape, self.p.threads, inst["axis"] % len(self.shape))
        for _, outer in self.yields:
            if outer in self.p.prefers and outer.shape == self.shape:  # a reduction has another shape
                return self.p.prefers[outer]
        adopted = self._adopted()
        if adopted is not None:
            return adopted
        return self.p.default_layout(self.shape, *self._order())

    def _adopted(self) -> Layout | None:
        """The layout of a block that the nest reads as it is; one that somebody had reasons for first."""
        slots = [self.p.lane_slot(value) for value in self._read_blocks()]
        found = [s.layout for s in slots if s is not None and s.shape == self.shape and s.in_registers and not s.is_opaque]
        usual = self.p.default_layout(self.shape)
        return next((layout for layout in found if layout != usual), found[0] if found else None)

    def _read_blocks(self) -> list[Value]:
        """The operands, and what those that are computed where they are needed are made of, element by element."""
        found = self._operands()
        for value in found:
            inst = self.p.formulas.get(value)
            if inst is not None and value not in self.p.slots and (inst.op.has(Trait.ELEMENTWISE) or inst.op.name == "addptr"):
                found += [v for v in inst.operands if v not in found]
        return found

    def _operands(self) -> list[Value]:
        return [v for inst in self.members for w in (inst, *_inner(inst)) for v in w.operands] + [
            inner for inner, _ in self.yields
        ]

    def _order(self) -> tuple[tuple[int, ...] | None, int]:
        """The axis along which memory is walked in single steps goes to neighbouring threads."""
        rank = len(self.shape)
        votes = [0] * rank
        elements = self.p.elements()
        for inst in self._insts():
            if inst.op.name not in ("load", "store"):
                continue
            pointer = inst.operands[0]
            for axis in range(rank):
                index = tuple(Index(None, lanes=k == axis, axis=k) for k in range(rank))
                if pointer.shape == self.shape and elements.step(pointer, index) == 1:
                    votes[axis] += 1
        if not any(votes):
            return None, 1
        best = max(range(rank), key=lambda axis: (votes[axis], axis))
        return (best, *(axis for axis in reversed(range(rank)) if axis != best)), 4

    def _insts(self) -> list[Inst]:
        return [w for inst in self.members for w in (inst, *_inner(inst))]

    def _counts_extent(self) -> bool:
        return self.p.plan.is_serial and len(self.shape) == 1

    def _acts(self) -> bool:
        return any(map(_is_act, self.members))

    def _owner_only(self) -> bool:
        """Whether results come from something that only the owner does."""
        if self.owner is None:
            return False
        kept = {inner for inner, _ in self.yields}
        is_told = any(_is_act(inst) and not kept.isdisjoint(inst.outs) for inst in self.members)
        return is_told or self._first_clash() is not None

    def _first_clash(self) -> int | None:
        """The first member that reads what an earlier one writes, or the other way around.

        All threads that share an element read it, but one of them writes it, with no barrier in between.
        """
        reads: set[object] = set()
        writes: set[object] = set()
        for k, inst in enumerate(self.members):
            accesses = [(w, self.p.places[w.operands[0]]) for w in (inst, *_inner(inst)) if w.op.has(Trait.READS) or w.op.has(Trait.WRITES)]
            if _is_act(inst):
                writes |= {place for w, place in accesses if w.op.has(Trait.WRITES)}
            else:
                reads |= {place for _, place in accesses}
            if reads & writes:
                return k
        return None

    # --- the loop over registers ----------------------------------------------------------------

    def _register_loop(self) -> None:
        starts = [v for reduction in self.reductions for v in reduction.start()]
        hints = [name for reduction in self.reductions if reduction.kept == 1 for name in reduction.hints()]
        count = self.shape[0] if self._counts_extent() else self.layout.num_registers

        def body(register: Value | None, *carried: Value) -> Sequence[Value]:
            return self._guarded(register, list(carried))

        if self._owner_only():
            assert not self.reductions, "an atomic whose result is used ends its nest"
            assert self.owner is not None
            self.p.when(self.owner, lambda: self.p.over_registers(count, (), body))
            return
        blocks = self.p.e.blocks
        depth, length = len(blocks), len(blocks[-1])
        kept = [v for v, _ in self.stores]
        self.vector = vector_width(self.p, self.layout, self._insts(), self._operands(), kept, self.reductions)
        try:
            ends = iter(self.p.over_registers(count, starts, body, self.vector, hints))
        except NotVectors:
            del blocks[depth:], blocks[-1][length:]
            self.vector = 1
            ends = iter(self.p.over_registers(count, starts, body, 1, hints))
        for reduction in self.reductions:
            reduction.take(ends, self.vector)

    def _guarded(self, register: Value | None, carried: list[Value]) -> list[Value]:
        """The body where the element exists; blocks whose extents are no powers of two have others."""
        p = self.p
        coordinates = p.coordinates(self.layout, self.parts, register, self.vector)
        fast = vector_axis(self.layout, self.vector) if self.vector > 1 else None
        index = tuple(Index(c, lanes=axis == fast, axis=axis) for axis, c in enumerate(coordinates))
        inside = p.inside(self.layout, coordinates) if self.has_padding else None
        if inside is None:
            return self._body(index, carried)

        def then() -> Sequence[Value]:
            return self._body(index, carried)

        regions = [p.e.region([], then), p.e.region([], lambda: carried)]
        return list(p.e.inst("if", [inside], {}, regions).outs)

    def _body(self, index: tuple[Index, ...], carried: list[Value]) -> list[Value]:
        elements = self.p.elements()
        rest, updated = iter(carried), []
        reductions = iter(self.reductions)
        for inst in self.members:
            self.p.e.loc = inst.loc
            if inst.op.name == "reduce":
                updated += next(reductions).step(elements, index, rest)
            elif self.owner is not None and not self._owner_only() and _is_act(inst):
                self._act(elements.nested(), inst, index)
            else:
                member(elements, inst, index)
        for value, slot in self.stores:
            self._keep(elements, value, slot, index)
        return updated

    def _act(self, elements: LaneElements, inst: Inst, index: tuple[Index, ...]) -> None:
        assert self.owner is not None
        self.p.when(self.owner, lambda: member(elements, inst, index))

    def _keep(self, elements: LaneElements, value: Value, slot: LaneSlot, index: tuple[Index, ...]) -> None:
        elements.write(slot, index, elements.at(value, index), self.layout)
