"""How elements of every storage format lie in memory, and branches around accesses, as LLVM text."""

from __future__ import annotations

from collections.abc import Callable

from eas.base.types import Space, Type
from eas.codegen.llvm.casts import decode, encode
from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.text import Reg, Text, memory_type, scratch_type


def stored_type(pointer: Type) -> str:
    """What an element is in memory."""
    return (
        scratch_type(pointer.dtype)
        if pointer.space is not Space.DEVICE
        else memory_type(pointer.dtype)
    )


def alignment(kind: Type) -> int:
    """What an access of an element can rely on."""
    return (
        max(1, kind.dtype.nbytes)
        if kind.space is Space.DEVICE
        else max(1, min(4, kind.dtype.nbytes))
    )


def from_memory(t: Text, raw: Reg, kind: Type) -> Reg:
    """An element as it is computed with."""
    if kind.space is not Space.DEVICE:
        return t.convert("trunc", raw, "i1") if kind.dtype.is_bool else raw
    return decode(t, raw, kind.dtype)


def to_memory(t: Text, value: Reg, kind: Type) -> Reg:
    """An element as memory holds it."""
    if kind.space is not Space.DEVICE:
        return t.convert("zext", value, "i8") if kind.dtype.is_bool else value
    return encode(t, value, kind.dtype)


def when(emitter: LlvmEmitter, condition: Reg, body: Callable[[], None]) -> tuple[str, str]:
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


def either(emitter: LlvmEmitter, condition: Reg, yes: Callable[[], None], no: Callable[[], None]) -> list[str]:
    """`if (condition) yes() else no()`; returns the blocks that reach the end."""
    t, ends = emitter.t, list[str]()
    labels = [t.new_label(hint) for hint in ("yes", "no", "after")]
    t.line(f"br {condition}, label %{labels[0]}, label %{labels[1]}")
    for label, body in zip(labels, (yes, no), strict=False):
        t.label(label)
        body()
        ends.append(t.block)
        t.line(f"br label %{labels[2]}")
    t.label(labels[2])
    return ends
