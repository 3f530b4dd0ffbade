"""Sums under a condition: what is added is 0 where the condition is false, so that it can be added anyway.

That is what `if inside: total += load(x, i) * load(w, k)` of threads becomes, and then reads as the same
kernel of blocks: masked loads, and a sum without a choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from eas.ir import Inst, IRModule, Value, walk
from eas.passes.rewriting import Rewriter, rewrite

_SAME = ("broadcast", "expand_dims", "reshape", "permute")


def unguard_sums(module: IRModule) -> IRModule:
    """Replace `select(c, t + p, t)` by `t + p` where p is 0 without c, and t is never -0.0, which adding 0.0 changes."""
    if not any(inst.op.name == "select" for inst in walk(module.body)):
        return module
    facts = _Facts(module)

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name != "select":
            return None
        original = facts.made[inst.out]
        condition, added, kept = original.operands
        if facts.adds_nothing(condition, added, kept):
            return (inst.operands[1],)
        return None

    return rewrite(module, rule)


class _Facts:
    def __init__(self, module: IRModule) -> None:
        self.made: dict[Value, Inst] = {}
        self.params: dict[Value, tuple[Inst, int]] = {}  # of `for`: which of what it carries
        for inst in walk(module.body):
            self.made.update(dict.fromkeys(inst.outs, inst))
            if inst.op.name == "for":
                self.params.update((p, (inst, k)) for k, p in enumerate(inst.regions[0].params[1:]))

    def adds_nothing(self, condition: Value, added: Value, kept: Value) -> bool:
        """Whether `added` is `kept` wherever the condition is false."""
        inst = self.made.get(added)
        if inst is None or inst.op.name != "add" or kept not in inst.operands:
            return False
        a, b = inst.operands
        part = b if a is kept else a
        wanted = self.conditions(condition)
        if not self._is_zero(part, wanted):
            return False
        return not kept.dtype.is_float or self._is_no_negative_zero(kept, set())

    def conditions(self, mask: Value) -> frozenset[Value]:
        """The conditions of which a mask is the conjunction."""
        inst = self.made.get(mask)
        if inst is None or inst.op.name != "and":
            return frozenset({mask})
        return self.conditions(inst.operands[0]) | self.conditions(inst.operands[1])

    def _is_zero(self, value: Value, wanted: frozenset[Value]) -> bool:
        """Whether a value is 0 wherever one of the conditions is false."""
        inst = self.made.get(value)
        if inst is None:
            return False
        if inst.op.name == "load":
            return len(inst.operands) == 2 and wanted <= self.conditions(inst.operands[1])
        if inst.op.name == "cast":
            return self._is_zero(inst.operands[0], wanted)
        if inst.op.name != "mul":
            return False
        zeros = [self._is_zero(v, wanted) for v in inst.operands]
        if value.dtype.is_float:  # 0 times infinity is no 0
            return any(zeros) and all(z or self._is_finite(v) for z, v in zip(zeros, inst.operands, strict=True))
        return any(zeros)

    def _is_finite(self, value: Value) -> bool:
        inst = self.made.get(value)
        while inst is not None and inst.op.name in _SAME:
            inst = self.made.get(inst.operands[0])
        return inst is not None and inst.op.name == "const" and math.isfinite(inst["value"])

    def _is_no_negative_zero(self, value: Value, seen: set[Value]) -> bool:
        """Whether a float is never -0.0: a sum is only if both of its parts are. `seen` are assumed not to be."""
        if value in seen:
            return True
        if value in self.params:
            loop, k = self.params[value]
            return self._carries_none(loop, k, seen | {value})
        inst = self.made.get(value)
        if inst is None:
            return False
        name = inst.op.name
        if name == "const":
            return not (inst["value"] == 0 and math.copysign(1, inst["value"]) < 0)
        if name in _SAME:
            return self._is_no_negative_zero(inst.operands[0], seen)
        if name == "add":
            return any(self._is_no_negative_zero(v, seen) for v in inst.operands)
        if name == "select":
            return all(self._is_no_negative_zero(v, seen) for v in inst.operands[1:])
        if name == "for":
            return self._carries_none(inst, inst.outs.index(value), seen | {value})
        return False

    def _carries_none(self, loop: Inst, k: int, seen: set[Value]) -> bool:
        region = loop.regions[0]
        first = loop.operands[len(loop.operands) - len(loop.outs) + k]
        seen = seen | {region.params[1 + k]}
        return all(self._is_no_negative_zero(v, seen) for v in (first, region.yields[k]))


__all__ = ["unguard_sums"]
