"""The software Metal backend: the Metal text of a kernel, compiled as C++ and run with its threadgroups."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import cast

from eas import config
from eas.metal_sim import toolchain
from eas.metal_sim.library import Kernel, Library
from eas.runtime import Executable, Grid, Runtime, require
from eas.runtime.launch_queue import LaunchQueue
from eas.runtime.launch_settings import setting_now
from eas.runtime.metal_launch import MetalCode, MetalExecutable, MetalLaunch, prepare

MAX_KERNELS = 1024  # loaded at once; older ones are taken from disk again


class SimRuntime(Runtime):
    """Runs generated Metal text on this computer."""

    name = "sim"
    used_hints = frozenset({"num_warps"})

    def __init__(self) -> None:
        self.queue = LaunchQueue()
        self._kernels: dict[tuple[str, bool], Kernel] = {}
        self._lock = threading.Lock()

    def why_unavailable(self) -> str | None:
        return toolchain.why_unavailable()

    def run(
        self, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True
    ) -> None:
        require(self)
        metal = cast(MetalExecutable, executable)
        launch = prepare(metal, args, grid)
        kernel = self.kernel(launch.code)
        if sync:
            self.queue.drain()
            _execute(executable.name, kernel, launch)
        else:
            self.queue.submit(functools.partial(_execute, executable.name, kernel, launch), config.max_in_flight())

    def synchronize(self) -> None:
        """Every launch has ended; raises the first error of those that were not waited for."""
        self.queue.drain()
        errors = self.queue.take_errors()
        if errors:
            raise errors[0]

    def kernel(self, code: MetalCode) -> Kernel:
        """The compiled text; the same object for the same text."""
        key = (code.text, setting_now(config.sanitize))
        found = self._kernels.get(key)
        if found is None:
            places = {k + 1: loc for k, loc in enumerate(code.lines) if loc is not None}
            library = Library(
                code.text, name=f"{code.name}.metal", language=code.language, math_mode=code.math_mode,
                sanitize=key[1], places=places,
            )  # fmt: skip
            found = library.kernel(code.name)
            with self._lock:
                if len(self._kernels) >= MAX_KERNELS:
                    self._kernels.pop(next(iter(self._kernels)))
                self._kernels[key] = found
        return found


def _execute(name: str, kernel: Kernel, launch: MetalLaunch) -> None:
    kernel(*(launch.bound[p.index] for p in kernel.buffers), grid=launch.grid, threads=launch.code.threads)
    launch.finish(name)
