"""The threads that torch keeps: kernels that run between its operators had better use the same ones."""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path

from eas.base import config
from eas.runtime.native import jit
from eas.runtime.native.pool import pool


@functools.cache
def share_threads() -> bool:
    """Let the pool run on the OpenMP threads of torch; whether that is possible here.

    Threads of OpenMP look for work for some milliseconds before they sleep. If ours were others,
    both would wait for a core whenever torch and eas take turns.
    """
    path = _openmp_of_torch() if config.torch_threads() and not jit.why_unavailable() else None
    if path is None:
        return False
    library = ctypes.CDLL(path)
    if not (hasattr(library, "GOMP_parallel") and hasattr(library, "omp_get_max_threads")):
        return False
    parallel, size = (
        ctypes.cast(f, ctypes.c_void_p).value
        for f in (library.GOMP_parallel, library.omp_get_max_threads)
    )
    pool().share(parallel, size)
    return True


def _openmp_of_torch() -> str | None:
    """The OpenMP runtime that is loaded and lies in torch's own folder, or in the system's."""
    torch = sys.modules.get("torch")
    if torch is None or not sys.platform.startswith("linux"):
        return None
    with open("/proc/self/maps", encoding="utf-8") as maps:
        lines = maps.read().splitlines()
    words = [line.split(maxsplit=5) for line in lines if "libgomp" in line]
    loaded = sorted({word[5] for word in words if len(word) == 6})
    home = str(Path(str(torch.__file__)).parent.parent)  # wheels keep it in torch/lib or torch.libs
    own = [path for path in loaded if path.startswith(home)]
    return own[0] if own else loaded[0] if len(loaded) == 1 else None
