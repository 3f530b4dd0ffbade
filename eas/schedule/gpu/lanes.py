"""The state of the Metal schedule's lowering: where the elements of blocks are, in registers of threads or in threadgroup memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from eas.analysis import definitions, made_by, with_inner
from eas.analysis.ranges import value_ranges
from eas.base.dtypes import DType
from eas.base.types import Shape, Type
from eas.ir import Inst, IRModule, Region, Value, walk
from eas.schedule.elements.elements import I32, Context, Elements, Index, Made, Place, Slot
from eas.schedule.elements.members import load_at
from eas.schedule.elements.statements import Statements, may_overwrite
from eas.schedule.gpu.barriers import MemoryPlaces
from eas.schedule.gpu.code import LaneEmitter, Table, linear_columns
from eas.schedule.gpu.fragments import dot_layouts
from eas.schedule.gpu.layouts import Layout, blocked, scan_layouts
from eas.schedule.gpu.rereads import rereads
from eas.schedule.gpu.target import MetalTarget

_CONTEXT = Context(loads_strides=False)

SlotKey = tuple[Value | Inst | None, int]
"""For which value of the module, or in which statement, a slot is made; and which of its slots it is."""


@dataclass(eq=False)
class Plan:
    """What one lowering learns for the next."""

    threads: int
    shared: set[SlotKey] = field(default_factory=set)  # slots that some thread reads of another
    layouts: dict[SlotKey, Layout] = field(default_factory=dict)  # of carried blocks
    matrices: set[SlotKey] = field(default_factory=set)  # slots that are simdgroup matrices
    rows: dict[SlotKey, int] = field(default_factory=dict)  # elements from row to row of shared slots
    moved: set[SlotKey] = field(default_factory=set)  # carried blocks whose layout has changed once
    is_serial: bool = False

    def is_same(self, other: Plan) -> bool:
        """Whether both lead to the same code."""
        ours, theirs = ((p.shared, p.layouts, p.matrices, p.rows) for p in (self, other))
        return ours == theirs


@dataclass(frozen=True, eq=False)
class LaneSlot(Slot):
    """A block in registers of the threads, or in threadgroup memory."""

    key: SlotKey
    layout: Layout
    in_registers: bool
    row: int = 0  # elements from row to row where that is more than the last extent
    is_matrices: bool = False
    is_opaque: bool = False  # matrices of which no lane knows what it holds

    def strides(self) -> list[int]:
        strides = super().strides()
        if not self.row or len(strides) < 2:
            return strides
        return [*(s // self.shape[-1] * self.row for s in strides[:-1]), 1]


class NotVectors(Exception):
    """A nest reads registers that are no neighbours; it then runs element by element."""


class Lanes(Statements):
    """The lowering of one program to the code of its threads: all but which rule an instruction has, which `lower.py` knows."""

    e: LaneEmitter

    def __init__(self, target: MetalTarget, plan: Plan, module: IRModule) -> None:
        super().__init__(LaneEmitter())
        self.metal = target
        self.plan = plan
        self.threads = plan.threads
        self.shared = set(plan.shared)
        self.carried: dict[SlotKey, Layout] = {}  # what was written to carried slots
        self.slot_layouts: dict[SlotKey, Layout] = {}
        self.prefers: dict[Value, Layout] = {}
        self.products = dot_layouts(module, target, self.threads)
        self.matrices: set[SlotKey] = set()
        self.rows: dict[SlotKey, int] = {}
        self._corners: dict[tuple[int, ...], Value] = {}
        self.register: Value | None = None  # the register number of the innermost loop over registers
        self.num_registers = 1
        self.vector = 1
        self.ranges = value_ranges(module)
        self.rereads = {} if plan.is_serial else rereads(module)
        self.places = MemoryPlaces(module)
        self.lowered: Inst | None = None  # the statement that is being lowered
        self._known = frozenset(definitions(module))
        self._keys: Counter[Value | Inst | None] = Counter()
        self.used = {v for inst in walk(module.body) for v in inst.operands}
        self.tid = self._thread_number()

    def _thread_number(self) -> Value:
        if self.threads == 1:
            return self.e.const(0)
        tid = self.e.inst("tid", (), {"start": 0, "end": self.threads}, hints=["t"]).out
        self.e.tables[tid] = np.arange(self.threads)[None, :]
        return tid

    def program(self, body: Region) -> Region:
        self.prefers = scan_layouts(body, self.threads)
        return super().program(body)

    def wanted_plan(self) -> Plan:
        """The plan under which this lowering would have been right.

        A carried block that is written in another layout takes that one, and may then turn out
        to need no threadgroup memory; each has one such chance.
        """
        moved = {key for key, layout in self.carried.items() if self.slot_layouts[key] != layout} - self.plan.moved
        layouts = {**self.plan.layouts, **{key: self.carried[key] for key in moved}}
        shared = set() if moved else self.shared  # who reads what is found again under other layouts
        return Plan(self.threads, shared, layouts, self.matrices, self.rows, self.plan.moved | moved, self.plan.is_serial)

    # --- control flow -----------------------------------------------------------------------

    def when(self, condition: Value, body: Callable[[], object]) -> None:
        """if condition: body(), whose result does not matter."""

        def then() -> Sequence[Value]:
            body()
            return ()

        self.e.inst("if", [condition], {}, [self.e.region([], then), self.e.region([], lambda: ())])

    def _control(self, inst: Inst) -> None:
        """Program-level control flow is the same for all threads: barriers may stand in it."""
        super()._control(inst)
        made = self.e.blocks[-1].pop()
        self.e.blocks[-1].append(made.with_attrs(uniform=True))
        for out in inst.outs:
            slot = self.lane_slot(out)
            if slot is not None and slot.key in self.matrices:
                self.slots[out] = self.seen(slot, out)

    def _wish(self, region: Region, slots: Mapping[int, Slot], own: int) -> None:
        """What a product starts from is made in the product's place."""
        super()._wish(region, slots, own)
        makers = made_by(region.body)
        for i, slot in slots.items():
            result = region.yields[i]
            if result not in self.products or result not in self.wanted:
                continue
            product = makers[result]
            start, old = product.operands[2], region.params[own + i] if region.params else None
            is_used_once = sum(v is start for inst in region.body for w in with_inner(inst) for v in w.operands) == 1
            if start in makers and is_used_once and may_overwrite(region, start, old):
                self.wanted[start] = slot

    # --- simdgroup matrices -------------------------------------------------------------------

    def lane_slot(self, value: Value) -> LaneSlot | None:
        slot = self.slots.get(value)
        return slot if isinstance(slot, LaneSlot) else None

    def is_same_place(self, a: Slot | None, b: Slot) -> bool:
        return a is not None and a.pointer is b.pointer

    def hold_matrices(self, slot: LaneSlot) -> None:
        """Ask that a slot in registers be simdgroup matrices (from the next round on)."""
        self.matrices.add(slot.key)

    def seen(self, slot: LaneSlot, value: Value) -> LaneSlot:
        """How others see a finished product: as it is, or a copy in memory if they read across threads."""
        key = self.new_key(value)
        if key not in self.plan.shared:
            return replace(slot, key=key)
        holder = Value(Type(slot.pointer.dtype, slot.shape), slot.pointer.hint)
        self.slots[holder] = slot
        copy = LaneSlot(self.memory(slot.shape, holder.dtype, holder.hint), slot.shape, key, slot.layout, False)
        self.fill(copy, holder)
        return copy

    def of_simdgroup(self, columns: Sequence[int], hint: str) -> Value | None:
        """The sum of columns[k] over the set bits k of the simdgroup's number, computed once."""
        if not any(columns):
            return None
        key = tuple(columns)
        if key not in self._corners:
            self.e.blocks.append([])
            number = self.e.emit("sg_id")  # unlike the thread's number, uniform for the compiler
            made = self.e.bits(number, columns)
            assert made is not None
            made.hint = made.hint or hint
            self._corners[key] = made
            self.allocations += self.e.blocks.pop()
        return self._corners[key]

    # --- where blocks live --------------------------------------------------------------------

    def memory(self, shape: Shape, dtype: DType, hint: str = "", layout: Layout | None = None) -> Value:
        """Threadgroup memory for the whole program; what needs another thread's value reads it here."""
        self.e.blocks.append([])
        attrs: dict[str, Any] = {"size": math.prod(shape), "dtype": dtype, "name": hint or "shared", **_told(layout)}
        if layout is not None:
            attrs["block"] = layout.shape
        pointer = self.e.inst("alloc_tg", (), attrs, hints=[hint or "shared"]).out
        self.allocations += self.e.blocks.pop()
        return pointer

    def array(
        self, count: int, dtype: DType, hint: str = "", layout: Layout | None = None, *, is_matrices: bool = False
    ) -> Value:
        """An array of the thread's own, or of the thread's elements of simdgroup matrices."""
        self.e.blocks.append([])
        attrs = {"size": count, "dtype": dtype, **_told(layout)}
        pointer = self.e.inst("fragments" if is_matrices else "scratch", (), attrs, hints=[hint]).out
        self.allocations += self.e.blocks.pop()
        return pointer

    def new_key(self, value: Value) -> SlotKey:
        """What the next slot for a value is known by in every round; one for a value that the module does not have is its statement's."""
        owner = value if value in self._known else self.lowered
        self._keys[owner] += 1
        return owner, self._keys[owner]

    def slot_like(self, value: Value) -> Slot:
        return self.slot_in(self.default_layout(value.shape), value)

    def slot_in(self, layout: Layout, value: Value, *, row: int = 0) -> LaneSlot:
        """A slot of a layout for a value: in registers unless the plan says that threads read each other's."""
        key, dtype, hint = self.new_key(value), value.dtype, value.hint
        layout = self.slot_layouts[key] = self.plan.layouts.get(key, layout)
        if self.plan.is_serial:  # one thread: an array of all elements, in order
            return LaneSlot(self.array(math.prod(layout.shape), dtype, hint), layout.shape, key, layout, False)
        if key in self.plan.shared:
            row = self.plan.rows.get(key, row)
            shape = (*layout.shape[:-1], row or layout.shape[-1])
            return LaneSlot(self.memory(shape, dtype, hint, layout), layout.shape, key, layout, False, row)
        return self._register_slot(key, layout, dtype, hint, is_matrices=key in self.plan.matrices)

    def matrices_in(self, layout: Layout, value: Value) -> LaneSlot:
        """A slot of simdgroup matrices that nobody but its maker reads."""
        return self._register_slot(self.new_key(value), layout, value.dtype, value.hint, is_matrices=True)

    def _register_slot(self, key: SlotKey, layout: Layout, dtype: DType, hint: str, *, is_matrices: bool) -> LaneSlot:
        pointer = self.array(layout.num_registers, dtype, hint, layout, is_matrices=is_matrices)
        is_opaque = is_matrices and self.metal.fragment_map is None
        return LaneSlot(pointer, layout.shape, key, layout, True, 0, is_matrices, is_opaque)

    def share(self, slot: LaneSlot) -> LaneSlot:
        """Ask that a slot be in threadgroup memory (from the next round on)."""
        self.shared.add(slot.key)
        return slot

    def slot_for(self, value: Value, layout: Layout | None = None) -> LaneSlot:
        """The slot that a value that is about to be made goes to."""
        wanted = self.wanted.get(value)
        if wanted is None:
            wanted = self.slot_in(layout or self.default_layout(value.shape), value)
        assert isinstance(wanted, LaneSlot)
        if layout is not None and self.wanted.get(value) is not None:
            self.carried[wanted.key] = layout
        self.slots[value] = wanted
        return wanted

    def shared_slot(self, value: Value, *, row: int = 0) -> LaneSlot:
        """The value in threadgroup memory, for instructions that look across threads."""
        found = self.lane_slot(value)
        if found is not None:
            if row and len(value.shape) > 1:
                self.rows[found.key] = row
            return self.share(found)
        slot = self.slot_in(self.layout_of(value), value, row=row)
        self.share(slot)
        self.fill(slot, value)
        return slot

    def layout_of(self, value: Value) -> Layout:
        found = self.slots.get(value)
        return found.layout if isinstance(found, LaneSlot) else self.default_layout(value.shape)

    def default_layout(self, shape: Shape, order: tuple[int, ...] | None = None, vector: int = 4) -> Layout:
        if self.threads == 1:
            return blocked(shape, 1, 1, order)
        return blocked(shape, self.threads, vector, order)

    def elements(self) -> LaneElements:
        return LaneElements(self)

    # --- threads ----------------------------------------------------------------------------

    def thread_parts(self, layout: Layout) -> list[Value | None]:
        """What the thread number contributes to each coordinate."""
        rank, parts = len(layout.shape), []
        for axis in range(rank):
            part = self.e.bits(self.tid, [layout.coordinate(c)[axis] for c in layout.thread])
            if part is not None and part is not self.tid and layout.num_registers > 1:
                part.hint = part.hint or (f"first_{_axis_name(axis, rank)}" if rank > 1 else "at")
            parts.append(part)
        return parts

    def coordinates(
        self, layout: Layout, parts: Sequence[Value | None], register: Value | None, vector: int = 1
    ) -> list[Value]:
        """The coordinates of one register's element, or of the first one of a vector of them."""
        found = []
        single_bits = [0 if 1 << k < vector else c for k, c in enumerate(layout.register)]
        for axis, part in enumerate(parts):
            own = None
            if register is not None:
                own = self.e.bits(register, [layout.coordinate(c)[axis] for c in single_bits])
            found.append(self.e.sum(part, own))
            if found[-1] is not self.tid and not found[-1].hint:
                found[-1].hint = _axis_name(axis, len(parts))
        return found

    def inside(self, layout: Layout, coordinates: Sequence[Value]) -> Value | None:
        """Whether the element exists; None where all do, because extents are powers of two."""
        found = None
        for coordinate, extent, padded in zip(coordinates, layout.shape, layout.padded, strict=True):
            if extent == padded:
                continue
            here = self.e.emit("lt", coordinate, self.e.const(extent))
            found = here if found is None else self.e.emit("and", found, here)
        return found

    def owner(self, layout: Layout) -> Value | None:
        """Whether this thread is the one that acts for its elements; None if each has one thread only."""
        spare = layout.replicated_threads
        if not spare:
            return None
        return self.threads_with(spare)

    def threads_with(self, zeros: int) -> Value:
        """Whether the given bits of the thread number are all 0."""
        low = zeros & -zeros
        if zeros == self.threads - low:  # the upper bits
            return self.e.emit("lt", self.tid, self.e.const(low))
        return self.e.emit("eq", self.e.emit("and", self.tid, self.e.const(zeros)), self.e.const(0))

    def over_registers(self, count: int, carried: Sequence[Value], body: Callable[..., Sequence[Value]], vector: int = 1, hints: Sequence[str] = ()) -> list[Value]:
        """body(register, *carried) for each register number; a loop that the compiler unrolls."""
        before = self.register, self.num_registers, self.vector
        self.register, self.num_registers, self.vector = None, count, vector

        def inside(r: Value, *rest: Value) -> Sequence[Value]:
            self.register = r
            self.e.tables[r] = (np.arange(count) // vector * vector)[:, None]
            return body(r, *rest)

        try:
            if count == vector == 1:
                return list(body(None, *carried))
            region = self.e.region([I32, *(v.type for v in carried)], inside, ["r", *hints])
            attrs = {"lanes": vector, "unroll": not self.plan.is_serial}
            return list(self.e.inst("loop", [self.e.const(0), self.e.const(count), *carried], attrs, [region]).outs)
        finally:  # also where a body turns out not to work on vectors
            self.register, self.num_registers, self.vector = before


def _told(layout: Layout | None) -> dict[str, str]:
    """Whoever reads the IR sees where the elements of a block are."""
    return {} if layout is None else {"layout": layout.describe()}


def _axis_name(axis: int, rank: int) -> str:
    return "at" if rank == 1 else ("row", "column")[axis] if rank == 2 else f"at{axis}"


def _named(value: Value, found: Value) -> Value:
    """The text speaks of the user's variables."""
    if value.hint and value.shape and not found.hint:
        found.hint = value.hint
    return found


class LaneElements(Elements):
    """Elements of blocks in one register of one thread."""

    def __init__(self, program: Lanes) -> None:
        super().__init__(program.e, program.formulas, program.slots, program.scalars, _CONTEXT)
        self.p = program
        self.lanes = program.e

    def nested(self) -> Self:
        inner = super().nested()
        inner._lane = self._lane  # one for all regions, as the tables of registers know it
        return inner

    def lane(self) -> Value:
        self.lanes.tables.setdefault(made := super().lane(), (np.arange(self.p.num_registers) % self.p.vector)[:, None])
        return made

    def at(self, value: Value, index: tuple[Index, ...]) -> Value:
        return _named(value, super().at(value, self._lanes_of(value, index)))

    def part(self, value: Value, index: tuple[Index, ...]) -> Made:
        return _named(value, (yield from super().part(value, self._lanes_of(value, index))))

    def _lanes_of(self, value: Value, index: tuple[Index, ...]) -> tuple[Index, ...]:
        """A comparison that all lanes of a vector decide alike is made once."""
        is_once = self.p.vector > 1 and any(ix.lanes for ix in index) and self._is_one_decision(value, index)
        return tuple(ix.first() for ix in index) if is_once else index

    def _is_one_decision(self, value: Value, index: tuple[Index, ...]) -> bool:
        """a < b where a counts up from a multiple of the width, and b is one."""
        inst = self.formulas.get(value)
        if inst is None or value in self.slots or inst.op.name not in ("lt", "ge"):
            return False
        axis = next(k for k, ix in enumerate(index) if ix.lanes)
        a, b = inst.operands
        if not (a.dtype.is_int and self.step(a, index) == 1 and self.step(b, index) == 0):
            return False
        run, width = self.p.ranges[a].axes[axis], self.p.vector
        return run.run % width == 0 and run.multiple % width == 0 and self.p.ranges[b].multiple % width == 0

    def _compute(self, place: Place) -> Made:
        """A vector that its readers load themselves is read here; see `rereads`."""
        value, index = place
        inst = self.p.rereads.get(value)
        if inst is None:
            return (yield from super()._compute(place))
        if inst.op.name != "load":
            return (yield from self._applied(inst, index))[0]
        if any(ix.lanes for ix in index) and self.step(inst.operands[0], index) not in (0, 1):
            raise NotVectors
        return load_at(self, inst, index)

    def read(self, slot: Slot, index: tuple[Index, ...]) -> Value:
        assert isinstance(slot, LaneSlot)
        if not slot.in_registers:
            return self._read_shared(slot, index)
        registers = self.registers_of(slot, index)
        if registers is None:
            self.p.share(slot)  # this round's code is thrown away
            registers = np.zeros(self.p.num_registers, np.int64) + np.arange(self.p.num_registers) % self.p.vector
        return self._read_register(slot, registers)

    def _read_shared(self, slot: LaneSlot, index: tuple[Index, ...]) -> Value:
        """From threadgroup memory; a vector along another axis than the last is gathered."""
        steps = [step for step, ix in zip(slot.strides(), index, strict=True) if ix.lanes]
        is_general = any(ix.is_general for ix in index)
        if self.p.vector == 1 or (not is_general and steps in ([], [1])):
            return super().read(slot, index)
        if is_general or len(steps) != 1:
            raise NotVectors
        if len(slot.shape) > 1 and index[-2].lanes:  # neighbours in different banks
            self.p.rows.setdefault(slot.key, slot.shape[-1] + 1)
        pointer = self.address(slot, tuple(ix.first() for ix in index))[0]
        return self.e.emit("vgather", pointer, stride=steps[0])

    def _read_register(self, slot: LaneSlot, registers: Table) -> Value:
        if self.p.vector == 1:
            return self.e.emit("load", self.p_address(slot, registers))
        if self.is_run(registers):
            return self.e.emit("vload", self.p_address(slot, registers))
        steps = registers.reshape(-1, self.p.vector)
        if np.any(steps != steps[:, :1]):
            raise NotVectors
        return self.e.emit("load", self.p_address(slot, registers))

    def is_run(self, registers: Table) -> bool:
        """Whether the registers of each vector follow each other."""
        steps = registers.reshape(-1, self.p.vector)
        return np.array_equal(steps, steps[:, :1] + np.arange(self.p.vector))

    def p_address(self, slot: LaneSlot, registers: Table) -> Value:
        """Where the registers of this iteration are in the thread's array."""
        numbers = registers.reshape(-1, self.p.vector)[:, 0]
        if np.all(numbers == numbers[0]):
            where = self.e.const(int(numbers[0]))
        else:
            base = np.repeat(numbers, self.p.vector) if self.p.vector > 1 else numbers
            columns = linear_columns(base - base[0])
            if columns is None:
                self.p.share(slot)
                return self.e.emit("addptr", slot.pointer, self.e.const(0))
            assert self.p.register is not None
            where = self.lanes.sum(self.lanes.bits(self.p.register, columns), None)
            where = self.e.add(where, self.e.const(int(base[0])))
        return self.e.emit("addptr", slot.pointer, where)

    def write(self, slot: LaneSlot, index: tuple[Index, ...], element: Value, layout: Layout) -> None:
        """Put one element into a slot: its register, or its place in threadgroup memory, once."""
        if slot.in_registers:
            self._write_register(slot, index, element, layout)
            return
        address, is_unit, varies = self.address(slot, index)
        if varies and not is_unit:
            raise NotVectors
        name = "vstore" if varies else "store"
        owner = self.p.owner(layout)
        if owner is None:
            self.e.inst(name, [address, element])
        else:
            self.p.when(owner, lambda: self.e.inst(name, [address, element]))

    def _write_register(self, slot: LaneSlot, index: tuple[Index, ...], element: Value, layout: Layout) -> None:
        registers = self.registers_of(slot, index)
        if registers is None or not _covers(slot, layout):
            self.p.share(slot)
        elif not self.is_run(registers):
            raise NotVectors
        else:
            self.e.inst("vstore" if self.p.vector > 1 else "store", [self.p_address(slot, registers), element])

    def registers_of(self, slot: LaneSlot, index: tuple[Index, ...]) -> Table | None:
        """In which register of the reading thread each element is, None if some are in other threads."""
        table = self.element_table(slot.layout, index)
        if table is None or slot.is_opaque:
            return None
        own = slot.layout.elements()
        wanted = np.broadcast_to(table, (self.p.num_registers, self.p.threads))
        same = (own[None, :, :] == wanted[:, None, :]).all(axis=2)  # [reader's register, slot's register]
        if not same.any(axis=1).all():
            return None
        return np.asarray(same.argmax(axis=1))

    def element_table(self, layout: Layout, index: tuple[Index, ...]) -> Table | None:
        """The padded element number that each register of each thread asks for."""
        total: Table = np.zeros((1, 1), np.int64)
        for ix, shift in zip(index, layout.axis_shifts, strict=True):
            if ix.base is None and not ix.lanes:
                continue
            table = self.lanes.tables.get(self.position(ix))
            if table is None:
                return None
            total = total + (table << shift)
        return total


def _covers(slot: LaneSlot, layout: Layout) -> bool:
    """Whether writing in `layout` reaches every register of the slot, in all replicas."""
    return slot.layout == layout or np.array_equal(
        np.sort(slot.layout.elements(), axis=0), np.sort(layout.elements(), axis=0)
    )
