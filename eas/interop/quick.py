"""Tensors of repeated launches as raw memory: in under a microsecond each, or not at all.

What is refused here goes the ordinary way, which says what is wrong or makes the copy that is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.interop.hidden import Hidden

_MAX_LAYOUTS = 256  # of one argument: past it shapes change with every launch


@dataclass(frozen=True, slots=True)
class Place:
    """A positional argument that was a tensor, or an array whose strides or extents the kernel asks for."""

    position: int
    dtype: object
    kind: type[Any]
    is_written: bool
    asked: tuple[tuple[str, Hidden], ...]
    """Hidden parameters that are strides or extents of it."""
    is_torch: bool
    device: object
    """Of an `eas.Tensor`; None of others."""
    layouts: dict[tuple[Any, Any], Layout | None] = field(default_factory=dict, compare=False)
    """What `_layout` has found, by shape and strides."""


Layout = tuple[int, dict[str, int]]
"""Elements from the first to the last, and the strides and extents that the kernel asks for."""
Asked = Mapping[int, tuple[tuple[str, Hidden], ...]]
"""Position of an argument -> the strides and extents of it that a kernel asks for."""


def tensor_places(args: tuple[Any, ...], written: frozenset[int], asked: Asked, runtime: str = "cpu") -> tuple[Place, ...]:
    """What `raw_memory` is to look at; torch's own classes only, not what derives from them. None if the runtime needs a closer look."""
    plain = _torch_classes()
    found = []
    for i, value in enumerate(args):
        kind = type(value)
        if kind in plain or hasattr(kind, "__eas_view__") or (i in asked and kind is np.ndarray):
            device = getattr(value, "_device", None)
            if device is not None and device.name != runtime:
                return ()
            found.append(Place(i, value.dtype, kind, i in written, asked.get(i, ()), kind in plain, device))
    return tuple(found)


def _torch_classes() -> tuple[type, ...]:
    """torch.Tensor and nn.Parameter, which is a tensor that a module finds and nothing more."""
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.Tensor, torch.nn.Parameter)


def raw_memory(places: tuple[Place, ...], args: tuple[Any, ...], named: dict[str, Any], written: list[Any]) -> list[Any] | None:
    """The arguments with (address, number of elements) for tensors, or None.

    Strides and extents that the kernel asks for are added to `named`; what is written to `written`, for `note_writes`.

    Only public questions are asked of a torch tensor; one that has no memory of its own (sparse, on a
    device, inside of vmap or grad) has no address.
    """
    raw = list(args)
    if places and places[-1].position >= len(args):
        return None
    memory: Any
    try:
        for place in places:
            value: Any = args[place.position]
            if type(value) is not place.kind or value.dtype is not place.dtype:
                return None
            if place.device is not None:
                if value._device is not place.device:
                    return None
                memory = value._memory  # the launcher looks at its flags
                if memory is None:  # a lazy tensor, which the ordinary way computes
                    return None
                if place.is_written and value._owner is not memory:
                    written.append(value._owner)
                if not place.asked:
                    raw[place.position] = memory
                    continue
                memory = _array_memory(memory, place, named)
            elif place.kind is np.ndarray:
                memory = _array_memory(value, place, named)
            elif place.is_torch:
                memory = _torch_memory(value, place, named, written)
            else:
                memory = _tensor_memory(value, place, named, written)
            if memory is None:
                return None
            raw[place.position] = memory
    except RuntimeError:
        return None
    return raw


def _torch_memory(tensor: Any, place: Place, named: dict[str, Any], written: list[Any]) -> Any:
    address = tensor.data_ptr()
    if address == 0 or not tensor.is_cpu or tensor.is_nested or tensor.is_neg():
        return None
    if place.is_written:
        if tensor.requires_grad:
            return None
        written.append(tensor)
    if place.asked:
        found = _layout(place, tensor.shape, tensor.stride())
        if found is None:
            return None
        count = found[0]
        named.update(found[1])
    elif tensor.is_contiguous():
        count = tensor.numel()
    else:
        return None
    end = (tensor.storage_offset() + count) * tensor.itemsize  # a storage may have shrunk since
    return (address, count) if end <= tensor.untyped_storage().nbytes() else None


def _tensor_memory(tensor: Any, place: Place, named: dict[str, Any], written: list[Any]) -> Any:
    seen = tensor.__eas_view__()
    if seen.device != "cpu":
        return None
    if place.is_written:
        if seen.readonly or seen.requires_grad_leaf:
            return None
        written.append(seen.owner)
    return _array_memory(seen.array, place, named) if place.asked else seen.array


def address_of(array: NDArray[Any]) -> int:
    """Where the elements of an array start; `array.ctypes` imports a module, which fails while Python ends."""
    return int(array.__array_interface__["data"][0])


def _array_memory(array: NDArray[Any], place: Place, named: dict[str, Any]) -> Any:
    flags = array.flags
    if not flags.aligned or flags.writebackifcopy or (place.is_written and not flags.writeable):
        return None
    found = _layout(place, array.shape, array.strides, array.itemsize)
    if found is None:
        return None
    named.update(found[1])
    return address_of(array), found[0]


def _layout(place: Place, shape: Any, strides: Any, nbytes: int = 1) -> Layout | None:
    """Where the elements of such an argument lie, found once; None for memory that needs a closer look."""
    key, known = (shape, strides), place.layouts
    if key in known:
        return known[key]
    if len(known) >= _MAX_LAYOUTS:
        known.clear()
    found = None
    if not any(step % nbytes for step in strides):
        found = _reach(tuple(shape), tuple(step // nbytes for step in strides), place)
    known[key] = found
    return found


def _reach(shape: tuple[int, ...], strides: tuple[int, ...], place: Place) -> Layout | None:
    axes = [(step, size) for size, step in zip(shape, strides, strict=True) if size != 1]
    last = 0
    for step, size in sorted(axes):
        # Steps past all that the smaller ones reach: no two elements share memory.
        if size == 0 or step < 0 or (place.is_written and step <= last):
            return None
        last += (size - 1) * step
    if not any(hidden.kind == "stride" for _, hidden in place.asked) and not _is_contiguous(shape, strides):
        return None  # only a kernel that knows of strides sees what lies in memory
    asked: dict[str, int] = {}
    for name, hidden in place.asked:
        found = hidden.of(shape, strides)
        if found is None or found >= 1 << 31:
            return None
        asked[name] = found
    return last + 1, asked


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    return all(size == 1 or step == prod(shape[axis + 1 :]) for axis, (size, step) in enumerate(zip(shape, strides, strict=True)))


def note_writes(owners: list[Any]) -> None:
    """Let autograd know that the memory of torch tensors has changed."""
    torch = sys.modules.get("torch")
    if torch is not None and owners:
        changed = [owner for owner in owners if isinstance(owner, torch.Tensor)]
        torch.autograd.graph.increment_version(changed)
