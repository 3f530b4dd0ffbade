"""Which nests run on vectors of registers (`float4`, `float2`): all they do must exist on Metal's vectors."""

from __future__ import annotations

from collections.abc import Sequence

from eas.base import dtypes
from eas.ir import Inst, Trait, Value
from eas.ops import Op
from eas.schedule.elements.elements import Index
from eas.schedule.gpu.lanes import Lanes
from eas.schedule.gpu.layouts import Layout
from eas.schedule.gpu.reduce import Reduction

_MADE_OF_INDICES = frozenset({"const", "arange", "broadcast", "expand_dims", "permute"})
WIDTHS = (4, 2)  # four registers at a time if they are neighbours; the two of a simdgroup matrix are
VECTOR_DTYPES = frozenset({dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.i32, dtypes.u32, dtypes.i16, dtypes.u16, dtypes.i8, dtypes.u8, dtypes.bool_})  # fmt: skip


def vector_axis(layout: Layout, width: int) -> int | None:
    """The axis along which the first `width` registers of a thread are neighbours."""
    bits = width.bit_length() - 1
    for axis, shift in enumerate(layout.axis_shifts):
        run = tuple(1 << shift + k for k in range(bits))
        if layout.register[:bits] == run and layout.shape[axis] % width == 0:
            return axis
    return None


def vector_width(
    p: Lanes,
    layout: Layout,
    insts: Sequence[Inst],
    operands: Sequence[Value],
    kept: Sequence[Value],
    reductions: Sequence[Reduction],
) -> int:
    """How many registers one iteration of a nest handles: 4, 2 or 1."""
    width = next((n for n in WIDTHS if vector_axis(layout, n) is not None), 1)
    axis = vector_axis(layout, width)
    if width == 1 or p.plan.is_serial or any(r.is_ordered or len(r.combine.types) > 1 or (r.kept > 1 and r.axis == axis) for r in reductions):
        return 1
    if any(v.dtype.is_bool for v in _in_memory(insts, kept)):  # there are no vectors of bools in memory
        return 1
    used = _behind(p, [*operands, *(v for inst in insts for v in inst.outs)], insts)
    if not all(_runs_on_vectors(inst.op) for inst in used) or not all(map(_is_vectorable, used)):
        return 1
    elements = p.elements()
    index = tuple(Index(None, lanes=k == axis, axis=k) for k in range(len(layout.shape)))
    for inst in insts:
        if inst.op.name not in ("load", "store"):
            continue
        step = elements.step(inst.operands[0], index)
        if not (step == 1 or (step == 0 and inst.op.name == "load" and len(inst.operands) == 1)):
            return 1
    return width


def _in_memory(insts: Sequence[Inst], kept: Sequence[Value]) -> list[Value]:
    accesses = [inst.operands[0] for inst in insts if inst.op.name in ("load", "store")]
    return [*accesses, *kept]


def _runs_on_vectors(op: Op) -> bool:
    """Everything else runs element by element."""
    return (op.has(Trait.ELEMENTWISE) and not op.has(Trait.ONE_BY_ONE)) or op.has(Trait.TERMINATOR) or op.name in _MADE_OF_INDICES or op.name == "reduce"


def _is_vectorable(inst: Inst) -> bool:
    return all(v.type.is_pointer or v.dtype in VECTOR_DTYPES for v in (*inst.operands, *inst.outs))


def _behind(p: Lanes, values: Sequence[Value], insts: Sequence[Inst]) -> list[Inst]:
    """The instructions and the formulas that they compute from."""
    found = list(insts)
    seen: set[Value] = set()
    work = list(values)
    while work:
        value = work.pop()
        if value in seen or not value.shape or value in p.slots:
            continue
        seen.add(value)
        inst = p.formulas.get(value) or p.rereads.get(value)
        if inst is not None:
            found.append(inst)
            work += inst.operands
    return found
