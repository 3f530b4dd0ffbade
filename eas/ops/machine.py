"""What effectful op references need from whoever runs them: memory, ids, messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from eas.base.dtypes import DType


@dataclass(eq=False, slots=True)
class Buffer:
    """A flat piece of memory with a name; `data` holds the storage form of `dtype`."""

    name: str
    data: np.ndarray
    dtype: DType


@dataclass(eq=False, slots=True)
class Pointer:
    """A block of element addresses into one buffer."""

    buffer: Buffer
    offsets: np.ndarray  # int64, shaped as the block

    @property
    def shape(self) -> tuple[int, ...]:
        return self.offsets.shape


class Machine(Protocol):
    """One running program (spmd) or threadgroup (thread mode, spread)."""

    def program_id(self, axis: int) -> int: ...

    def num_programs(self, axis: int) -> int: ...

    def load(self, pointer: Pointer, mask: Any, other: Any) -> np.ndarray:
        """Values in compute form; masked-off lanes touch no memory and read `other`."""
        ...

    def store(self, pointer: Pointer, value: np.ndarray, mask: Any) -> None: ...

    def allocate(self, name: str, size: int, dtype: DType) -> Pointer:
        """Threadgroup memory, uninitialised."""
        ...

    def report(self, text: str) -> None:
        """A line of `device_print`."""
        ...

    def fail(self, text: str) -> None:
        """`device_assert` did not hold."""
        ...
