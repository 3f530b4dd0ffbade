"""Divisions of numbers that are never negative, which is what indices are: rounding down is rounding towards zero."""

from __future__ import annotations

from collections.abc import Sequence

from eas.ir import Inst, IRModule, Value, walk
from eas.passes.rewriting import Rewriter, rewrite
from eas.ranges import value_ranges


def mark_natural_divisions(module: IRModule) -> IRModule:
    """Note at divisions that the dividend is never negative, and whether the divisor is always positive."""
    if not any(_is_division(inst) for inst in walk(module.body)):
        return module
    ranges, before = value_ranges(module), dict[Value, Value]()

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if not _is_division(inst):
            return None
        dividend, divisor = (ranges[before.get(v, v)].lo for v in inst.operands)
        if dividend < 0:
            return None
        new = rw.emit(inst.op.name, *inst.operands, natural=True, by_positive=divisor > 0)
        before[new] = inst.out
        return (new,)

    return rewrite(module, rule)


def _is_division(inst: Inst) -> bool:
    return inst.op.name in ("floordiv", "mod") and inst.outs[0].dtype.is_int
