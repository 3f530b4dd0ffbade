"""Laws of pointers and masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from eas.ir import Inst, Value
from eas.ir.rewriting import Rewriter
from eas.ops import Op


def pointer_law(inst: Inst, rw: Rewriter) -> Value | None:
    """One `addptr` where there were two, none where nothing is added."""
    pointer, offset = inst.operands
    if rw.literal(offset) == 0:
        return pointer
    inner = rw.produced_by("addptr", pointer)
    if (
        inner is None
        or inner.operands[1].type != offset.type
        or not _sum_is_exact(inner.operands[1], offset, rw)
    ):
        return None
    return rw.emit("addptr", inner.operands[0], rw.emit("add", inner.operands[1], offset))


def _sum_is_exact(a: Value, b: Value, rw: Rewriter) -> bool:
    """Addresses have 64 bits: a sum of narrower offsets may wrap where the pointer does not."""
    if a.dtype.bits == 64:
        return True
    x, y = rw.literal(a), rw.literal(b)
    return x is not None and y is not None and a.dtype.min <= x + y <= a.dtype.max


def mask_law(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
    """Accesses whose mask is known: no mask, or no access."""
    index = _mask_index(inst.op)
    if index is None or len(inst.operands) <= index:
        return None
    mask = rw.literal(inst.operands[index])
    if mask is None:
        return None
    if mask:
        rw.append(
            replace(inst, operands=inst.operands[:index])
        )  # what a load reads elsewhere goes too
        return inst.outs
    if len(inst.operands) > index + 1:
        return (inst.operands[index + 1],)
    return [
        rw.const(0.0 if v.dtype.is_float else False if v.dtype.is_bool else 0, v.type)
        for v in inst.outs
    ]


@cache
def _mask_index(op: Op) -> int | None:
    """Which operand is the mask, by the row's own signature."""
    names = op.operands.split(", ")
    return names.index("mask?") if "mask?" in names else None


def check_law(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
    """A check that always holds is none."""
    return () if rw.literal(inst.operands[0]) == 1 else None
