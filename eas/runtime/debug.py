"""What `EAS_DEBUG` prints, all of it to stderr: devices and a summary, launches and copies, graphs, texts, the IR.

1 and above: each device once when it is first used, and a closing line when the process ends.
2 and above: one line per launch and per copy, with its time and rates. 3 and above: the graph of lazy tensors.
4 and above: the LLVM or Metal text of each variant. 5: its IR, the steps of its schedule, and the scheduled IR
that the text was made from.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from eas.base import config
from eas.base.locks import new_lock
from eas.ir import IRModule
from eas.ir.text import print_module
from eas.runtime import Executable, Grid, Lane, Runtime
from eas.runtime.memory_use import used_nbytes
from eas.runtime.streams import PROFILES
from eas.runtime.terminal import paint

T = TypeVar("T")

_local = threading.local()
_WIDTH = 50  # of what a line tells of, before its numbers


def run(runtime: Runtime, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True, lane: Lane | None = None, about: str = "") -> None:
    """`runtime.run`, told as `EAS_DEBUG` asks; then every launch is waited for, so that its time is real."""
    level = config.debug()
    if level == 0:
        if not PROFILES or runtime.has_clock:  # whose times are taken together
            for profile in PROFILES:
                profile.watch(runtime)
            runtime.run(executable, args, grid, sync=sync, lane=lane)
        else:
            profile_launch(runtime, executable.name, runtime.seconds_of(lambda: runtime.run(executable, args, grid, sync=True, lane=lane))[0])
        return
    _ledger.open(runtime.name)
    runtime.prepare(executable)
    copied = _ledger.copies.seconds
    wall, worked = runtime.seconds_of(lambda: runtime.run(executable, args, grid, sync=True, lane=lane))
    seconds = wall - (_ledger.copies.seconds - copied)  # copies have lines of their own
    profile_launch(runtime, executable.name, seconds if worked is None else worked)
    (nbytes, flops), programs = runtime.work(executable, args), math.prod(grid)
    work = Work(max(seconds, 1e-9), _times(nbytes, programs), _times(flops, programs))
    extents = f"grid ({','.join(map(str, grid))})"
    total = _ledger.count(work, is_copy=False)
    if level >= 2:
        device = "" if worked is None else f"  gpu {worked * 1e6:.2f}us"
        held = sum(a.nbytes for a in args if isinstance(a, np.ndarray))
        name = paint(f"{getattr(_local, 'name', '') or executable.name:<28}", "bold")
        _print(_line(runtime.name, total, f"{name} {extents:<{_WIDTH - 29}}", work, held) + device + (f" [{about}]" if about else ""))


@contextlib.contextmanager
def called(name: str) -> Iterator[None]:
    """Launches of this thread are told under that name: one kernel serves many sizes."""
    outer, _local.name = getattr(_local, "name", ""), name
    try:
        yield
    finally:
        _local.name = outer


def profile_launch(runtime: Runtime, kernel: str, seconds: float) -> None:
    """Count a launch in the profile that is being taken, if there is one."""
    for profile in PROFILES:
        profile.add(runtime.name, [(kernel, seconds)])


def copy(dest: str, source: str, nbytes: int, make: Callable[[], T]) -> T:
    """`make()`, told as a copy from one device to another."""
    _ledger.open(dest)
    _ledger.open(source)
    start = time.perf_counter()
    made = make()
    work = Work(max(time.perf_counter() - start, 1e-9), nbytes, 0)
    total = _ledger.count(work, is_copy=True)
    if config.debug() >= 2:
        what = f"copy {nbytes:>12,}, {dest.upper():>7} <- {source.upper()}"
        _print(_line(dest, total, paint(f"{what:<{_WIDTH}}", "yellow"), work, nbytes))
    return made


def note(level: int, text: str) -> None:
    """Print a remark if `EAS_DEBUG` is at least `level`."""
    if config.debug() >= level:
        _print(text)


def note_once(level: int, text: str) -> None:
    """Print a remark the first time, if `EAS_DEBUG` is at least `level`."""
    if config.debug() >= level and text not in _noted:
        _noted.add(text)
        _print(text)


_noted: set[str] = set()


def show_ir(module: IRModule, facts: Iterable[str]) -> None:
    """Print the IR of a new variant, with the launch facts that it relies on."""
    if config.debug() >= 5:
        _show("IR", module, facts, print_module(module))


def show_steps(name: str, target: str, steps: object) -> None:
    """Print which steps of a schedule changed something, and their times."""
    head = f"*** steps of {name} for {target}; python -m eas show FILE:{name} --after STEP prints the IR"
    _print(f"{paint(head, 'magenta')}\n{steps}")


def show_native(scheduled: IRModule, facts: Iterable[str], llvm: str) -> None:
    """Print what a new variant became for the CPU."""
    _show_texts(scheduled, list(facts), "LLVM", llvm)


def show_length(name: str, is_long: bool, num_functions: int, num_repeats: int) -> None:
    """Print what was left out of a kernel because it is long: see "Long kernels" in docs/launching.md."""
    if config.debug() < 1 or (not is_long and num_functions == 1):
        return
    loops = "; its loops have no copies for special cases" if is_long else ""
    _print(f"{name} is long: {num_functions} functions, {num_repeats} loops repeat others{loops}")


def show_metal(scheduled: IRModule, facts: Iterable[str], msl: str) -> None:
    """Print what a new variant became for Metal."""
    _show_texts(scheduled, list(facts), "MSL", msl)


def _show_texts(scheduled: IRModule, facts: list[str], target: str, text: str) -> None:
    if config.debug() >= 5:
        _show("scheduled IR", scheduled, facts, print_module(scheduled))
    if config.debug() >= 4:
        _show(target, scheduled, facts, text)


def _show(what: str, module: IRModule, facts: Iterable[str], text: str) -> None:
    head = f"*** {what} of {module.name}, relies on: {', '.join(facts) or 'nothing'}"
    _print(f"{paint(head, 'magenta')}\n{text}".rstrip())


@dataclass
class Work:
    """What a launch, a copy or all of them took and did; None: nobody knows."""

    seconds: float = 0.0
    nbytes: int | None = 0
    flops: int | None = 0
    number: int = 1

    def rates(self) -> str:
        """GFLOPS and GB/s."""
        return "  ".join(f"{_rate(amount, self.seconds)} {unit}" for amount, unit in ((self.flops, "GFLOPS"), (self.nbytes, "GB/s")))


def _rate(amount: int | None, seconds: float) -> str:
    return f"{'?':>9}" if amount is None else f"{amount / seconds / 1e9:>9.2f}" if seconds else f"{0:>9.2f}"


def _times(amount: int | None, programs: int) -> int | None:
    return None if amount is None else amount * programs


class Ledger:
    """What this process has launched and copied while it was watched."""

    def __init__(self) -> None:
        self.kernels, self.copies = Work(number=0), Work(number=0)
        self._opened: set[str] = set()
        self._lock = new_lock()

    def open(self, device: str) -> None:
        """Announce a device once; the first one also arranges for the closing line."""
        with self._lock:
            if device in self._opened:
                return
            if not self._opened:
                atexit.register(lambda: _print(self.summary()))
            self._opened.add(device)
        _print(paint(f"opened device {device.upper()} from pid:{os.getpid()}", "dim"))

    def count(self, work: Work, *, is_copy: bool) -> tuple[int, float]:
        """Add a launch or a copy; how many there are now, and their seconds."""
        with self._lock:
            so_far = self.copies if is_copy else self.kernels
            so_far.number += 1
            so_far.seconds += work.seconds
            so_far.nbytes = (so_far.nbytes or 0) + (work.nbytes or 0)
            so_far.flops = (so_far.flops or 0) + (work.flops or 0)
            return self.kernels.number + self.copies.number, self.kernels.seconds + self.copies.seconds

    def summary(self) -> str:
        """The closing line; rates are of what is known."""
        k, c = self.kernels, self.copies
        both = Work(k.seconds + c.seconds, (k.nbytes or 0) + (c.nbytes or 0), (k.flops or 0) + (c.flops or 0))
        amounts = f"{(both.flops or 0) / 1e9:9.2f} GOPS {(both.nbytes or 0) / 1e9:9.2f} GB {both.seconds * 1e3:9.2f} ms"
        return f"avg: {both.rates()}    total: {k.number:5} kernels {c.number:5} copies {amounts}"


_ledger = Ledger()


def _line(device: str, total: tuple[int, float], what: str, work: Work, held: int) -> str:
    """One launch or copy; `mem` is what tensors use, or this line's own memory where that is more."""
    number, seconds = total
    memory = max(held, sum(count() for count in used_nbytes))
    took = paint(f"{work.seconds * 1e6:>10.2f}us", "cyan")
    return f"*** {device.upper():<6} {number:>5} {what} mem {memory / 1e9:>5.2f} GB tm {took}/{seconds * 1e3:>9.2f}ms ({work.rates()})"


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
