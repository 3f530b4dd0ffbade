"""Divisions of numbers that are never negative, which is what indices are: rounding down is rounding towards zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eas.analysis import HINTS, Producers, producers
from eas.analysis.ranges import Ranges, value_ranges
from eas.ir import Inst, IRModule, Value, walk
from eas.ir.rewriting import Rewriter, rewrite

_EVEN = HINTS | {"add", "sub", "mul", "neg", "cast", "broadcast", "expand_dims", "permute"}


def mark_natural_divisions(module: IRModule) -> IRModule:
    """Note at divisions that the dividend is never negative, whether the divisor is always positive, and if the dividend may wrap.

    An index does not; what is hashed does, so that its neighbours are not always neighbours.

    In textbooks: range analysis: floor division as truncating division.

        %q = floordiv %i, %w
        ->
        %q = floordiv %i, %w {natural}
    """
    if not any(_is_division(inst) for inst in walk(module.body)):
        return module
    ranges, origin, before = value_ranges(module), producers(module), dict[Value, Value]()

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if not _is_division(inst):
            return None
        dividend, divisor = (before.get(v, v) for v in inst.operands)
        notes: dict[str, Any] = {"wraps": True} if _wraps(dividend, ranges, origin) else {}
        if ranges[dividend].lo >= 0:
            notes.update(natural=True, by_positive=ranges[divisor].lo > 0)
        if not notes:
            return None
        new = rw.emit(inst.op.name, *inst.operands, **notes)
        before[new] = inst.out
        return (new,)

    return rewrite(module, rule)


def may_wrap(division: Inst) -> bool:
    """Whether what is divided may be far from its neighbour, although it only adds and multiplies."""
    return bool(division["wraps"])


def _wraps(value: Value, ranges: Ranges, origin: Producers) -> bool:
    """Whether any of the sums and products behind an integer may wrap."""
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        if not ranges.is_exact(current):
            return True
        inst = origin.get(current)
        if inst is not None and inst.op.name in _EVEN:
            pending += [v for v in inst.operands if v not in seen]
            seen.update(inst.operands)
    return False


def _is_division(inst: Inst) -> bool:
    return inst.op.name in ("floordiv", "mod") and inst.outs[0].dtype.is_int
