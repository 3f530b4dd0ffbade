"""The language's memory functions: every one takes buffer + offsets, or a block of pointers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.errors import ShapeMismatch, TypeMismatch, Unsupported
from eas.frontend import values
from eas.frontend.block import Block, Operand
from eas.frontend.builder import current
from eas.frontend.hints import need_choice
from eas.frontend.lang.cast import implicit, spread
from eas.frontend.values import as_block, common_shape, emit, emit_inst
from eas.ops.atomic import FOREVER


class _Missing:
    """The default of arguments whose absence selects the pointer form."""

    def __repr__(self) -> str:
        return "<none>"


_MISSING: Any = _Missing()


def need_buffer(name: str, x: Any) -> Block:
    """x as a pointer, or an error that says what it is instead."""
    if values.is_table(x):
        values.refuse_operand(x, f"the buffer of {name}")
    block = as_block(x, f"the buffer of {name}")
    if not block.type.is_pointer:
        raise TypeMismatch(
            f"{name} needs a buffer or pointer, got {block.type}",
            hint="pass the kernel argument itself, or buffer + offsets",
            loc=current().here(),
        )
    return block


def shift(name: str, pointer: Block, offsets: Any) -> Block:
    """pointer + offsets, in elements, in their common shape."""
    index = as_block(offsets, f"the offsets of {name}")
    if not index.type.is_value or not index.dtype.is_int:
        _refuse_offsets(name, index)
    shape = common_shape(name, [pointer.shape, index.shape])
    return emit("addptr", values.broadcast_to(pointer, shape), values.broadcast_to(index, shape))


def _refuse_offsets(name: str, index: Block) -> None:
    if not index.type.is_value:
        hint = "pointer arithmetic is buffer + offsets"
    elif index.dtype.is_bool:
        hint = f"pass a mask by its name: mk.{name}(..., mask=mask)"
    elif name in ("load", "pointer"):
        hint = "mk.cast(offsets, mk.i32)"
    else:
        hint = f"mk.{name}(buffer, offsets, value), or mk.{name}(pointer, value, mask=mask)"
    raise TypeMismatch(
        f"{name}: offsets must be integers, got {index.type}", hint=hint, loc=current().here()
    )


def address(name: str, buffer: Any, offsets: Any = None) -> Block:
    """The pointers that buffer + offsets names."""
    pointer = need_buffer(name, buffer)
    return pointer if offsets is None else shift(name, pointer, offsets)


def int_to_ptr(address: Operand, dtype: Any) -> Block:
    """The pointer to elements of `dtype` at an address in bytes, an i64 or u64, or a block of them. Nothing bounds it: its memory must live as long as the launch. CPU and interpreter only."""
    block = as_block(address, "the address of int_to_ptr")
    if not block.type.is_value or block.dtype not in (dtypes.i64, dtypes.u64):
        raise TypeMismatch(f"int_to_ptr needs an address of 64 bits, got {block.type}", hint="keep addresses in int64 arrays: tensor.data_ptr(), array.ctypes.data", loc=current().here())
    return emit("int_to_ptr", block, dtype=values.static_dtype(dtype))


def ptr_to_int(pointer: Block) -> Block:
    """The address in bytes of a pointer, or of each of a block of them; i64. CPU and interpreter only."""
    return emit("ptr_to_int", need_buffer("ptr_to_int", pointer))


def _masks(name: str, mask: Any, pointer: Block) -> list[Block]:
    """The mask operand, if there is one, in the shape of the pointers."""
    if mask is None or (isinstance(mask, (bool, np.bool_)) and mask):
        return []
    block = as_block(mask, f"the mask of {name}")
    if not block.type.is_value or not block.dtype.is_bool:
        raise TypeMismatch(
            f"{name}: the mask must be bool, got {block.type}",
            hint="compare: mask=x != 0",
            loc=current().here(),
        )
    return [spread(block, pointer.shape)]


def load(
    buffer: Block,
    offsets: Operand | None = None,
    mask: Operand | None = None,
    other: Operand | None = None,
    *,
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> Block:
    """Read buffer + offsets, counted in elements; lanes whose mask is off touch no memory and read `other` (0 unless told). If `volatile`, memory is read here and now, and no other read is reused. Triton's cache_modifier and eviction_policy change nothing."""
    _check_cache_hints("load", cache_modifier, eviction_policy)
    need_choice("load", "volatile", volatile, (False, True))
    pointer = address("load", buffer, offsets)
    if other is not None and mask is None:
        raise TypeMismatch(
            "load: `other` is what masked-off lanes read, and there is no mask",
            hint="pass mask=..., or leave out other",
            loc=current().here(),
        )
    masks = _masks("load", mask, pointer)
    if masks and other is not None:
        masks.append(implicit(other, pointer.dtype, "load's other", pointer.shape))
    if not volatile:
        return emit("load", pointer, *masks)
    emit_inst("fence", order="volatile")
    found = emit("load", pointer, *masks)
    emit_inst("fence", order="volatile")
    return found


def store(
    buffer: Block,
    offsets: Operand,
    value: Operand = _MISSING,
    mask: Operand | None = None,
    *,
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write `value` to buffer + offsets, or store(pointer, value, mask=...); rounds to the buffer's dtype, but float to integer needs a cast; lanes whose mask is off touch no memory."""
    _check_cache_hints("store", cache_modifier, eviction_policy)
    pointer, (stored,) = _target("store", buffer, offsets, value)
    emit_inst("store", pointer, stored, *_masks("store", mask, pointer))


def _check_cache_hints(name: str, cache_modifier: Any, eviction_policy: Any) -> None:
    """Triton's words for caches have no effect on results; a word that Triton does not know is a mistake."""
    need_choice(name, "cache_modifier", cache_modifier, ("", ".ca", ".cg", ".cv", ".wb", ".cs", ".wt"))
    need_choice(name, "eviction_policy", eviction_policy, ("", "evict_first", "evict_last", "evict_normal"))


def _target(name: str, buffer: Any, *given: Any) -> tuple[Block, list[Block]]:
    """(pointers, values) of f(buffer, offsets, *values), or of f(pointer, *values) if the last is missing."""
    base = need_buffer(name, buffer)
    if given[-1] is _MISSING:
        pointer, written = base, given[:-1]
        _refuse_forgotten(name, base, given[-2])
    else:
        _refuse_positional_mask(name, base, given[-1])
        pointer, written = shift(name, base, given[0]), given[1:]
    return pointer, [
        implicit(v, pointer.dtype, f"the value of {name}", pointer.shape) for v in written
    ]


def _refuse_forgotten(name: str, base: Block, value: Any) -> None:
    if not base.shape and isinstance(value, Block) and value.shape:
        raise ShapeMismatch(
            f"{name} got {value.type} for one address: its offsets or its value are missing",
            hint=f"mk.{name}(buffer, offsets, value), or mk.{name}(buffer + offsets, value)",
            loc=current().here(),
        )


def _refuse_positional_mask(name: str, base: Block, last: Any) -> None:
    # f(pointers, value, mask) would otherwise write the mask at pointers + value.
    if base.shape and isinstance(last, Block) and last.dtype.is_bool and not base.dtype.is_bool:
        raise TypeMismatch(
            f"{name} through a block of pointers got a bool block as its value",
            hint=f"pass a mask by its name: mk.{name}(pointer, value, mask=mask)",
            loc=current().here(),
        )


def _atomic(name: str, buffer: Any, given: tuple[Any, ...], mask: Any, sem: Any, scope: Any) -> Block:
    need_choice(name, "sem", sem, (None, "relaxed", "acquire", "release", "acq_rel"))
    need_choice(name, "scope", scope, (None, "gpu", "cta", "sys"))
    pointer, written = _target(name, buffer, *given)
    masks = _masks(name, mask, pointer)
    return _ordered(sem, lambda: emit(name, pointer, *written, *masks))


def _ordered(sem: str | None, act: Callable[[], Block]) -> Block:
    """An atomic between the fences of its order."""
    if sem in ("release", "acq_rel"):
        emit_inst("fence", order="release")
    found = act()
    if sem in ("acquire", "acq_rel"):
        emit_inst("fence", order="acquire")
    return found


def atomic_add(
    buffer: Block, offsets: Operand, value: Operand = _MISSING, mask: Operand | None = None, *, sem: str | None = None, scope: str | None = None
) -> Block:
    """memory += value as one step; returns the old value (0 where the mask is off)."""
    return _atomic("atomic_add", buffer, (offsets, value), mask, sem, scope)


def atomic_max(
    buffer: Block, offsets: Operand, value: Operand = _MISSING, mask: Operand | None = None, *, sem: str | None = None, scope: str | None = None
) -> Block:
    """memory = max(memory, value) as one step, NaN propagates; returns the old value (0 where the mask is off)."""
    return _atomic("atomic_max", buffer, (offsets, value), mask, sem, scope)


def atomic_min(
    buffer: Block, offsets: Operand, value: Operand = _MISSING, mask: Operand | None = None, *, sem: str | None = None, scope: str | None = None
) -> Block:
    """memory = min(memory, value) as one step, NaN propagates; returns the old value (0 where the mask is off)."""
    return _atomic("atomic_min", buffer, (offsets, value), mask, sem, scope)


def atomic_and(
    buffer: Block, offsets: Operand, value: Operand = _MISSING, mask: Operand | None = None, *, sem: str | None = None, scope: str | None = None
) -> Block:
    """memory &= value of integers as one step; returns the old value (0 where the mask is off)."""
    return _atomic("atomic_and", buffer, (offsets, value), mask, sem, scope)


def atomic_or(
    buffer: Block, offsets: Operand, value: Operand = _MISSING, mask: Operand | None = None, *, sem: str | None = None, scope: str | None = None
) -> Block:
    """memory |= value of integers as one step; returns the old value (0 where the mask is off)."""
    return _atomic("atomic_or", buffer, (offsets, value), mask, sem, scope)


def atomic_xor(
    buffer: Block, offsets: Operand, value: Operand = _MISSING, mask: Operand | None = None, *, sem: str | None = None, scope: str | None = None
) -> Block:
    """memory ^= value of integers as one step; returns the old value (0 where the mask is off)."""
    return _atomic("atomic_xor", buffer, (offsets, value), mask, sem, scope)


def atomic_xchg(
    buffer: Block, offsets: Operand, value: Operand = _MISSING, mask: Operand | None = None, *, sem: str | None = None, scope: str | None = None
) -> Block:
    """memory = value as one step; returns the old value (0 where the mask is off)."""
    return _atomic("atomic_xchg", buffer, (offsets, value), mask, sem, scope)


def atomic_cas(
    buffer: Block,
    offsets: Operand,
    expected: Operand,
    value: Operand = _MISSING,
    mask: Operand | None = None,
    *,
    sem: str | None = None,
    scope: str | None = None,
) -> Block:
    """memory = value where it holds exactly the bits of `expected`, as one step; returns the old value (0 where the mask is off)."""
    return _atomic("atomic_cas", buffer, (offsets, expected, value), mask, sem, scope)


def atomic_load(buffer: Block, offsets: Operand | None = None, mask: Operand | None = None, *, sem: str | None = None, scope: str | None = None) -> Block:
    """What memory holds now, as one step (0 where the mask is off); `sem` is "relaxed" or "acquire"."""
    need_choice("atomic_load", "sem", sem, (None, "relaxed", "acquire"))
    pointer = address("atomic_load", buffer, offsets)
    return _atomic("atomic_cas", pointer, (0, 0, _MISSING), mask, sem, scope)  # nothing changes where 0 becomes 0


def atomic_store(
    buffer: Block, offsets: Operand, value: Operand = _MISSING, mask: Operand | None = None, *, sem: str | None = None, scope: str | None = None
) -> None:
    """memory = value as one step; `sem` is "relaxed" or "release"."""
    need_choice("atomic_store", "sem", sem, (None, "relaxed", "release"))
    _atomic("atomic_xchg", buffer, (offsets, value), mask, sem, scope)


def atomic_poll(
    buffer: Block, offsets: Operand, expected: Operand = _MISSING, timeout_ns: Operand | None = None, *, sem: str = "acquire", scope: str | None = None
) -> Block:
    """Wait until an integer in memory is `expected`; true if it was, false after `timeout_ns`. Wait for what programs with smaller ids write: others may not have started."""
    need_choice("atomic_poll", "sem", sem, ("relaxed", "acquire"))
    need_choice("atomic_poll", "scope", scope, (None, "gpu", "cta", "sys"))
    if current("atomic_poll").mode == "thread":
        raise Unsupported("mk.atomic_poll in a thread kernel: threads that wait for each other would never arrive", hint="poll in a kernel of blocks (mk.arange)", loc=current().here())
    pointer, (wanted,) = _target("atomic_poll", buffer, offsets, expected)
    timeout = as_block(FOREVER if timeout_ns is None else timeout_ns, "the timeout of atomic_poll")
    limit = spread(values.cast_to(timeout, dtypes.u64), pointer.shape)
    return _ordered(sem, lambda: emit("atomic_poll", pointer, wanted, limit))
