"""A captured graph on the CPU: slots and error records are filled once, and one native call runs all launches."""

from __future__ import annotations

import ctypes
import errno
import functools
import math
from collections.abc import Callable, Sequence
from typing import cast

from eas.base import config
from eas.runtime import Lane, Recording, Step
from eas.runtime.grid import check_programs
from eas.runtime.launch_queue import LaunchQueue, QueueLane
from eas.runtime.native.host_cpu import num_threads
from eas.runtime.native.kernels import ErrorRecord, NativeExecutable, load_kernel, raise_error
from eas.runtime.native.native_code import native_code
from eas.runtime.native.pool import MAX_QUEUE_THREADS, MAX_THREADS
from eas.runtime.recordings import name_of, united

_FAILED = 255  # of replay.c


class CpuRecording(Recording):
    """Launches of kernels that print nothing."""

    def __init__(self, queue: LaunchQueue, steps: Sequence[Step]) -> None:
        self._queue, self._steps, self._name = queue, tuple(steps), name_of(steps)
        threads = min(1 if config.noopt() else num_threads(), MAX_THREADS)
        self._held: list[object] = []
        self._records = [ErrorRecord() for _ in steps]
        words: list[int] = []
        spans = []
        for step, record in zip(steps, self._records, strict=True):
            check_programs(step.executable.name, step.grid)
            native = cast(NativeExecutable, step.executable)
            kernel = load_kernel(native)
            slots = kernel.slots(step.args, step.grid, record)
            spans += kernel.spans(slots, native.writes)
            self._held += [kernel, slots]
            words += [  # struct row of replay.c
                kernel.address, ctypes.addressof(slots), math.prod(step.grid), threads, kernel.scratch_nbytes,
                ctypes.addressof(kernel.rate), kernel.max_programs, ctypes.addressof(record),
            ]  # fmt: skip
        self._spans = united(spans)
        self._rows = (ctypes.c_uint64 * max(len(words), 1))(*words)
        self._call = functools.partial(_replay(), ctypes.addressof(self._rows), len(self._steps))

    def run(self, *, sync: bool, lane: Lane | None) -> None:
        queue, own = self._queue, cast(QueueLane | None, lane)
        if sync:
            if len(queue):
                queue.wait_for(self._spans, self._name, lane=own)
            self._execute(0)
            return
        stop_word = ctypes.c_int32(0)
        task = functools.partial(self._execute, ctypes.addressof(stop_word), stop_word)
        threads = min(num_threads(), MAX_QUEUE_THREADS)
        queue.submit(task, config.max_in_flight(), self._spans, threads, name=self._name, stop_word=stop_word, lane=own)

    def _execute(self, stop: int, held: object = None) -> None:
        status = self._call(stop)
        if not status:
            return
        at, what = divmod(status, 256)
        step = self._steps[at]
        if what == _FAILED:
            raise_error(step.executable.name, cast(NativeExecutable, step.executable).native.places, step.grid, self._records[at])
        if what != errno.EINTR:
            raise MemoryError(f"no scratch memory for kernel {step.executable.name}")


@functools.cache
def _replay() -> Callable[[int, int, int], int]:
    """`eas_replay(rows, count, stop)`; ctypes then raises what a signal handler raised meanwhile."""
    kind = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    return kind(native_code().address("eas_replay"))
