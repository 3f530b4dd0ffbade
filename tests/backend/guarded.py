"""Arrays between pages that nobody may touch, in memory whose other bytes are watched."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

PAGE = mmap.PAGESIZE
POISON = 0x5A
_LIBC = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Places arrays directly behind a page without access, or directly before one. A touch of either ends the process."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self._placed: list[tuple[np.ndarray, slice]] = []

    def like(self, values: np.ndarray) -> np.ndarray:
        """A copy of an array; its elements are the first or the last ones between two such pages."""
        inside = -(-max(values.nbytes, 1) // PAGE) * PAGE
        memory = mmap.mmap(-1, inside + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        room = np.frombuffer(memory, np.uint8, inside, PAGE)
        room[:] = POISON
        first = inside - values.nbytes if self.at_end else 0
        part = slice(first, first + values.nbytes)
        array = room[part].view(values.dtype).reshape(values.shape)
        array[...] = values
        for page in (start, start + PAGE + inside):
            assert _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0) == 0
        self._placed.append((room, part))
        return array

    def empty(self, shape: int | tuple[int, ...], dtype: object) -> np.ndarray:
        """An output, full of poison."""
        like = np.empty(shape, dtype)
        like.reshape(-1).view(np.uint8)[:] = POISON
        return self.like(like)

    def check(self) -> None:
        """Nothing was written beside the arrays."""
        for room, part in self._placed:
            beside = np.concatenate([room[: part.start], room[part.stop :]])
            assert (beside == POISON).all(), f"{int((beside != POISON).sum())} bytes beside an array were written"
