"""What a launch must know of a compiled kernel; small enough to be kept on disk."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from eas.base.facts import Fact
from eas.base.types import Space, Type
from eas.runtime.grid import GridInfo


class ArgType(NamedTuple):
    """One runtime argument."""

    name: str
    type: Type
    attrs: tuple[tuple[str, Any], ...] = ()

    def attr(self, name: str, default: Any = None) -> Any:
        return next((v for k, v in self.attrs if k == name), default)

    @property
    def is_buffer(self) -> bool:
        return self.type.space is Space.DEVICE


class Summary(NamedTuple):
    """A traced kernel without its instructions."""

    name: str
    args: tuple[ArgType, ...]
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    grid_info: GridInfo
    facts: tuple[Fact, ...]
    """What distinguishes its variants."""
    threads: int
    """Of a threadgroup; 1 of kernels that are no thread kernels."""

    @property
    def launch_mode(self) -> Literal["spmd", "thread"]:
        return self.grid_info.launch_mode
