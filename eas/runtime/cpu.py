"""The native CPU backend: launches of kernels in memory, now or in their turn."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from eas.base import config
from eas.base.loading import load
from eas.runtime import Executable, Grid, Lane, Recording, Runtime, Step, require
from eas.runtime.at_exit import finish_before_exit
from eas.runtime.grid import check_programs
from eas.runtime.launch_queue import LaunchQueue, QueueLane
from eas.runtime.launch_settings import setting_now
from eas.runtime.launch_site import LaunchCode, LaunchSite
from eas.runtime.native import jit, native_code
from eas.runtime.native.host_cpu import num_threads
from eas.runtime.native.kernels import (
    ASSERTION,
    BAD_LOAD,
    BAD_STORE,
    Argument,
    ErrorRecord,
    LoadedKernel,
    NativeCode,
    NativeExecutable,
    load_kernel,
    raise_error,
    slot_count,
)
from eas.runtime.native.pool import MAX_QUEUE_THREADS, MAX_THREADS, pool

if TYPE_CHECKING:
    from eas.runtime.device_log import DeviceLog

__all__ = [
    "ASSERTION",
    "BAD_LOAD",
    "BAD_STORE",
    "Argument",
    "CpuRuntime",
    "ErrorRecord",
    "LoadedKernel",
    "NativeCode",
    "NativeExecutable",
    "slot_count",
]


class CpuRuntime(Runtime):
    """Runs machine code on the cores of this computer."""

    name = "cpu"
    ignored_facts = frozenset({"aligned_64"})  # unaligned vectors cost nothing; streams align themselves

    def __init__(self) -> None:
        self.queue = LaunchQueue()
        finish_before_exit(self.queue)

    def why_unavailable(self) -> str | None:
        return jit.why_unavailable() or native_code.why_unavailable()

    def run(
        self, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True, lane: Lane | None = None
    ) -> None:
        require(self)
        check_programs(executable.name, grid)
        native = cast(NativeExecutable, executable)
        kernel = load_kernel(native)
        record = ErrorRecord()
        log = _log(kernel, grid) if kernel.logs else None
        slots = kernel.slots(args, grid, record, log)
        if sync and not len(self.queue):
            _execute(native, kernel, slots, grid, record, args, log)
            return
        own = cast(QueueLane | None, lane)
        spans = kernel.spans(slots, native.writes)
        prints = log is not None  # in the order of the launches
        if sync:
            self.queue.wait_for(spans, native.name, prints, own)
            _execute(native, kernel, slots, grid, record, args, log)
            return
        stop_word = ctypes.c_int32(0)
        task = functools.partial(_execute, native, kernel, slots, grid, record, tuple(args), log, stop_word)
        threads = min(num_threads(), MAX_QUEUE_THREADS)
        self.queue.submit(task, config.max_in_flight(), spans, threads, name=native.name, in_order=prints, stop_word=stop_word, lane=own)

    def new_lane(self) -> Lane:
        return QueueLane(self.queue)

    @property
    def default_lane(self) -> Lane:
        return self.queue.default_lane

    def synchronize(self) -> None:
        """Every launch has ended; raises what failed of those that this thread made and did not wait for."""
        self.queue.synchronize()

    def launch_site(self) -> LaunchSite | None:
        threads = 1 if config.noopt() else num_threads()
        return LaunchSite(pool().run_address, self.queue.pending, min(threads, MAX_THREADS))

    def launch_code(self, executable: Executable) -> LaunchCode | None:
        native = cast(NativeExecutable, executable)
        if native.loaded is None or native.native.logs:
            return None
        return LaunchCode(native.loaded, native.native.places)

    def record(self, steps: Sequence[Step]) -> Recording | None:
        if any(load_kernel(cast(NativeExecutable, step.executable)).logs for step in steps):
            return None
        from eas.runtime.native.replay import CpuRecording

        return CpuRecording(self.queue, steps)

    def prepare(self, executable: Executable) -> None:
        load_kernel(cast(NativeExecutable, executable))
        pool()

    def work(self, executable: Executable, args: Sequence[object]) -> tuple[int | None, int | None]:
        native = cast(NativeExecutable, executable).native
        if native.nbytes_per_program is not None and native.flops_per_program is not None:
            return native.nbytes_per_program, native.flops_per_program
        return super().work(executable, args)  # with the numbers of this launch more is known

def _log(kernel: LoadedKernel, grid: Grid) -> DeviceLog:
    load("eas.runtime.device_log")
    from eas.runtime.device_log import DeviceLog

    return DeviceLog(kernel.logs, math.prod(grid))


# --- running --------------------------------------------------------------------------------------


def _execute(
    executable: NativeExecutable,
    kernel: LoadedKernel,
    slots: ctypes.Array[ctypes.c_uint64],
    grid: Grid,
    record: ErrorRecord,
    held: Sequence[object],
    log: DeviceLog | None = None,
    stop_word: ctypes.c_int32 | None = None,
) -> None:
    """Run the programs on this thread and the pool; `held` is the memory that `slots` points to."""
    pool().run(
        kernel.address,
        ctypes.addressof(slots),
        math.prod(grid),
        n_threads=1 if setting_now(config.noopt) else num_threads(),
        scratch_nbytes=kernel.scratch_nbytes,
        rate=ctypes.addressof(kernel.rate),
        stop=0 if stop_word is None else ctypes.addressof(stop_word),
        steady=kernel.max_programs,
    )
    if log is not None:
        log.show(executable.name, grid)
    if record.flag:
        raise_error(executable.name, executable.native.places, grid, record)
