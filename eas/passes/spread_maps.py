"""Turns functions of one element, with their branches and loops, into block IR."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eas.base.types import Shape
from eas.ir import Inst, IRModule, Value, walk
from eas.ir.rewriting import Rewriter, rewrite
from eas.passes.spread_threads import spread_region


def spread_maps(module: IRModule) -> IRModule:
    """Each `map` is what its function does for all elements at once: what they decide differently is masked.

    In textbooks: if-conversion; in Haskell: vectorisation of nested maps.

        %r = map %x { %c = gt %e, %zero; %n = neg %e; if %c { yield %e } { yield %n } }
        ->
        %c = gt %x, %zeros; %n = neg %x
        %r = select %c, %x, %n
    """
    if not any(inst.op.name == "map" for inst in walk(module.body)):
        return module

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name != "map":
            return None
        shape = inst.operands[0].shape
        count = math.prod(shape)
        body, results = spread_region(inst.regions[0], [_shaped(rw, v, (count,)) for v in inst.operands], count)
        for each in body:
            rw.append(each)
        return [_shaped(rw, v, shape) for v in results]

    return rewrite(module, rule)


def _shaped(rw: Rewriter, value: Value, shape: Shape) -> Value:
    return value if value.shape == shape else rw.emit("reshape", value, shape=shape)
