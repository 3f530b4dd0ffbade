"""How LLVM spells memory: addresses, loads and stores of every storage format, atomics, assertions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eas.base.dtypes import DType
from eas.base.types import Type
from eas.codegen.llvm import near_lanes, strided
from eas.codegen.llvm.atomics import atomic
from eas.codegen.llvm.count_lanes import count
from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.find_lane import lane_bits
from eas.codegen.llvm.first_lanes import first_lanes
from eas.codegen.llvm.matrix.contract import contract
from eas.codegen.llvm.matrix.panels import contract_panels
from eas.codegen.llvm.matrix.relayout import relayout, turn
from eas.codegen.llvm.memory_formats import (
    alignment,
    either,
    from_memory,
    stored_type,
    to_memory,
    when,
)
from eas.codegen.llvm.opaque_mask import is_on, load_around, opaque_mask
from eas.codegen.llvm.ops import zero_of
from eas.codegen.llvm.past_cache import (
    avoids_4k_aliasing,
    can_stream,
    store_past,
    store_single_past,
    store_some_past,
    stream_head,
)
from eas.codegen.llvm.sorting.rows import sort_row
from eas.codegen.llvm.sorting.values import sort_values
from eas.codegen.llvm.text import (
    Reg,
    Text,
    bits_of,
    mangled,
    register_type,
    scratch_type,
    vector,
)
from eas.codegen.llvm.vector_scan import vscan
from eas.ir import Inst, Trait
from eas.ops import TABLE
from eas.ops.atomic import number_of_values

_ACCESS_WEIGHT = 4  # lines: LLVM compares the accesses of a block with each other


def _addptr(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    t = emitter.t
    pointer, offset = operands
    if offset.element != "i64":
        word = "sext" if inst.operands[1].dtype.is_signed else "zext"
        offset = (
            t.convert(word, offset, "i64")
            if offset.lanes > 1 or not offset.is_literal
            else Reg(offset.text, "i64")
        )
    lanes = max(pointer.lanes, offset.lanes)
    if inst.operands[0] in emitter.bases:
        emitter.bases[inst.out] = emitter.bases[inst.operands[0]]
    return t.let(
        f"getelementptr {stored_type(inst.operands[0].type)}, {pointer}, {offset}", "ptr", lanes
    )


def _prefetch(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    """Every line that the lanes will read."""
    t, locality = emitter.t, 4 - inst["level"]  # of LLVM: 3 is L1, 2 is L2
    t.declare("@llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for ahead in range(0, emitter.lanes * inst.operands[0].dtype.nbytes, emitter.target.caches.line):
        at = t.let(f"getelementptr i8, {operands[0]}, i64 {ahead}", "ptr", 1)
        t.line(f"call void @llvm.prefetch.p0({at}, i32 0, i32 {locality}, i32 1)")
    return ()


def _vload(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    """Neighbouring elements, one per lane.

    Where no lane is on, the address is often outside of the buffer: processors are very slow to
    find out that nothing had to be read from a page that does not exist, so we do not ask them.
    """
    t, lanes = emitter.t, emitter.lanes
    pointer, kind = operands[0], inst.operands[0].type
    element = stored_type(kind)
    if len(operands) == 1:
        raw = t.let(
            f"load {vector(element, lanes)}, {pointer}, align {alignment(kind)}", element, lanes
        )
        return from_memory(t, raw, kind)
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

    def read() -> Reg:
        return t.masked_load(pointer, alignment(kind), mask, through)

    found: list[Reg] = []
    if inst["sure"]:
        middle = inst["middle"]
        if middle is not None and not emitter.check_bounds:
            raw = load_around(t, pointer, middle, held, through, alignment(kind))
        else:
            raw = read()
        value = from_memory(t, raw, kind)
        return value if other is None or is_plain else t.select(mask, value, other)
    left = emitter.first_lanes.left(t, mask) if kind.dtype.nbytes < 4 and emitter.target.has_narrow_masks and lanes <= 64 else None
    if left is None:
        skipped, loaded = when(emitter, _any(t, mask), lambda: found.append(read()))
    else:
        some = t.let(f"icmp sgt {left}, 0", "i1", 1)
        skipped, loaded = when(emitter, some, lambda: found.append(t.masked_load(pointer, alignment(kind), first_lanes(t, left, lanes), through)))
    phi = f"phi {nothing.type} [ {through.text}, %{skipped} ], [ {found[0].text}, %{loaded} ]"
    value = from_memory(t, t.let(phi, element, lanes), kind)
    return value if other is None or is_plain else t.select(mask, value, other)


def _vstore(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    t, lanes = emitter.t, emitter.lanes
    pointer, kind = operands[0], inst.operands[0].type
    value = to_memory(t, t.splat(operands[1], lanes), kind)
    if len(operands) == 2 and inst["stream"]:
        store_past(emitter, value, pointer)
    elif len(operands) == 2:
        t.line(f"store {value}, {pointer}, align {alignment(kind)}")
    elif lanes == 1:
        _guarded_store(emitter, kind, pointer, value, operands[2])
    elif inst["singly"]:
        store_single_past(emitter, value, pointer, t.splat(operands[2], lanes))
    else:
        mask = t.splat(operands[2], lanes)

        def store_some(value: Reg, pointer: Reg, mask: Reg) -> None:
            when(emitter, _any(t, mask), lambda: _masked_store(t, kind, pointer, value, mask))

        if len(operands) > 3:
            store_some_past(emitter, operands[3], (value, pointer, mask), alignment(kind), store_some)
        else:
            store_some(value, pointer, mask)
    return ()


def _masked_store(t: Text, kind: Type, pointer: Reg, value: Reg, mask: Reg) -> None:
    symbol = f"@llvm.masked.store.{mangled(value)}.p0"
    t.declare(symbol, f"declare void {symbol}({value.type}, ptr, i32 immarg, {mask.type})")
    t.line(f"call void {symbol}({value}, {pointer}, i32 {alignment(kind)}, {mask})")


def _load(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    """One address, or one per lane."""
    t, kind = emitter.t, inst.operands[0].type
    lanes = max(r.lanes for r in operands)
    mask = operands[1] if len(operands) > 1 else None
    other = operands[2] if len(operands) > 2 else None
    if lanes == 1:
        t.weight += _ACCESS_WEIGHT
        if mask is not None:
            return _guarded_load(emitter, kind, operands[0], mask, other)
        element = stored_type(kind)
        raw = t.let(f"load {element}, {operands[0]}, align {alignment(kind)}", element, 1)
        return from_memory(t, raw, kind)
    return _gather(t, kind, t.splat(operands[0], lanes), mask, other)


def _gather(t: Text, kind: Type, pointers: Reg, mask: Reg | None, other: Reg | None) -> Reg:
    element, lanes = stored_type(kind), pointers.lanes
    nothing = Reg("zeroinitializer", element, lanes)
    symbol = f"@llvm.masked.gather.{mangled(nothing)}.v{lanes}p0"
    t.declare(
        symbol,
        f"declare {nothing.type} {symbol}(<{lanes} x ptr>, i32 immarg, <{lanes} x i1>, {nothing.type})",
    )
    active = t.splat(mask if mask is not None else Reg("true", "i1"), lanes)
    raw = t.let(
        f"call {nothing.type} {symbol}({pointers}, i32 {alignment(kind)}, {active}, {nothing})",
        element,
        lanes,
    )
    value = from_memory(t, raw, kind)
    return value if other is None else t.select(active, value, t.splat(other, lanes))


def _store(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    t, kind = emitter.t, inst.operands[0].type
    lanes = max(r.lanes for r in operands)
    value = to_memory(t, t.splat(operands[1], lanes), kind)
    mask = operands[2] if len(operands) > 2 else None
    if lanes == 1:
        t.weight += _ACCESS_WEIGHT
        if mask is not None:
            _guarded_store(emitter, kind, operands[0], value, mask)
        else:
            past = ", !nontemporal !0" if inst["stream"] else ""
            emitter.uses_streams |= bool(past)
            t.line(f"store {value}, {operands[0]}, align {alignment(kind)}{past}")
        return ()
    pointers = t.splat(operands[0], lanes)
    symbol = f"@llvm.masked.scatter.{mangled(value)}.v{lanes}p0"
    t.declare(
        symbol, f"declare void {symbol}({value.type}, <{lanes} x ptr>, i32 immarg, <{lanes} x i1>)"
    )
    active = t.splat(mask if mask is not None else Reg("true", "i1"), lanes)
    t.line(f"call void {symbol}({value}, {pointers}, i32 {alignment(kind)}, {active})")
    return ()


def _stride_load(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Any:
    kind, (pointer, step, *masks) = inst.operands[0].type, operands
    if masks:
        return _stride_load_some(emitter, inst, pointer, step, masks)
    if emitter.check_bounds:
        return _checked_load(emitter, inst, [_spread(emitter, kind, pointer, step)])
    raw = strided.load(emitter.t, stored_type(kind), pointer, step, emitter.lanes, alignment(kind))
    return from_memory(emitter.t, raw, kind)


def _stride_load_some(emitter: LlvmEmitter, inst: Inst, pointer: Reg, step: Reg, masks: Sequence[Reg]) -> Any:
    """As `_vload`, of elements further apart."""
    t, lanes, kind = emitter.t, emitter.lanes, inst.operands[0].type
    element = stored_type(kind)
    mask = t.splat(masks[0], lanes)
    nothing = Reg("zeroinitializer", element, lanes)
    if emitter.check_bounds or not strided.can_load_some(element, step, lanes):
        return _checked_load(emitter, inst, [_spread(emitter, kind, pointer, step), is_on(t, mask), *masks[1:]])
    is_zero = len(masks) == 1 or masks[1].text == zero_of(kind.dtype).text
    other = nothing if is_zero else t.splat(masks[1], lanes)

    def read() -> Reg:
        return strided.load_some(t, pointer, int(step.text), mask, other, alignment(kind), inst["middle"] or (0, 0))

    if inst["sure"]:
        return read()
    found: list[Reg] = []
    skipped, loaded = when(emitter, _any(t, is_on(t, mask)), lambda: found.append(read()))
    return t.let(f"phi {nothing.type} [ {other.text}, %{skipped} ], [ {found[0].text}, %{loaded} ]", element, lanes)


def _near_load(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Any:
    """`near_load`, or `table_load`, which has a count."""
    t, kind, (pointer, index, *count) = emitter.t, inst.operands[0].type, operands
    element, align = stored_type(kind), alignment(kind)
    index = t.splat(index, emitter.lanes)

    def one_by_one() -> Any:
        at = t.let(f"getelementptr {element}, {pointer}, {index}", "ptr", emitter.lanes)
        return _checked_load(emitter, inst, [at])

    if emitter.check_bounds or not near_lanes.can_permute(element, emitter.lanes):
        return one_by_one()
    if not count:
        return near_lanes.near(t, element, pointer, index, align)
    is_small = t.compare("icmp sle", count[0], t.like(near_lanes.WIDE, count[0]))
    found: list[Reg] = []
    ends = either(
        emitter,
        is_small,
        lambda: found.append(near_lanes.table(t, element, pointer, index, count[0], align)),
        lambda: found.append(one_by_one()),
    )
    phi = ", ".join(f"[ {r.text}, %{end} ]" for r, end in zip(found, ends, strict=True))
    return t.let(f"phi {found[0].type} {phi}", element, emitter.lanes)


def _stride_store(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Any:
    kind, (pointer, step, value) = inst.operands[0].type, operands
    if emitter.check_bounds:
        return _checked_store(emitter, inst, [_spread(emitter, kind, pointer, step), value])
    raw = to_memory(emitter.t, emitter.t.splat(value, emitter.lanes), kind)
    strided.store(emitter.t, raw, pointer, step, alignment(kind))
    return ()


def _spread(emitter: LlvmEmitter, kind: Type, pointer: Reg, step: Reg) -> Reg:
    """The address of each lane."""
    t, lanes = emitter.t, emitter.lanes
    numbers = Reg("<" + ", ".join(f"i64 {i}" for i in range(lanes)) + ">", "i64", lanes)
    offset = t.op("mul", numbers, t.splat(step, lanes))
    return t.let(f"getelementptr {stored_type(kind)}, {pointer}, {offset}", "ptr", lanes)


def _guarded_load(emitter: LlvmEmitter, kind: Type, pointer: Reg, mask: Reg, other: Reg | None) -> Reg:
    t, element = emitter.t, stored_type(kind)
    found: list[Reg] = []

    def body() -> None:
        found.append(
            from_memory(
                t, t.let(f"load {element}, {pointer}, align {alignment(kind)}", element, 1), kind
            )
        )

    skipped, loaded = when(emitter, mask, body)
    default = other if other is not None else zero_of(kind.dtype)
    text = f"phi {default.type} [ {default.text}, %{skipped} ], [ {found[0].text}, %{loaded} ]"
    return t.let(text, default.element, 1)


def _guarded_store(emitter: LlvmEmitter, kind: Type, pointer: Reg, value: Reg, mask: Reg) -> None:
    when(
        emitter, mask, lambda: emitter.t.line(f"store {value}, {pointer}, align {alignment(kind)}")
    )


# --- messages -----------------------------------------------------------------------------------


def _device_assert(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
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


def _vany(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    flags = operands[0]
    return flags if flags.lanes == 1 else _any(emitter.t, flags)


def _any(t: Text, flags: Reg) -> Reg:
    symbol = f"@llvm.vector.reduce.or.v{flags.lanes}i1"
    t.declare(symbol, f"declare i1 {symbol}({flags.type})")
    return t.let(f"call i1 {symbol}({flags})", "i1", 1)


def report(
    emitter: LlvmEmitter, failed: Reg, kind: int, place: int, details: Sequence[Any] = ()
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


def _log(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
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
    spell: Callable[[LlvmEmitter, Inst, Sequence[Reg]], Any], values: int
) -> Callable[[LlvmEmitter, Inst, Sequence[Reg]], Any]:
    """With `EAS_CHECK_BOUNDS`, lanes outside of the buffer are reported and masked off."""

    def checked(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Any:
        base = emitter.bases.get(inst.operands[0]) if emitter.check_bounds else None
        if base is None:
            return spell(emitter, inst, operands)
        t, pointer = emitter.t, operands[0]
        is_run = inst.op.name in ("vload", "vstore")
        lanes = emitter.lanes if is_run else max(r.lanes for r in operands)
        nbytes = bits_of(stored_type(inst.operands[0].type)) // 8
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


def _report_lanes(emitter: LlvmEmitter, inst: Inst, base: int, wrong: Reg, index: Reg) -> None:
    """Report the first lane that is outside."""
    t = emitter.t
    kind = 3 if inst.op.has(Trait.WRITES) else 2
    place = emitter.place(emitter.buffer_name(base), inst.loc)
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
def _int_to_ptr(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    return emitter.t.convert("inttoptr", operands[0], "ptr")


def _ptr_to_int(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    return emitter.t.convert("ptrtoint", operands[0], "i64")


MEMORY: dict[str, Callable[[LlvmEmitter, Inst, Sequence[Reg]], Any]] = {
    "addptr": _addptr, "int_to_ptr": _int_to_ptr, "ptr_to_int": _ptr_to_int, "vload": _checked(_vload, 0), "vstore": _checked(_vstore, 1),
    "load": _checked_load, "store": _checked_store, "stride_load": _stride_load, "near_load": _near_load, "table_load": _near_load, "stride_store": _stride_store,
    "opaque": opaque_mask, "can_stream": can_stream, "avoids_4k_aliasing": avoids_4k_aliasing, "prefetch": _prefetch, "stream_head": stream_head,
    "device_assert": _device_assert, "contract": contract, "contract_panels": contract_panels, "sort_row": sort_row, "sort_values": sort_values, "vscan": vscan, "vany": _vany, "lane_bits": lane_bits, "count": count, "relayout": relayout, "vtranspose": turn, "write_log": _log,
    **{f"atomic_{kind}": _checked(atomic(kind), number_of_values(TABLE[f"atomic_{kind}"])) for kind in ("add", "max", "min", "and", "or", "xor", "xchg", "cas", "poll")},
}  # fmt: skip
