"""Counters in scratch, one increment per lane, as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence

from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.text import Reg, Text
from eas.ir import Inst


def count(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    """Load, add and store per lane; a lane's copy depends on its position only."""
    t, copies = emitter.t, inst["copies"]
    counters, numbers = operands[0], t.splat(operands[1], emitter.lanes)
    for lane, number in enumerate(_numbers(t, numbers)):
        first = lane % copies * inst["stride"]
        base = t.let(f"getelementptr i32, {counters}, i64 {first}", "ptr", 1)
        cell = t.let(f"getelementptr i32, {base}, {number}", "ptr", 1)
        old = t.let(f"load i32, {cell}, align 4", "i32", 1)
        t.line(f"store {t.op('add', old, Reg('1', 'i32'))}, {cell}, align 4")
    return ()


def _numbers(t: Text, lanes: Reg) -> list[Reg]:
    """The lanes as i64. Two at a time leave the vector: that is half the moves."""
    if lanes.lanes == 1:
        return [t.convert("zext", lanes, "i64")]
    pairs = t.let(f"bitcast {lanes} to <{lanes.lanes // 2} x i64>", "i64", lanes.lanes // 2)
    found = []
    for i in range(pairs.lanes):
        # LLVM would make it two moves of 32 bits again if it saw what this is.
        pair = t.let(f'call i64 asm "", "=r,0"({t.extract(pairs, i)})', "i64", 1)
        found += [t.op("and", pair, Reg(str(2**32 - 1), "i64")), t.op("lshr", pair, Reg("32", "i64"))]
    return found
