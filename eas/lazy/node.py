"""Nodes of the lazy graph: immutable until they are realised, each with the user's line that wrote it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from eas.base.dtypes import DType
from eas.frontend.our_frames import is_internal
from eas.interop.pending import PENDING, pin

if TYPE_CHECKING:
    from types import CodeType

    from eas.interop.devices import Device
    from eas.ir import Loc
    from eas.lazy.ops import Row

Shape = tuple[int, ...]
Source = Any
"""A Node, or a Python number of the operand dtype of the row."""


class Node:
    """One operation. `arg` is what its row needs besides sources; `memory` is set once it is realised."""

    __slots__ = ("__weakref__", "arg", "depth", "device", "dtype", "memory", "op", "place", "shape", "src")

    def __init__(self, op: Row, src: tuple[Source, ...], arg: Any, shape: Shape, dtype: DType, device: Device, place: tuple[CodeType, int] | None = None) -> None:
        self.op = op
        self.src = src
        self.arg = arg
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.place = place
        self.memory: Any = None
        self.depth: int = 0
        """Nodes of the longest way to memory."""
        for source in src:
            if type(source) is Node and source.depth >= self.depth:
                self.depth = source.depth + 1

    @property
    def size(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n

    @property
    def loc(self) -> Loc | None:
        """The user's line, as errors and IR show it."""
        from eas.ir import Loc

        return None if self.place is None else Loc((self.place,))

    def become(self, memory: Any) -> None:
        """Realised: the graph behind it is let go, and a write to its memory will leave readers what they saw."""
        self.memory = memory
        self.src = ()
        self.depth = 0
        pin(self)

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.dtype}{list(self.shape)}{'' if self.memory is None else ' realised'}>"


STATE: WeakKeyDictionary[Node, Any] = WeakKeyDictionary()
"""What tensors that were in memory are since they were written, with a weak reference to the tensor: the first graph that computes one keeps it."""


def place_here() -> tuple[CodeType, int] | None:
    """The innermost frame that is not ours, as a code object and an instruction."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not is_internal(code.co_filename):
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def linearise(roots: Sequence[Node]) -> list[Node]:
    """Every node that the roots need, sources first; realised ones are leaves. Never recurses."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if node in seen:
            stack.pop()
            continue
        before = len(stack)
        for source in node.src:
            if type(source) is Node and source not in seen:
                stack.append(source)
        if len(stack) == before:
            seen.add(node)
            order.append(node)
            stack.pop()
    return order


__all__ = ["PENDING", "STATE", "Node", "Shape", "Source", "linearise", "place_here"]
