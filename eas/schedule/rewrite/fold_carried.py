"""Blocks that a loop adds up, and of which only the sum is asked for: the loop adds up numbers instead.

`total += load(...)` in a loop and `sum(total)` behind it keep a block in memory that is read and written in every
iteration. The sum of what is added needs no block. That holds for all that may be combined in any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eas.analysis import Producers, constant_behind, producers, uses
from eas.analysis.combines import identity
from eas.ir import Inst, IRModule, Region, Value, make, walk
from eas.ir.rewriting import Rewriter, clone_region, rewrite

_FEW = 64  # elements that stay in registers


@dataclass(frozen=True, eq=False)
class _Sum:
    """What a loop carries, how it changes it, and the reduction of the result."""

    start: float | int | bool
    update: Inst
    reduce: Inst


def fold_carried(module: IRModule) -> IRModule:
    """Carry the reduction of a block where nothing else is made of it.

    In textbooks: scalar replacement of a reduction.

        %t = for %k, %zeros (%i, %a: f32[64]) { yield (%a + load ...) }; %s = reduce %t
        ->
        %s = for %k, 0.0 (%i, %a: f32) { %r = reduce (load ...)
                                         yield (%a + %r) }
    """
    reductions = {i.operands[0]: i for i in walk(module.body) if i.op.name == "reduce" and len(i.operands) == 1}
    loops = [inst for inst in walk(module.body) if inst.op.name == "for" and any(v in reductions for v in inst.outs)]
    if not loops:
        return module
    made, used = producers(module), uses(module)
    contracts = module.attr("math", "safe") != "safe"
    sums: dict[Value, _Sum] = {}
    for loop in loops:
        for k, out in enumerate(loop.outs):
            update = made.get(loop.regions[0].yields[k])
            if out not in reductions or used[out] != 1 or update is None:
                continue
            start = _start(loop, k, reductions[out], made)
            is_alone = used[update.outs[0]] == used[_carried(loop, k)] == 1
            if start is not None and is_alone and _combines(loop, k, update, reductions[out], contracts):
                sums[out] = _Sum(start, update, reductions[out])
    reduced = {found.reduce for found in sums.values()}

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name == "for" and any(out in sums for out in inst.outs):
            return rw.append(_folded(inst, [sums.get(out) for out in inst.outs], rw)).outs
        if inst.op.name == "reduce" and any(inst.outs == old.outs for old in reduced):
            return inst.operands  # what the loop carries now
        return None

    return rewrite(module, rule) if sums else module


def _start(loop: Inst, k: int, reduce: Inst, made: Producers) -> float | int | bool | None:
    """The neutral element of the reduction that carried block k is full of at first, else None."""
    value: float | int | bool | None = constant_behind(loop.operands[len(loop.operands) - len(loop.outs) + k], made)
    return value if value == identity(reduce.regions[0]) else None


def _combines(loop: Inst, k: int, update: Inst, reduce: Inst, contracts: bool) -> bool:
    """Whether an iteration combines carried block k with something, as the reduction does.

    A user's own `fma` rounds once, which a product that is added up later would not. With `contracts` the kernel allows that.
    """
    block, region = _carried(loop, k), loop.regions[0]
    if math.prod(block.shape) <= _FEW or update not in region.body:
        return False
    if block.dtype.is_float and block.dtype.bits < 32:  # one large number is rounded more than many small ones
        return False
    name = reduce.regions[0].body[0].op.name
    if update.op.name == "fma":
        return contracts and name == "add" and update.operands[2] is block
    return update.op.name == name and block in update.operands


def _carried(loop: Inst, k: int) -> Value:
    return loop.regions[0].params[1 + k]


def _folded(loop: Inst, sums: Sequence[_Sum | None], rw: Rewriter) -> Inst:
    n, region = len(loop.outs), loop.regions[0]
    inits = list(loop.operands[len(loop.operands) - n :])
    counter, *params = region.params
    body, yields = list(region.body[:-1]), list(region.yields)
    for k, found in enumerate(sums):
        if found is None:
            continue
        old, kind = params[k], found.reduce.out.type
        inits[k] = rw.const(found.start, kind)
        params[k] = Value(kind, old.hint)
        at = next(i for i, inst in enumerate(body) if inst.outs == found.update.outs)
        parts = [v for v in body[at].operands if v is not old]
        product = [make("mul", parts, {}, (), found.update.loc)] if len(parts) == 2 else []
        combine = clone_region(found.reduce.regions[0])
        name = combine.body[0].op.name
        reduced = make("reduce", [p.out for p in product] or parts, dict(found.reduce.attrs), [combine], found.reduce.loc)
        added = make(name, [params[k], reduced.out], {}, (), found.update.loc)
        body[at : at + 1] = [*product, reduced, added]
        yields[k] = added.out
    end = make("yield", yields, loc=region.body[-1].loc)
    operands = [*loop.operands[: len(loop.operands) - n], *inits]
    return make("for", operands, dict(loop.attrs), [Region((counter, *params), (*body, end))], loop.loc)


__all__ = ["fold_carried"]
