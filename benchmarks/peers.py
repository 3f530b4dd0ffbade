"""Who can take part on this machine, and the environment that gives each of them the same threads."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = {  # peer -> the package that it needs; the import names are the same unless noted
    "eas": "numpy",
    "lib": "numpy",
    "numpy": "numpy",
    "c": "",
    "numba": "numba",
    "torch": "torch",
    "torch.compile": "torch",
    "jax": "jax",
    "tinygrad": "tinygrad",
    "halide": "halide",
    "mojo": "mojo",
    "pocl": "pyopencl",
}
DEFAULT = [p for p in PACKAGES if p != "torch.compile"]  # compiles for minutes: ask for it
BUILD = Path(os.environ.get("EAS_BENCH_BUILD", Path.home() / ".cache" / "eas-benchmarks"))


def use_threads(n: int) -> None:
    """Call before anything is imported: n cores and n threads for everybody, workers that do not spin."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n])
    for name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "HL", "EAS"):
        os.environ[f"{name}_NUM_THREADS"] = str(n)
    os.environ["POCL_MAX_PTHREAD_COUNT"] = str(n)
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("NUMBA_CACHE_DIR", str(BUILD / "numba"))
    # A worker that spins after its work is done takes a core from whoever is measured next.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("KMP_BLOCKTIME", "0")


def why_missing(peer: str, allow_interp: bool = False) -> str | None:
    """Why a participant cannot take part, or None."""
    if peer in ("eas", "lib"):
        return _why_no_eas(allow_interp)
    if peer == "c":
        from benchmarks.baselines import why_unavailable

        return why_unavailable()
    package = PACKAGES[peer]
    if find_spec(package) is None:
        return f"pip install {package}"
    if peer == "mojo":
        from benchmarks.mojo_peer import why_unavailable

        return why_unavailable()
    if peer == "pocl":
        from benchmarks.opencl_peer import why_unavailable

        return why_unavailable()
    return None


def versions() -> dict[str, str]:
    found = {}
    for package in sorted({*PACKAGES.values(), "llvmlite", "pocl-binary-distribution"} - {""}):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _why_no_eas(allow_interp: bool) -> str | None:
    from eas.runtime import get_runtime

    runtime = get_runtime()
    if runtime.name == "interp" and not allow_interp:
        reason = get_runtime("cpu").why_unavailable() or "EAS_BACKEND=interp"
        return f"the cpu backend is not available ({reason}); --allow-interp times the interpreter"
    return None
