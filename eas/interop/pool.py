"""The pool of CPU memory: aligned blocks that are used again, and how much of it there is."""

from __future__ import annotations

import functools
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base.locks import new_lock
from eas.runtime.memory_use import used_nbytes

Array = NDArray[Any]

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register
MAX_FREE_NBYTES = 256 << 20  # kept for later; what exceeds it goes back to the system
_SMALLEST = 64
_BYTE = np.dtype(np.uint8)


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
    private_used_nbytes: int = 0
    """Of `used_nbytes` those that only the GPU sees."""
    private_free_nbytes: int = 0
    """Of `free_nbytes` those that only the GPU sees."""


class Block(np.ndarray[Any, np.dtype[Any]]):
    """Aligned memory of a pool. NumPy gives a view the first owner that is not of the view's own class,
    so a view through a lease keeps the lease, which a plain array in place of this class would be left out for."""


class Lease(np.ndarray[Any, np.dtype[Any]]):
    """A block while arrays look at it; goes back to its pool with the last of them."""

    returned: deque[Block]

    def __del__(self) -> None:
        # The collector may run this anywhere, also inside of the pool: appending needs no lock.
        if type(self.base) is Block:  # else somebody's view of a lease
            self.returned.append(self.base)


class Pool:
    """Blocks by size; threads may share it."""

    def __init__(self, max_free_nbytes: int = MAX_FREE_NBYTES) -> None:
        self._max_free_nbytes = max_free_nbytes
        self._returned: deque[Block] = deque()
        self._lease = type("Lease", (Lease,), {"returned": self._returned})
        self._free: dict[int, list[Block]] = {}
        self._lock = new_lock()
        self._used = self._free_nbytes = self._peak = self._allocations = self._reused = 0

    def allocate(self, nbytes: int) -> Array:
        """That many bytes, aligned, with arbitrary contents."""
        return np.ndarray((nbytes,), _BYTE, self.lease(nbytes))

    def lease(self, nbytes: int) -> Array:
        """At least that many bytes, aligned, for `np.ndarray(shape, dtype, lease)`."""
        size = size_class(nbytes)
        with self._lock:
            self._allocations += 1
            memory = self._again(size) if self._returned else None
            if memory is None:
                self._collect()
                memory = self._take(size)
                self._used = used = self._used + size
                if used > self._peak:
                    self._peak = used
        if memory is None:
            try:
                memory = _aligned(size)
            except BaseException:
                with self._lock:
                    self._used -= size
                raise
        return memory.view(self._lease)

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

    def _again(self, size: int) -> Block | None:
        """What has just died, if it has the size: it counts as used still."""
        try:
            memory = self._returned.pop()
        except IndexError:  # a signal handler was quicker
            return None
        if memory.nbytes == size:
            self._reused += 1
            return memory
        self._returned.append(memory)
        return None

    def _take(self, size: int) -> Block | None:
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
        while self._returned:
            try:
                memory = self._returned.popleft()
            except IndexError:  # a signal handler was quicker
                return
            size = memory.nbytes
            self._used -= size
            if self._free_nbytes + size <= self._max_free_nbytes:
                self._free.setdefault(size, []).append(memory)
                self._free_nbytes += size


@functools.lru_cache(maxsize=4096)
def size_class(nbytes: int) -> int:
    """The size of the block for that many bytes: at most a quarter more, so that few sizes exist."""
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = max(_SMALLEST, 1 << max(0, (nbytes - 1).bit_length() - 3))
    return -(-nbytes // step) * step


def _aligned(size: int) -> Block:
    memory = np.empty(size + ALIGNMENT, _BYTE)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[start : start + size].view(Block)


POOL = Pool()
used_nbytes.append(lambda: POOL.stats().used_nbytes)


def release_memory() -> int:
    """Give memory that no tensor uses back to the system; the number of bytes that were."""
    return POOL.release()
