"""Loops that come back to the memory they read: those run inside a nest, and what they add up stays in registers."""

from __future__ import annotations

import math
from collections import Counter

from eas.analysis import PointerBases
from eas.analysis.motion import motion_of
from eas.ir import Inst, IRModule, walk
from eas.schedule.target import SUMS, CpuTarget


def near_loops(module: IRModule, target: CpuTarget) -> frozenset[Inst]:
    """The `for`s that carry blocks and whose loads overlap: taps of a filter, or a window that moves by a few elements."""
    loops = [inst for inst in walk(module.body) if inst.op.name == "for" and any(out.shape for out in inst.outs)]
    if not loops:
        return frozenset()
    finder = _Finder(module, target)
    return frozenset(loop for loop in loops if finder.is_near(loop))


class _Finder:
    def __init__(self, module: IRModule, target: CpuTarget) -> None:
        self.bases, self.motion = PointerBases(module), motion_of(module)
        self.most = SUMS * target.vector_nbytes
        self._near: dict[Inst, bool] = {}

    def is_near(self, loop: Inst) -> bool:
        if loop not in self._near:
            self._near[loop] = self._look(loop)
        return self._near[loop]

    def _look(self, loop: Inst) -> bool:
        shape = next((out.shape for out in loop.outs if out.shape), None)
        if shape is None:  # a loop of numbers, or one that only stores
            return False
        if math.prod(shape) * 4 <= self.most:
            return True  # one step of a nest is all of the block: the order of the loads does not change
        region = loop.regions[0]
        inner = [inst for inst in region.body if inst.op.name == "for"]
        loads = [inst for inst in region.body if inst.op.name == "load" and inst.out.shape]
        readers = Counter(self.bases[inst.operands[0]] for inst in loads)
        if any(count > 1 for count in readers.values()):
            return True
        each, along = self.motion.literal(loop.operands[2]), self.motion.along_loop(loop)
        steps = [move.number for inst in loads if (move := along.move(inst.operands[0])) is not None]
        if each is not None and any(step and abs(step * each) < shape[-1] for step in steps):
            return True
        return bool(inner) and all(self.is_near(i) for i in inner)
