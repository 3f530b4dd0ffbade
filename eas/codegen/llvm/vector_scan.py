"""A prefix combination of the lanes of a vector, in registers, as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence

from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.text import Reg, Text
from eas.ir import Inst


def vscan(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> list[Reg]:
    """The prefixes behind what came before, and the total so far, which waits for one combine only."""
    t, lanes, region = emitter.t, emitter.lanes, inst.regions[0]
    value, before = (t.splat(r, lanes) for r in operands)
    neutral = t.number(inst["neutral"], value.element, lanes)

    def combine(a: Reg, b: Reg) -> Reg:
        emitter.regs.update(zip(region.params, (a, b), strict=True))
        return t.splat(emitter.region(region)[0], lanes)

    step = 1
    while step < lanes:
        # Of two neighbouring runs of `step` lanes the second gets the total of the first.
        totals = [i // step * step - 1 if i // step % 2 else lanes for i in range(lanes)]
        value = combine(_shuffle(t, value, neutral, totals, inst["reverse"]), value)
        step *= 2
    end = _shuffle(t, value, value, [lanes - 1] * lanes, inst["reverse"])
    return [combine(before, value), combine(before, end)]


def _shuffle(t: Text, a: Reg, b: Reg, lanes: Sequence[int], reverse: bool) -> Reg:
    """Lane by lane a lane of `a`, or `b` where the number is past its last."""
    n = len(lanes)
    if reverse:
        lanes = [n - 1 - i if i < n else n for i in reversed(lanes)]
    return t.shuffle(a, b, lanes)
