"""Which nests run on vectors of registers (`float4`, `float2`): all they do must exist on Metal's vectors."""

from __future__ import annotations

from collections.abc import Sequence

from eas.base import dtypes
from eas.ir import Inst, Value
from eas.schedule.elements.elements import Index
from eas.schedule.gpu.lanes import Lanes
from eas.schedule.gpu.layouts import Layout
from eas.schedule.gpu.reduce import Reduction

WIDTHS = (4, 2)  # four registers at a time if they are neighbours; the two of a simdgroup matrix are
# What the code generator spells for vectors too; everything else runs element by element.
VECTOR_OPS = frozenset(
    {"const", "add", "sub", "mul", "div", "neg", "abs", "min", "max", "fma", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not", "select", "cast", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "floor", "ceil", "addptr", "load", "store", "reduce", "yield", "arange", "broadcast", "expand_dims", "permute", "multiple_of", "max_contiguous", "max_constancy"}
)  # fmt: skip
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
    if not all(inst.op.name in VECTOR_OPS for inst in used) or not all(map(_is_vectorable, used)):
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
