"""Masks that stay in registers as words while a loop runs."""

from __future__ import annotations

from collections.abc import Sequence

from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.text import Reg, Text
from eas.ir import Inst

_LANES = 8  # words of an AVX2 register


def opaque_mask(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    """A word per lane behind an empty line of assembly: LLVM packs bits that it sees through wherever a block ends."""
    t, (mask,) = emitter.t, operands
    words = t.convert("sext", mask, "i32")
    if mask.lanes % _LANES:
        return words
    pieces = []
    for first in range(0, mask.lanes, _LANES):
        piece = t.shuffle(words, words, range(first, first + _LANES))
        pieces.append(t.let(f'call {piece.type} asm "", "=x,0"({piece})', "i32", _LANES))
    return t.join(pieces)


def is_on(t: Text, mask: Reg) -> Reg:
    """A mask as bits, of a held one too."""
    return mask if mask.element == "i1" else t.compare("icmp slt", mask, t.like(0, mask))


def load_around(t: Text, pointer: Reg, middle: tuple[int, int], mask: Reg, other: Reg, align: int) -> Reg:
    """Neighbours in memory, of which those of `middle` are surely inside."""
    pieces = []
    for first in range(0, mask.lanes, _LANES):
        lanes = range(first, first + _LANES)
        at = t.let(f"getelementptr {other.element}, {pointer}, i64 {first}", "ptr", 1)
        rest = Reg(other.text, other.element, _LANES) if other.text == "zeroinitializer" else t.shuffle(other, other, lanes)
        if middle[0] <= first and first + _LANES <= middle[1]:
            pieces.append(t.let(f"load {rest.type}, {at}, align {align}", rest.element, _LANES))
            continue
        pieces.append(t.masked_load(at, align, is_on(t, t.shuffle(mask, mask, lanes)), rest))
    return t.join(pieces)
