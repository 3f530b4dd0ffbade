"""The CPU schedule: nests become loops over lanes, blocks that cross nests live in scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from eas.analysis import reads
from eas.dtypes import DType
from eas.errors import Unsupported
from eas.ir import Inst, IRModule, Region, Trait, Value, walk
from eas.schedule.elements import I32, ZERO, Elements, Emitter, Index, Known, Slot
from eas.schedule.masks import Bounds
from eas.schedule.nests import CONTROL
from eas.schedule.tails import Tail, fill_tail, readers_know_tails
from eas.schedule.target import CpuTarget
from eas.types import Shape


def lower_nests(module: IRModule, target: CpuTarget) -> IRModule:
    """Replace every block of a partitioned module by scalars in loops; the result is scheduled IR."""
    lowering = Program(target)
    read = set(reads(module))
    lowering.unread = {a.value for a in module.args if a.is_buffer and a.name not in read}
    lowering.may_end_early = readers_know_tails(module)
    body = lowering.program(module.body)
    return module.with_body(body).with_attrs(scheduled="loops")


class Program:
    """The lowering of one program: formulas, slots and scalars known so far."""

    def __init__(self, target: CpuTarget) -> None:
        self.target = target
        self.e = Emitter()
        self.formulas: dict[Value, Inst] = {}
        self.slots: dict[Value, Slot] = {}
        self.scalars: dict[Value, Value] = {}
        self.wanted: dict[Value, Slot] = {}  # where a value should be written when it is made
        self.allocations: list[Inst] = []
        self.loads: dict[Value, Inst] = {}  # results of nests that are what a load read
        self.unread: set[Value] = set()  # buffers that the kernel never loads from
        self.may_end_early: set[Value] = set()  # blocks whose slots need not be filled to the end
        self.tails: dict[Value, Tail] = {}  # those that are not

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

    def statement(self, inst: Inst) -> None:
        self.e.loc = inst.loc or self.e.loc
        name = inst.op.name
        if name == "nest":
            from eas.schedule.nest_loops import lower_nest

            lower_nest(self, inst)
            self._note_loads(inst)
        elif name in CONTROL:
            self._control(inst)
        elif name == "device_print" or any(v.shape for v in (*inst.operands, *inst.outs)):
            if (
                inst.op.is_pure
                and not inst.regions
                and (
                    inst.op.has(Trait.ELEMENTWISE)
                    or inst.op.has(Trait.SHAPE)
                    or name in ("const", "arange")
                )
            ):
                self.formulas.update(dict.fromkeys(inst.outs, inst))
                for out in inst.outs:
                    if out.type.is_scalar:  # the one element of a block
                        self.scalars[out] = self.elements()._compute(out, ())
            else:
                from eas.schedule.cuts import lower_cut

                lower_cut(self, inst)
        else:
            self.scalar(inst)

    def _note_loads(self, nest: Inst) -> None:
        region = nest.regions[0]
        loads = {i.out: i for i in region.body if i.op.name == "load"}
        self.loads.update(
            (out, loads[v]) for v, out in zip(region.yields, nest.outs, strict=True) if v in loads
        )

    def scalar(self, inst: Inst) -> None:
        operands = tuple(self.scalars.get(v, v) for v in inst.operands)
        inst = inst if operands == inst.operands else replace(inst, operands=operands)
        self.e.blocks[-1].append(inst)
        if inst.op.name == "const":
            self.e.literals[inst.out] = inst["value"]
            self.formulas[inst.out] = inst

    def scalar_of(self, value: Value) -> Value:
        return self.scalars.get(value, value)

    # --- slots ------------------------------------------------------------------------------

    def new_slot(self, shape: Shape, dtype: DType, hint: str = "") -> Slot:
        size = 1
        for extent in shape:
            size *= extent
        self.e.blocks.append([])
        pointer = self.e.inst("scratch", (), {"size": size, "dtype": dtype}, hints=[hint]).out
        self.allocations += self.e.blocks.pop()
        return Slot(pointer, shape)

    def slot_for(self, value: Value) -> Slot:
        """The slot that a value that is about to be made goes to."""
        slot = self.wanted.get(value) or self.new_slot(value.shape, value.dtype, value.hint)
        self.slots[value] = slot
        return slot

    def materialise(self, value: Value) -> Slot:
        """A slot that holds the value; formulas are computed into one."""
        if value in self.slots:
            return self.slots[value]
        slot = self.new_slot(value.shape, value.dtype, value.hint)
        self.fill(slot, value)
        return slot

    def materialise_into(self, value: Value) -> Slot:
        """As `materialise`, and later reads of the value use the slot."""
        slot = self.slots[value] = self.materialise(value)
        return slot

    def fill(self, slot: Slot, value: Value) -> None:
        """Write every element of a block into a slot."""
        from eas.schedule.nest_loops import copy_loops

        copy_loops(self, slot, value)

    def complete(self, value: Value) -> None:
        """Fill the rest of a slot that ended early."""
        tail = self.tails.pop(value)
        lanes = self.target.vector_nbytes // max(4, value.dtype.nbytes)
        fill_tail(self.e, self.elements, self.slots[value], (), lanes, tail.stop, tail.value)

    def base_of(self, pointer: Value) -> Value:
        """The buffer argument behind a block of pointers, or whatever else it starts from."""
        while pointer in self.formulas and pointer.type.is_pointer:
            pointer = self.formulas[pointer].operands[0]
        return pointer

    def elements(self, known_true: frozenset[Known] = frozenset()) -> Elements:
        return Elements(self.e, self.formulas, self.slots, self.scalars, known_true)

    def bounds(self) -> Bounds:
        return Bounds(self)

    # --- loops ------------------------------------------------------------------------------

    def counted(self, extent: int, body: Callable[[Value], None], hint: str = "") -> None:
        """for i in range(extent), without carried values."""
        if extent == 1:
            body(self.e.const(0))
            return

        def inside(i: Value) -> Sequence[Value]:
            body(i)
            return ()

        region = self.e.region([I32], inside, [hint])
        self.e.inst("loop", [self.e.const(0), self.e.const(extent)], {"lanes": 1}, [region])

    def _control(self, inst: Inst) -> None:
        """Control flow around nests: scalars stay carried, blocks stay in one slot each."""
        n = len(inst.outs)
        inits = inst.operands[len(inst.operands) - n :] if inst.op.name != "if" else (None,) * n
        slots: dict[int, Slot] = {}
        for i, (out, init) in enumerate(zip(inst.outs, inits, strict=True)):
            if out.shape and out.type.is_pointer:
                raise Unsupported(
                    f"a block of pointers that may point into several buffers after this {inst.op.name}",
                    hint="carry offsets instead, and load from each buffer inside",
                    loc=inst.loc,
                )
            if out.shape:
                slots[i] = self.wanted.get(out) or self.new_slot(out.shape, out.dtype, out.hint)
                if init is not None and self.slots.get(init) is not slots[i]:
                    self.fill(slots[i], init)
        kept = [i for i in range(n) if i not in slots]
        regions = [self._control_region(inst, r, slots, kept, n) for r in inst.regions]
        head = inst.operands[: len(inst.operands) - n] if inst.op.name != "if" else inst.operands
        operands = [self.scalar_of(v) for v in head]
        operands += [self.scalar_of(init) for i in kept if (init := inits[i]) is not None]
        new = self.e.inst(
            inst.op.name, operands, dict(inst.attrs), regions, [inst.outs[i].hint for i in kept]
        )
        for i, out in zip(kept, new.outs, strict=True):
            self.scalars[inst.outs[i]] = out
        for i, slot in slots.items():
            self.slots[inst.outs[i]] = slot

    def _control_region(
        self, inst: Inst, region: Region, slots: Mapping[int, Slot], kept: Sequence[int], n: int
    ) -> Region:
        is_test = inst.op.name == "while" and region is inst.regions[0]
        own = len(region.params) - n if region.params else 0
        for i, slot in slots.items():
            if region.params:
                self.slots[region.params[own + i]] = slot
        params = [p for j, p in enumerate(region.params) if j < own or (j - own) not in slots]
        before = dict(self.wanted)
        if not is_test:
            self._wish(region, slots, own)
        self.e.blocks.append([])
        saved = dict(self.formulas)
        self.region(Region((Value(I32),), region.body))
        if is_test:
            self.e.inst("yield", [self.scalar_of(region.yields[0])])
        else:
            self._move_all([(region.yields[i], slot) for i, slot in slots.items()])
            self.e.inst("yield", [self.scalar_of(region.yields[i]) for i in kept])
        self.formulas, self.wanted = saved, before
        return Region(tuple(params), tuple(self.e.blocks.pop()))

    def _move_all(self, moves: Sequence[tuple[Value, Slot]]) -> None:
        """Give carried blocks their new values, all at once: what another move overwrites is copied first."""
        moves = [(value, slot) for value, slot in moves if self.slots.get(value) is not slot]
        targets = {slot.pointer for _, slot in moves}
        ready = []
        for value, slot in moves:
            if self._read_through(value) & targets:
                copy = Value(value.type, value.hint)
                self.slots[copy] = self.new_slot(value.shape, value.dtype, value.hint)
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
            and inst.op.name != "dot"
        ):
            views.update(inst.outs)
    users = [
        i
        for i, inst in enumerate(body[:-1])
        for part in (inst, *(w for r in inst.regions for w in walk(r)))
        if any(v in views for v in part.operands)
        and not (part is inst and part.op.is_pure and part.op.name != "dot" and not part.regions)
    ]
    if any(v in views for v in body[-1].operands) or any(i > maker for i in users):
        return False
    inst = body[maker]
    if inst.op.name == "dot":
        return inst.operands[2] is old or maker not in users
    if inst.op.name != "nest":
        return maker not in users
    inner = list(walk(inst.regions[0]))
    reads_view = any(v in views and v is not old for part in inner for v in part.operands)
    is_reduction = any(result in part.outs for part in inner if part.op.name == "reduce")
    return not reads_view and not is_reduction


def all_axes(shape: Shape, index: Sequence[Value | None]) -> tuple[Index, ...]:
    return tuple(ZERO if n == 1 else Index(base) for n, base in zip(shape, index, strict=True))
