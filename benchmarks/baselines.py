"""The C baselines: builds `baselines.c` once per text and machine, and binds calls to arrays."""

from __future__ import annotations

import ctypes
import hashlib
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import BUILD
from benchmarks.registry import Call

SOURCE = Path(__file__).with_name("baselines.c")
FLAGS = ["-O3", "-march=native", "-ffp-contract=fast", "-fopenmp", "-shared", "-fPIC", "-Wno-psabi"]
RETURNS = {"sum": ctypes.c_float, "fma_peak": ctypes.c_double}


def why_unavailable() -> str | None:
    try:
        library()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"baselines.c does not build here: {error}"
    return None


@cache
def library() -> ctypes.CDLL:
    """The compiled baselines."""
    compiler = shutil.which("gcc") or "cc"
    key = hashlib.sha256(SOURCE.read_bytes() + repr((FLAGS, compiler, platform.processor(), platform.node())).encode())
    path = BUILD / f"baselines-{key.hexdigest()[:16]}.so"
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(path), "-lm"], check=True, capture_output=True)
    return ctypes.CDLL(str(path))


def bind(name: str, *args: Any, answer: Any = None) -> Call:
    """A call of a C function on these arguments; it returns `answer`, or what C returned."""
    function = getattr(library(), name)
    function.restype = RETURNS.get(name)
    ready = [_convert(a) for a in args]
    if answer is None:
        return lambda: function(*ready)

    def call() -> Any:
        function(*ready)
        return answer

    return call


def _convert(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, ctypes.c_void_p):
        return value
    return ctypes.c_long(value) if isinstance(value, int) else ctypes.c_float(value)
