"""Compute at compile time what depends on nothing but constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from eas.analysis.effects import has_effects
from eas.base.types import Type
from eas.ir import Inst, IRModule, Value
from eas.ir.rewriting import Rewriter, rewrite
from eas.ops import TABLE, Call, Op, Trait, evaluate

Number = float | int | bool


def fold_constants(module: IRModule) -> IRModule:
    """Exact ops over constants are constants; decided branches and empty loops are gone.

    In textbooks: constant folding.

        %a = const 2; %b = const 3
        %c = mul %a, %b
        ->
        %c = const 6
    """
    return rewrite(module, _fold)


def _fold(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
    if inst.regions:
        return _fold_control(inst, rw)
    if inst.op.name == "select" and (condition := rw.literal(inst.operands[0])) is not None:
        return (inst.operands[1 if condition else 2],)
    if not inst.operands or not is_foldable(inst.op):
        return None
    numbers = []
    for operand in inst.operands:
        number = rw.literal(operand)
        if number is None:
            return None
        numbers.append(number)
    if inst.op.has(Trait.SHAPE):
        results = _moved(inst, numbers)
    else:
        results = folded(
            inst.op, numbers, inst.operands[0].type, [v.type for v in inst.outs], dict(inst.attrs)
        )
    if results is None:
        return None
    return [rw.const(n, out.type) for n, out in zip(results, inst.outs, strict=True)]


@cache
def is_foldable(op: Op) -> bool:
    """Pure, exact on every backend, and constant when its operands are."""
    lanewise = op.has(Trait.ELEMENTWISE) or op.has(Trait.SHAPE)
    # The texts of inline_target may differ between targets.
    return op.is_pure and lanewise and op.accuracy.is_exact and op.name != "inline_target"


def folded(
    op: Op, numbers: Sequence[Number], operand: Type, outs: Sequence[Type], attrs: Mapping[str, Any]
) -> list[Number] | None:
    """One lane of what an elementwise op makes of filled blocks; None: best left alone."""
    scalar = Type(operand.dtype)
    lanes = [evaluate(TABLE["const"], Call((), (scalar,), {"value": n}), ())[0] for n in numbers]
    call = Call((scalar,) * len(lanes), tuple(Type(t.dtype) for t in outs), attrs)
    results = [x.item() for x in evaluate(op, call, lanes)]
    if not any(x != x for x in results):
        return results
    if op.name in ("bitcast", "neg", "abs", "copysign"):
        return None  # they show sign and payload, and a constant holds only one NaN
    return [math.nan if x != x else x for x in results]


def _moved(inst: Inst, numbers: Sequence[Number]) -> list[Number] | None:
    """Moving the elements of blocks that are filled with one number changes nothing."""
    # repr tells -0.0 from 0.0 and finds NaN equal to itself.
    return [numbers[0]] * len(inst.outs) if len(set(map(repr, numbers))) == 1 else None


def _fold_control(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
    match inst.op.name:
        case "if" if (condition := rw.literal(inst.operands[0])) is not None:
            return rw.splice(inst.regions[0 if condition else 1])
        case "for" if trip_count(inst, rw) == 0:
            return inst.operands[3:]
        case "while" if rw.literal(inst.regions[0].yields[0]) == 0:
            test = inst.regions[0].body[:-1]
            return None if any(map(has_effects, test)) else inst.operands
    return None


def trip_count(inst: Inst, rw: Rewriter) -> int | None:
    """How often the body of a `for` runs, where that is known."""
    start, end, step = inst.operands[:3]
    lo, hi, by = rw.literal(start), rw.literal(end), rw.literal(step)
    if start is end or by == 0:
        return 0
    if lo is None or hi is None or by is None:
        return None
    return max(
        0, -(int(lo - hi) // int(by))
    )  # the length of a range, also of one too long for len()
