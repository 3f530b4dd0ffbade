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

    def of(self, shape: Sequence[int], strides: Sequence[int]) -> int | None:
        """The number for an array, or None if it has not the axes that the kernel asks for."""
        if self.kind == "size":
            return prod(shape)
        if not -len(shape) <= self.axis < len(shape) or self.ndim not in (0, len(shape)):
            return None
        if self.kind == "shape":
            return shape[self.axis]
        # Along one element there is no step, whatever number NumPy or torch keeps there.
        return strides[self.axis] if shape[self.axis] > 1 else max(strides[self.axis], 0)

    def __str__(self) -> str:
        return f"{self.buffer}.numel()" if self.kind == "size" else f"{self.buffer}.{self.kind}" + ("({})" if self.kind == "stride" else "[{}]").format(self.axis)


def hidden_of(arg: Any) -> Hidden | None:
    """What an argument of a kernel tells about a buffer, if nobody passes it."""
    for kind in ("stride", "shape", "size"):
        buffer = arg.attr(f"{kind}_of")
        if buffer is not None:
            return Hidden(kind, buffer, arg.attr("axis", 0), arg.attr("ndim", 0))
    return None
