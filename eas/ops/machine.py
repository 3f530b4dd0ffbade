"""What effectful op references need from whoever runs them: memory, ids, messages."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
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


LOWEST_ADDRESS = 1 << 16
"""No system gives memory below: who reads there has computed with a null pointer."""
_HIGHEST_ADDRESS = 1 << 47


@cache
def everywhere(dtype: DType) -> Buffer:
    """All memory of the process from LOWEST_ADDRESS on, for pointers that are made from integers."""
    nbytes = _HIGHEST_ADDRESS - LOWEST_ADDRESS
    memory = (ctypes.c_uint8 * nbytes).from_address(LOWEST_ADDRESS)
    return Buffer("memory at an address", np.frombuffer(memoryview(memory), dtype.np_storage), dtype)


class Machine(Protocol):
    """One running program (spmd) or threadgroup (thread mode, spread)."""

    threads: int
    """Of a threadgroup whose lane IR runs; else 1."""
    streams: bool
    """Whether stores go past the cache wherever they may."""

    def program_id(self, axis: int) -> int: ...

    def num_programs(self, axis: int) -> int: ...

    def load(self, pointer: Pointer, mask: Any, other: Any) -> np.ndarray:
        """Values in compute form; masked-off lanes touch no memory and read `other`."""
        ...

    def store(self, pointer: Pointer, value: np.ndarray, mask: Any) -> None: ...

    def load_block(self, pointer: Pointer) -> np.ndarray:
        """Elements of any shape, whichever threads run."""
        ...

    def store_block(self, pointer: Pointer, value: np.ndarray) -> None: ...

    def programs_left(self) -> int:
        """How many programs side by side are still to run, with this one."""
        ...

    def is_joined(self) -> bool:
        """Whether this program and those beside it that may run together do so."""
        ...

    def active_threads(self) -> np.ndarray:
        """Which of the threads take part in the branch or loop that runs."""
        ...

    def allocate(self, name: str, size: int, dtype: DType) -> Pointer:
        """Threadgroup memory, uninitialised."""
        ...

    def report(self, text: str) -> None:
        """A line of `device_print`."""
        ...

    def fail(self, text: str) -> None:
        """`device_assert` did not hold."""
        ...
