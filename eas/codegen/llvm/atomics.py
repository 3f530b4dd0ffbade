"""How LLVM spells atomics: one instruction a lane where there is one, else compare and exchange."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from eas.base.dtypes import DType
from eas.base.types import Space, Type
from eas.codegen.llvm.casts import rounded
from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.memory_formats import alignment, from_memory, stored_type, to_memory, when
from eas.codegen.llvm.ops import nan_max, zero_of
from eas.codegen.llvm.text import Reg, Text, bits_of, mangled, register_type
from eas.ir import Inst
from eas.ops import TABLE
from eas.ops.atomic import number_of_values

_RMW_INT = {"add": "add", "and": "and", "or": "or", "xor": "xor", "xchg": "xchg"}


def atomic(kind: str) -> Callable[[LlvmEmitter, Inst, Sequence[Reg]], Reg]:
    """The spelling of one kind of atomic."""
    count = number_of_values(TABLE[f"atomic_{kind}"])

    def spell(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
        t, dtype = emitter.t, inst.out.dtype
        lanes = emitter.lanes if any(r.lanes > 1 for r in operands) or emitter.lanes > 1 else 1
        wide = [t.splat(r, lanes) for r in operands]
        result = Reg(
            "zeroinitializer" if lanes > 1 else zero_of(dtype).text, register_type(dtype), lanes
        )
        is_private = emitter.bases.get(inst.operands[0]) in emitter.private
        memory = inst.operands[0].type
        change = partial(plain_step if is_private else atomic_step, t, kind, memory)
        symbol = "_".join(["plain" if is_private else "atomic", kind, memory.space.name.lower(), memory.dtype.name, *map(mangled, wide)])
        made = emitter.ladder(symbol, wide, lambda *parts: _lane_by_lane(emitter, dtype, parts, count, result, change), result)
        assert made is not None
        return made

    return spell


def _lane_by_lane(emitter: LlvmEmitter, dtype: DType, wide: Sequence[Reg], count: int, result: Reg, change: Callable[[Reg, list[Reg]], Reg]) -> Reg:
    """`change` of a pointer and `count` numbers in every lane of which the mask is on, if there is one."""
    t = emitter.t
    mask = wide[1 + count] if len(wide) > 1 + count else None
    for lane in range(result.lanes):
        pointer, *values = (t.extract(r, lane) for r in wide[: 1 + count])
        if mask is None:
            old = change(pointer, values)
        else:
            found: list[Reg] = []

            def step(pointer: Reg = pointer, values: list[Reg] = values, found: list[Reg] = found) -> None:
                found.append(change(pointer, values))

            skipped, done = when(emitter, t.extract(mask, lane), step)
            zero = zero_of(dtype)
            old = t.let(f"phi {zero.type} [ {zero.text}, %{skipped} ], [ {found[0].text}, %{done} ]", zero.element, 1)
        result = t.insert(result, old, lane)
    return result


def plain_step(t: Text, kind: str, space: Type, pointer: Reg, values: list[Reg]) -> Reg:
    """What `atomic_step` does, where no other thread sees the memory."""
    element, dtype = stored_type(space), space.dtype
    old = t.let(f"load {element}, {pointer}, align {alignment(space)}", element, 1)
    if dtype.is_float:
        new = _updated(t, kind, dtype, old, values)
    elif kind in _RMW_INT:
        new = t.op(_RMW_INT[kind], old, values[0])
    else:
        new = t.call(f"llvm.{'s' if dtype.is_signed else 'u'}{kind}", element, old, values[0])
    t.line(f"store {new}, {pointer}, align {alignment(space)}")
    return old


def atomic_step(t: Text, kind: str, space: Type, pointer: Reg, values: list[Reg]) -> Reg:
    """One lane of an atomic; the result is what was in memory."""
    element, dtype = stored_type(space), space.dtype
    if kind == "poll":
        return _wait(t, pointer, *values)
    if kind == "cas":
        return _exchanged(t, space, pointer, *values)
    if not dtype.is_float and kind in _RMW_INT:
        return t.let(f"atomicrmw {_RMW_INT[kind]} {pointer}, {values[0]} monotonic", element, 1)
    if not dtype.is_float and kind in ("max", "min"):
        word = kind if dtype.is_signed else "u" + kind
        return t.let(f"atomicrmw {word} {pointer}, {values[0]} monotonic", element, 1)
    return _cas_loop(t, kind, space, pointer, values)


def _exchanged(t: Text, space: Type, pointer: Reg, expected: Reg, value: Reg) -> Reg:
    """Compare and exchange, by the bits in memory."""
    word = _word(space)
    wanted, new = (_as_bits(t, to_memory(t, v, space), word) for v in (expected, value))
    pair = t.let(f"cmpxchg {pointer}, {wanted}, {new} monotonic monotonic", "x", 1)
    return _from_bits(t, t.let(f"extractvalue {{ {word}, i1 }} {pair.text}, 0", word, 1), space)


_NOW = """\
define internal i64 @eas_now_ns() nounwind {
  %time = alloca { i64, i64 }
  %failed = call i32 @clock_gettime(i32 0, ptr %time)
  %seconds = load i64, ptr %time
  %rest = getelementptr i8, ptr %time, i64 8
  %ns = load i64, ptr %rest
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %ns
  ret i64 %now
}"""


def _wait(t: Text, pointer: Reg, expected: Reg, timeout: Reg) -> Reg:
    """Look at memory until it holds the number, or the time is over."""
    t.declare("@clock_gettime", "declare i32 @clock_gettime(i32, ptr)")
    t.helpers["eas_now_ns"] = _NOW
    head, again, done = (t.new_label(name) for name in ("poll", "waits", "polled"))
    start = t.let("call i64 @eas_now_ns()", "i64", 1)
    t.line(f"br label %{head}")
    t.label(head)
    seen = t.let(f"load atomic {expected.element}, {pointer} monotonic, align {bits_of(expected.element) // 8}", expected.element, 1)
    is_there = t.compare("icmp eq", seen, expected)
    t.line(f"br {is_there}, label %{done}, label %{again}")
    t.label(again)
    passed = t.op("sub", t.let("call i64 @eas_now_ns()", "i64", 1), start)
    t.line(f"br {t.compare('icmp uge', passed, timeout)}, label %{done}, label %{head}")
    t.label(done)
    return is_there


def _word(space: Type) -> str:
    """The integer type of an element in memory."""
    return f"i{8 * space.dtype.nbytes if space.space is Space.DEVICE else {'float': 32, 'double': 64}.get(stored_type(space), 8 * space.dtype.nbytes)}"


def _as_bits(t: Text, stored: Reg, word: str) -> Reg:
    return t.convert("bitcast", stored, word) if stored.element != word else stored


def _from_bits(t: Text, bits: Reg, space: Type) -> Reg:
    element = stored_type(space)
    return from_memory(t, t.convert("bitcast", bits, element) if element != bits.element else bits, space)


def _cas_loop(t: Text, kind: str, space: Type, pointer: Reg, values: list[Reg]) -> Reg:
    """Floats, and formats narrower than their register: compare and exchange the bits in memory."""
    word = _word(space)
    before, head, done = t.block, t.new_label("cas"), t.new_label("swapped")
    first = t.let(f"load atomic {word}, {pointer} monotonic, align {int(word[1:]) // 8}", word, 1)
    t.line(f"br label %{head}")
    t.label(head)
    current = Reg(t.name("seen"), word)
    at = len(t.lines)
    t.line("")
    old = _from_bits(t, current, space)
    bits = _as_bits(t, to_memory(t, _updated(t, kind, space.dtype, old, values), space), word)
    pair = t.let(f"cmpxchg {pointer}, {current}, {bits} monotonic monotonic", "x", 1)
    seen = t.let(f"extractvalue {{ {word}, i1 }} {pair.text}, 0", word, 1)
    ok = t.let(f"extractvalue {{ {word}, i1 }} {pair.text}, 1", "i1", 1)
    t.line(f"br {ok}, label %{done}, label %{head}")
    t.lines[at] = (
        f"  {current.text} = phi {word} [ {first.text}, %{before} ], [ {seen.text}, %{t.block} ]"
    )
    t.label(done)
    return old


def _updated(t: Text, kind: str, dtype: DType, old: Reg, values: list[Reg]) -> Reg:
    if kind == "xchg":
        return values[0]
    if kind == "add":
        return rounded(t, t.op("fadd", old, values[0]), dtype)
    return nan_max(t, old, values[0], kind)
