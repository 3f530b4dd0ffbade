"""One running program of the interpreter: its ids, and memory of which every access is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from eas.base import numerics
from eas.base.dtypes import DType
from eas.base.errors import DeviceAssertion, LostWrite, OutOfBounds
from eas.ops.machine import Buffer, Pointer
from eas.runtime import Grid

Access = Literal["load", "store"]
Report = Callable[[str], object]

POISON = 0xCD  # the bytes of threadgroup integers that nobody wrote; floats are NaN


class CheckedProgram:
    """The `Machine` of the interpreter; one object serves the programs of a launch in turn."""

    threads = 1
    streams = False

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.pid: Grid = (0, 0, 0)
        self.grid: Grid = (1, 1, 1)
        self.out: Report = print
        self.left = 1
        self.joined = False

    def program_id(self, axis: int) -> int:
        return self.pid[axis]

    def num_programs(self, axis: int) -> int:
        return self.grid[axis]

    def programs_left(self) -> int:
        return self.left

    def is_joined(self) -> bool:
        return self.joined

    def active_threads(self) -> np.ndarray:
        return np.ones(self.threads, np.bool_)

    def load_block(self, pointer: Pointer) -> np.ndarray:
        return CheckedProgram.load(self, pointer, None, None)

    def store_block(self, pointer: Pointer, value: np.ndarray) -> None:
        CheckedProgram.store(self, pointer, value, None)

    def load(self, pointer: Pointer, mask: Any, other: Any) -> np.ndarray:
        """Decode only the elements that active lanes touch; a copy, never a view of memory."""
        buffer, offsets = pointer.buffer, pointer.offsets
        if mask is None or _all(mask):
            self._check("load", buffer, offsets)
            return numerics.decode(buffer.data[offsets], buffer.dtype)
        lanes, offsets = np.broadcast_to(mask, offsets.shape), np.asarray(offsets)
        result = np.zeros(offsets.shape, buffer.dtype.np_compute)
        if other is not None:
            result[...] = other
        active = offsets[lanes]
        self._check("load", buffer, active)
        result[lanes] = numerics.decode(buffer.data[active], buffer.dtype)
        return result

    def store(self, pointer: Pointer, value: np.ndarray, mask: Any) -> None:
        """Encode and write the active lanes; of colliding lanes the last one wins."""
        buffer, offsets = pointer.buffer, np.asarray(pointer.offsets)
        if mask is not None and not _all(mask):
            lanes = np.broadcast_to(mask, offsets.shape)
            offsets, value = offsets[lanes], np.broadcast_to(value, offsets.shape)[lanes]
        self._check("store", buffer, offsets)
        if not buffer.data.flags.writeable:
            raise LostWrite(
                f"kernel {self.kernel} writes {buffer.name}, which is read-only",
                hint=f"pass {buffer.name}.copy()",
            )
        buffer.data[offsets] = numerics.encode(value, buffer.dtype)

    def allocate(self, name: str, size: int, dtype: DType) -> Pointer:
        """Threadgroup memory that shows when it is read before it is written."""
        if dtype.is_float:
            data = numerics.encode(np.full(size, np.nan, dtype.np_compute), dtype)
        elif dtype.is_bool:
            data = np.ones(size, np.bool_)
        else:
            data = np.full(size * dtype.nbytes, POISON, np.uint8).view(dtype.np_storage)
        return Pointer(Buffer(name, data, dtype), np.zeros((), np.int64))

    def report(self, text: str) -> None:
        """Print one line, prefixed with the kernel and the program."""
        self.out(f"[{self.kernel} pid={_ids(self.pid)}] {text}")

    def fail(self, text: str) -> None:
        raise DeviceAssertion(f"{text or 'device_assert failed'} ({self._where()})")

    def _check(self, access: Access, buffer: Buffer, offsets: np.ndarray) -> None:
        size = buffer.data.size
        # Seen as unsigned, negative offsets are the largest ones: one comparison finds both ends.
        if offsets.size and np.maximum.reduce(offsets.view(np.uint64), axis=None) >= size:
            flat = np.ravel(offsets)
            bad = int(flat[(flat < 0) | (flat >= size)][0])
            raise self._out_of_bounds(access, buffer, bad)

    def _out_of_bounds(self, access: Access, buffer: Buffer, index: int) -> OutOfBounds:
        name, size = buffer.name, buffer.data.size
        reach = f"{access} from {name}" if access == "load" else f"{access} to {name}"
        value = "" if access == "load" else "value, "
        hint = f"mask those lanes off: mk.{access}({name}, offsets, {value}offsets < {size})"
        if index < 0:
            hint = "negative indices do not count from the end; did the offsets overflow?"
        text = f"{reach}: index {index} is out of range, it has {size} elements"
        return OutOfBounds(f"{text} ({self._where()})", hint=hint)

    def _where(self) -> str:
        return f"kernel {self.kernel}, program {_ids(self.pid)}"


def _all(mask: np.ndarray) -> bool:
    """`mask.all()`, several times faster on small blocks."""
    return int(np.count_nonzero(mask)) == mask.size


def _ids(pid: Grid) -> str:
    return f"({','.join(map(str, pid))})"
