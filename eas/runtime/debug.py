"""What `EAS_DEBUG` prints, all of it to stderr: backends and a summary, launches, the IR.

1 and above: each backend once when it first runs a kernel, and a closing line when the process ends.
2 and above: one line per launch, with the rates of a native one. 4 and above: the LLVM or Metal
text of each variant. 5: its IR, and the scheduled IR that the text was made from. 3 stands for the lazy graph.
"""

from __future__ import annotations

import atexit
import math
import sys
import time
from collections.abc import Iterable, Sequence

from eas import config
from eas.ir import IRModule
from eas.irtext import print_module
from eas.locks import new_lock
from eas.runtime import Executable, Grid, Runtime
from eas.runtime.streams import Lane


def run(runtime: Runtime, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True, lane: Lane | None = None) -> None:
    """`runtime.run`, told as `EAS_DEBUG` asks; then every launch is waited for, so that its time is real."""
    level = config.debug()
    if level == 0:
        runtime.run(executable, args, grid, sync=sync, lane=lane)
        return
    _ledger.open(runtime.name)
    runtime.prepare(executable)
    start, worked = time.perf_counter(), runtime.device_seconds()
    runtime.run(executable, args, grid, sync=True, lane=lane)
    seconds, now = time.perf_counter() - start, runtime.device_seconds()
    line = _ledger.count(runtime.name, executable.name, grid, seconds)
    if level >= 2:
        device = "" if now is None or worked is None else f"  gpu {(now - worked) * 1e6:>9.2f}us"
        _print(line + device + _rates(runtime.work(executable, args), math.prod(grid), seconds))


def _rates(work: tuple[int | None, int | None], programs: int, seconds: float) -> str:
    """The end of a launch's line, where it is known what a program moves and computes."""
    amounts = zip(work, ("GB/s", "GFLOPS"), strict=True)
    return "".join(f"  {amount * programs / seconds / 1e9:8.2f} {unit}" for amount, unit in amounts if amount and seconds > 0)


def note(level: int, text: str) -> None:
    """Print a remark if `EAS_DEBUG` is at least `level`."""
    if config.debug() >= level:
        _print(text)


def show_ir(module: IRModule, facts: Iterable[str]) -> None:
    """Print the IR of a new variant, with the launch facts that it relies on."""
    if config.debug() >= 5:
        _print(f"*** IR of {module.name}, relies on: {', '.join(facts) or 'nothing'}\n{print_module(module)}".rstrip())


def show_native(scheduled: IRModule, facts: Iterable[str], llvm: str) -> None:
    """Print what a new variant became for the CPU."""
    about = f"of {scheduled.name}, relies on: {', '.join(facts) or 'nothing'}"
    if config.debug() >= 5:
        _print(f"*** scheduled IR {about}\n{print_module(scheduled)}".rstrip())
    if config.debug() >= 4:
        _print(f"*** LLVM {about}\n{llvm}".rstrip())


def show_metal(scheduled: IRModule, facts: Iterable[str], msl: str) -> None:
    """Print what a new variant became for Metal."""
    about = f"of {scheduled.name}, relies on: {', '.join(facts) or 'nothing'}"
    if config.debug() >= 5:
        _print(f"*** scheduled IR {about}\n{print_module(scheduled)}".rstrip())
    if config.debug() >= 4:
        _print(f"*** MSL {about}\n{msl}".rstrip())


class Ledger:
    """What this process has launched while it was watched."""

    def __init__(self) -> None:
        self.launches = 0
        self.seconds = 0.0
        self._opened: set[str] = set()
        self._lock = new_lock()

    def open(self, backend: str) -> None:
        """Announce a backend once; the first one also arranges for the closing line."""
        with self._lock:
            if backend in self._opened:
                return
            if not self._opened:
                atexit.register(lambda: _print(self.summary()))
            self._opened.add(backend)
        _print(f"opened backend {backend}")

    def count(self, backend: str, kernel: str, grid: Grid, seconds: float) -> str:
        """Add a launch; the line that tells of it ends with the time of all until now."""
        with self._lock:
            self.launches += 1
            self.seconds += seconds
            number, total = self.launches, self.seconds
        extents = f"({','.join(map(str, grid))})"
        return f"*** {backend.upper():<6} {number:>5} {kernel:<28} grid {extents:<14} tm {seconds * 1e6:>10.2f}us/{total * 1e3:>9.2f}ms"

    def summary(self) -> str:
        return f"total: {self.launches} launch{'' if self.launches == 1 else 'es'} {self.seconds * 1e3:.2f} ms"


_ledger = Ledger()


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
