"""Sums under a condition: what is added is 0 where the condition is false, so that it can be added anyway.

That is what `if inside: total += load(x, i) * load(w, k)` of threads becomes, and then reads as the same
kernel of blocks: masked loads, and a sum without a choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from eas.analysis import constant_behind
from eas.base.trampoline import Definition, evaluate, every
from eas.ir import Inst, IRModule, Value, walk
from eas.ir.rewriting import Rewriter, rewrite

_SAME = ("broadcast", "expand_dims", "reshape", "permute")


def unguard_sums(module: IRModule) -> IRModule:
    """Replace `select(c, t + p, t)` by `t + p` where p is 0 without c, and t is never -0.0, which adding 0.0 changes.

    In textbooks: predication.

        %p = load %x, %cond          (0 where the mask is off)
        %s = select %cond, (%t + %p), %t
        ->
        %s = add %t, %p
    """
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


_Assuming = tuple[Value, frozenset[Value]]  # a value, and carried ones that are taken to be no -0.0


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
        return not kept.dtype.is_float or self._is_no_negative_zero(kept)

    def conditions(self, mask: Value) -> frozenset[Value]:
        """The conditions of which a mask is the conjunction."""
        found, left = set(), [mask]
        while left:
            value = left.pop()
            inst = self.made.get(value)
            if inst is not None and inst.op.name == "and":
                left += inst.operands
            else:
                found.add(value)
        return frozenset(found)

    def _is_zero(self, value: Value, wanted: frozenset[Value]) -> bool:
        """Whether a value is 0 wherever one of the conditions is false."""
        return evaluate(lambda v: self._zero(v, wanted), value)

    def _zero(self, value: Value, wanted: frozenset[Value]) -> Definition[Value, bool]:
        inst = self.made.get(value)
        if inst is None:
            return False
        if inst.op.name == "load":
            return len(inst.operands) == 2 and wanted <= self.conditions(inst.operands[1])
        if inst.op.name == "cast":
            return (yield inst.operands[0])
        if inst.op.name != "mul":
            return False
        zeros: list[bool] = yield from every(inst.operands)
        if value.dtype.is_float:  # 0 times infinity is no 0
            return any(zeros) and all(z or self._is_finite(v) for z, v in zip(zeros, inst.operands, strict=True))
        return any(zeros)

    def _is_finite(self, value: Value) -> bool:
        number = constant_behind(value, self.made)
        return number is not None and math.isfinite(number)

    def _is_no_negative_zero(self, value: Value) -> bool:
        """Whether a float is never -0.0: a sum is only if both of its parts are."""
        return evaluate(self._no_negative_zero, (value, frozenset[Value]()))

    def _no_negative_zero(self, key: _Assuming) -> Definition[_Assuming, bool]:
        value, seen = key
        if value in seen:
            return True
        if value in self.params:
            return (yield from self._carries_none(*self.params[value], seen))
        inst = self.made.get(value)
        if inst is None:
            return False
        name = inst.op.name
        if name == "const":
            return not (inst["value"] == 0 and math.copysign(1, inst["value"]) < 0)
        if name in _SAME:
            return (yield inst.operands[0], seen)
        if name == "add":
            return any((yield from every([(v, seen) for v in inst.operands])))
        if name == "select":
            return all((yield from every([(v, seen) for v in inst.operands[1:]])))
        if name == "for":
            return (yield from self._carries_none(inst, inst.outs.index(value), seen))
        return False

    def _carries_none(self, loop: Inst, k: int, seen: frozenset[Value]) -> Definition[_Assuming, bool]:
        region = loop.regions[0]
        first = loop.operands[len(loop.operands) - len(loop.outs) + k]
        return (yield first, seen) and (yield region.yields[k], seen | {region.params[1 + k]})


__all__ = ["unguard_sums"]
