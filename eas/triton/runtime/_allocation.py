"""`triton.set_allocator`: memory for descriptors that a kernel makes; ours need none, so the function is only kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class NullAllocator:
    """No allocator: a GPU would refuse kernels that make descriptors."""

    def __call__(self, size: int, alignment: int, stream: Any) -> Any:
        raise RuntimeError("Kernel requires a runtime memory allocation, but no allocator was set")


_allocator: list[Any] = [NullAllocator()]


def set_allocator(allocator: Callable[[int, int, Any], Any]) -> None:
    """Keep the allocator: descriptors need no memory here."""
    _allocator[:] = [allocator]
