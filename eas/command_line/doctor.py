"""What this machine has: versions, backends, compilers, Metal, torch and its layer, DLPack and the disk cache, as text."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

from eas._version import __version__
from eas.base import config
from eas.base.backends import BACKENDS
from eas.base.errors import EasError
from eas.interop.torch_mps import chosen_layer
from eas.runtime import get_runtime
from eas.runtime.gpu import facts as gpu_facts
from eas.runtime.native.host_target import host_target
from eas.schedule.gpu.target import newest_language
from eas.verify.stages import probe

MIN_CLANG = 19  # older ones lack _Float16 and __bf16, which Metal's half and bfloat need

Row = tuple[str, str]


def report() -> str:
    """All sections as aligned text."""
    torch = probe.import_torch()
    sections: list[tuple[str, list[Row]]] = [
        ("eas", _versions()),
        ("backends", [(row.name, _backend(row.name)) for row in BACKENDS]),
        ("C++ compilers", _compilers()),
        ("Metal", _metal()),
        ("torch", [*probe.rows(), ("layer", torch_layer())]),
        ("DLPack", _dlpack(torch)),
        ("disk cache", _disk_cache()),
    ]
    lines: list[str] = []
    for title, rows in sections:
        lines += [title, *(f"  {name:<16} {text}" for name, text in rows)]
    return "\n".join(lines)


def _versions() -> list[Row]:
    return [
        ("version", __version__),
        ("python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("platform", f"{platform.platform()}, {os.cpu_count()} cores"),
        ("cpu", _cpu()),
        ("numpy", np.__version__),
        ("llvmlite", _installed_version("llvmlite") or "not installed"),
    ]


def _cpu() -> str:
    """What code is made for."""
    target = host_target()
    caches = target.caches
    sizes = f"L1 {caches.l1 >> 10} KiB, L2 {caches.l2 >> 10} KiB, last {caches.last >> 20} MiB"
    return f"{target.name}, vectors of {target.vector_nbytes} bytes, {sizes} (EAS_CPU={config.cpu()})"


def _backend(name: str) -> str:
    runtime = get_runtime(name)
    if runtime.is_available():
        return "available"
    return f"not available: {runtime.why_unavailable()}"


def _compilers() -> list[Row]:
    zig = _installed_version("ziglang")
    gxx = shutil.which("g++")
    return [
        ("clang", _clang()),
        ("ziglang", zig or "not found; pip install ziglang"),
        ("g++", f"{gxx} (cannot build the software Metal)" if gxx else "not found"),
    ]


def _clang() -> str:
    """The newest clang++ on the path, with a remark if it is too old."""
    names = ["clang++", *(f"clang++-{n}" for n in range(MIN_CLANG, MIN_CLANG + 12))]
    found = [(_major_version(path), path) for path in map(shutil.which, names) if path]
    if not found:
        return "not found"
    major, path = max(found)
    remark = "" if major >= MIN_CLANG else f", too old: needs {MIN_CLANG} or newer"
    return f"{major} ({path}{remark})"


def _major_version(compiler: str) -> int:
    """0 if the compiler does not tell."""
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r"version (\d+)", done.stdout)
    return int(match[1]) if match else 0


def _metal() -> list[Row]:
    """The GPU and the language that the runtime will use there, or what is missing and how to get it."""
    runtime = get_runtime("mps")
    why = runtime.why_unavailable()
    system = platform.mac_ver()[0]
    rows = [("macOS", f"{system}, Metal {_language(system)}" if system else "no: this is another system")]
    rows.append(("extension", _extension()))
    if why is not None:
        return [*rows, ("device", f"none: {why}")]
    info = runtime.extension().device_info()  # type: ignore[attr-defined]  # of the Metal runtime only
    remarks = [word for word, holds in (("headless", info["is_headless"]), ("paravirtual", "virtual" in str(info["name"]).lower())) if holds]
    facts = gpu_facts.read(info["name"])
    return [
        *rows,
        ("device", ", ".join([str(info["name"]), *remarks])),
        ("family", f"Apple {info['family']}"),
        ("memory", f"{info['working_set_nbytes'] >> 20} MiB, {'shared with the CPU' if info['has_unified_memory'] else 'of its own'}"),
        ("measured facts", f"{len(facts)} in {gpu_facts.path_of(info['name'])}" if facts else "none; python -m eas verify"),
    ]


def _language(system: str) -> str:
    """The newest language level of a macOS."""
    return newest_language(system) or "3.0 or older: eas needs 3.1, which macOS 14 has"


def _extension() -> str:
    """Whether `eas._metal` is built, or the command that builds it."""
    found = importlib.util.find_spec("eas._metal")
    if found is not None:
        return f"built: {found.origin}"
    software = "" if platform.system() == "Darwin" else "EAS_METAL=software "
    return f"not built; {software}python tools/build_metal_ext.py in a checkout builds it"


def torch_layer() -> str:
    """The layer that torch tensors on MPS will go through, and why."""
    found = dict(probe.rows())
    if found.get("mps available") != "yes":
        reason = "this torch has no MPS" if "mps available" in found else f"torch is {found['torch']}"
        return f"none: {reason}; tensors on the CPU are shared as they are"
    try:
        layer, why = chosen_layer()
    except EasError as error:
        return f"none: {error.message}"
    how = "kernels run on torch's own stream" if layer == "b" else "memory is shared through DLPack, with synchronisations"
    return f"{layer.upper()}, {how}: {why}"


def _dlpack(torch: ModuleType | str) -> list[Row]:
    rows = [("numpy", _dlpack_support(np.zeros(1).__dlpack__))]
    if not isinstance(torch, str):
        rows.append(("torch", _dlpack_support(torch.zeros(1).__dlpack__)))
    return rows


def _dlpack_support(export: Callable[..., object]) -> str:
    try:
        export(max_version=(1, 0))
    except TypeError:
        return "yes, unversioned only"
    return "yes, versioned (1.0)"


def _disk_cache() -> list[Row]:
    folder = config.cache_dir()
    files = [f for f in folder.rglob("*") if f.is_file()] if folder.is_dir() else []
    mebibytes = sum(f.stat().st_size for f in files) / 2**20
    return [
        ("directory", str(folder)),
        ("size", f"{len(files)} files, {mebibytes:.1f} MiB"),
        ("writable", "yes" if _is_writable(folder) else "no"),
        ("in use", "yes" if config.cache_enabled() else "no, EAS_CACHE=0"),
    ]


def _is_writable(folder: Path) -> bool:
    """Whether the folder, or the nearest existing one that it would be made in, takes new files."""
    existing = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _installed_version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
