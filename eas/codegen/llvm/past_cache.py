"""How LLVM spells stores past the cache, and when they are worth it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.memory_formats import when
from eas.codegen.llvm.text import Reg, Text, bits_of, mangled
from eas.ir import Inst
from eas.schedule.target import ALIASING_NBYTES, STREAM_NBYTES, UNDER_WAY_NBYTES


def store_past(emitter: LlvmEmitter, value: Reg, pointer: Reg) -> None:
    """Store past the cache, in pieces of 16 bytes."""
    emitter.uses_streams = True
    for piece, at in zip(_pieces(emitter.t, value), _places(emitter.t, value, pointer), strict=True):
        emitter.t.line(f"store {piece}, {at}, align {STREAM_NBYTES}, !nontemporal !0")


def store_single_past(emitter: LlvmEmitter, value: Reg, pointer: Reg, mask: Reg) -> None:
    """Store the lanes of a mask past the cache, one by one; those of fewer than 4 bytes do not get there."""
    emitter.uses_streams = True
    emitter.ladder(f"store_singly_{mangled(value)}", (value, pointer, mask), lambda *parts: _singly(emitter, *parts))


def _singly(emitter: LlvmEmitter, value: Reg, pointer: Reg, mask: Reg) -> None:
    t = emitter.t
    for lane in range(value.lanes):

        def store(lane: int = lane) -> None:
            at = t.let(f"getelementptr {value.element}, {pointer}, i64 {lane}", "ptr", 1)
            t.line(f"store {t.extract(value, lane)}, {at}, align {bits_of(value.element) // 8}, !nontemporal !0")

        when(emitter, t.extract(mask, lane), store)


def store_some_past(
    emitter: LlvmEmitter, allowed: Reg, operands: tuple[Reg, Reg, Reg], align: int, store_some: Callable[[Reg, Reg, Reg], None]
) -> None:
    """Store the lanes of a mask: past the cache where that is allowed and all lanes of a piece are on.

    These are the ends of a row whose middle went past the cache. An ordinary store to a line that was just
    written so waits for memory to take that line and to give it back.
    """
    t, (value, pointer, mask) = emitter.t, operands
    past, ordinary, after = (t.new_label(name) for name in ("past", "ordinary", "stored"))
    t.line(f"br {allowed}, label %{past}, label %{ordinary}")
    t.label(past)
    emitter.ladder(f"store_past_{mangled(value)}_{align}", operands, lambda *parts: _whole_pieces(emitter, parts, store_some))
    t.line(f"br label %{after}")
    t.label(ordinary)
    store_some(value, pointer, mask)
    t.line(f"br label %{after}")
    t.label(after)


def _whole_pieces(emitter: LlvmEmitter, operands: tuple[Reg, ...], store_some: Callable[[Reg, Reg, Reg], None]) -> None:
    t, (value, pointer, mask) = emitter.t, operands
    pieces, masks = _pieces(t, value), _pieces(t, mask, _in_piece(value))
    for piece, some, at in zip(pieces, masks, _places(t, value, pointer), strict=True):
        whole, part, end = (t.new_label(name) for name in ("whole", "part", "next"))
        t.line(f"br {_all(t, some)}, label %{whole}, label %{part}")
        t.label(whole)
        store_past(emitter, piece, at)
        t.line(f"br label %{end}")
        t.label(part)
        store_some(piece, at, some)
        t.line(f"br label %{end}")
        t.label(end)


def can_stream(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    """Whether the address is aligned, and the buffer larger than the cache."""
    t = emitter.t
    base = emitter.bases.get(inst.operands[0])
    if base is None:
        return Reg("false", "i1")
    address = t.convert("ptrtoint", operands[0], "i64")
    low = t.op("and", address, t.like(STREAM_NBYTES - 1, address))
    return t.op("and", t.compare("icmp eq", low, t.like(0, low)), _is_large(emitter, inst, base))


def avoids_4k_aliasing(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    """Whether no load is behind the stores by fewer bytes than are under way, in any two pages.

    Such a load looks like one of what is being stored, and waits until the store has reached memory.
    """
    t, result = emitter.t, Reg("true", "i1")
    store, *loads = (t.convert("ptrtoint", r, "i64") for r in operands)
    for load in loads:
        behind = t.op("and", t.op("sub", t.op("sub", store, load), t.like(1, load)), t.like(ALIASING_NBYTES - 1, load))
        is_far = t.compare("icmp uge", behind, t.like(UNDER_WAY_NBYTES - 1, behind))
        result = t.op("and", result, is_far)
    return result


def stream_head(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    """How many elements are before the first that is aligned; -1 if the cache is the better place."""
    t = emitter.t
    base = emitter.bases.get(inst.operands[0])
    if base is None:
        return Reg("-1", "i32")
    nbytes = inst.operands[0].dtype.nbytes
    address = t.convert("ptrtoint", operands[0], "i64")
    low = t.op("and", t.op("sub", t.like(0, address), address), t.like(inst["align"] - 1, address))
    head = t.convert("trunc", t.op("udiv", low, t.like(nbytes, low)), "i32")
    allowed = _is_large(emitter, inst, base)
    if nbytes < 4:  # no store of a single one gets past the cache
        allowed = t.op("and", allowed, t.compare("icmp eq", head, t.like(0, head)))
    return t.select(allowed, head, t.like(-1, head))


def _is_large(emitter: LlvmEmitter, inst: Inst, base: int) -> Reg:
    size = emitter.buffer_size(base)
    least = emitter.target.stream_nbytes // inst.operands[0].dtype.nbytes
    return emitter.t.compare("icmp sge", size, emitter.t.like(least, size))


def _in_piece(value: Reg) -> int:
    return STREAM_NBYTES * 8 // bits_of(value.element)


def _pieces(t: Text, value: Reg, lanes: int = 0) -> list[Reg]:
    """A vector as vectors of that many lanes, or of 16 bytes."""
    lanes = lanes or _in_piece(value)
    return [t.shuffle(value, None, range(first, first + lanes)) for first in range(0, value.lanes, lanes)]


def _places(t: Text, value: Reg, pointer: Reg) -> list[Reg]:
    firsts = range(0, value.lanes, _in_piece(value))
    return [t.let(f"getelementptr {value.element}, {pointer}, i64 {first}", "ptr", 1) for first in firsts]


def _all(t: Text, flags: Reg) -> Reg:
    symbol = f"@llvm.vector.reduce.and.v{flags.lanes}i1"
    t.declare(symbol, f"declare i1 {symbol}({flags.type})")
    return t.let(f"call i1 {symbol}({flags})", "i1", 1)
