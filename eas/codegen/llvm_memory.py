"""How LLVM spells memory: addresses, loads and stores of every storage format, atomics, assertions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eas.codegen import strided
from eas.codegen.contract import contract
from eas.codegen.count_lanes import count
from eas.codegen.hold_mask import hold_mask, is_on, load_around
from eas.codegen.llvm_casts import decode, encode, rounded
from eas.codegen.llvm_ops import nan_max, zero_of
from eas.codegen.llvm_text import (
    Reg,
    Text,
    bits_of,
    mangled,
    memory_type,
    register_type,
    scratch_type,
    vector,
)
from eas.codegen.panels import contract_panels
from eas.codegen.relayout import relayout, turn
from eas.codegen.sort_rows import sort_row
from eas.codegen.vector_scan import vscan
from eas.dtypes import DType
from eas.ir import Inst, Trait
from eas.schedule.target import STREAM_NBYTES
from eas.types import Space, Type

if TYPE_CHECKING:
    from eas.codegen.llvm import Emitter


def _stored_type(pointer: Type) -> str:
    return (
        scratch_type(pointer.dtype)
        if pointer.space is not Space.DEVICE
        else memory_type(pointer.dtype)
    )


def _addptr(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    t = emitter.t
    pointer, offset = operands
    if offset.element != "i64":
        word = "sext" if inst.operands[1].dtype.is_signed else "zext"
        offset = (
            t.convert(word, offset, "i64")
            if offset.text.startswith(("%", "<"))
            else Reg(offset.text, "i64")
        )
    lanes = max(pointer.lanes, offset.lanes)
    if inst.operands[0] in emitter.bases:
        emitter.bases[inst.out] = emitter.bases[inst.operands[0]]
    return t.let(
        f"getelementptr {_stored_type(inst.operands[0].type)}, {pointer}, {offset}", "ptr", lanes
    )


def _vload(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    """Neighbouring elements, one per lane.

    Where no lane is on, the address is often outside of the buffer: processors are very slow to
    find out that nothing had to be read from a page that does not exist, so we do not ask them.
    """
    t, lanes = emitter.t, emitter.lanes
    pointer, kind = operands[0], inst.operands[0].type
    element = _stored_type(kind)
    if len(operands) == 1:
        raw = t.let(
            f"load {vector(element, lanes)}, {pointer}, align {_alignment(kind)}", element, lanes
        )
        return _from_memory(t, raw, kind)
    if lanes == 1:
        return _guarded_load(
            emitter, kind, pointer, operands[1], operands[2] if len(operands) > 2 else None
        )
    held = t.splat(operands[1], lanes)
    mask = is_on(t, held)
    nothing = Reg("zeroinitializer", element, lanes)
    other = t.splat(operands[2], lanes) if len(operands) > 2 else None
    is_plain = element == register_type(kind.dtype)
    through = other if other is not None and is_plain else nothing
    symbol = f"@llvm.masked.load.{mangled(nothing)}.p0"
    t.declare(
        symbol, f"declare {nothing.type} {symbol}(ptr, i32 immarg, <{lanes} x i1>, {nothing.type})"
    )
    found: list[Reg] = []
    call = f"call {nothing.type} {symbol}({pointer}, i32 {_alignment(kind)}, {mask}, {through})"
    if dict(inst.attrs).get("sure"):
        middle = dict(inst.attrs).get("middle")
        if middle is not None and not emitter.check_bounds:
            raw = load_around(t, pointer, middle, held, through, _alignment(kind))
        else:
            raw = t.let(call, element, lanes)
        value = _from_memory(t, raw, kind)
        return value if other is None or is_plain else t.select(mask, value, other)
    skipped, loaded = when(emitter, _any(t, mask), lambda: found.append(t.let(call, element, lanes)))
    phi = f"phi {nothing.type} [ {through.text}, %{skipped} ], [ {found[0].text}, %{loaded} ]"
    value = _from_memory(t, t.let(phi, element, lanes), kind)
    return value if other is None or is_plain else t.select(mask, value, other)


def _alignment(kind: Type) -> int:
    return (
        max(1, kind.dtype.nbytes)
        if kind.space is Space.DEVICE
        else max(1, min(4, kind.dtype.nbytes))
    )


def _from_memory(t: Text, raw: Reg, kind: Type) -> Reg:
    if kind.space is not Space.DEVICE:
        return t.convert("trunc", raw, "i1") if kind.dtype.is_bool else raw
    return decode(t, raw, kind.dtype)


def _to_memory(t: Text, value: Reg, kind: Type) -> Reg:
    if kind.space is not Space.DEVICE:
        return t.convert("zext", value, "i8") if kind.dtype.is_bool else value
    return encode(t, value, kind.dtype)


def _vstore(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    t, lanes = emitter.t, emitter.lanes
    pointer, kind = operands[0], inst.operands[0].type
    value = _to_memory(t, t.splat(operands[1], lanes), kind)
    if len(operands) == 2 and dict(inst.attrs).get("stream"):
        _stream(emitter, value, pointer)
    elif len(operands) == 2:
        t.line(f"store {value}, {pointer}, align {_alignment(kind)}")
    elif lanes == 1:
        _guarded_store(emitter, kind, pointer, value, operands[2])
    else:
        symbol = f"@llvm.masked.store.{mangled(value)}.p0"
        t.declare(symbol, f"declare void {symbol}({value.type}, ptr, i32 immarg, <{lanes} x i1>)")
        mask = t.splat(operands[2], lanes)
        call = f"call void {symbol}({value}, {pointer}, i32 {_alignment(kind)}, {mask})"
        when(emitter, _any(t, mask), lambda: t.line(call))
    return ()


_CACHE_NBYTES = 1 << 23


def _stream(emitter: Emitter, value: Reg, pointer: Reg) -> None:
    """Store past the cache, in pieces of 16 bytes."""
    t = emitter.t
    emitter.uses_streams = True
    lanes = STREAM_NBYTES * 8 // bits_of(value.element)
    for first in range(0, value.lanes, lanes):
        order = ", ".join(f"i32 {first + i}" for i in range(lanes))
        piece = t.let(
            f"shufflevector {value}, {value.type} poison, <{lanes} x i32> <{order}>",
            value.element,
            lanes,
        )
        at = t.let(f"getelementptr {value.element}, {pointer}, i64 {first}", "ptr", 1)
        t.line(f"store {piece}, {at}, align {STREAM_NBYTES}, !nontemporal !0")


def _can_stream(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    t = emitter.t
    base = emitter.bases.get(inst.operands[0])
    if base is None:
        return Reg("false", "i1")
    address = t.convert("ptrtoint", operands[0], "i64")
    low = t.op("and", address, t.like(STREAM_NBYTES - 1, address))
    return t.op("and", t.compare("icmp eq", low, t.like(0, low)), _is_large(emitter, inst, base))


def _is_large(emitter: Emitter, inst: Inst, base: int) -> Reg:
    size = emitter.buffer_size(base)
    least = _CACHE_NBYTES // inst.operands[0].dtype.nbytes
    return emitter.t.compare("icmp sge", size, emitter.t.like(least, size))


def _stream_head(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    t = emitter.t
    base = emitter.bases.get(inst.operands[0])
    if base is None:
        return Reg("-1", "i32")
    nbytes = inst.operands[0].dtype.nbytes
    address = t.convert("ptrtoint", operands[0], "i64")
    low = t.op("and", t.op("sub", t.like(0, address), address), t.like(STREAM_NBYTES - 1, address))
    head = t.convert("trunc", t.op("udiv", low, t.like(nbytes, low)), "i32")
    allowed = _is_large(emitter, inst, base)
    if nbytes < 4:  # no store of a single one gets past the cache
        allowed = t.op("and", allowed, t.compare("icmp eq", head, t.like(0, head)))
    return t.select(allowed, head, t.like(-1, head))


def _load(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    """One address, or one per lane."""
    t, kind = emitter.t, inst.operands[0].type
    lanes = max(r.lanes for r in operands)
    mask = operands[1] if len(operands) > 1 else None
    other = operands[2] if len(operands) > 2 else None
    if lanes == 1:
        if mask is not None:
            return _guarded_load(emitter, kind, operands[0], mask, other)
        element = _stored_type(kind)
        raw = t.let(f"load {element}, {operands[0]}, align {_alignment(kind)}", element, 1)
        return _from_memory(t, raw, kind)
    return _gather(t, kind, t.splat(operands[0], lanes), mask, other)


def _gather(t: Text, kind: Type, pointers: Reg, mask: Reg | None, other: Reg | None) -> Reg:
    element, lanes = _stored_type(kind), pointers.lanes
    nothing = Reg("zeroinitializer", element, lanes)
    symbol = f"@llvm.masked.gather.{mangled(nothing)}.v{lanes}p0"
    t.declare(
        symbol,
        f"declare {nothing.type} {symbol}(<{lanes} x ptr>, i32 immarg, <{lanes} x i1>, {nothing.type})",
    )
    active = t.splat(mask if mask is not None else Reg("true", "i1"), lanes)
    raw = t.let(
        f"call {nothing.type} {symbol}({pointers}, i32 {_alignment(kind)}, {active}, {nothing})",
        element,
        lanes,
    )
    value = _from_memory(t, raw, kind)
    return value if other is None else t.select(active, value, t.splat(other, lanes))


def _store(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    t, kind = emitter.t, inst.operands[0].type
    lanes = max(r.lanes for r in operands)
    value = _to_memory(t, t.splat(operands[1], lanes), kind)
    mask = operands[2] if len(operands) > 2 else None
    if lanes == 1:
        if mask is not None:
            _guarded_store(emitter, kind, operands[0], value, mask)
        else:
            past = ", !nontemporal !0" if dict(inst.attrs).get("stream") else ""
            emitter.uses_streams |= bool(past)
            t.line(f"store {value}, {operands[0]}, align {_alignment(kind)}{past}")
        return ()
    pointers = t.splat(operands[0], lanes)
    symbol = f"@llvm.masked.scatter.{mangled(value)}.v{lanes}p0"
    t.declare(
        symbol, f"declare void {symbol}({value.type}, <{lanes} x ptr>, i32 immarg, <{lanes} x i1>)"
    )
    active = t.splat(mask if mask is not None else Reg("true", "i1"), lanes)
    t.line(f"call void {symbol}({value}, {pointers}, i32 {_alignment(kind)}, {active})")
    return ()


def _stride_load(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> Any:
    kind, (pointer, step) = inst.operands[0].type, operands
    if emitter.check_bounds:
        return _checked_load(emitter, inst, [_spread(emitter, kind, pointer, step)])
    raw = strided.load(emitter.t, _stored_type(kind), pointer, step, emitter.lanes, _alignment(kind))
    return _from_memory(emitter.t, raw, kind)


def _stride_store(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> Any:
    kind, (pointer, step, value) = inst.operands[0].type, operands
    if emitter.check_bounds:
        return _checked_store(emitter, inst, [_spread(emitter, kind, pointer, step), value])
    raw = _to_memory(emitter.t, emitter.t.splat(value, emitter.lanes), kind)
    strided.store(emitter.t, raw, pointer, step, _alignment(kind))
    return ()


def _spread(emitter: Emitter, kind: Type, pointer: Reg, step: Reg) -> Reg:
    """The address of each lane."""
    t, lanes = emitter.t, emitter.lanes
    numbers = Reg("<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">", "i64", lanes)
    offset = t.op("mul", numbers, t.splat(step, lanes))
    return t.let(f"getelementptr {_stored_type(kind)}, {pointer}, {offset}", "ptr", lanes)


def when(emitter: Emitter, condition: Reg, body: Callable[[], None]) -> tuple[str, str]:
    """`if (condition) body()`; returns the blocks that reach the end, without and with the body."""
    t = emitter.t
    before, inside, after = t.block, t.new_label("when"), t.new_label("after")
    t.line(f"br {condition}, label %{inside}, label %{after}")
    t.label(inside)
    body()
    last = t.block
    t.line(f"br label %{after}")
    t.label(after)
    return before, last


def _guarded_load(emitter: Emitter, kind: Type, pointer: Reg, mask: Reg, other: Reg | None) -> Reg:
    t, element = emitter.t, _stored_type(kind)
    found: list[Reg] = []

    def body() -> None:
        found.append(
            _from_memory(
                t, t.let(f"load {element}, {pointer}, align {_alignment(kind)}", element, 1), kind
            )
        )

    skipped, loaded = when(emitter, mask, body)
    default = other if other is not None else zero_of(kind.dtype)
    text = f"phi {default.type} [ {default.text}, %{skipped} ], [ {found[0].text}, %{loaded} ]"
    return t.let(text, default.element, 1)


def _guarded_store(emitter: Emitter, kind: Type, pointer: Reg, value: Reg, mask: Reg) -> None:
    when(
        emitter, mask, lambda: emitter.t.line(f"store {value}, {pointer}, align {_alignment(kind)}")
    )


# --- atomics ------------------------------------------------------------------------------------

_RMW_INT = {"add": "add", "and": "and", "or": "or", "xor": "xor", "xchg": "xchg"}


def _atomic(kind: str) -> Callable[[Emitter, Inst, Sequence[Reg]], Reg]:
    count = 2 if kind == "cas" else 1

    def spell(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
        t, dtype = emitter.t, inst.out.dtype
        lanes = emitter.lanes if any(r.lanes > 1 for r in operands) or emitter.lanes > 1 else 1
        wide = [t.splat(r, lanes) for r in operands]
        result = Reg(
            "zeroinitializer" if lanes > 1 else zero_of(dtype).text, register_type(dtype), lanes
        )
        mask = wide[1 + count] if len(wide) > 1 + count else None
        is_private = emitter.bases.get(inst.operands[0]) in emitter.private
        change = plain_step if is_private else atomic_step
        for lane in range(lanes):
            pointer, *values = (t.extract(r, lane) for r in wide[: 1 + count])
            found: list[Reg] = []
            if mask is None:
                found.append(change(t, kind, inst.operands[0].type, pointer, values))
                old = found[0]
            else:

                def step(
                    pointer: Reg = pointer, values: list[Reg] = values, found: list[Reg] = found
                ) -> None:
                    found.append(change(t, kind, inst.operands[0].type, pointer, values))

                skipped, done = when(emitter, t.extract(mask, lane), step)
                zero = zero_of(dtype)
                old = t.let(
                    f"phi {zero.type} [ {zero.text}, %{skipped} ], [ {found[0].text}, %{done} ]",
                    zero.element,
                    1,
                )
            result = t.insert(result, old, lane)
        return result

    return spell


def plain_step(t: Text, kind: str, space: Type, pointer: Reg, values: list[Reg]) -> Reg:
    """What `atomic_step` does, where no other thread sees the memory."""
    element, dtype = _stored_type(space), space.dtype
    old = t.let(f"load {element}, {pointer}, align {_alignment(space)}", element, 1)
    if dtype.is_float:
        new = _updated(t, kind, dtype, old, values)
    elif kind in _RMW_INT:
        new = t.op(_RMW_INT[kind], old, values[0])
    else:
        new = t.call(f"llvm.{'s' if dtype.is_signed else 'u'}{kind}", element, old, values[0])
    t.line(f"store {new}, {pointer}, align {_alignment(space)}")
    return old


def atomic_step(t: Text, kind: str, space: Type, pointer: Reg, values: list[Reg]) -> Reg:
    """One lane of an atomic; the result is what was in memory."""
    element, dtype = _stored_type(space), space.dtype
    if not dtype.is_float and kind in _RMW_INT:
        return t.let(f"atomicrmw {_RMW_INT[kind]} {pointer}, {values[0]} monotonic", element, 1)
    if not dtype.is_float and kind in ("max", "min"):
        word = kind if dtype.is_signed else "u" + kind
        return t.let(f"atomicrmw {word} {pointer}, {values[0]} monotonic", element, 1)
    return _cas_loop(t, kind, space, pointer, values)


def _cas_loop(t: Text, kind: str, space: Type, pointer: Reg, values: list[Reg]) -> Reg:
    """Floats, and formats narrower than their register: compare and exchange the bits in memory."""
    dtype = space.dtype
    element = _stored_type(space)
    word = f"i{8 * dtype.nbytes if space.space is Space.DEVICE else {'float': 32, 'double': 64}.get(element, 8 * dtype.nbytes)}"
    before, head, done = t.block, t.new_label("cas"), t.new_label("swapped")
    first = t.let(f"load atomic {word}, {pointer} monotonic, align {int(word[1:]) // 8}", word, 1)
    t.line(f"br label %{head}")
    t.label(head)
    current = Reg(t.name("seen"), word)
    at = len(t.lines)
    t.line("")
    raw = t.convert("bitcast", current, element) if element != word else current
    old = _from_memory(t, raw, space)
    new = _updated(t, kind, dtype, old, values)
    bits = _to_memory(t, new, space)
    bits = t.convert("bitcast", bits, word) if bits.element != word else bits
    if kind == "cas":
        wanted = _to_memory(t, values[0], space)
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


# --- messages -----------------------------------------------------------------------------------


def _device_assert(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    """The first lane that fails wins the error record; the program goes on."""
    t = emitter.t
    lanes = max(r.lanes for r in operands)
    failed = t.op("xor", t.splat(operands[0], lanes), t.like(1, t.splat(operands[0], lanes)))
    if len(operands) > 1:
        failed = t.op("and", failed, t.splat(operands[1], lanes))
    if lanes > 1:
        failed = _any(t, failed)
    report(emitter, failed, 1, emitter.place(inst["message"], inst.loc))
    return ()


def _vany(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    flags = operands[0]
    return flags if flags.lanes == 1 else _any(emitter.t, flags)


def _any(t: Text, flags: Reg) -> Reg:
    symbol = f"@llvm.vector.reduce.or.v{flags.lanes}i1"
    t.declare(symbol, f"declare i1 {symbol}({flags.type})")
    return t.let(f"call i1 {symbol}({flags})", "i1", 1)


def report(
    emitter: Emitter, failed: Reg, kind: int, place: int, details: Sequence[Any] = ()
) -> None:
    """Fill the error record unless somebody was first: {i32 flag, i32 kind, i64 place, i64 a, b, c}."""
    t = emitter.t

    def body() -> None:
        pair = t.let("cmpxchg ptr %err, i32 0, i32 1 monotonic monotonic", "x", 1)
        won = t.let(f"extractvalue {{ i32, i1 }} {pair.text}, 1", "i1", 1)

        def fill() -> None:
            for offset, value in (
                (4, f"i32 {kind}"),
                (8, f"i64 {place}"),
                (16, "i64 %program"),
                *((24 + 8 * i, d) for i, d in enumerate(details)),
            ):
                at = t.let(f"getelementptr i8, ptr %err, i64 {offset}", "ptr", 1)
                t.line(f"store {value}, {at}")

        when(emitter, won, fill)

    when(emitter, failed, body)


def _log(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    """A record {i64 nbytes, i64 place, i64 program, values padded to 8} in the host's log, if it fits.

    The log starts with {i64 capacity, i64 used}; what does not fit is only counted in `used`.
    """
    t = emitter.t
    sizes = [_slot_nbytes(d, s) for d, s in zip(inst["dtypes"], inst["shapes"], strict=True)]
    nbytes = 24 + sum((n + 7) // 8 * 8 for n in sizes)
    place = emitter.log_place(inst)
    t.declare(
        "@llvm.memcpy.p0.p0.i64", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)"
    )
    used = t.let("getelementptr i8, ptr %log, i64 8", "ptr", 1)
    at = t.let(f"atomicrmw add {used}, i64 {nbytes} monotonic", "i64", 1)
    end = t.op("add", at, t.like(nbytes, at))
    capacity = t.let("load i64, ptr %log", "i64", 1)

    def body() -> None:
        record = t.let(f"getelementptr i8, ptr %log, {at}", "ptr", 1)
        offset = 0
        for value in (f"i64 {nbytes}", f"i64 {place}", "i64 %program"):
            cell = t.let(f"getelementptr i8, {record}, i64 {offset}", "ptr", 1)
            t.line(f"store {value}, {cell}")
            offset += 8
        for source, size in zip(operands, sizes, strict=True):
            cell = t.let(f"getelementptr i8, {record}, i64 {offset}", "ptr", 1)
            t.line(f"call void @llvm.memcpy.p0.p0.i64({cell}, {source}, i64 {size}, i1 false)")
            offset += (size + 7) // 8 * 8

    when(emitter, t.compare("icmp sle", end, capacity), body)
    return ()


def _slot_nbytes(dtype: DType, shape: tuple[int, ...]) -> int:
    n = bits_of(scratch_type(dtype)) // 8
    for extent in shape:
        n *= extent
    return n


# --- checked accesses ---------------------------------------------------------------------------


def _checked(
    spell: Callable[[Any, Inst, Sequence[Reg]], Any], values: int
) -> Callable[[Any, Inst, Sequence[Reg]], Any]:
    """With `EAS_CHECK_BOUNDS`, lanes outside of the buffer are reported and masked off."""

    def checked(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> Any:
        base = emitter.bases.get(inst.operands[0]) if emitter.check_bounds else None
        if base is None:
            return spell(emitter, inst, operands)
        t, pointer = emitter.t, operands[0]
        is_run = inst.op.name in ("vload", "vstore")
        lanes = emitter.lanes if is_run else max(r.lanes for r in operands)
        nbytes = inst.operands[0].dtype.nbytes
        address = t.convert("ptrtoint", t.splat(pointer, lanes), "i64")
        start = t.convert("ptrtoint", t.splat(emitter.buffer(base), lanes), "i64")
        index = t.op("sdiv", t.op("sub", address, start), t.number(nbytes, "i64", lanes))
        if is_run and lanes > 1:
            index = t.op(
                "add",
                index,
                Reg("<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">", "i64", lanes),
            )
        size = t.splat(emitter.buffer_size(base), lanes)
        inside = t.compare("icmp ult", index, size)
        mask = (
            is_on(t, t.splat(operands[1 + values], lanes))
            if len(operands) > 1 + values
            else t.number(1, "i1", lanes)
        )
        wrong = t.op("and", mask, t.op("xor", inside, t.like(1, inside)))
        _report_lanes(emitter, inst, base, wrong, index)
        good = t.op("and", mask, inside)
        return spell(emitter, inst, [*operands[: 1 + values], good, *operands[2 + values :]])

    return checked


def _report_lanes(emitter: Emitter, inst: Inst, base: int, wrong: Reg, index: Reg) -> None:
    """Report the first lane that is outside."""
    t = emitter.t
    kind = 3 if inst.op.has(Trait.WRITES) else 2
    place = emitter.place(emitter.module.args[base].name, inst.loc)
    size = emitter.buffer_size(base)
    if wrong.lanes == 1:
        report(emitter, wrong, kind, place, [str(index), str(size)])
        return

    def body() -> None:
        bits = t.let(f"bitcast {wrong} to i{wrong.lanes}", f"i{wrong.lanes}", 1)
        symbol = f"@llvm.cttz.i{wrong.lanes}"
        t.declare(symbol, f"declare i{wrong.lanes} {symbol}(i{wrong.lanes}, i1 immarg)")
        lane = t.let(f"call i{wrong.lanes} {symbol}({bits}, i1 true)", bits.element, 1)
        first = t.let(f"extractelement {index}, {lane}", "i64", 1)
        report(emitter, Reg("true", "i1"), kind, place, [str(first), str(size)])

    when(emitter, _any(t, wrong), body)


_checked_load, _checked_store = _checked(_load, 0), _checked(_store, 1)
MEMORY: dict[str, Callable[[Any, Inst, Sequence[Reg]], Any]] = {
    "addptr": _addptr, "vload": _checked(_vload, 0), "vstore": _checked(_vstore, 1),
    "load": _checked_load, "store": _checked_store, "stride_load": _stride_load, "stride_store": _stride_store,
    "hold": hold_mask, "can_stream": _can_stream, "stream_head": _stream_head,
    "device_assert": _device_assert, "contract": contract, "contract_panels": contract_panels, "sort_row": sort_row, "vscan": vscan, "vany": _vany, "count": count, "relayout": relayout, "turn": turn, "write_log": _log,
    **{f"atomic_{kind}": _checked(_atomic(kind), 2 if kind == "cas" else 1) for kind in ("add", "max", "min", "and", "or", "xor", "xchg", "cas")},
}  # fmt: skip
