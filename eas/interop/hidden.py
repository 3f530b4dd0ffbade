"""Hidden arguments of a kernel: what it asks of a buffer itself, its strides and extents."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal, NamedTuple

HiddenKind = Literal["stride", "shape", "size"]


class Hidden(NamedTuple):
    """One number about a buffer: the stride or extent of an axis, or how many elements it has."""

    kind: HiddenKind
    buffer: str
    axis: int = 0
    ndim: int = 0
    """How many axes the kernel takes the buffer to have; 0: it does not say."""
    is_narrow: bool = False
    """Whether the kernel computes positions from it in i32, as `x[i, j]` does."""

    def of(self, shape: Sequence[int], strides: Sequence[int]) -> int | None:
        """The number for an array, or None if it has not the axes that the kernel asks for."""
        if self.kind == "size":
            return prod(shape)
        if not -len(shape) <= self.axis < len(shape) or self.ndim not in (0, len(shape)):
            return None
        if self.kind == "shape":
            return shape[self.axis]
        if self.is_narrow and (last := reach(shape, strides)) >= 1 << 31:
            return last  # no i32 either
        # Along one element there is no step, whatever number NumPy or torch keeps there.
        return strides[self.axis] if shape[self.axis] > 1 else max(strides[self.axis], 0)

    def __str__(self) -> str:
        return f"{self.buffer}.numel()" if self.kind == "size" else f"{self.buffer}.{self.kind}" + ("({})" if self.kind == "stride" else "[{}]").format(self.axis)


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How far the last element of an array lies behind its first one."""
    return sum((n - 1) * abs(step) for n, step in zip(shape, strides, strict=True) if n > 1)


def hidden_of(arg: Any) -> Hidden | None:
    """What an argument of a kernel tells about a buffer, if nobody passes it."""
    for kind in ("stride", "shape", "size"):
        buffer = arg.attr(f"{kind}_of")
        if buffer is not None:
            return Hidden(kind, buffer, arg.attr("axis", 0), arg.attr("ndim", 0), bool(arg.attr("narrow", 0)))
    return None
