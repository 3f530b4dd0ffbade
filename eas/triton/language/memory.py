"""Loads, stores and atomics: through pointers, block pointers and tensor descriptors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eas.frontend import values
from eas.frontend.block import Block
from eas.frontend.lang import memory as eas_memory
from eas.frontend.lang.cast import spread
from eas.frontend.values import cast_to, emit, emit_inst
from eas.triton.language import meaning
from eas.triton.language.boxes import BlockPointer, Box, box_of
from eas.triton.language.meaning import refuse, to_tensor, truth
from eas.triton.language.types import unwrapped

_LOAD_CACHES = ("", ".ca", ".cg", ".cs", ".cv")
_STORE_CACHES = ("", ".wb", ".cg", ".cs", ".wt")
_EVICTIONS = ("", "evict_last", "evict_first", "evict_normal")


def _check_hints(word: str, cache: Any, caches: tuple[str, ...], eviction: Any) -> None:
    """Hints for caches have no effect; a word that Triton does not know is a mistake."""
    if (cache or "") not in caches:
        refuse(f"Cache modifier {cache} not supported by tl.{word}", f"it takes {', '.join(repr(c) for c in caches)}")
    if (eviction or "") not in _EVICTIONS:
        refuse(f"Eviction policy {eviction} not supported by tl.{word}", f"it takes {', '.join(repr(e) for e in _EVICTIONS)}")


def _pointer(word: str, x: Any) -> Block:
    if not isinstance(x, Block) or not x.type.is_pointer:
        refuse(f"Unsupported ptr type {getattr(x, 'type', x)} in `tl.{word}`", "pass a pointer: a kernel's tensor argument, plus offsets")
    return x


def _masks(word: str, mask: Any, pointer: Block) -> list[Block]:
    if mask is None or (meaning.is_static(mask) and unwrapped(mask) is True):
        return []
    block = truth(mask)
    if block.shape and not pointer.shape:
        refuse(f"tl.{word}: Mask argument cannot be block type if pointer argument is not a block", "pass a block of pointers")
    return [spread(block, pointer.shape)]


def _common(word: str, pointer: Block, *others: Any) -> Block:
    """The pointer in the shape that it has together with mask and value."""
    shapes = [x.shape for x in others if isinstance(x, Block)] if pointer.shape else []
    return values.broadcast_to(pointer, values.common_shape(word, [pointer.shape, *shapes]))


def load(pointer: Any, mask: Any = None, other: Any = None, boundary_check: Any = (), padding_option: Any = "", cache_modifier: Any = "", eviction_policy: Any = "", volatile: Any = False) -> Block:
    """Read memory; lanes whose mask is off touch none, and read `other` (0 unless told)."""
    _check_hints("load", cache_modifier, _LOAD_CACHES, eviction_policy)
    if isinstance(pointer, BlockPointer):
        if mask is not None or other is not None:
            refuse("`mask` and `other` arguments cannot be specified for loading block pointers", "boundary_check=(0, 1) and padding_option")
        return load_box(box_of(pointer, boundary_check), padding_option)
    if padding_option or boundary_check:
        refuse("`padding_option` or `boundary_check` argument is not supported for loading a tensor of pointers or loading a scalar", "mask=")
    pointer = _pointer("load", pointer)
    if mask is None and other is not None:
        refuse("`other` cannot be provided without `mask`", "mask=")
    pointer = _common("load", pointer, mask, other)
    masks = _masks("load", mask, pointer)
    if masks and other is not None:
        masks.append(_converted(other, pointer))
    fences = ["volatile"] if unwrapped(volatile) else []
    for order in fences:
        emit_inst("fence", order=order)
    found = emit("load", pointer, *masks)
    for order in fences:
        emit_inst("fence", order=order)
    return found


def _converted(value: Any, pointer: Block) -> Block:
    block = to_tensor(value)
    if not block.type.is_value:
        values.refuse_pointer("a stored value", block)
    return spread(cast_to(block, pointer.dtype), pointer.shape)


def store(pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), cache_modifier: Any = "", eviction_policy: Any = "") -> None:
    """Write memory, the value converted to its dtype; lanes whose mask is off touch none."""
    _check_hints("store", cache_modifier, _STORE_CACHES, eviction_policy)
    if isinstance(pointer, BlockPointer):
        if mask is not None:
            refuse("`mask` and `other` arguments cannot be specified for loading block pointers", "boundary_check=(0, 1)")
        return store_box(box_of(pointer, boundary_check), value)
    if boundary_check:
        refuse("`boundary_check` argument is not supported for storing a tensor of pointers or storing a scalar", "mask=")
    pointer = _pointer("store", pointer)
    if isinstance(value, Block) and value.shape and not pointer.shape:
        refuse("Value argument cannot be block type if pointer argument is not a block", "pass a block of pointers")
    pointer = _common("store", pointer, mask, value)
    emit_inst("store", pointer, _converted(value, pointer), *_masks("store", mask, pointer))
    return None


def load_box(box: Box, padding: Any) -> Block:
    """Read a box of memory; what lies outside of the tensor is 0, or NaN if told."""
    if padding not in ("", "zero", "nan", None):
        refuse(f"Padding option {padding} not supported", "it is zero or nan")
    if padding == "nan" and not box.pointers.dtype.is_float:
        refuse("Padding option `nan` is not supported for integer block pointers", "zero")
    nan = [values.constant(float("nan"), box.pointers.dtype, box.pointers.shape)] if padding == "nan" and box.masks else []
    return emit("load", box.pointers, *box.masks, *nan)


def store_box(box: Box, value: Any) -> None:
    """Write a box of memory, as far as it lies inside of the tensor."""
    block = to_tensor(value)
    if tuple(block.shape) != tuple(box.pointers.shape) and block.shape:
        refuse(f"expected value shape {list(box.pointers.shape)}, got {list(block.shape)}", "tl.reshape or tl.broadcast_to")
    emit_inst("store", box.pointers, _converted(block, box.pointers), *box.masks)


# --- atomics --------------------------------------------------------------------------------------

_ORDERS = (None, "acquire", "release", "acq_rel", "relaxed")
_SCOPES = (None, "gpu", "cta", "sys")


def _order(sem: Any, scope: Any) -> str:
    """The order of an atomic op: both acquire and release unless told."""
    if sem not in _ORDERS:
        refuse(f"Memory semantic {sem} not supported", "it is acquire, release, acq_rel or relaxed")
    if scope not in _SCOPES:
        refuse(f"Memory scope {scope} not supported", "it is gpu, cta or sys")
    return sem or "acq_rel"


def _atomic(name: str, pointer: Any, given: tuple[Any, ...], mask: Any, sem: Any, scope: Any) -> Block:
    order = _order(unwrapped(sem), unwrapped(scope))
    pointer = _common(name, _pointer(name, pointer), mask, *given)
    masks = _masks(name, mask, pointer)
    act: Callable[..., Block] = getattr(eas_memory, name)
    return act(pointer, *(_converted(v, pointer) for v in given), mask=masks[0] if masks else None, sem=order)


def atomic_poll(pointer: Any, expected_value: Any, sem: Any = None, scope: Any = None, timeout_ns: Any = None) -> Block:
    """Wait until memory holds a value; whether it did in time."""
    place = _pointer("atomic_poll", pointer)
    return eas_memory.atomic_poll(place, _converted(expected_value, place), timeout_ns=timeout_ns, sem=unwrapped(sem) or "acquire", scope=unwrapped(scope))


def atomic_add(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Block:
    """memory += value as one step; returns the old value."""
    return _atomic("atomic_add", pointer, (val,), mask, sem, scope)


def atomic_max(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Block:
    """memory = max(memory, value) as one step; returns the old value."""
    return _atomic("atomic_max", pointer, (val,), mask, sem, scope)


def atomic_min(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Block:
    """memory = min(memory, value) as one step; returns the old value."""
    return _atomic("atomic_min", pointer, (val,), mask, sem, scope)


def atomic_and(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Block:
    """memory &= value as one step; returns the old value."""
    return _atomic("atomic_and", pointer, (val,), mask, sem, scope)


def atomic_or(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Block:
    """memory |= value as one step; returns the old value."""
    return _atomic("atomic_or", pointer, (val,), mask, sem, scope)


def atomic_xor(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Block:
    """memory ^= value as one step; returns the old value."""
    return _atomic("atomic_xor", pointer, (val,), mask, sem, scope)


def atomic_xchg(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Block:
    """memory = value as one step; returns the old value."""
    return _atomic("atomic_xchg", pointer, (val,), mask, sem, scope)


def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Block:
    """memory = value where it holds the bits of `cmp`, as one step; returns the old value."""
    return _atomic("atomic_cas", pointer, (cmp, val), None, sem, scope)


def box_atomic(name: str, box: Box, value: Any) -> None:
    """An atomic op on a box of memory, as far as it lies inside of the tensor."""
    _atomic(name, box.pointers, (value,), box.masks[0] if box.masks else None, "relaxed", None)


# --- the functions of Triton 3.x about descriptors -----------------------------------------------


def load_tensor_descriptor(desc: Any, offsets: Any) -> Block:
    """The block of a tensor at some offsets."""
    return desc.load(offsets)  # type: ignore[no-any-return]


def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Write a block of a tensor at some offsets."""
    desc.store(offsets, value)
