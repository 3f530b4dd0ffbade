"""Which lanes are on, as bits of a word, and the first of them along a row, as LLVM text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.text import Reg, Text
from eas.ir import Inst


def lane_bits(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    """Bit first + l is lane l."""
    t, bits = emitter.t, _bits(emitter.t, operands[0])
    word = bits if bits.element == "i64" else t.convert("zext", bits, "i64")
    return t.op("shl", word, t.convert("zext", operands[1], "i64"))


def find(t: Text, start: Reg, end: Reg, lanes: int, test: Callable[[Reg], Reg]) -> Reg:
    """The first position for which `test(first of the lanes)` has a lane on, else `end`; the last lanes end with `end`."""
    before, (head, body, following, found, done) = t.block, (t.new_label(name) for name in ("head", "body", "next", "found", "done"))
    last = t.op("sub", end, t.like(lanes, end))
    t.line(f"br label %{head}")
    t.label(head)
    i, more = Reg(t.name("i"), start.element), Reg(t.name("more"), start.element)
    t.line(f"{i.text} = phi {i.type} [ {start.text}, %{before} ], [ {more.text}, %{following} ]")
    t.line(f"br {t.compare('icmp slt', i, end)}, label %{body}, label %{done}")
    t.label(body)
    first = t.call("llvm.smin", i.element, i, last)
    bits = _bits(t, t.splat(test(first), lanes))
    t.line(f"br {t.compare('icmp ne', bits, t.like(0, bits))}, label %{found}, label %{following}")
    t.label(following)
    t.line(f"{more.text} = add {i}, {lanes}")
    t.line(f"br label %{head}")
    t.label(found)
    t.declare(f"@llvm.cttz.{bits.element}", f"declare {bits.element} @llvm.cttz.{bits.element}({bits.element}, i1)")
    lane = t.let(f"call {bits.element} @llvm.cttz.{bits.element}({bits}, i1 true)", bits.element, 1)
    word = "trunc" if int(lane.element[1:]) > 32 else "zext"
    place = t.op("add", first, lane if lane.element == i.element else t.convert(word, lane, i.element))
    t.line(f"br label %{done}")
    t.label(done)
    return t.let(f"phi {i.type} [ {end.text}, %{head} ], [ {place.text}, %{found} ]", i.element, 1)


def _bits(t: Text, flags: Reg) -> Reg:
    return flags if flags.lanes == 1 else t.let(f"bitcast {flags} to i{flags.lanes}", f"i{flags.lanes}", 1)
