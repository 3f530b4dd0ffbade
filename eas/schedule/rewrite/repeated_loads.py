"""Loads in a loop of what an earlier loop beside it has read or written: the cache has it, and memory is idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eas.analysis import Producers, producers
from eas.ir import Inst, IRModule, Region, Value, walk


def mark_repeated_loads(module: IRModule) -> IRModule:
    """Mark loads of what an earlier loop beside this one has touched (`again`): no prefetch, the cache has it.

    In textbooks: reuse analysis.

        for %i { load (%p + %i) }; for %i { load (%p + %i) }
        ->
        for %i { load (%p + %i) }
        for %i { load (%p + %i) {again} }
    """
    if sum(inst.op.name == "for" for inst in walk(module.body)) < 2:
        return module
    return module.with_body(_marked(module.body, producers(module)))


def _marked(region: Region, made: Producers) -> Region:
    loops: list[Inst] = []  # those in front of an instruction
    body = []
    for inst in region.body:
        if inst.op.name == "for":
            pairs = [_Pair(loop, inst, made) for loop in loops]
            loops.append(inst)
            (inner,) = inst.regions
            inst = replace(inst, regions=(replace(inner, body=tuple(_again(i, pairs) for i in inner.body)),))
        if inst.regions:
            inst = replace(inst, regions=tuple(_marked(r, made) for r in inst.regions))
        body.append(inst)
    return replace(region, body=tuple(body))


def _again(inst: Inst, pairs: Sequence[_Pair]) -> Inst:
    if inst.op.name != "load" or not any(pair.touches_before(inst.operands[0]) for pair in pairs):
        return inst
    return inst.with_attrs(reread=True)


class _Pair:
    """Two loops beside each other."""

    def __init__(self, one: Inst, other: Inst, made: Producers) -> None:
        self._made, self._one = made, one.regions[0]
        self._counters = (one.regions[0].params[0], other.regions[0].params[0])
        self._counts_alike = all(map(self.is_same, one.operands[:3], other.operands[:3]))

    def touches_before(self, pointer: Value) -> bool:
        """Whether the one loop loads or stores where the other one does."""
        return any(self.is_same(i.operands[0], pointer) for i in self._one.body if i.op.name in ("load", "store"))

    def is_same(self, a: Value, b: Value) -> bool:
        """Whether a in the one loop is b in the other, in the iteration of the same number."""
        if a is b:
            return True
        if (a, b) == self._counters:
            return self._counts_alike
        x, y = self._made.get(a), self._made.get(b)
        if x is None or y is None or x.op is not y.op or not x.op.is_pure or x.regions or x.attrs != y.attrs:
            return False
        return all(map(self.is_same, x.operands, y.operands))


__all__ = ["mark_repeated_loads"]
