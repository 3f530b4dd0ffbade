"""Statements of a program around its nests, for every target: scalars, control flow, where blocks are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from eas.base.errors import Unsupported
from eas.ir import Inst, Region, Trait, Value, make, walk
from eas.schedule.elements.elements import I32, Elements, Emitter, Slot
from eas.schedule.elements.scopes import Scopes


class Statements(ABC):
    """The lowering of one program: formulas, slots and scalars known so far."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.scopes = Scopes()
        self.formulas: dict[Value, Inst] = self.scopes.table()
        self.slots: dict[Value, Slot] = self.scopes.table()
        self.scalars: dict[Value, Value] = self.scopes.table()
        self.wanted: dict[Value, Slot] = self.scopes.table()  # where a value should be written when it is made
        self.inside_of: dict[Value, Value] = self.scopes.table()  # what a single address is a part of
        self.allocations: list[Inst] = []

    def program(self, body: Region) -> Region:
        self.region(body)
        insts = self.e.blocks.pop()
        return Region((), (*self.allocations, *insts))

    # --- statements -------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        """Lower all but the yield, which is up to the caller; the kernel's own is kept."""
        for inst in region.body[:-1]:
            self.statement(inst)
        if region.params == () and not region.yields:
            self.e.inst("yield", ())

    @abstractmethod
    def statement(self, inst: Inst) -> None:
        """Lower one instruction of the program."""

    def is_formula(self, inst: Inst) -> bool:
        """Whether elements of a block are computed where they are needed."""
        is_known = inst.op.has(Trait.ELEMENTWISE) or inst.op.has(Trait.SHAPE) or inst.op.name in ("const", "arange")
        return inst.op.is_pure and not inst.regions and is_known

    def formula(self, inst: Inst) -> None:
        """Remember how the elements of a block are computed; the one element of a block is a scalar."""
        self.formulas.update(dict.fromkeys(inst.outs, inst))
        for out in inst.outs:
            if out.type.is_scalar:
                self.scalars[out] = self.elements().computed(out, ())

    def scalar(self, inst: Inst) -> None:
        operands = tuple(self.scalars.get(v, v) for v in inst.operands)
        inst = inst if operands == inst.operands else replace(inst, operands=operands)
        self.e.blocks[-1].append(inst)
        if inst.op.name == "const":
            self.e.literals[inst.out] = inst["value"]
            self.formulas[inst.out] = inst
        elif inst.op.name == "addptr":
            self.inside_of[inst.out] = inst.operands[0]

    def scalar_of(self, value: Value) -> Value:
        return self.scalars.get(value, value)

    # --- slots ------------------------------------------------------------------------------

    @abstractmethod
    def slot_like(self, value: Value) -> Slot:
        """A place for a block like this."""

    @abstractmethod
    def fill(self, slot: Slot, value: Value) -> None:
        """Write every element of a block into a slot."""

    def slot_for(self, value: Value) -> Slot:
        """The slot that a value that is about to be made goes to."""
        slot = self.wanted.get(value) or self.slot_like(value)
        self.slots[value] = slot
        return slot

    def base_of(self, pointer: Value) -> Value:
        """The buffer argument behind a block of pointers, or whatever else it starts from."""
        while pointer.type.is_pointer and (pointer in self.formulas or pointer in self.inside_of):
            pointer = self.inside_of[pointer] if pointer in self.inside_of else self.formulas[pointer].operands[0]
        return pointer

    @abstractmethod
    def elements(self) -> Elements:
        """What computes elements of blocks here."""

    # --- control flow -----------------------------------------------------------------------

    def _control(self, inst: Inst) -> None:
        """Control flow around nests: scalars stay carried, blocks stay in one slot each."""
        n = len(inst.outs)
        inits = inst.operands[len(inst.operands) - n :] if inst.op.name != "if" else (None,) * n
        slots: dict[int, Slot] = {}
        beside: dict[int, list[Value]] = {}
        for i, (out, init) in enumerate(zip(inst.outs, inits, strict=True)):
            if out.shape and out.type.is_pointer:
                raise Unsupported(
                    f"a block of pointers that may point into several buffers after this {inst.op.name}",
                    hint="carry offsets instead, and load from each buffer inside",
                    loc=inst.loc,
                )
            if out.shape:
                slots[i] = self.wanted.get(out) or self.slot_like(out)
                notes = self.notes_instead_of(inst, i) if init is not None else None
                if notes is not None:
                    beside[i] = notes
                elif init is not None and self.slots.get(init) is not slots[i]:
                    self.fill(slots[i], init)
        kept = [i for i in range(n) if i not in slots]
        regions = [self._control_region(inst, r, slots, kept, beside) for r in inst.regions]
        head = inst.operands[: len(inst.operands) - n] if inst.op.name != "if" else inst.operands
        operands = [self.scalar_of(v) for v in head]
        operands += [self.scalar_of(init) for i in kept if (init := inits[i]) is not None]
        operands += [v for notes in beside.values() for v in notes]
        new = self.e.inst(
            inst.op.name, operands, dict(inst.attrs), regions, [inst.outs[i].hint for i in kept]
        )
        results = iter(new.outs)
        for i in kept:
            self.scalars[inst.outs[i]] = next(results)
        for i, slot in slots.items():
            self.slots[inst.outs[i]] = slot
        for i, notes in beside.items():
            self.learn(inst.outs[i], [next(results) for _ in notes])

    def notes_instead_of(self, loop: Inst, i: int) -> list[Value] | None:
        """Scalars that a loop carries beside a block, whose slot then is not filled first; None where it is."""
        return None

    def learn(self, block: Value, notes: Sequence[Value]) -> None:
        """Take what was carried beside a block."""
        assert not notes, "nothing is carried beside it"

    def notes_on(self, block: Value, slot: Slot) -> Sequence[Value]:
        """What a loop carries on beside a block that goes to a slot."""
        return ()

    def make_whole(self, block: Value) -> None:
        """Fill the slot of a block to its end, of which nothing will be known but the slot: all are filled."""
        return

    def _control_region(
        self, inst: Inst, region: Region, slots: Mapping[int, Slot], kept: Sequence[int], beside: Mapping[int, Sequence[Value]]
    ) -> Region:
        with self.scopes.region():
            return self._lowered_region(inst, region, slots, kept, beside)

    def _lowered_region(
        self, inst: Inst, region: Region, slots: Mapping[int, Slot], kept: Sequence[int], beside: Mapping[int, Sequence[Value]]
    ) -> Region:
        is_test = inst.op.name == "while" and region is inst.regions[0]
        own = len(region.params) - len(inst.outs) if region.params else 0
        for i, slot in slots.items():
            if region.params:
                self.slots[region.params[own + i]] = slot
        params = [p for j, p in enumerate(region.params) if j < own or (j - own) not in slots]
        if not is_test:
            self._wish(region, slots, own)
        self.e.blocks.append([])
        for i, notes in beside.items():
            carried = [Value(v.type) for v in notes]
            params += carried
            self.learn(region.params[own + i], carried)
        self.region(Region((Value(I32),), region.body))
        if is_test:
            self.e.inst("yield", [self.scalar_of(region.yields[0])])
        else:
            more = [v for i in beside for v in self.notes_on(region.yields[i], slots[i])]
            for i in slots.keys() - beside.keys():
                self.make_whole(region.yields[i])
            self._move_all([(region.yields[i], slot) for i, slot in slots.items()])
            self.e.inst("yield", [*(self.scalar_of(region.yields[i]) for i in kept), *more])
        return Region(tuple(params), tuple(self.e.blocks.pop()))

    def _move_all(self, moves: Sequence[tuple[Value, Slot]]) -> None:
        """Give carried blocks their new values, all at once: what another move overwrites is copied first."""
        moves = [(value, slot) for value, slot in moves if self.slots.get(value) is not slot]
        targets = {slot.pointer for _, slot in moves}
        ready = []
        for value, slot in moves:
            if self._read_through(value) & targets:
                copy = Value(value.type, value.hint)
                self.slots[copy] = self.slot_like(value)
                self.fill(self.slots[copy], value)
                value = copy
            ready.append((value, slot))
        for value, slot in ready:
            self.fill(slot, value)

    def _read_through(self, value: Value) -> set[Value]:
        """The memory that the elements of a block are read from."""
        if value in self.slots:
            return {self.slots[value].pointer}
        inst = self.formulas.get(value)
        return set().union(*map(self._read_through, inst.operands)) if inst is not None else set()

    def _wish(self, region: Region, slots: Mapping[int, Slot], own: int) -> None:
        """Let a loop's new value be written over the old one where nobody still needs the old one."""
        for i, slot in slots.items():
            result = region.yields[i]
            old = region.params[own + i] if region.params else None
            if list(region.yields).count(result) == 1 and may_overwrite(region, result, old):
                self.wanted[result] = slot


def may_overwrite(region: Region, result: Value, old: Value | None) -> bool:
    """Whether the instruction that makes `result` is the last that needs `old`, element by element."""
    body = region.body
    maker = next((i for i, inst in enumerate(body) if result in inst.outs), None)
    if maker is None:
        return False
    if old is None:
        return True
    # Other carried blocks may be read through formulas of `old`: look at everything after and inside.
    views = {old}
    for inst in body[:-1]:
        if (
            not inst.regions
            and any(v in views for v in inst.operands)
            and inst.op.is_pure
            and not inst.op.has(Trait.PRODUCT)
        ):
            views.update(inst.outs)
    users = [
        i
        for i, inst in enumerate(body[:-1])
        for part in (inst, *(w for r in inst.regions for w in walk(r)))
        if any(v in views for v in part.operands)
        and not (part is inst and part.op.is_pure and not part.op.has(Trait.PRODUCT) and not part.regions)
    ]
    if any(v in views for v in body[-1].operands) or any(i > maker for i in users):
        return False
    inst = body[maker]
    if inst.op.has(Trait.PRODUCT):
        return inst.operands[2] is old or maker not in users
    if inst.op.name != "nest":
        return maker not in users
    inner = list(walk(inst.regions[0]))
    reads_view = any(v in views and (v is not old or _looks_across(part, v)) for part in inner for v in part.operands)
    is_reduction = any(result in part.outs for part in inner if part.op.name == "reduce")
    return not reads_view and not is_reduction


def _looks_across(inst: Inst, block: Value) -> bool:
    """Whether an element of the result may be made of another one of a block."""
    return inst.op.has(Trait.SHAPE) or (inst.op.name == "gather" and inst.operands[0] is block)


def moved_last(p: Statements, value: Value, axis: int) -> Value:
    """The block with `axis` last, as a formula."""
    rank = len(value.shape)
    if axis == rank - 1:
        return value
    order = (*(k for k in range(rank) if k != axis), axis)
    return formula(p, make("permute", [value], {"order": order}))


def moved_back(p: Statements, old: Value, value: Value, axis: int) -> None:
    """Let `old` be `value` with its last axis moved to where it was."""
    rank = len(value.shape)
    if axis == rank - 1:
        p.slots[old] = p.slots[value]
        return
    order = tuple(k if k < axis else rank - 1 if k == axis else k - 1 for k in range(rank))
    inst = make("permute", [value], {"order": order})
    p.formulas[old] = inst


def formula(p: Statements, inst: Inst) -> Value:
    """The result of an instruction that is computed where its elements are needed."""
    p.formulas[inst.out] = inst
    return inst.out
