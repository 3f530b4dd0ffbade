"""Loops that come back to the memory they read: those run inside a nest, and what they add up stays in registers."""

from __future__ import annotations

import math
from collections import Counter

from eas.analysis import PointerBases, producers
from eas.ir import Inst, IRModule, Region, Value, walk
from eas.schedule.target import CpuTarget

SUMS = 8  # registers: so many sums do not wait for each other
_SAME = frozenset({"broadcast", "expand_dims", "cast", "multiple_of", "max_contiguous", "max_constancy"})


def near_loops(module: IRModule, target: CpuTarget) -> frozenset[Inst]:
    """The `for`s that carry blocks and whose loads overlap: taps of a filter, or a window that moves by a few elements."""
    loops = [inst for inst in walk(module.body) if inst.op.name == "for" and any(out.shape for out in inst.outs)]
    if not loops:
        return frozenset()
    finder = _Finder(module, target)
    return frozenset(loop for loop in loops if finder.is_near(loop))


class _Finder:
    def __init__(self, module: IRModule, target: CpuTarget) -> None:
        self.bases, self.made = PointerBases(module), producers(module)
        self.most = SUMS * target.vector_nbytes
        self._near: dict[Inst, bool] = {}

    def is_near(self, loop: Inst) -> bool:
        if loop not in self._near:
            self._near[loop] = self._look(loop)
        return self._near[loop]

    def _look(self, loop: Inst) -> bool:
        shape = next(out.shape for out in loop.outs if out.shape)
        if math.prod(shape) * 4 <= self.most:
            return True  # one step of a nest is all of the block: the order of the loads does not change
        region = loop.regions[0]
        inner = [inst for inst in region.body if inst.op.name == "for"]
        loads = [inst for inst in region.body if inst.op.name == "load" and inst.out.shape]
        readers = Counter(self.bases[inst.operands[0]] for inst in loads)
        if any(count > 1 for count in readers.values()):
            return True
        inside = {v for i in walk(region) for v in i.outs}
        each = self._literal(loop.operands[2])
        steps = [self._step(inst.operands[0], region, inside) for inst in loads]
        if each is not None and any(step and abs(step * each) < shape[-1] for step in steps):
            return True
        return bool(inner) and all(self.is_near(i) for i in inner)

    def _step(self, value: Value, region: Region, inside: set[Value]) -> int | None:
        """How far an index or address moves when the counter does by 1; None if that is not one known number."""
        if value is region.params[0]:
            return 1
        if value not in inside:
            return 0 if value not in region.params else None
        inst = self.made[value]
        name = inst.op.name
        if name in _SAME:
            return self._step(inst.operands[0], region, inside)
        if name not in ("add", "sub", "addptr", "mul"):
            return None
        a, b = (self._step(v, region, inside) for v in inst.operands)
        if a is None or b is None:
            return None
        if name == "mul":
            return self._product(inst, a, b)
        return a - b if name == "sub" else a + b

    def _product(self, inst: Inst, a: int, b: int) -> int | None:
        if a and b:
            return None
        if not (a or b):
            return 0
        factor = self._literal(inst.operands[1] if a else inst.operands[0])
        return None if factor is None else (a or b) * factor

    def _literal(self, value: Value) -> int | None:
        inst = self.made.get(value)
        while inst is not None and inst.op.name in _SAME:
            inst = self.made.get(inst.operands[0])
        return int(inst["value"]) if inst is not None and inst.op.name == "const" else None
