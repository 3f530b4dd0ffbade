"""The CPU that code is made for: this machine, or the lower level that `EAS_CPU` asks for."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from eas.base import config
from eas.base.errors import InvalidSetting
from eas.runtime.launch_settings import setting_now
from eas.runtime.native.host_cpu import HostCpu, host_cpu
from eas.schedule.target import LEVELS, NEON, SSE, Caches, CpuTarget

_V2 = frozenset(["cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2"])
_V3 = _V2 | frozenset(["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"])
_V4 = _V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
_NEEDED = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""The flags of /proc/cpuinfo that a level stands for."""
_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")


def host_target() -> CpuTarget:
    """What code is made for now; the same object for the same setting."""
    return _target(setting_now(config.cpu))


def host_key() -> str:
    """Differs where code may not run, or would be another one."""
    return f"{host_cpu().fingerprint} {host_target()}"


@functools.cache
def _target(level: str) -> CpuTarget:
    return target_of(host_cpu(), level, host_caches())


def target_of(host: HostCpu, level: str, caches: Caches) -> CpuTarget:
    """A machine at a level, of which it must have all that belongs to it."""
    if level == "native":
        found = _widest(host)
        has_f16 = found.has_f16 and (host.arch != "x86_64" or "f16c" in host.flags)
        return replace(found, triple="", cpu="", has_f16=has_f16, caches=caches)
    missing = _NEEDED[level] - host.flags
    if host.arch != "x86_64" or missing:
        lack = f"has no {', '.join(sorted(missing))}" if host.arch == "x86_64" else f"is {host.arch}"
        raise InvalidSetting(f"EAS_CPU={level} is more than this machine can run: its processor {lack}", hint=_hint(host))
    return replace(LEVELS[level], triple="", caches=caches)


def _widest(host: HostCpu) -> CpuTarget:
    if host.arch != "x86_64":
        return NEON
    return next((t for t in reversed(LEVELS.values()) if t.vector_nbytes == host.vector_nbytes), SSE)


def _hint(host: HostCpu) -> str:
    possible = [name for name, needed in _NEEDED.items() if host.arch == "x86_64" and needed <= host.flags]
    return f"set EAS_CPU={possible[-1] if possible else 'native'}"


# --- caches ---------------------------------------------------------------------------------------


@functools.cache
def host_caches() -> Caches:
    """What the system reports of this machine; a default where it says nothing."""
    found = _linux_caches(_SYSFS) if sys.platform == "linux" else _apple_caches(_sysctl)
    return replace(Caches(), **{name: nbytes for name, nbytes in found.items() if nbytes > 0})


def _linux_caches(folder: Path) -> dict[str, int]:
    """From sysfs, else from the C library, which is wrong about L3 on some virtual machines."""
    found: dict[str, int] = {}
    for index in range(8):
        try:
            level, kind, size = (_text(folder / f"index{index}" / name) for name in ("level", "type", "size"))
            nbytes = _nbytes(size)
        except (OSError, ValueError):
            break
        if kind == "Instruction":
            continue
        if level in ("1", "2"):
            found[f"l{level}"] = nbytes // (_sharers(folder / f"index{index}") if level == "2" else 1)
        found["last"] = max(nbytes, found.get("last", 0))
        with contextlib.suppress(OSError, ValueError):
            found.setdefault("line", int(_text(folder / f"index{index}" / "coherency_line_size")))
    return found or _libc_caches()


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def _nbytes(size: str) -> int:
    """`32K` or `1M` of sysfs."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(size[:-1]) * units[size[-1]] if size[-1:] in units else int(size)


def _sharers(index: Path) -> int:
    """The processors that use a cache: `0-1,4-5` are four."""
    try:
        spans = [span.partition("-") for span in _text(index / "shared_cpu_list").split(",")]
        return max(1, sum(int(last or first) - int(first) + 1 for first, _, last in spans))
    except (OSError, ValueError):
        return 1


def _libc_caches() -> dict[str, int]:
    names = {"l1": "SC_LEVEL1_DCACHE_SIZE", "l2": "SC_LEVEL2_CACHE_SIZE", "last": "SC_LEVEL3_CACHE_SIZE", "line": "SC_LEVEL1_DCACHE_LINESIZE"}
    found: dict[str, int] = {}
    for key, name in names.items():
        with contextlib.suppress(OSError, ValueError):  # not every C library knows the name
            found[key] = os.sysconf(name)
    return found


def _apple_caches(number: Callable[[str], int]) -> dict[str, int]:
    """Of the fast cores (level 0) where there are two kinds; these have no L3."""
    l1 = number("hw.perflevel0.l1dcachesize") or number("hw.l1dcachesize")
    l2 = number("hw.perflevel0.l2cachesize") or number("hw.l2cachesize")
    share = max(1, number("hw.perflevel0.cpusperl2"))
    return {"l1": l1, "l2": l2 // share, "last": max(l2, number("hw.l3cachesize")), "line": number("hw.cachelinesize")}


def _sysctl(name: str) -> int:
    """A number that the kernel knows by this name, or 0."""
    try:
        ask = ctypes.CDLL(None).sysctlbyname
    except (AttributeError, OSError, TypeError):
        return 0
    value, size = ctypes.c_uint64(0), ctypes.c_size_t(8)
    known = ask(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)) == 0
    return value.value if known else 0


__all__ = ["host_caches", "host_key", "host_target", "target_of"]
