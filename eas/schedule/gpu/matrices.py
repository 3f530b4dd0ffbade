"""`dot` on Metal: accumulators in 8x8 simdgroup matrices, operands in threadgroup or device memory.

Everything else (integers, extents that are no powers of two or below 8) takes the general path: each
thread sums its own elements from operands in threadgroup memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Inst, Value
from eas.schedule.elements.elements import I32, Index
from eas.schedule.gpu.fragments import is_power, padded_row
from eas.schedule.gpu.lanes import LaneElements, Lanes, LaneSlot
from eas.schedule.gpu.layouts import FRAGMENT, Layout, fragment
from eas.schedule.gpu.rows import each_element


def dot(p: Lanes, inst: Inst) -> None:
    """Emit acc + a @ b."""
    layout = p.products.get(inst.out)
    if layout is None:
        _general(p, inst)
    else:
        _Product(p, inst, layout).emit()


@dataclass(frozen=True)
class _Operand:
    """An operand as `frag_mma` takes it: the distance of its rows, how it lies, and where each matrix of a stack starts."""

    row: Value
    is_transposed: bool
    start: Callable[[Value | None], Value]


@dataclass(eq=False)
class _Product:
    """One product on simdgroup matrices."""

    p: Lanes
    inst: Inst
    layout: Layout

    def emit(self) -> None:
        p, (a, b, acc) = self.p, self.inst.operands[:3]
        # Operands first: what they are made of may stand in the accumulator's place afterwards.
        left, right = self._side(a, is_left=True), self._side(b, is_left=False)
        is_carried = self.inst.out in p.wanted
        target = p.slot_for(self.inst.out, self.layout)
        slot = target if target.in_registers else p.matrices_in(self.layout, self.inst.out)
        if slot is target:
            p.hold_matrices(slot)
        if not p.is_same_place(p.slots.get(acc), slot):
            p.fill(slot, acc)
        self._multiply(slot, left, right)
        if slot is not target:
            p.slots[self.inst.out] = slot
            p.fill(target, self.inst.out)
        p.slots[self.inst.out] = target if is_carried else p.seen(target, self.inst.out)

    def _side(self, value: Value, *, is_left: bool) -> _Operand:
        if value.type.is_pointer:
            return self._direct(value, is_left=is_left)
        return (self._own(value) if is_left else None) or self._staged(value, is_left=is_left)

    def _own(self, a: Value) -> _Operand | None:
        """Registers that already are the matrices which this simdgroup needs stay where they are."""
        p, slot = self.p, self.p.lane_slot(a)
        splits = [1 << _split_bits(self.layout, axis) for axis in (-2, -1)]
        if p.metal.fragment_map is None or slot is None or not slot.in_registers or splits[1] != 1 or len(a.shape) != 2 or not is_power(a.shape[1]):
            return None
        if slot.layout != fragment(a.shape, splits[0], 1, p.threads):
            return None
        return _Operand(p.e.const(0), False, lambda batch: slot.pointer)

    def _staged(self, value: Value, *, is_left: bool) -> _Operand:
        """In threadgroup memory; a view x.T is x read the other way."""
        p, e = self.p, self.p.e
        source = _turned(p, value)
        held = value if source is None else source
        slot = p.shared_slot(held, row=padded_row(held.shape[-1], held.dtype))
        row = slot.strides()[-2]
        step = slot.strides()[0] if len(value.shape) == 3 else 0
        corner = self._corner(row if is_left == (source is None) else 1, held, is_left=is_left)
        pointer = slot.pointer if corner is None else e.emit("addptr", slot.pointer, corner)

        def start(batch: Value | None) -> Value:
            return pointer if batch is None else e.emit("addptr", pointer, e.mul(batch, step))

        return _Operand(e.const(row), source is not None, start)

    def _direct(self, pointers: Value, *, is_left: bool) -> _Operand:
        """In device memory, where the kernel's own load would have read it."""
        p, side = self.p, 0 if is_left else 1
        is_second = side == 1 and self.inst.operands[0].type.is_pointer
        corner = self._corner(1, pointers, is_left=is_left)
        place = [Index(corner), Index(None)] if is_left else [Index(None), Index(corner)]

        def start(batch: Value | None) -> Value:
            stack = [] if len(pointers.shape) == 2 else [Index(batch)]
            return p.elements().at(pointers, (*stack, *place))

        row = p.scalar_of(self.inst.operands[3 + is_second])
        return _Operand(row, bool(self.inst[f"{'ab'[side]}_turned"]), start)

    def _corner(self, stride: int, held: Value, *, is_left: bool) -> Value | None:
        """Where the simdgroup's matrices start along its axis of the operand, in elements of a memory."""
        axis = -2 if is_left else -1
        columns = [self.layout.coordinate(c)[axis] * stride for c in self.layout.simdgroup]
        return self.p.of_simdgroup(columns, f"{held.hint or ('left' if is_left else 'right')}_corner")

    def _multiply(self, slot: LaneSlot, left: _Operand, right: _Operand) -> None:
        p, e, a = self.p, self.p.e, self.inst.operands[0]
        down, across = _tiles(self.layout)
        attrs = {
            "tiles": (down, across, a.shape[-1] // FRAGMENT),
            "a_transposed": left.is_transposed,
            "b_transposed": right.is_transposed,
        }

        def one(batch: Value | None) -> Sequence[Value]:
            acc = slot.pointer if batch is None else e.emit("addptr", slot.pointer, e.mul(batch, 2 * down * across))
            e.inst("frag_mma", [acc, left.start(batch), right.start(batch), left.row, right.row], attrs)
            return ()

        p.over_registers(a.shape[0] if len(a.shape) == 3 else 1, (), one)


def _tiles(layout: Layout) -> tuple[int, int]:
    """Matrices of one simdgroup, down and across."""
    m, n = (layout.padded[axis] // FRAGMENT for axis in (-2, -1))
    return m // (1 << _split_bits(layout, -2)), n // (1 << _split_bits(layout, -1))


def _split_bits(layout: Layout, axis: int) -> int:
    return sum(1 for c in layout.simdgroup if layout.coordinate(c)[axis])


def move_matrices(p: Lanes, slot: LaneSlot, value: Value) -> bool:
    """Write a value into a slot where lanes do not know their elements of one of the two: through memory."""
    source = p.lane_slot(value)
    held = source if source is not None and source.is_opaque else None
    if held is None and not slot.is_opaque:
        return False
    if held is not None and not slot.is_opaque:
        if slot.in_registers:
            p.share(slot)  # this round's code is thrown away
        else:
            _move(p, held, slot, is_store=True)
        return True
    staged = p.shared_slot(value) if held is None else None
    if staged is None:
        assert held is not None
        memory = p.memory(held.shape, value.dtype, value.hint)
        staged = replace(held, pointer=memory, key=p.new_key(value), in_registers=False, is_matrices=False, is_opaque=False)
        _move(p, held, staged, is_store=True)
    if not staged.in_registers:
        _move(p, slot, staged, is_store=False)
    return True


def _move(p: Lanes, matrices: LaneSlot, memory: LaneSlot, *, is_store: bool) -> None:
    """The matrices of every simdgroup to or from their places in threadgroup memory."""
    e, layout = p.e, matrices.layout
    *_, row, _ = memory.strides()
    parts = [layout.coordinate(c) for c in layout.simdgroup]
    corner = p.of_simdgroup([c[-2] * row + c[-1] for c in parts], "corner")
    first = memory.pointer if corner is None else e.emit("addptr", memory.pointer, corner)
    down, across = _tiles(layout)
    batches, step = (layout.shape[0], memory.strides()[0]) if len(layout.shape) == 3 else (1, 0)

    def one(batch: Value | None) -> Sequence[Value]:
        acc, place = matrices.pointer, first
        if batch is not None:
            acc = e.emit("addptr", acc, e.mul(batch, 2 * down * across))
            place = e.emit("addptr", place, e.mul(batch, step))
        pointers = [place, acc] if is_store else [acc, place]
        e.inst("frag_store" if is_store else "frag_load", [*pointers, e.const(row)], {"tiles": (down, across)})
        return ()

    owner = p.owner(layout) if is_store else None
    if owner is None:
        p.over_registers(batches, (), one)
    else:
        p.when(owner, lambda: p.over_registers(batches, (), one))


def _turned(p: Lanes, value: Value) -> Value | None:
    """x where the value is a view of x with its last two axes swapped, and nowhere yet in memory."""
    inst = p.formulas.get(value)
    if value in p.slots or inst is None or inst.op.name != "permute":
        return None
    rank = len(value.shape)
    return inst.operands[0] if inst["order"] == (*range(rank - 2), rank - 1, rank - 2) else None


def _general(p: Lanes, inst: Inst) -> None:
    """Each thread sums its own elements of the result; neighbours read neighbouring columns of b."""
    a, b, acc = inst.operands
    left, right = p.shared_slot(a), p.shared_slot(b)
    slot = p.slot_for(inst.out, p.default_layout(inst.out.shape, vector=1))
    depth, wide = a.shape[-1], inst.out.type.with_shape(())

    def one(elements: LaneElements, index: tuple[Index, ...]) -> None:
        *batch, row, column = index

        def step(k: Value, total: Value) -> Sequence[Value]:
            inner = p.elements()
            factors = (inner.read(left, (*batch, row, Index(k))), inner.read(right, (*batch, Index(k), column)))
            return [_added(p, total, *(_widened(p, x, wide) for x in factors))]

        region = p.e.region([I32, wide], step, ["k", inst.out.hint or "total"])
        bounds = [p.e.const(0), p.e.const(depth), elements.at(acc, index)]
        total = p.e.inst("loop", bounds, {"lanes": 1, "unroll": False}, [region]).out
        elements.write(slot, index, total, slot.layout)

    each_element(p, slot.layout, one, once=False)


def _widened(p: Lanes, x: Value, wide: Type) -> Value:
    return x if x.type == wide else p.e.emit("cast", x, type=wide)


def _added(p: Lanes, total: Value, x: Value, y: Value) -> Value:
    """Floats with one rounding, as simdgroup matrices do it."""
    if total.dtype in (dtypes.f32, dtypes.f64):
        return p.e.emit("fma", x, y, total)
    return p.e.emit("add", total, p.e.emit("mul", x, y))
