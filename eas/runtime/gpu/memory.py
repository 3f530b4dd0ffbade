"""Memory of the Metal device: buffers by storage mode and size, used again, and the buffer that an address lies in."""

from __future__ import annotations

import ctypes
import mmap
from collections import deque
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eas.base.locks import new_lock
from eas.runtime.copies import told
from eas.runtime.memory_use import used_nbytes

Array = NDArray[Any]
PAGE = mmap.PAGESIZE
ALIGNMENT = 256  # of all that facts of launches speak of
MAX_FREE_NBYTES = 512 << 20  # kept for later; what exceeds it goes back to Metal


def address_of(array: Array) -> int:
    """Where the elements of an array start; `array.ctypes` imports a module, which fails while Python ends."""
    return int(array.__array_interface__["data"][0])


class Place(NamedTuple):
    """Bytes of a buffer."""

    buffer: Any
    offset: int
    nbytes: int


class Region(NamedTuple):
    """Memory of the process that a launch touches, and that is not ours."""

    begin: int
    end: int
    is_written: bool

    @property
    def nbytes(self) -> int:
        return self.end - self.begin

    @property
    def is_whole_pages(self) -> bool:
        """Whether Metal can share it."""
        return self.begin % PAGE == 0 and self.end % PAGE == 0


def merged(regions: Iterable[Region]) -> list[Region]:
    """The same bytes as regions that do not overlap."""
    found: list[Region] = []
    for region in sorted(regions):
        if found and region.begin < found[-1].end:
            last = found.pop()
            region = Region(last.begin, max(last.end, region.end), last.is_written or region.is_written)
        found.append(region)
    return found


def size_class(nbytes: int) -> int:
    """The size of the buffer for that many bytes: whole pages, at most a quarter more, so that few sizes exist."""
    step = max(PAGE, 1 << max(0, (nbytes - 1).bit_length() - 3))
    return max(step, -(-nbytes // step) * step)


class MetalBlock:
    """The memory of one tensor; its buffer goes back to the pool with the last array that looks at it."""

    __slots__ = ("__array_interface__", "_buffer", "_memory")

    def __init__(self, memory: MetalMemory, buffer: Any, nbytes: int) -> None:
        self._memory, self._buffer = memory, buffer
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (buffer.address, False)}

    def __del__(self) -> None:
        self._memory.returned.append(self._buffer)  # the collector may run this anywhere: no lock


class AdoptedBlock:
    """The memory of an MTLBuffer of somebody else, as long as an array looks at it."""

    __slots__ = ("__array_interface__", "_buffer")

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self.__array_interface__ = {"version": 3, "shape": (buffer.nbytes,), "typestr": "|u1", "data": (buffer.address, False)}


class Staged:
    """Bytes of the process that are no memory of Metal, and their copy in a buffer, which goes back to the pool with this object."""

    __slots__ = ("_memory", "place", "region")

    def __init__(self, memory: MetalMemory, region: Region, place: Place) -> None:
        self._memory, self.region, self.place = memory, region, place

    def write_back(self) -> None:
        """Copy what the kernel has left in the buffer to where it belongs."""
        if self.region.is_written:
            source = self.place.buffer.address + self.place.offset
            told("cpu", "mps", self.place.nbytes, lambda: ctypes.memmove(self.region.begin, source, self.place.nbytes))

    def __del__(self) -> None:
        self._memory.returned.append(self.place.buffer)


class MetalCounts(NamedTuple):
    """Bytes in use, bytes kept for later, the most that were in use, allocations, and how many of them took a kept buffer; of the bytes those in private storage."""

    used: int
    free: int
    peak: int
    allocations: int
    reused: int
    private_used: int
    private_free: int


class MetalMemory:
    """All buffers of this process: by storage mode and size."""

    def __init__(self, extension: Any) -> None:
        self._metal = extension
        self.returned: deque[Any] = deque()
        self._free: dict[tuple[bool, int], list[Any]] = {}
        self._used = {False: 0, True: 0}  # by whether it is private
        self._kept = {False: 0, True: 0}
        self._peak = self._allocations = self._reused = 0
        self._lock = new_lock()
        used_nbytes.append(lambda: sum(self._used.values()))

    def allocate(self, nbytes: int, is_private: bool = False) -> Array:
        """That many bytes, with arbitrary contents; of private memory only the layout, whose elements nobody may touch."""
        return np.asarray(MetalBlock(self, self.buffer(nbytes, is_private), nbytes))

    def buffer(self, nbytes: int, is_private: bool = False) -> Any:
        """A buffer of at least so many bytes; give it back by appending it to `returned`."""
        size = size_class(nbytes)
        with self._lock:
            self._collect()
            if self._free.get((is_private, size)):
                self._kept[is_private] -= size
                self._reused += 1
                found = self._free[is_private, size].pop()
            else:
                found = self._new(size, is_private)
            self._allocations += 1
            self._used[is_private] += size
            self._peak = max(self._peak, sum(self._used.values()))
            return found

    def _new(self, size: int, is_private: bool) -> Any:
        try:
            return self._metal.allocate(size, is_private)
        except self._metal.Error:
            if not self._release():
                raise
        return self._metal.allocate(size, is_private)  # there is room now

    def counts(self) -> MetalCounts:
        """What the pool holds now, and what it has done so far."""
        with self._lock:
            self._collect()
            used, kept = sum(self._used.values()), sum(self._kept.values())
            return MetalCounts(used, kept, self._peak, self._allocations, self._reused, self._used[True], self._kept[True])

    def adopt(self, buffer: Any) -> Array:
        """The bytes of a buffer of somebody else."""
        return np.asarray(AdoptedBlock(buffer))

    @cached_property
    def nothing(self) -> Any:
        """What a kernel gets for an array without elements."""
        return self.buffer(1)

    def copied(self, region: Region) -> Staged:
        """A copy of bytes of the process, as aligned as they are."""
        offset = region.begin % ALIGNMENT
        buffer = self.buffer(offset + region.nbytes)
        ctypes.memmove(buffer.address + offset, region.begin, region.nbytes)
        return Staged(self, region, Place(buffer, offset, region.nbytes))

    def place_of(self, address: int, nbytes: int) -> Place | None:
        """Where bytes of the process lie in a buffer of ours, or None."""
        found = self._metal.place_of(address, nbytes)
        return None if found is None else Place(*found)

    def release(self) -> int:
        """Give free buffers back to Metal; the number of bytes that were."""
        with self._lock:
            self._collect()
            return self._release()

    def _release(self) -> int:
        released = sum(self._kept.values())
        self._kept = {False: 0, True: 0}
        self._free.clear()
        return released

    def _collect(self) -> None:
        while self.returned:
            buffer = self.returned.popleft()
            self._used[buffer.is_private] -= buffer.nbytes
            if sum(self._kept.values()) + buffer.nbytes <= MAX_FREE_NBYTES:
                self._free.setdefault((buffer.is_private, buffer.nbytes), []).append(buffer)
                self._kept[buffer.is_private] += buffer.nbytes
