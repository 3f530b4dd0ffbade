"""The lines of `device_print` of a native launch: memory that programs write records to, and their text.

The log starts with {i64 capacity, i64 used}, both in bytes from its start. A record is
{i64 nbytes, i64 place, i64 program, values}; each value is a block in the form kernels compute in,
filled up to 8 bytes. `used` counts also what did not fit, so the records that are there lie side by
side, and those of one program in the order in which it printed them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from eas.base.dtypes import DType
from eas.ops.control import print_text
from eas.runtime import Grid
from eas.runtime.checked_program import CheckedProgram, Report

HEAD_NBYTES, RECORD_HEAD_NBYTES = 16, 24
MIN_NBYTES, MAX_NBYTES = 1 << 24, 1 << 28  # the pages that nobody writes cost nothing


class LogFormat(Protocol):
    """What the records of one `device_print` hold."""

    @property
    def prefix(self) -> str: ...
    @property
    def dtypes(self) -> tuple[DType, ...]: ...
    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]: ...


class DeviceLog:
    """The log of one launch; `formats` has the format of each place."""

    def __init__(self, formats: Sequence[LogFormat], programs: int, nbytes: int | None = None) -> None:
        self._formats = formats
        self._sizes = [_record_nbytes(f) for f in formats]
        once_each = HEAD_NBYTES + programs * sum(self._sizes)
        size = nbytes or min(max(once_each, MIN_NBYTES), MAX_NBYTES)
        # Zeros: where a record did not fit, its nbytes are 0.
        self._words = np.zeros(max(size // 8, 2), np.int64)
        self._words[:2] = self._words.nbytes, HEAD_NBYTES

    @property
    def address(self) -> int:
        return int(self._words.__array_interface__["data"][0])

    def show(self, kernel: str, grid: Grid, out: Report = print) -> None:
        """Print what the interpreter prints, program after program; then what is missing, to stderr."""
        found = list(self._records())
        program = CheckedProgram(kernel)
        program.out = out
        for at in sorted(found, key=lambda at: int(self._words[at // 8 + 2])):  # stable
            place, number = (int(word) for word in self._words[at // 8 + 1 : at // 8 + 3])
            x, rest = number % grid[0], number // grid[0]
            program.pid = (x, rest % grid[1], rest // grid[1])
            layout = self._formats[place]
            program.report(print_text(layout.prefix, list(self._values(layout, at))))
        missing = self._missing(found)
        if missing:
            print(f"[{kernel}] the log of device_print is full: {missing} dropped", file=sys.stderr, flush=True)

    def _records(self) -> Iterator[int]:
        """Where the records start."""
        at, end = HEAD_NBYTES, min(int(self._words[1]), self._words.nbytes)
        while at < end and (nbytes := int(self._words[at // 8])):
            yield at
            at += nbytes

    def _values(self, layout: LogFormat, at: int) -> Iterator[np.ndarray]:
        at += RECORD_HEAD_NBYTES
        for dtype, shape in zip(layout.dtypes, layout.shapes, strict=True):
            stored = np.frombuffer(self._words, _stored(dtype), int(np.prod(shape, dtype=np.int64)), at)
            yield stored.reshape(shape).astype(dtype.np_compute)
            at += _padded(stored.nbytes)

    def _missing(self, found: Sequence[int]) -> str:
        """How many records are not there; only their bytes are known, and records may differ in size."""
        there = HEAD_NBYTES + sum(int(self._words[at // 8]) for at in found)
        nbytes = int(self._words[1]) - there
        if not nbytes:
            return ""
        least = -(-nbytes // max(self._sizes))
        is_exact = len(set(self._sizes)) == 1
        return f"{'' if is_exact else 'at least '}{least} record{'' if least == 1 else 's'}"


def _stored(dtype: DType) -> np.dtype[Any]:
    """What an element of a record is: narrow floats are computed in f32, a bool is a byte."""
    if dtype.is_float:
        return np.dtype(np.float64 if dtype.bits == 64 else np.float32)
    return np.dtype(np.uint8) if dtype.is_bool else dtype.np_compute


def _record_nbytes(layout: LogFormat) -> int:
    pairs = zip(layout.dtypes, layout.shapes, strict=True)
    return RECORD_HEAD_NBYTES + sum(_padded(_stored(d).itemsize * int(np.prod(s, dtype=np.int64))) for d, s in pairs)


def _padded(nbytes: int) -> int:
    return (nbytes + 7) // 8 * 8
