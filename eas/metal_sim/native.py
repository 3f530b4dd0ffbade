"""The engine's structures as ctypes, and one launch on as many OS threads as it is worth."""

from __future__ import annotations

import ctypes
import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum

from eas.metal_sim import toolchain
from eas.runtime.host_cpu import num_threads

MAX_SLOTS = 31
U, P = ctypes.c_uint, ctypes.c_void_p


class Kind(IntEnum):
    """What ended a launch, or what the sanitizer found; `ErrorKind` of engine.h."""

    NONE = 0
    DIVERGENT_BARRIER = 1
    DEADLOCK = 2
    THREADGROUP_MEMORY = 3
    FAILED = 4
    RACE = 10
    OUT_OF_BOUNDS = 11
    UNINITIALISED = 12
    MISALIGNED = 13
    PRIVATE_BOUNDS = 14
    NEEDS_FINER = 15
    READ_ONLY = 16


class Report(ctypes.Structure):
    _fields_ = (
        ("kind", U), ("region", U),
        ("thread", U), ("group", U), ("other_thread", U), ("other_group", U),
        ("is_write", U), ("other_is_write", U), ("size", U), ("is_atomic", U),
        ("site", P), ("other_site", P),
        ("offset", ctypes.c_longlong), ("text", ctypes.c_char_p), ("line", U), ("column", U),
    )  # fmt: skip


class Config(ctypes.Structure):
    _fields_ = (("fragment_map", U), ("flush_subnormals", U), ("sanitize", U))


class Region(ctypes.Structure):
    _fields_ = (("start", ctypes.c_ulong), ("nbytes", ctypes.c_ulong))


class Sanitizer(ctypes.Structure):
    _fields_ = (
        ("regions", P), ("n_regions", U), ("granule_shift", U),
        ("code_start", ctypes.c_ulong), ("code_nbytes", ctypes.c_ulong),
        ("device_start", ctypes.c_ulong), ("device_end", ctypes.c_ulong),
        ("device_cells", P), ("group_cells", P),
        ("reports", P), ("max_reports", U), ("n_reports", U),
        ("meetings", P), ("max_meetings", U),
        ("clock", U), ("group_sync", U * 2), ("simd_sync", U * 64),
    )  # fmt: skip


class Launch(ctypes.Structure):
    _fields_ = (
        ("entry", P), ("buffers", P * MAX_SLOTS), ("threadgroup_nbytes", U * MAX_SLOTS),
        ("threads", U * 3), ("groups", U * 3), ("grid_threads", U * 3),
        ("config", Config), ("allow_exited", U), ("next_group", U), ("stop", U),
        ("static_nbytes", U), ("error", Report), ("sanitizer", P), ("name", ctypes.c_char_p),
    )  # fmt: skip


class ParameterInfo(ctypes.Structure):
    """What eas_trampoline.h tells about one parameter."""

    _fields_ = (("nbytes", U), ("align", U), ("kind", ctypes.c_char), ("is_const", ctypes.c_char))


WORTH_A_THREAD = 4096  # Metal threads that one more OS thread should have to itself

_pool_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


@functools.cache
def _engine() -> ctypes.CDLL:
    loaded = toolchain.engine()
    loaded.eas_sim_run.argtypes = [P]
    loaded.eas_sim_run.restype = U
    loaded.eas_sim_launch_nbytes.restype = ctypes.c_ulong
    loaded.eas_sim_sanitizer_nbytes.restype = ctypes.c_ulong
    assert loaded.eas_sim_launch_nbytes() == ctypes.sizeof(Launch), "native.py and engine.h differ"
    assert loaded.eas_sim_sanitizer_nbytes() == ctypes.sizeof(Sanitizer), "native.py and engine.h differ"
    loaded.eas_sim_watch_faults()
    return loaded


def run(launch: Launch) -> None:
    """Run every threadgroup; the engine leaves the GIL to others meanwhile."""
    engine = _engine()
    groups = launch.groups[0] * launch.groups[1] * launch.groups[2]
    work = groups * launch.threads[0] * launch.threads[1] * launch.threads[2]
    helpers = min(num_threads(), groups, work // WORTH_A_THREAD) - 1
    address = ctypes.addressof(launch)
    if launch.sanitizer or helpers <= 0:
        failures = [engine.eas_sim_run(address)]
    else:
        pending = [_pool(helpers).submit(engine.eas_sim_run, address) for _ in range(helpers)]
        failures = [engine.eas_sim_run(address), *(p.result() for p in pending)]
    if all(failures):
        raise MemoryError("the software Metal cannot get memory for its stacks")


def _pool(count: int) -> ThreadPoolExecutor:
    with _pool_lock:
        if count not in _pools:
            _pools[count] = ThreadPoolExecutor(count, thread_name_prefix="eas-sim")
        return _pools[count]
