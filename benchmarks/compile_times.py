"""`python -m benchmarks --compile`: processor time to compile long kernels, at n and 4n statements, and the ratio."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.long_kernels import SHAPES, load

_LIMIT = 5.0  # 4n statements take at most this many times as long as n
_SECONDS_PER_STATEMENT = 4 / 1000  # at most
_TIMES = 2  # of which the shorter counts
_LONGEST = {"expression": 2500, "nested where": 180, "elif": 5800}  # what Python's own parser takes


def run_compile_times(n: int, backend: str = "cpu", shapes: Sequence[str] = ()) -> None:
    """Print a table of all shapes, or of those, a line when it is known; `!` marks a ratio or a time above its limit."""
    print(f"{'shape':24} {n:>9} {4 * n:>9}    ratio   (seconds of processor time, {backend}; load of the machine {os.getloadavg()[0]:.1f})", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EAS_BACKEND"] = backend
        _seconds("chain", 2, Path(folder))  # loads the compiler
        for shape in shapes or SHAPES:
            long = min(4 * n, _LONGEST.get(shape, 4 * n))
            few, many = (min(_seconds(shape, k, Path(folder)) for _ in range(_TIMES)) for k in (long // 4, long))
            size = "" if long == 4 * n else f"   at {long // 4} and {long}"
            is_slow = many / few > _LIMIT or many > _SECONDS_PER_STATEMENT * long
            print(f"{shape:24} {few:9.2f} {many:9.2f} {many / few:8.1f} {'!' if is_slow else ''}{size}".rstrip(), flush=True)


def _seconds(shape: str, n: int, folder: Path) -> float:
    """Processor time of the first call, with the compilers that it starts."""
    x, y = np.ones(1 << 17, np.float32), np.zeros(1 << 17, np.float32)
    kernel = load(shape, n, folder)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["EAS_CACHE_DIR"] = cache
        before = _clock()
        kernel(x, y, 100, BLOCK=64, _grid=2)
        return _clock() - before


def _clock() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
