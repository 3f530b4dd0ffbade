"""The software Metal backend: the Metal text of a kernel, compiled as C++ and run with its threadgroups."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import cast

from eas.base import config
from eas.base.locks import new_lock
from eas.metal_sim import toolchain
from eas.metal_sim.library import Kernel, Library
from eas.runtime import Executable, Grid, Lane, Runtime, keys, require
from eas.runtime.at_exit import finish_before_exit
from eas.runtime.gpu.launch import MetalCode, MetalExecutable, MetalLaunch, prepare
from eas.runtime.launch_queue import LaunchQueue, QueueLane
from eas.runtime.launch_settings import setting_now

MAX_KERNELS = 1024  # loaded at once; older ones are taken from disk again


class SimRuntime(Runtime):
    """Runs generated Metal text on this computer."""

    name = "sim"
    used_hints = frozenset({"num_warps"})

    def __init__(self) -> None:
        self.queue = LaunchQueue()
        finish_before_exit(self.queue)
        self._kernels: dict[keys.MetalKey, Kernel] = {}
        self._lock = new_lock()

    def why_unavailable(self) -> str | None:
        return toolchain.why_unavailable()

    def run(
        self, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True, lane: Lane | None = None
    ) -> None:
        require(self)
        metal = cast(MetalExecutable, executable)
        launch = prepare(metal, args, grid)
        kernel = self.kernel(launch.code)
        if sync and not len(self.queue):
            _execute(executable.name, kernel, launch)
            return
        own = cast(QueueLane | None, lane)
        spans = launch.spans()
        if sync:
            self.queue.wait_for(spans, executable.name, in_order=True, lane=own)
            _execute(executable.name, kernel, launch)
        else:
            stop_word = ctypes.c_int32(0)
            task = functools.partial(_execute, executable.name, kernel, launch, stop_word)
            self.queue.submit(task, config.max_in_flight(), spans, name=executable.name, in_order=True, stop_word=stop_word, lane=own)

    def prepare(self, executable: Executable) -> None:
        self.kernel(cast(MetalExecutable, executable).metal_on(None))

    def new_lane(self) -> Lane:
        return QueueLane(self.queue)

    @property
    def default_lane(self) -> Lane:
        return self.queue.default_lane

    def synchronize(self) -> None:
        """Every launch has ended; raises what failed of those that this thread made and did not wait for."""
        self.queue.synchronize()

    def kernel(self, code: MetalCode) -> Kernel:
        """The compiled text; the same object for the same text."""
        key = keys.MetalKey(code.text, code.name, code.language, code.math_mode, setting_now(config.sanitize), tuple(code.lines))
        found = self._kernels.get(key)
        if found is None:
            places = {k + 1: loc for k, loc in enumerate(code.lines) if loc is not None}
            library = Library(
                code.text, name=f"{code.name}.metal", language=code.language, math_mode=code.math_mode,
                sanitize=key.sanitize, places=places,
            )  # fmt: skip
            found = library.kernel(code.name)
            with self._lock:
                if len(self._kernels) >= MAX_KERNELS:
                    self._kernels.pop(next(iter(self._kernels)))
                self._kernels[key] = found
        return found


def _execute(name: str, kernel: Kernel, launch: MetalLaunch, stop_word: ctypes.c_int32 | None = None) -> None:
    kernel(*(launch.bound[p.index] for p in kernel.buffers), grid=launch.grid, threads=launch.code.threads, stop_word=stop_word)
    launch.finish(name)
