"""Mojo: builds `peer.mojo` once per text, and runs its functions on the threads of the C baselines."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks import baselines
from benchmarks.peers import BUILD
from benchmarks.registry import Call, output_like

SOURCE = Path(__file__).with_name("peer.mojo")


def why_unavailable() -> str | None:
    if baselines.why_unavailable() is not None:
        return "needs the C baselines for its threads"
    try:
        library()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"peer.mojo does not build here: {error}"
    return None


@cache
def library() -> ctypes.CDLL:
    path = BUILD / f"mojo-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        beside = Path(sys.executable).with_name("mojo")
        compiler = str(beside) if beside.exists() else shutil.which("mojo") or "mojo"
        subprocess.run([compiler, "build", "--emit", "shared-lib", str(SOURCE), "-o", str(path)], check=True, capture_output=True)
    return ctypes.CDLL(str(path))


def over_rows(name: str, x: np.ndarray, rows: int, a: float = 0.0, b: float = 0.0) -> Call:
    """A call of a Mojo function over x as a matrix of that many rows."""
    out = output_like(x)
    function = ctypes.cast(getattr(library(), name), ctypes.c_void_p)
    return baselines.bind("over_rows", function, x, out, a, b, rows, x.size // rows, answer=out)
