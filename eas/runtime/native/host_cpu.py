"""What the processor can do and which one it is, read from the system and not from LLVM."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import sys
from dataclasses import dataclass

from eas.base import config
from eas.runtime.launch_settings import setting_now

# Lines of /proc/cpuinfo that say what the processor is; the others are clocks and positions.
_IDENTITY = frozenset(
    {"vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features"}
    | {"CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"}
)
_APPLE_KEYS = (b"machdep.cpu.brand_string", b"hw.cpufamily", b"hw.cpusubfamily", b"kern.osrelease")


@dataclass(frozen=True, slots=True)
class HostCpu:
    """The machine that runs this process."""

    arch: str
    """`x86_64` or `aarch64`, whatever the system calls them; else the system's word."""
    flags: frozenset[str]
    """What the system calls the extensions: `avx2`, `fma`, `avx512f`, `asimd`."""
    fingerprint: str
    """Equal on machines that can run each other's code."""

    @property
    def vector_nbytes(self) -> int:
        """Bytes of the widest vector register that arithmetic should use."""
        if self.arch != "x86_64":
            return 16
        if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= self.flags:
            return 64
        return 32 if "avx2" in self.flags else 16


@functools.cache
def host_cpu() -> HostCpu:
    """The same object each time; takes well under a millisecond."""
    machine = platform.machine().lower()
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    identity = _linux_identity() if sys.platform == "linux" else _apple_identity()
    flags = identity.get("flags") or identity.get("Features") or ""
    facts = [sys.platform, arch, *(f"{k}={v}" for k, v in sorted(identity.items()))]
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()
    return HostCpu(arch, frozenset(flags.split()), digest)


def num_threads() -> int:
    """Threads that a launch may use: `EAS_NUM_THREADS`, or the cores this process may run on."""
    asked = setting_now(config.num_threads)
    if asked:
        return asked
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _linux_identity() -> dict[str, str]:
    """The rows of the first processor; the file is made while it is read, so only its start is."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            key, _, value = line.partition(":")
            if not value and found:
                break
            if key.strip() in _IDENTITY:
                found[key.strip()] = value.strip()
    return found


def _apple_identity() -> dict[str, str]:
    try:
        sysctl = ctypes.CDLL(None).sysctlbyname
    except (AttributeError, OSError, TypeError):
        return {"node": platform.node(), "processor": platform.processor()}
    found: dict[str, str] = {}
    for key in _APPLE_KEYS:
        value, size = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
        if sysctl(key, value, ctypes.byref(size), None, ctypes.c_size_t(0)) == 0:
            found[key.decode()] = value.raw[: size.value].hex()
    return found
