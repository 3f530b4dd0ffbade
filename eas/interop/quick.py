"""Tensors of repeated launches as raw memory: in under a microsecond each, or not at all.

What is refused here goes the ordinary way, which says what is wrong or makes the copy that is needed.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple


class Place(NamedTuple):
    """A positional argument that was a tensor."""

    position: int
    dtype: object
    is_torch: bool
    is_written: bool


def tensor_places(args: tuple[Any, ...], written: frozenset[int]) -> tuple[Place, ...]:
    """The torch and eas tensors among positional arguments; torch's own class only, not what derives from it."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    found = []
    for i, value in enumerate(args):
        is_torch = type(value) is tensor
        if is_torch or hasattr(type(value), "__eas_view__"):
            found.append(Place(i, value.dtype, is_torch, i in written))
    return tuple(found)


def raw_memory(places: tuple[Place, ...], args: tuple[Any, ...], written: list[Any]) -> list[Any] | None:
    """The arguments with (address, number of elements) for torch tensors and arrays for ours, or None.

    What is written is added to `written`, for `note_writes`.

    Only public questions are asked of a torch tensor; one that has no memory of its own (sparse, on a
    device, inside of vmap or grad) has no address.
    """
    raw = list(args)
    try:
        for position, dtype, is_torch, is_written in places:
            tensor = args[position]
            if tensor.dtype is not dtype:
                return None
            if not is_torch:
                seen = tensor.__eas_view__()
                if is_written:
                    if seen.readonly or seen.requires_grad_leaf:
                        return None
                    written.append(seen.owner)
                raw[position] = seen.array
                continue
            address = tensor.data_ptr()
            if address == 0 or not tensor.is_contiguous() or not tensor.is_cpu or (is_written and tensor.requires_grad):
                return None
            if tensor.is_nested or tensor.is_neg():
                return None
            if is_written:
                written.append(tensor)
            raw[position] = (address, tensor.numel())
    except RuntimeError:
        return None
    return raw


def note_writes(owners: list[Any]) -> None:
    """Let autograd know that the memory of torch tensors has changed."""
    torch = sys.modules.get("torch")
    for owner in owners:
        if torch is not None and isinstance(owner, torch.Tensor):
            torch.autograd.graph.increment_version(owner)
