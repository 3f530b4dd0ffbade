"""Masks of the first lanes of a vector as bits of a word: the tail of a row of narrow elements.

A comparison of 64 positions takes four vectors of 32 bits and as many mask registers, which are then joined. Where it only
says how many elements are left of a row, a shift makes the same mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from eas.base import dtypes
from eas.codegen.llvm.text import Reg, Text
from eas.ir import Inst


class FirstLanes:
    """What is known of the comparisons of one function: counter + lane < bound."""

    def __init__(self) -> None:
        self._counters: set[str] = set()
        self._ramps: dict[str, Reg] = {}
        self._bounds: dict[str, tuple[Reg, Reg]] = {}

    def count(self, counter: Reg) -> None:
        """A counter of a loop along lanes: it is not negative, and lanes beyond it do not wrap around."""
        self._counters.add(counter.text)

    def note(self, inst: Inst, operands: Sequence[Reg], result: Reg) -> None:
        """Remember what an instruction says of the positions of lanes."""
        if result.lanes == 1 or inst.op.name not in ("add", "lt") or inst.operands[0].dtype is not dtypes.i32:
            return
        if inst.op.name == "add":
            for a, b in (operands, operands[::-1]):
                if a.text in self._counters and b.text == lane_numbers(result.lanes).text:
                    self._ramps[result.text] = a
        elif operands[0].text in self._ramps and operands[1].lanes == 1:
            self._bounds[result.text] = self._ramps[operands[0].text], operands[1]

    def left(self, t: Text, mask: Reg) -> Reg | None:
        """How many of the first lanes are on, or more than there are lanes; None for any other mask."""
        if mask.text not in self._bounds:
            return None
        counter, bound = self._bounds[mask.text]
        t.declare("@llvm.smax.i32", "declare i32 @llvm.smax.i32(i32, i32)")
        length = t.let(f"call i32 @llvm.smax.i32({bound}, i32 0)", "i32", 1)
        return t.op("sub", length, counter)


def first_lanes(t: Text, count: Reg, lanes: int) -> Reg:
    """The mask of as many lanes, at least one."""
    word = f"i{lanes}"
    shift = t.convert("zext" if lanes > 32 else "trunc", count, word) if lanes != 32 else count
    some = t.let(f"add {word} {t.let(f'shl {word} 1, {shift.text}', word, 1).text}, -1", word, 1)
    is_all = t.let(f"icmp sge {count}, {lanes}", "i1", 1)
    bits = t.let(f"select {is_all}, {word} -1, {some}", word, 1)
    return t.let(f"bitcast {bits} to <{lanes} x i1>", "i1", lanes)


def lane_numbers(lanes: int) -> Reg:
    """0, 1, 2, ... as a vector."""
    return Reg("0", "i32") if lanes == 1 else Reg(f"<{', '.join(f'i32 {i}' for i in range(lanes))}>", "i32", lanes)
