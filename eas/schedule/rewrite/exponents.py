"""Which exponents can never be positive: `x - max(x)` of a softmax, in one pass or online."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eas.ir import Inst, IRModule, Value
from eas.ir.rewriting import Rewriter, rewrite


def mark_negative_exponents(module: IRModule) -> IRModule:
    """exp(x - m) and exp2(x - m) become those of negative numbers where m is x or more: they need not care for overflow.

    In textbooks: range analysis for a cheaper spelling.

        %m = reduce max %x; %d = sub %x, %m
        %e = exp %d
        ->
        %e = exp %d {negative}
    """

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name not in ("exp", "exp2"):
            return None
        difference = rw.produced_by("sub", inst.operands[0])
        if difference is None or not _is_bound(difference.operands[1], difference.operands[0], rw):
            return None
        return (rw.emit(f"{inst.op.name}_of_negative", inst.operands[0]),)

    return rewrite(module, rule)


def _is_bound(m: Value, x: Value, rw: Rewriter) -> bool:
    """Whether each element of m is at least that of x, or one of the two is NaN, or x is -inf."""
    axis = None
    if (spread := rw.produced_by("broadcast", m)) is not None:
        m, axis = spread.operands[0], 0
        if (expanded := rw.produced_by("expand_dims", m)) is not None:
            m, axis = expanded.operands[0], expanded["axis"] % x.type.rank
        elif m.type.rank or x.type.rank != 1:
            return False
    return _covers(m, x, axis, rw)


def _covers(m: Value, x: Value, axis: int | None, rw: Rewriter) -> bool:
    """`axis`: the one of x along which m is a single number; None where the two have one shape."""
    left = [m]
    while left:
        m = left.pop()
        inst = rw.producer.get(m)
        if m is x:
            if axis is None:
                return True
        elif inst is None:
            continue
        elif inst.op.name == "max":
            left += inst.operands
        elif inst.op.name == "select" and _unless_infinite(inst, rw):
            left.append(inst.operands[2])
        elif inst.op.name == "reduce" and inst.operands == (x,) and inst["axis"] % x.type.rank == axis and _is_maximum(inst):
            return True
    return False


def _unless_infinite(select: Inst, rw: Rewriter) -> bool:
    """where(m == -inf, anything, m): when m is -inf then so is x, and the difference, unless it is NaN."""
    condition, _, m = select.operands
    test = rw.produced_by("eq", condition)
    return test is not None and m in test.operands and any(rw.literal(v) == -math.inf for v in test.operands)


def _is_maximum(reduce: Inst) -> bool:
    region = reduce.regions[0]
    first, *_ = region.body
    return (
        len(region.body) == 2
        and first.op.name == "max"
        and set(first.operands) == set(region.params)
        and region.yields == first.outs
    )
