"""Rows that make pointers and touch memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.base.types import Space, Type
from eas.ops.machine import LOWEST_ADDRESS, Pointer, everywhere
from eas.ops.rules import BOOL, INTS, need_dtype, nothing
from eas.ops.table import Attrs, Call, Op, RegionSig, Trait, register


def need_pointer(name: str, t: Type) -> None:
    if not t.is_pointer:
        raise TypeMismatch(f"{name} needs a buffer or pointer, got {t}", hint="pass the kernel argument itself, or buffer + offsets")


def need_mask(name: str, mask: Type, shape: tuple[int, ...]) -> None:
    need_dtype(f"{name} mask", mask, BOOL)
    if mask.shape != shape:
        raise ShapeMismatch(f"{name}: the mask has shape {list(mask.shape)}, the offsets {list(shape)}", hint="build the mask from the same offsets")


def need_element(name: str, value: Type, pointer: Type) -> None:
    """A stored value has the buffer's dtype and the pointer's shape."""
    if value != Type(pointer.dtype, pointer.shape):
        kind = ShapeMismatch if value.shape != pointer.shape else TypeMismatch
        raise kind(f"{name} of {value} through {pointer}", hint="the value must have the shape of the offsets and the dtype of the buffer")


def _addptr_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    pointer, offset = types
    need_pointer("addptr", pointer)
    need_dtype("pointer offset", offset, INTS)
    if pointer.shape != offset.shape:
        raise ShapeMismatch(f"pointer {pointer} plus offsets {offset}", hint="shapes must be equal or broadcast")
    return (pointer,)


def _addptr(call: Call, pointer: Pointer, offset: np.ndarray) -> Pointer:
    return Pointer(pointer.buffer, pointer.offsets + offset.astype(np.int64))


def _int_to_ptr_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_dtype("int_to_ptr", types[0], (dtypes.i64, dtypes.u64))
    return (Type(attrs["dtype"], types[0].shape, Space.DEVICE),)


def _int_to_ptr(call: Call, address: np.ndarray) -> Pointer:
    at, nbytes = np.asarray(address).astype(np.int64), call.out.dtype.nbytes
    if (at % nbytes).any():
        call.world.fail(f"the address {int(at[at % nbytes != 0].flat[0])} is no multiple of the {nbytes} bytes of {call.out.dtype}")
    return Pointer(everywhere(call.out.dtype), (at - LOWEST_ADDRESS) // nbytes)


def _ptr_to_int(call: Call, pointer: Pointer) -> np.ndarray:
    start = int(pointer.buffer.data.__array_interface__["data"][0])
    return np.asarray(start + pointer.offsets * pointer.buffer.dtype.nbytes, np.int64)


def _ptr_to_int_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_pointer("ptr_to_int", types[0])
    return (Type(dtypes.i64, types[0].shape),)


def _load_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    pointer = types[0]
    need_pointer("load", pointer)
    if len(types) > 1:
        need_mask("load", types[1], pointer.shape)
    if len(types) > 2:
        need_element("load's other", types[2], pointer)
    return (Type(pointer.dtype, pointer.shape),)


def _load(call: Call, pointer: Pointer, mask: Any = None, other: Any = None) -> np.ndarray:
    return call.world.load(pointer, mask, other)


def _check_store(types: Sequence[Type], attrs: Attrs) -> None:
    pointer, value = types[0], types[1]
    need_pointer("store", pointer)
    need_element("store", value, pointer)
    if len(types) > 2:
        need_mask("store", types[2], pointer.shape)


def _store(call: Call, pointer: Pointer, value: np.ndarray, mask: Any = None) -> None:
    call.world.store(pointer, value, mask)


def _check_fence(types: Sequence[Type], attrs: Attrs) -> None:
    assert attrs["order"] in ("acquire", "release", "volatile"), attrs["order"]


def _alloc_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    if attrs["size"] <= 0:
        raise ShapeMismatch(f"alloc_tg of {attrs['size']} elements", hint="the size must be positive")
    return (Type(attrs["dtype"], (), Space.THREADGROUP),)


register(Op("addptr", "memory", "ptr, offset", _addptr_rule, "Pointer plus a number of elements; leaving the buffer is an error only when memory is touched.", Trait.PURE | Trait.ELEMENTWISE | Trait.CHEAP, _addptr))
register(Op("int_to_ptr", "memory", "address", _int_to_ptr_rule, "The pointer to elements of `dtype` at an address in bytes, wherever that is: no argument bounds it.", Trait.PURE | Trait.ELEMENTWISE | Trait.PARTIAL, _int_to_ptr, attrs="dtype: dtype"))
register(Op("ptr_to_int", "memory", "ptr", _ptr_to_int_rule, "The address in bytes.", Trait.PURE | Trait.ELEMENTWISE, _ptr_to_int))
register(Op("load", "memory", "ptr, mask?, other?", _load_rule, "Read memory; masked-off lanes touch nothing and read `other` (0 when absent).", Trait.READS | Trait.ELEMENTWISE, _load, attrs="prefetched?: bool, reread?: bool", dtypes=tuple(dtypes.ALL)))
register(Op("store", "memory", "ptr, value, mask?", nothing(_check_store), "Write memory; masked-off lanes touch nothing; of colliding lanes any one wins.", Trait.WRITES | Trait.ELEMENTWISE, _store, attrs="stream?: bool", dtypes=tuple(dtypes.ALL)))
register(Op("alloc_tg", "memory", "", _alloc_rule, "Threadgroup memory of `size` elements, uninitialised.", Trait.EFFECT | Trait.ALLOCATES | Trait.THREAD, lambda call: call.world.allocate(call.attrs["name"], call.attrs["size"], call.attrs["dtype"]), attrs="size: int, dtype: dtype, name: str, layout?: str, block?: ints, align?: int"))
register(Op("barrier", "memory", "", nothing(), "All threads of the threadgroup meet; threadgroup and device writes before it are seen after it.", Trait.EFFECT | Trait.CUT | Trait.ORDERED | Trait.CONVERGENT | Trait.FENCE | Trait.THREAD, lambda call: None))
register(Op("fence", "memory", "", nothing(_check_fence), "Orders memory between programs: `release` lets who finds what a later atomic wrote see all writes before the fence; after an `acquire` the program sees what was written before the release that it found; `volatile` only keeps this program from remembering what it read.", Trait.EFFECT | Trait.FENCE, lambda call: None, attrs="order: str"))
