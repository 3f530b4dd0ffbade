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
from eas.codegen.llvm.text import Reg, Text, mangled, register_type
from eas.ir import Inst

_RMW_INT = {"add": "add", "and": "and", "or": "or", "xor": "xor", "xchg": "xchg"}


def atomic(kind: str) -> Callable[[LlvmEmitter, Inst, Sequence[Reg]], Reg]:
    """The spelling of one kind of atomic."""
    count = 2 if kind == "cas" else 1

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
    if not dtype.is_float and kind in _RMW_INT:
        return t.let(f"atomicrmw {_RMW_INT[kind]} {pointer}, {values[0]} monotonic", element, 1)
    if not dtype.is_float and kind in ("max", "min"):
        word = kind if dtype.is_signed else "u" + kind
        return t.let(f"atomicrmw {word} {pointer}, {values[0]} monotonic", element, 1)
    return _cas_loop(t, kind, space, pointer, values)


def _cas_loop(t: Text, kind: str, space: Type, pointer: Reg, values: list[Reg]) -> Reg:
    """Floats, and formats narrower than their register: compare and exchange the bits in memory."""
    dtype = space.dtype
    element = stored_type(space)
    word = f"i{8 * dtype.nbytes if space.space is Space.DEVICE else {'float': 32, 'double': 64}.get(element, 8 * dtype.nbytes)}"
    before, head, done = t.block, t.new_label("cas"), t.new_label("swapped")
    first = t.let(f"load atomic {word}, {pointer} monotonic, align {int(word[1:]) // 8}", word, 1)
    t.line(f"br label %{head}")
    t.label(head)
    current = Reg(t.name("seen"), word)
    at = len(t.lines)
    t.line("")
    raw = t.convert("bitcast", current, element) if element != word else current
    old = from_memory(t, raw, space)
    new = _updated(t, kind, dtype, old, values)
    bits = to_memory(t, new, space)
    bits = t.convert("bitcast", bits, word) if bits.element != word else bits
    if kind == "cas":
        wanted = to_memory(t, values[0], space)
        wanted = t.convert("bitcast", wanted, word) if wanted.element != word else wanted
        bits = t.select(t.compare("icmp eq", current, wanted), bits, current)
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
    if kind == "cas":
        return values[1]
    if kind == "xchg":
        return values[0]
    if kind == "add":
        return rounded(t, t.op("fadd", old, values[0]), dtype)
    return nan_max(t, old, values[0], kind)
