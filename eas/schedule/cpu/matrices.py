"""CPU lowerings of matrix products: `dot` on blocks, and the 8x8 matrices of simdgroups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from eas.base.trampoline import reached
from eas.base.types import Type
from eas.ir import Inst, Value, make
from eas.ops.simd import LANES
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.cpu.rows import cast, loop
from eas.schedule.elements.elements import Elements, Index, Slot
from eas.schedule.elements.statements import formula

_TABLE_WORDS = 256  # that say what is packed


def dot(p: Lowering, inst: Inst) -> None:
    a, b, acc = inst.operands
    left, a_strides = _matrix(p, a, needs_rows=False)
    transposed = _transposed_panels(p, a, b)
    right = transposed or _matrix(p, b, needs_rows=True)[0]
    out = p.slot_for(inst.out)
    if p.slots.get(acc) is not out:
        p.fill(out, acc)
    batches = a.shape[0] if len(a.shape) == 3 else 1
    (m, k), n = a.shape[-2:], b.shape[-1]

    def one(batch: Value) -> None:
        def at(slot: Slot, size: int) -> Value:
            return (
                p.e.emit("addptr", slot.pointer, p.e.mul(batch, size))
                if batches > 1
                else slot.pointer
            )

        pointers = [at(left, m * k), at(right, k * n), at(out, m * n)]
        numbers = [p.e.const(i) for i in (k, a_strides[0], k if transposed else n)]
        attrs: dict[str, Any] = {"shape": (m, n, k), "a_column": a_strides[1]}
        attrs["b_transposed"] = transposed is not None
        ahead = {"a": _next_rows(p, a, (0, k)), "b": _next_rows(p, b, (k, 0))}
        attrs["ahead"] = tuple(side for side, rows in ahead.items() if rows)
        p.e.inst("contract", [*pointers, *numbers, *ahead["a"], *ahead["b"]], attrs)

    p.counted(batches, one)


def contraction(p: Lowering, inst: Inst) -> None:
    acc, out = inst.operands[2], p.slot_for(inst.out)
    start = p.formulas.get(acc)
    is_fresh = start is not None and start.op.name == "const" and _is_plus_zero(start["value"])
    if not is_fresh and p.slots.get(acc) is not out:
        p.fill(out, acc)
    a, b, *numbers = (p.scalar_of(v) for v in inst.operands if v is not acc)
    rows, columns = inst.out.shape
    wide = p.target.vector_nbytes // inst.out.dtype.nbytes
    vectors = next(v for v in range(p.target.panel_vectors, 0, -1) if columns % (v * wide) == 0)
    strip = p.target.panel_steps(vectors)
    copy = out
    is_row_major = p.e.literals.get(numbers[4]) == 1
    if a.dtype.nbytes < inst.out.dtype.nbytes or not is_row_major:
        copy = p.new_slot((rows, strip), inst.out.dtype, "rows")
    is_kept = inst["is_kept"] and not p.has_tags
    memo = p.target.memo_nbytes if is_kept else 0
    packed = p.new_slot((max(strip * columns, memo // inst.out.dtype.nbytes),), inst.out.dtype, "packed")
    tags = p.tags(_TABLE_WORDS) if is_kept else packed
    attrs = {"shape": (rows, columns), "fresh": is_fresh, "memo": memo, "table": _TABLE_WORDS}
    attrs |= {"vectors": vectors, "wide": wide, "strip": strip}
    slots = [s.pointer for s in (out, copy, packed, tags)]
    p.e.inst("contract_panels", [a, b, *slots, *numbers], attrs)


def _is_plus_zero(value: float) -> bool:
    return value == 0 and math.copysign(1.0, value) > 0


def _next_rows(p: Lowering, value: Value, corner: tuple[int, int]) -> list[Value]:
    """Where two rows of the next block along k start, if the loop goes on as most do: a hint."""
    load = p.loads.get(value)
    if load is None or len(value.shape) != 2 or not _is_affine(p, load.operands[0]):
        return []
    row, column = corner
    elements = p.elements()
    return [
        elements.at(load.operands[0], (Index(p.e.const(row + i)), Index(p.e.const(column))))
        for i in range(2)
    ]


def _is_affine(p: Lowering, value: Value) -> bool:
    """Whether elements outside of the block can be computed: nothing of it is in memory."""
    blocks = reached([value], lambda v: p.formulas[v].operands if v.shape and v in p.formulas else ())
    return all(v.type.is_scalar or (v in p.formulas and v not in p.slots and p.formulas[v].op.name in _AFFINE) for v in blocks)


_AFFINE = frozenset(
    {"add", "sub", "mul", "cast", "addptr", "arange", "const", "broadcast", "expand_dims"}
)


def _transposed_panels(p: Lowering, a: Value, b: Value) -> Slot | None:
    """The slot of x where b is a view x.T that `contract` can turn while it packs panels."""
    inst = p.formulas.get(b)
    if b in p.slots or inst is None or inst.op.name != "permute" or inst["order"] != (1, 0):
        return None
    wide = p.target.vector_nbytes // max(1, b.dtype.nbytes)
    (m, k), n, panel = a.shape, b.shape[1], wide * p.target.panel_vectors
    fits = m >= 2 * wide and n % panel == 0 and k % wide == 0 and k <= p.target.panel_steps(p.target.panel_vectors)
    is_plain = a.dtype == b.dtype and b.dtype.name in ("f32", "f64")
    return p.slots.get(inst.operands[0]) if fits and is_plain else None


def _matrix(p: Lowering, value: Value, needs_rows: bool) -> tuple[Slot, tuple[int, int]]:
    """A slot that holds a matrix, and its strides; a transposed left side needs no copy."""
    inst = p.formulas.get(value)
    rank = len(value.shape)
    swapped = (*tuple(range(rank - 2)), rank - 1, rank - 2)
    if (
        not needs_rows
        and value not in p.slots
        and inst is not None
        and inst.op.name == "permute"
        and inst["order"] == swapped
        and inst.operands[0] in p.slots
    ):
        return p.slots[inst.operands[0]], (1, value.shape[-2])
    return p.materialise(value), (value.shape[-1], 1)


# --- simdgroup matrices -----------------------------------------------------------------------------


def mma_zero(p: Lowering, inst: Inst) -> None:
    kind = Type(inst.out.dtype, inst.out.shape)
    p.fill(p.slot_for(inst.out), formula(p, make("const", (), {"value": 0.0, "type": kind})))


def mma_select(p: Lowering, inst: Inst) -> None:
    condition, a, b = inst.operands
    slot = p.slot_for(inst.out)

    def matrix(group: Value, elements: Elements) -> None:
        chosen = elements.at(condition, (Index(p.e.mul(group, LANES)),))

        def step(i: Value) -> None:
            inner = p.elements()
            flat = [Slot(s.pointer, (slot.shape[0], 64)) for s in (p.slots[a], p.slots[b], slot)]
            here = (Index(group), Index(i))
            value = p.e.emit("select", chosen, inner.read(flat[0], here), inner.read(flat[1], here))
            p.e.inst("store", [inner.address(flat[2], here)[0], value])

        p.counted(64, step)

    p.counted(slot.shape[0], lambda g: matrix(g, p.elements()))


def _first_of_group(p: Lowering, elements: Elements, value: Value, group: Value) -> Value:
    return elements.at(value, (Index(p.e.mul(group, LANES)),))


def _when(p: Lowering, condition: Value | None, body: Callable[[], None]) -> None:
    if condition is None:
        body()
        return

    def inside() -> Sequence[Value]:
        body()
        return ()

    regions = [p.e.region([], inside), p.e.region([], lambda: ())]
    p.e.inst("if", [condition], {}, regions)


def mma(p: Lowering, inst: Inst) -> None:
    a, a_stride, b, b_stride, acc = inst.operands[:5]
    slot = p.slot_for(inst.out)
    if p.slots[acc] is not slot:
        p.fill(slot, acc)

    def matrix(group: Value) -> None:
        elements = p.elements()
        active = (
            _first_of_group(p, elements, inst.operands[5], group)
            if len(inst.operands) > 5
            else None
        )
        left, ls, right, rs = (
            _first_of_group(p, elements, v, group) for v in (a, a_stride, b, b_stride)
        )
        _when(
            p,
            active,
            lambda: p.counted(8, lambda i: _mma_row(p, slot, group, i, (left, ls, right, rs))),
        )

    p.counted(slot.shape[0], matrix)


def _mma_row(
    p: Lowering, slot: Slot, group: Value, i: Value, operands: tuple[Value, Value, Value, Value]
) -> None:
    left, ls, right, rs = operands
    kind = Type(slot.pointer.dtype)

    def column(j: Value) -> None:
        elements = p.elements()
        cell = elements.address(slot, (Index(group), Index(i), Index(j)))[0]

        def step(k: Value, acc: Value) -> Sequence[Value]:
            ka, kb = (
                p.e.emit("cast", k, type=ls.type) if k.type != ls.type else k,
                p.e.emit("cast", k, type=rs.type) if k.type != rs.type else k,
            )
            ia, jb = cast(p, i, ls.type), cast(p, j, rs.type)
            x = p.e.emit(
                "load", p.e.emit("addptr", left, p.e.emit("add", p.e.emit("mul", ia, ls), ka))
            )
            y = p.e.emit(
                "load", p.e.emit("addptr", right, p.e.emit("add", p.e.emit("mul", kb, rs), jb))
            )
            return [p.e.emit("fma", cast(p, x, kind), cast(p, y, kind), acc)]

        (total,) = loop(p, p.e.const(0), p.e.const(8), [p.e.emit("load", cell)], step)
        p.e.inst("store", [cell, total])

    p.counted(8, column)


def mma_store(p: Lowering, inst: Inst) -> None:
    pointer, stride, fragment = inst.operands[:3]
    slot = p.slots[fragment]

    def matrix(group: Value) -> None:
        elements = p.elements()
        active = (
            _first_of_group(p, elements, inst.operands[3], group)
            if len(inst.operands) > 3
            else None
        )
        base, step = (_first_of_group(p, elements, v, group) for v in (pointer, stride))

        def cell(i: Value, j: Value) -> None:
            value = p.elements().read(slot, (Index(group), Index(i), Index(j)))
            offset = p.e.emit(
                "add", p.e.emit("mul", cast(p, i, step.type), step), cast(p, j, step.type)
            )
            p.e.inst(
                "store", [p.e.emit("addptr", base, offset), cast(p, value, Type(pointer.dtype))]
            )

        _when(p, active, lambda: p.counted(8, lambda i: p.counted(8, lambda j: cell(i, j))))

    p.counted(slot.shape[0], matrix)
