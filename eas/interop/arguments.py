"""The arrays of one launch: memory itself where it is contiguous, copies where it is strided."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.errors import LostWrite
from eas.interop.views import ArgView, is_scalar, view

__all__ = ["ArgView", "Staging", "is_scalar", "view"]

Array = NDArray[Any]

_MAX_OVERLAP_WORK = 1 << 16  # of NumPy's exact solver; past it we assume that memory is shared


class _Use:
    """One array that the launch reads or writes."""

    __slots__ = ("copy", "view", "written")

    def __init__(self, view: ArgView, copy: Array | None) -> None:
        self.view = view
        self.copy = copy
        self.written = False


class Staging:
    """The flat arrays of one launch.

    A kernel sees a strided array as its C-contiguous logical copy: element i is `a.ravel()[i]`.
    `finish` copies what was written back, so call it once the kernel has succeeded and ended.
    """

    def __init__(self) -> None:
        self._uses: list[_Use] = []
        self._has_copies = False

    def prepare(self, view: ArgView, written: bool, read: bool) -> Array:
        """The 1-D storage to run on: the memory of `view` itself where it is contiguous."""
        if written:
            _check_writable(view)
        is_staged = not view.is_contiguous
        if not (written or read):
            return (
                np.empty(view.array.size, view.array.dtype) if is_staged else view.array.reshape(-1)
            )
        use = self._twin(view) if is_staged else None
        if use is None:
            # Also an argument that is only written starts as a copy: masked stores leave gaps.
            use = _Use(view, view.array.copy(order="C").reshape(-1) if is_staged else None)
            self._uses.append(use)
            self._has_copies |= is_staged
        if written:
            use.written = True
            use.view = view
        if self._has_copies:
            self._check_aliases(use)
        return view.array.reshape(-1) if use.copy is None else use.copy

    def finish(self) -> None:
        """Copy results back into strided arguments; afterwards the staging is empty."""
        uses, self._uses, self._has_copies = self._uses, [], False
        for use in uses:
            if not use.written:
                continue
            if use.copy is not None:
                use.view.array[...] = use.copy.reshape(use.view.shape)
            use.view.note_write()

    def _twin(self, view: ArgView) -> _Use | None:
        """An earlier use of exactly the same elements."""
        key = _identity(view)
        return next(
            (u for u in self._uses if u.copy is not None and _identity(u.view) == key), None
        )

    def _check_aliases(self, use: _Use) -> None:
        for other in self._uses:
            if other is use or not (other.written or use.written):
                continue
            staged = next((u.view.name for u in (use, other) if u.copy is not None), None)
            if staged is None or not _share_memory(use.view.array, other.view.array):
                continue
            raise LostWrite(
                f"arguments {other.view.name!r} and {use.view.name!r} share memory and one of them is written, "
                f"but {staged!r} is not contiguous, so the kernel would run on a copy of it",
                hint=f"pass np.ascontiguousarray({staged})",
            )


def _identity(view: ArgView) -> tuple[object, ...]:
    array = view.array
    return (array.__array_interface__["data"][0], array.shape, array.strides, view.dtype)


def _check_writable(view: ArgView) -> None:
    """Refuse a write that the caller would never see, or that autograd would miss."""
    if view.readonly:
        raise LostWrite(
            f"the kernel writes argument {view.name!r}, which is read-only",
            hint=f"pass {view.name}.copy()",
        )
    if view.requires_grad_leaf:
        raise LostWrite(
            f"the kernel writes argument {view.name!r}, a torch tensor that requires grad: autograd would miss the write",
            hint=f"pass {view.name}.detach(), or launch under torch.no_grad()",
        )
    if not view.is_contiguous and _overlaps_itself(view.array):
        raise LostWrite(
            f"the kernel writes argument {view.name!r}, but several of its elements share memory "
            f"(shape {view.shape}, strides {view.strides})",
            hint=f"pass np.ascontiguousarray({view.name}), and read the results from that array",
        )


def _share_memory(a: Array, b: Array) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=_MAX_OVERLAP_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(array: Array) -> bool:
    """True if two indices reach the same byte."""
    if array.size == 0:
        return False
    # Slices of an axis differ by a translation only: if any two meet, the first meets a later one.
    # Large strides first, since those slices mostly have disjoint bounds, which is quick to see.
    axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    rest = array.transpose(axes)
    while rest.ndim:
        if rest.shape[0] > 1 and _share_memory(rest[:1], rest[1:]):
            return True
        rest = rest[0, ...]
    return False
