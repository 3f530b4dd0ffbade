"""Masks and comparisons that ranges and formulas of indices decide."""

from __future__ import annotations

from collections.abc import Sequence

from eas.analysis import touches_memory
from eas.analysis.indexing import Forms, interval
from eas.analysis.ranges import Range, decide
from eas.ir import Inst, IRModule, Trait, Value
from eas.ir.rewriting import Rewriter, rewrite
from eas.passes.memory_laws import mask_law


def fold_masks(module: IRModule) -> IRModule:
    """No integer or bool is left that is proven, no choice that is made, no mask that is full."""
    forms = Forms(module)

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if touches_memory(inst):
            return mask_law(inst, rw)
        if not inst.op.is_pure or len(inst.outs) != 1 or inst.op.name == "const":
            return None
        chosen = forms.ranges.chosen(inst.out)
        if chosen is not None:
            return (rw.use(chosen),)
        known = _number(inst, forms)
        if known is not None:
            return (rw.const(bool(known) if inst.out.dtype.is_bool else known, inst.out.type),)
        return _carried_on(inst, rw)

    return rewrite(module, rule)


def _number(inst: Inst, forms: Forms) -> int | None:
    """The number that every element of the result is, if ranges or formulas prove one."""
    out = inst.out
    if not out.type.is_value or not (out.dtype.is_int or out.dtype.is_bool):
        return None
    r = forms.ranges[out]
    if r.is_single:
        return r.lo
    if not inst.op.has(Trait.COMPARE) or not inst.operands[0].dtype.is_int:
        return None
    # The instruction may have new operands by now; the formulas are those of its old ones.
    a, b = (forms.of(v) for v in forms.origin[out].operands)
    if a is None or b is None:
        return None
    lo, hi = interval(a - b, out.shape, forms)
    answer = decide(inst.op.name, Range(lo, hi), Range(0, 0))
    return None if answer is None else int(answer)


def _carried_on(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
    """What a comparison that only its formula decided means for the mask it is part of."""
    if not inst.out.dtype.is_bool or not inst.out.type.is_value:
        return None
    literals = [rw.literal(v) for v in inst.operands]
    if inst.op.has(Trait.SHAPE) and len(literals) == 1 and literals[0] is not None:
        return (rw.const(literals[0], inst.out.type),)
    if inst.op.name == "not" and literals[0] is not None:
        return (rw.const(not literals[0], inst.out.type),)
    if inst.op.name in ("and", "or"):
        neutral = inst.op.name == "and"
        for this, other, literal in zip(
            inst.operands, reversed(inst.operands), literals, strict=True
        ):
            if literal is not None:
                return (other if bool(literal) == neutral else this,)
    return None
