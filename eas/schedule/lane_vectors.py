"""Which nests run on vectors of registers (`float4`): all they do must exist on Metal's vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eas import dtypes
from eas.ir import Inst, Value
from eas.schedule.elements import Index
from eas.schedule.layouts import Layout

if TYPE_CHECKING:
    from eas.schedule.lane_reduce import Reduction
    from eas.schedule.lanes import Lanes

WIDTH = 4
# What the code generator spells for vectors too; everything else runs element by element.
VECTOR_OPS = frozenset(
    {"const", "add", "sub", "mul", "div", "neg", "abs", "min", "max", "fma", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not", "select", "cast", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "floor", "ceil", "addptr", "load", "store", "reduce", "yield", "arange", "broadcast", "expand_dims", "permute", "multiple_of", "max_contiguous", "max_constancy"}
)  # fmt: skip
VECTOR_DTYPES = frozenset({dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.i32, dtypes.u32, dtypes.i16, dtypes.u16, dtypes.i8, dtypes.u8, dtypes.bool_})  # fmt: skip


class NotVectors(Exception):
    """A nest reads registers that are no neighbours; it then runs element by element."""


def vector_axis(layout: Layout) -> int | None:
    """The axis along which a thread's first registers are neighbours."""
    if layout.num_registers < WIDTH:
        return None
    for axis, shift in enumerate(layout.axis_shifts):
        if layout.register[:2] == (1 << shift, 2 << shift) and layout.shape[axis] % WIDTH == 0:
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
    """How many registers one iteration of a nest handles: 4 or 1."""
    axis = vector_axis(layout)
    if axis is None or p.plan.is_serial or any(r.kept > 1 or r.combine.flagged for r in reductions):
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
    return WIDTH


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
        inst = p.formulas.get(value)
        if inst is not None:
            found.append(inst)
            work += inst.operands
    return found
