"""The messages of a Metal launch: the buffer of `device_assert` and `device_print`, and what it says afterwards.

Its words are described in `codegen/msl/log.py`. The texts are those of the interpreter.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from eas.base.dtypes import DType
from eas.base.errors import KernelError, SourcePlace
from eas.ops.control import print_text
from eas.runtime import Grid
from eas.runtime.checked_program import CheckedProgram, Report
from eas.runtime.device_log import LogFormat as BlockFormat

HEAD_WORDS, RECORD_HEAD_WORDS = 8, 6
MIN_NBYTES, MAX_NBYTES = 1 << 16, 1 << 28


class LogFormat(BlockFormat, Protocol):
    """What the records of one `device_print` hold."""

    @property
    def is_whole(self) -> bool: ...


class Messages(Protocol):
    """What the generated code can say."""

    @property
    def threads(self) -> int: ...
    @property
    def places(self) -> Sequence[tuple[str, SourcePlace | None]]: ...
    @property
    def logs(self) -> Sequence[LogFormat]: ...


class MetalLog:
    """The log of one launch; bind `words` at the code's `log_index`, then call `finish`."""

    def __init__(self, code: Messages, programs: int, nbytes: int | None = None) -> None:
        self._code = code
        once_each = programs * sum(_line_words(f, code.threads) for f in code.logs)
        size = nbytes or min(max(4 * (HEAD_WORDS + once_each), MIN_NBYTES), MAX_NBYTES)
        self.words = np.zeros(max(size // 4, HEAD_WORDS), np.uint32)
        self.words[6], self.words[7] = self.words.size, HEAD_WORDS

    def finish(self, kernel: str, out: Report = print) -> None:
        """Print the lines, program after program; then raise the first failed assertion."""
        program = CheckedProgram(kernel)
        program.out = out
        dropped = self._show(program)
        if dropped:
            print(f"[{kernel}] the log of device_print is full: {dropped} records dropped", file=sys.stderr, flush=True)
        if self.words[0]:
            self._fail(program)

    def _fail(self, program: CheckedProgram) -> None:
        text, loc = self._code.places[int(self.words[1])]
        program.pid = self._program(1)
        try:
            program.fail(text)
        except KernelError as error:
            raise error.at(loc) from None

    def _program(self, at: int) -> Grid:
        x, y, z = (int(w) for w in self.words[at + 1 : at + 4])
        return (x, y, z)

    def _show(self, program: CheckedProgram) -> int:
        """Records of one program, place and round belong to one line: each thread wrote its part."""
        rounds: defaultdict[tuple[Grid, int, int], int] = defaultdict(int)
        lines: dict[tuple[Grid, int, int], dict[int, int]] = {}
        at, end, used = HEAD_WORDS, self.words.size, HEAD_WORDS
        while at < min(end, int(self.words[7])) and self.words[at]:
            place, pid, element = int(self.words[at + 1]), self._program(at + 1), int(self.words[at + 5])
            key = (pid, place, element)
            lines.setdefault((pid, place, rounds[key]), {})[element] = at
            rounds[key] += 1
            used += int(self.words[at])
            at += int(self.words[at])
        for (pid, place, _), parts in sorted(lines.items(), key=lambda item: (item[0][0][::-1], min(item[1].values()))):
            program.pid = pid
            layout = self._code.logs[place]
            program.report(print_text(layout.prefix, self._values(layout, parts)))
        missing = int(self.words[7]) - used
        least = min((_record_words(f) for f in self._code.logs), default=1)
        return -(-missing // least)

    def _values(self, layout: LogFormat, parts: dict[int, int]) -> list[np.ndarray]:
        """What a record holds, or what each thread said; 0 for threads that did not come by."""
        values, where = [], RECORD_HEAD_WORDS
        for dtype, shape in zip(layout.dtypes, layout.shapes, strict=True):
            found = np.zeros(shape, dtype.np_compute)
            flat = found.reshape(-1)
            for element, at in parts.items():
                if layout.is_whole:
                    flat[:] = _decoded(self.words[at + where : at + where + 2 * flat.size], dtype)
                else:
                    flat[element if shape else 0] = _decoded(self.words[at + where : at + where + 2], dtype)[0]
            values.append(found)
            where += 2 * flat.size if layout.is_whole else 2
        return values


def _decoded(words: np.ndarray, dtype: DType) -> np.ndarray:
    """Values in the form that the interpreter computes in; each has two words."""
    if dtype.is_float:
        return np.ascontiguousarray(words[::2]).view(np.float32).astype(dtype.np_compute)
    return words.copy().view(np.int64).astype(dtype.np_compute)


def _record_words(layout: LogFormat) -> int:
    if not layout.is_whole:
        return RECORD_HEAD_WORDS + 2 * len(layout.dtypes)
    return RECORD_HEAD_WORDS + 2 * sum(int(np.prod(shape, dtype=np.int64)) for shape in layout.shapes)


def _line_words(layout: LogFormat, threads: int) -> int:
    return _record_words(layout) * (1 if layout.is_whole else threads)
