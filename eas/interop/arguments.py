"""The arrays of one launch: memory itself where it is contiguous, copies where it is strided."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base.errors import ArgumentError, LostWrite
from eas.interop.arg_view import ArgView
from eas.interop.hidden import Hidden, reach
from eas.interop.views import is_scalar, view
from eas.runtime.copies import told

__all__ = ["ArgView", "Staging", "hidden_value", "is_scalar", "view"]

Array = NDArray[Any]

_MAX_OVERLAP_WORK = 1 << 16  # of NumPy's exact solver; past it we assume that memory is shared


class _Use:
    """One array that the launch reads or writes."""

    __slots__ = ("copy", "view", "written")

    def __init__(self, view: ArgView, copy: Any) -> None:
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

    def prepare(self, view: ArgView, written: bool, read: bool, strided: bool = False) -> Any:
        """The 1-D storage to run on: the memory of `view` itself where it is contiguous.

        A kernel that asks for strides is `strided`: it gets the memory itself in any case.
        """
        if written:
            _check_writable(view)
        if strided and not view.is_contiguous:
            return self._in_place(view, written)
        is_staged = not view.is_contiguous
        if not (written or read):
            return view.blank() if is_staged else view.reach()
        use = self._twin(view) if is_staged else None
        if use is None:
            # Also an argument that is only written starts as a copy: masked stores leave gaps.
            use = _Use(view, told(view.device, view.device, view.nbytes, view.copied) if is_staged else None)
            self._uses.append(use)
            self._has_copies |= is_staged
        if written:
            use.written = True
            use.view = view
        if self._has_copies:
            self._check_aliases(use)
        return view.reach() if use.copy is None else use.copy

    def finish(self) -> None:
        """Copy results back into strided arguments; afterwards the staging is empty."""
        uses, self._uses, self._has_copies = self._uses, [], False
        for use in uses:
            if not use.written:
                continue
            if use.copy is not None:
                told(use.view.device, use.view.device, use.view.nbytes, functools.partial(use.view.write_back, use.copy))
            use.view.note_write()

    def written(self) -> tuple[ArgView, ...]:
        """What a kernel writes, of the arguments that it runs on themselves."""
        return tuple(use.view for use in self._uses if use.written)

    def _in_place(self, view: ArgView, written: bool) -> Any:
        use = _Use(view, None)
        use.written = written
        self._uses.append(use)
        if self._has_copies:
            self._check_aliases(use)
        return view.reach()

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
            if staged is None or use.view.home != other.view.home or not _share_memory(use.view.addresses, other.view.addresses):
                continue
            raise LostWrite(
                f"arguments {other.view.name!r} and {use.view.name!r} share memory and one of them is written, "
                f"but {staged!r} is not contiguous, so the kernel would run on a copy of it",
                hint=f"pass np.ascontiguousarray({staged})",
            )


def hidden_value(view: ArgView, hidden: Hidden) -> int:
    """What a kernel asks of an argument: a stride, an extent, its size."""
    found = hidden.of(view.shape, view.strides)
    if found is None:
        wanted = f" of {hidden.ndim} axes" if hidden.ndim else ""
        raise ArgumentError(
            f"the kernel asks for {hidden}{wanted}, but argument {view.name!r} has shape {view.shape}",
            hint=f"pass an array with {'as many' if hidden.ndim else 'more'} axes, for example {view.name}[None]",
        )
    if hidden.is_narrow and (last := reach(view.shape, view.strides)) >= 1 << 31:
        raise ArgumentError(
            f"the kernel computes positions in {view.name!r} in i32, but its last element is {last} behind the first",
            hint=f"index it with an i64: {view.name}[i.to(mk.i64), j]",
        )
    if found >= 1 << 31:
        raise ArgumentError(
            f"{hidden} is {found}, which does not fit i32",
            hint=f"pass a contiguous copy of {view.name}, or a part of it" if hidden.kind == "stride" else "pass the number as an argument of the kernel",
        )
    return found


def _identity(view: ArgView) -> tuple[object, ...]:
    array = view.addresses
    return (view.home, array.__array_interface__["data"][0], array.shape, array.strides, view.dtype)


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
    if not view.is_contiguous and _overlaps_itself(view.addresses):
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
