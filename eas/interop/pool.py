"""The pool of CPU memory: aligned blocks that are used again, and how much of it there is."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.locks import new_lock

Array = NDArray[Any]

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register
MAX_FREE_NBYTES = 256 << 20  # kept for later; what exceeds it goes back to the system
_SMALLEST = 64


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """What the pool holds now, and what it has done so far."""

    used_nbytes: int
    """In tensors that are alive, rounded up to the sizes of the pool."""
    free_nbytes: int
    """Held for later tensors."""
    peak_nbytes: int
    """The largest `used_nbytes` so far."""
    allocations: int
    reused: int
    """Allocations that took a block which the pool already had."""


class Block:
    """Memory of one tensor; goes back to its pool with the last array that looks at it."""

    __slots__ = ("__array_interface__", "_memory", "_pool", "_size")

    def __init__(self, pool: Pool, memory: Array, size: int, nbytes: int) -> None:
        self._pool = pool
        self._memory = memory
        self._size = size
        start = memory.__array_interface__["data"][0]
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (start + -start % ALIGNMENT, False),
        }

    def __del__(self) -> None:
        # The collector may run this anywhere, also inside of the pool: appending needs no lock.
        self._pool._returned.append((self._size, self._memory))


class Pool:
    """Blocks by size; threads may share it."""

    def __init__(self, max_free_nbytes: int = MAX_FREE_NBYTES) -> None:
        self._max_free_nbytes = max_free_nbytes
        self._returned: deque[tuple[int, Array]] = deque()
        self._free: dict[int, list[Array]] = {}
        self._lock = new_lock()
        self._used = self._free_nbytes = self._peak = self._allocations = self._reused = 0

    def allocate(self, nbytes: int) -> Array:
        """That many bytes, aligned, with arbitrary contents."""
        size = size_class(nbytes)
        with self._lock:
            self._collect()
            memory = self._take(size)
            self._allocations += 1
            self._used += size
            self._peak = max(self._peak, self._used)
        if memory is None:
            try:
                memory = np.empty(size + ALIGNMENT, np.uint8)
            except BaseException:
                with self._lock:
                    self._used -= size
                raise
        return np.asarray(Block(self, memory, size, nbytes))

    def stats(self) -> MemoryStats:
        with self._lock:
            self._collect()
            return MemoryStats(
                self._used, self._free_nbytes, self._peak, self._allocations, self._reused
            )

    def release(self) -> int:
        """Give the free blocks back to the system; the number of bytes that were."""
        with self._lock:
            self._collect()
            released, self._free_nbytes = self._free_nbytes, 0
            self._free.clear()
            return released

    def _take(self, size: int) -> Array | None:
        """A free block, if there is one; a signal handler that allocates may come before any line of this."""
        try:
            memory = self._free[size].pop()
        except (KeyError, IndexError):
            return None
        self._free_nbytes -= size
        self._reused += 1
        return memory

    def _collect(self) -> None:
        """Take back what has died since."""
        while True:
            try:
                size, memory = self._returned.popleft()
            except IndexError:
                return
            self._used -= size
            if self._free_nbytes + size <= self._max_free_nbytes:
                self._free.setdefault(size, []).append(memory)
                self._free_nbytes += size


def size_class(nbytes: int) -> int:
    """The size of the block for that many bytes: at most a quarter more, so that few sizes exist."""
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = max(_SMALLEST, 1 << max(0, (nbytes - 1).bit_length() - 3))
    return -(-nbytes // step) * step


POOL = Pool()


def release_memory() -> int:
    """Give memory that no tensor uses back to the system; the number of bytes that were."""
    return POOL.release()
