"""`dot` on Metal: accumulators in 8x8 simdgroup matrices, operands in threadgroup memory.

A simdgroup owns a rectangle of 8x8 matrices of the result. Each lane holds two elements of each, so
with the `fragment` layout they are registers like any other: nests before and after the product
(scaling, bias, a running softmax) work on them where they are, and only the product itself knows
that they are matrices.

Register budget, in 32-bit registers per lane: a simdgroup has at most 16 accumulator matrices (32
registers) wherever the threadgroup can have more simdgroups, and holds one column of left and one
row of right matrices at a time (at most 4 + 4 of f32, 16 registers, for a square of 4 x 4). That is
48, of the 96 or so at which Apple's GPUs still keep two threadgroups of 256 threads resident; an
epilogue of about 30 values more per lane fits. More than 1024 threads would be needed for results of
more than 256 x 128 elements: then a simdgroup has more matrices, and threadgroup memory is the limit
that such tiles meet first.

Everything else (integers, extents that are no powers of two or below 8) takes the general path: each
thread sums its own elements from operands in threadgroup memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eas import dtypes
from eas.dtypes import DType
from eas.ir import Inst, IRModule, Value, walk
from eas.ops.simd import LANES, MMA_DTYPES
from eas.schedule.elements import I32, Index
from eas.schedule.layouts import FRAGMENT, Layout, fragment
from eas.schedule.metal_target import MetalTarget
from eas.types import Type

if TYPE_CHECKING:
    from eas.schedule.lanes import LaneElements, Lanes, LaneSlot

_MATRICES = 16  # accumulators of a simdgroup
_FEW_SIMDGROUPS = 4  # a threadgroup has as many if each then still has `_FEW_MATRICES`
_FEW_MATRICES = 4
_PADDING_NBYTES = 16  # between rows in threadgroup memory, so that 8 rows are in different banks


# --- decisions ------------------------------------------------------------------------------------


def uses_fragments(inst: Inst, target: MetalTarget) -> bool:
    """Whether a dot runs on simdgroup matrices."""
    a, b = inst.operands[:2]
    (m, k), n = a.shape[-2:], b.shape[-1]
    whole = all(_is_power(extent) and extent >= FRAGMENT for extent in (m, n)) and k % FRAGMENT == 0
    return whole and a.dtype in MMA_DTYPES and target.fragment_map == "standard"


def _is_power(n: int) -> bool:
    return n & (n - 1) == 0


def dot_threads(module: IRModule, target: MetalTarget) -> int:
    """How many threads the matrix products of a kernel want, 0 if there are none on fragments."""
    dots = [i for i in walk(module.body) if i.op.name == "dot" and uses_fragments(i, target)]
    return max((_simdgroups(i, target) * LANES for i in dots), default=0)


def _simdgroups(inst: Inst, target: MetalTarget) -> int:
    matrices = inst.out.shape[-2] * inst.out.shape[-1] // FRAGMENT**2
    count = 1
    while 2 * count * LANES <= target.max_threads and (
        matrices // count > _MATRICES
        or (count < _FEW_SIMDGROUPS and matrices // (2 * count) >= _FEW_MATRICES)
    ):
        count *= 2
    return count


def dot_layouts(module: IRModule, target: MetalTarget, threads: int) -> dict[Value, Layout]:
    """The layout of each product that runs on fragments."""
    dots = [i for i in walk(module.body) if i.op.name == "dot" and uses_fragments(i, target)]
    if threads < LANES:
        return {}
    rows = len(dots) > 1 or _reduces_rows(module, {i.out.shape for i in dots})
    return {i.out: _accumulator(i, threads // LANES, rows, threads) for i in dots}


def _reduces_rows(module: IRModule, shapes: set[tuple[int, ...]]) -> bool:
    """Whether blocks like a product are reduced along their rows: these should lie in one simdgroup."""
    return any(
        i.op.name == "reduce" and i.operands[0].shape in shapes and i["axis"] % len(i.operands[0].shape) == len(i.operands[0].shape) - 1
        for i in walk(module.body)
    )


def _accumulator(inst: Inst, simdgroups: int, rows: bool, threads: int) -> Layout:
    """Rows together: simdgroups one above the other. Else rectangles near squares, which load least."""
    *_, m, n = inst.out.shape
    tiles_m, tiles_n = m // FRAGMENT, n // FRAGMENT
    split_m = split_n = 1
    while split_m * split_n < min(simdgroups, tiles_m * tiles_n):
        tall = tiles_m // split_m >= tiles_n // split_n
        if tiles_m > split_m and (rows or tall or tiles_n == split_n):
            split_m *= 2
        else:
            split_n *= 2
    return fragment(inst.out.shape, split_m, split_n, threads)


def padded_row(columns: int, dtype: DType) -> int:
    """Elements from row to row of an operand in threadgroup memory."""
    return columns + _PADDING_NBYTES // dtype.nbytes


# --- lowering -------------------------------------------------------------------------------------


def dot(p: Lanes, inst: Inst) -> None:
    """Emit acc + a @ b."""
    layout = p.products.get(inst.out)
    if layout is None:
        _general(p, inst)
    else:
        _Product(p, inst, layout).emit()


@dataclass(frozen=True)
class _Operand:
    """An operand as `frag_mma` takes it: where, the distance of rows, of stacked matrices, and how it lies."""

    pointer: Value
    row: int
    step: int
    is_transposed: bool


@dataclass(eq=False)
class _Product:
    """One product on simdgroup matrices."""

    p: Lanes
    inst: Inst
    layout: Layout

    def emit(self) -> None:
        p, (a, b, acc) = self.p, self.inst.operands
        # Operands first: what they are made of may stand in the accumulator's place afterwards.
        left, right = self._left(a), self._operand(b, is_left=False)
        is_carried = self.inst.out in p.wanted
        target = p.slot_for(self.inst.out, self.layout)
        slot = target if target.in_registers else p.slot_in(self.layout, acc.dtype, self.inst.out.hint)
        p.slot_count += slot is target  # the same numbers in every plan
        p.hold_matrices(slot)
        if not p.is_same_place(p.slots.get(acc), slot):
            p.fill(slot, acc)
        self._multiply(slot, left, right)
        if slot is not target:
            p.slots[self.inst.out] = slot
            p.fill(target, self.inst.out)
        p.slots[self.inst.out] = target if is_carried else p.seen(target)

    def _left(self, a: Value) -> _Operand:
        """Registers that already are the matrices which this simdgroup needs stay where they are."""
        p, slot = self.p, self.p.lane_slot(a)
        splits = [1 << self._split_bits(axis) for axis in (-2, -1)]
        if slot is None or not slot.in_registers or splits[1] != 1 or len(a.shape) != 2 or not _is_power(a.shape[1]):
            return self._operand(a, is_left=True)
        if slot.layout != fragment(a.shape, splits[0], 1, p.threads):
            return self._operand(a, is_left=True)
        return _Operand(slot.pointer, 0, 0, False)

    def _operand(self, value: Value, *, is_left: bool) -> _Operand:
        """In threadgroup memory; a view x.T is x read the other way."""
        p, e = self.p, self.p.e
        source = _turned(p, value)
        held = value if source is None else source
        slot = p.shared_slot(held, row=padded_row(held.shape[-1], held.dtype))
        row = slot.strides()[-2]
        step = slot.strides()[0] if len(value.shape) == 3 else 0
        axis = -2 if is_left else -1
        stride = row if is_left == (source is None) else 1
        columns = [self.layout.coordinate(c)[axis] * stride for c in self.layout.simdgroup]
        corner = p.of_simdgroup(columns, f"{held.hint or ('left' if is_left else 'right')}_corner")
        pointer = slot.pointer if corner is None else e.emit("addptr", slot.pointer, corner)
        return _Operand(pointer, row, step, source is not None)

    def _tiles(self) -> tuple[int, int]:
        """Matrices of one simdgroup, down and across."""
        m, n = (self.layout.padded[axis] // FRAGMENT for axis in (-2, -1))
        return m // (1 << self._split_bits(-2)), n // (1 << self._split_bits(-1))

    def _split_bits(self, axis: int) -> int:
        return sum(1 for c in self.layout.simdgroup if self.layout.coordinate(c)[axis])

    def _multiply(self, slot: LaneSlot, left: _Operand, right: _Operand) -> None:
        p, e, a = self.p, self.p.e, self.inst.operands[0]
        down, across = self._tiles()
        attrs = {
            "tiles": (down, across, a.shape[-1] // FRAGMENT),
            "a_transposed": left.is_transposed,
            "b_transposed": right.is_transposed,
        }

        def one(batch: Value | None) -> Sequence[Value]:
            pointers = []
            for pointer, step in ((slot.pointer, 2 * down * across), (left.pointer, left.step), (right.pointer, right.step)):
                pointers.append(pointer if batch is None else e.emit("addptr", pointer, e.mul(batch, step)))
            e.inst("frag_mma", [*pointers, e.const(left.row), e.const(right.row)], attrs)
            return ()

        p.over_registers(a.shape[0] if len(a.shape) == 3 else 1, (), one)


def _turned(p: Lanes, value: Value) -> Value | None:
    """x where the value is a view of x with its last two axes swapped, and nowhere yet in memory."""
    inst = p.formulas.get(value)
    if value in p.slots or inst is None or inst.op.name != "permute":
        return None
    rank = len(value.shape)
    return inst.operands[0] if inst["order"] == (*range(rank - 2), rank - 1, rank - 2) else None


def _general(p: Lanes, inst: Inst) -> None:
    """Each thread sums its own elements of the result; neighbours read neighbouring columns of b."""
    from eas.schedule.lane_nests import write_element
    from eas.schedule.lane_rows import each_element

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
        write_element(p, elements, slot, index, total, slot.layout)

    each_element(p, slot.layout, one, once=False)


def _widened(p: Lanes, x: Value, wide: Type) -> Value:
    return x if x.type == wide else p.e.emit("cast", x, type=wide)


def _added(p: Lanes, total: Value, x: Value, y: Value) -> Value:
    """Floats with one rounding, as simdgroup matrices do it."""
    if total.dtype in (dtypes.f32, dtypes.f64):
        return p.e.emit("fma", x, y, total)
    return p.e.emit("add", total, p.e.emit("mul", x, y))
