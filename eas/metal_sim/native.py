"""The engine's structures as ctypes, and one launch on as many OS threads as it is worth."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from enum import IntEnum

from eas.base.locks import Gate
from eas.metal_sim import toolchain
from eas.runtime.crew import Crew
from eas.runtime.native.host_cpu import num_threads

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
    MISSING_LANE = 17
    ALIASED = 18
    DIVERGENT_MATRIX = 19
    UNSET = 20


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
    _fields_ = (
        ("start", ctypes.c_ulong), ("nbytes", ctypes.c_ulong), ("origin", ctypes.c_ulong), ("block", U), ("is_const", U), ("is_restrict", U)
    )  # fmt: skip


class Sanitizer(ctypes.Structure):
    _fields_ = (
        ("regions", P), ("n_regions", U), ("granule_shift", U),
        ("code_start", ctypes.c_ulong), ("code_nbytes", ctypes.c_ulong),
        ("device_start", ctypes.c_ulong), ("device_end", ctypes.c_ulong),
        ("device_cells", P), ("group_cells", P),
        ("reports", P), ("max_reports", U), ("n_reports", U),
        ("meetings", P), ("max_meetings", U),
        ("clock", U), ("group_sync", U * 2), ("simd_sync", U * 64), ("fences", U * 1024),
    )  # fmt: skip


class Launch(ctypes.Structure):
    held: Sequence[object] = ()
    """What the addresses point to."""
    _fields_ = (
        ("entry", P), ("buffers", P * MAX_SLOTS), ("threadgroup_nbytes", U * MAX_SLOTS),
        ("threads", U * 3), ("groups", U * 3), ("grid_threads", U * 3),
        ("config", Config), ("allow_exited", U), ("next_group", U), ("stop", U),
        ("static_nbytes", U), ("error", Report), ("sanitizer", P), ("name", ctypes.c_char_p), ("checks_registers", U),
    )  # fmt: skip


class ParameterInfo(ctypes.Structure):
    """What eas_trampoline.h tells about one parameter."""

    _fields_ = (("nbytes", U), ("align", U), ("kind", ctypes.c_char), ("is_const", ctypes.c_char))


WORTH_A_THREAD = 4096  # Metal threads that one more OS thread should have to itself
SLICE_MS = 50  # how long signal handlers wait
_MORE = 2  # what the engine says when a slice has passed

_crew = Crew("eas-sim")


@functools.cache
def _engine() -> ctypes.CDLL:
    loaded = toolchain.engine()
    loaded.eas_sim_run.argtypes = [P]
    loaded.eas_sim_run_slice.argtypes = [P, U]
    loaded.eas_sim_run_slice.restype = U
    loaded.eas_sim_run.restype = U
    loaded.eas_sim_launch_nbytes.restype = ctypes.c_ulong
    loaded.eas_sim_sanitizer_nbytes.restype = ctypes.c_ulong
    assert loaded.eas_sim_launch_nbytes() == ctypes.sizeof(Launch), "native.py and engine.h differ"
    assert loaded.eas_sim_sanitizer_nbytes() == ctypes.sizeof(Sanitizer), "native.py and engine.h differ"
    loaded.eas_sim_watch_faults()
    os.register_at_fork(after_in_child=loaded.eas_sim_after_fork)
    return loaded


def run(launch: Launch, stop_word: ctypes.c_int32 | None = None) -> None:
    """Run every threadgroup; the engine leaves the GIL to others meanwhile.

    A signal handler that raises, or a 1 in `stop_word`, ends the launch between two threadgroups.
    """
    engine, threads = _engine(), num_threads()
    groups = launch.groups[0] * launch.groups[1] * launch.groups[2]
    work = groups * launch.threads[0] * launch.threads[1] * launch.threads[2]
    count = 0 if launch.sanitizer else min(threads, groups, work // WORTH_A_THREAD) - 1
    helpers = [_Helper(engine, launch) for _ in range(count)]
    try:
        for helper in helpers:
            _crew.put(helper, threads)
        status = _run_here(engine, launch, stop_word)
    except BaseException:
        launch.stop = 1
        raise
    finally:
        helped = [helper.finish() for helper in helpers]
    if status and not any(helped):
        raise MemoryError("the software Metal cannot get memory for its stacks")


def _run_here(engine: ctypes.CDLL, launch: Launch, stop_word: ctypes.c_int32 | None) -> int:
    """Take threadgroups; between two slices of time Python runs its signal handlers."""
    while True:
        status = int(engine.eas_sim_run_slice(ctypes.addressof(launch), SLICE_MS))
        if status != _MORE:
            return status
        if stop_word is not None and stop_word.value:
            launch.stop = 1


class _Helper:
    """Another thread's part in a launch, if a thread finds the time."""

    def __init__(self, engine: ctypes.CDLL, launch: Launch) -> None:
        self._engine, self._launch = engine, launch  # with its memory, also if nobody waits for us
        self._turn = [None]
        self._gate = Gate()
        self._status = 1

    def _is_first(self) -> bool:
        try:
            self._turn.pop()
        except IndexError:
            return False
        return True

    def __call__(self) -> None:
        if self._is_first():
            try:
                self._status = self._engine.eas_sim_run(ctypes.addressof(self._launch))
            finally:
                self._gate.open()

    def finish(self) -> bool:
        """Whether it took part and ended well; one that has not started never will."""
        if not self._is_first():
            self._gate.wait()
        return self._status == 0
