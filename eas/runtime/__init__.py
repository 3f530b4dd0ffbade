"""The backend contract: what every runtime can do, and the one table of the runtimes there are."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

from eas.base import config
from eas.base.backends import ALIASES, BACKENDS, Backend, names, row_of
from eas.base.errors import BackendUnavailable, EasError
from eas.base.facts import NEAR
from eas.base.loading import load
from eas.base.locks import new_lock

if TYPE_CHECKING:
    from eas.ir import IRModule
    from eas.runtime.launch_site import LaunchCode, LaunchSite

__all__ = [
    "BACKENDS",
    "Backend",
    "Executable",
    "Lane",
    "Mark",
    "Recording",
    "Runtime",
    "Step",
    "UnknownBackend",
    "WaitingLane",
    "get_runtime",
    "require",
    "synchronize",
]

Grid = tuple[int, int, int]


class UnknownBackend(EasError, ValueError):
    """There is no backend of that name."""


class Executable(Protocol):
    """What a runtime runs; `CompiledKernel` is the implementation."""

    @property
    def name(self) -> str: ...

    @property
    def module(self) -> IRModule: ...


class Mark(ABC):
    """The launches of one stream on one backend, up to some moment."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether all of them have ended, well or not."""

    @abstractmethod
    def wait(self) -> None:
        """Afterwards all of them have ended; signal handlers run meanwhile, and may raise."""


class Lane(ABC):
    """What one backend knows of one stream."""

    @abstractmethod
    def mark(self) -> Mark:
        """All launches until now."""

    @abstractmethod
    def wait(self, mark: Mark) -> None:
        """Launches from now on start after those of the mark; the caller need not wait for that."""

    @abstractmethod
    def synchronize(self) -> None:
        """Every launch has ended; raises what failed of those that this thread made here and did not wait for."""


class _Past(Mark):
    """Launches that were waited for."""

    is_done = True

    def wait(self) -> None:
        return


class WaitingLane(Lane):
    """A stream on a backend that waits for every launch."""

    def mark(self) -> Mark:
        return _Past()

    def wait(self, mark: Mark) -> None:
        mark.wait()

    def synchronize(self) -> None:
        return


class Step(NamedTuple):
    """One launch, as `Runtime.run` takes it."""

    executable: Executable
    args: Sequence[object]
    grid: Grid


class Recording(ABC):
    """Launches in their order."""

    @abstractmethod
    def run(self, *, sync: bool, lane: Lane | None) -> None:
        """Run all of them again; with `sync` the results are in memory afterwards."""


class Runtime(ABC):
    """One way to run kernels. There is one object per backend, and threads may share it."""

    name: str
    ignored_facts: frozenset[str] = frozenset({"in_place", "equals_0", *NEAR})  # for those that run element after element
    """Kinds of launch facts that make no difference to its code, and so no variants."""
    used_hints: frozenset[str] = frozenset()
    """Hints to a target (`num_warps`) that make a difference to its code."""

    def is_available(self) -> bool:
        """Whether kernels can run here; never raises."""
        return self.why_unavailable() is None

    @abstractmethod
    def why_unavailable(self) -> str | None:
        """What is missing, as the end of a sentence, or None; never raises."""

    @abstractmethod
    def run(
        self, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True, lane: Lane | None = None
    ) -> None:
        """Run every program of the grid; with `sync` the results are in memory afterwards.

        `args` has one entry per argument of the module: flat storage arrays, and Python numbers. `lane` is one of
        `new_lane`, or None for the default.
        """

    def new_lane(self) -> Lane:
        """A stream on this backend."""
        return self.default_lane

    @property
    def default_lane(self) -> Lane:
        """The stream of launches that are in no other one."""
        return WaitingLane()

    def launch_site(self) -> LaunchSite | None:
        """Where native launchers of this backend go; None: there are none."""
        return None

    def aim(self, sync: bool, lane: Lane | None) -> Callable[..., object] | None:
        """`aim(launcher, ...)` calls a native launcher for a launch with `_sync` or in a stream; None: such launches need Python."""
        return None

    def launch_code(self, executable: Executable) -> LaunchCode | None:
        """What they call for a variant that was launched before; None: every launch of it has something to say."""
        return None

    def record(self, steps: Sequence[Step]) -> Recording | None:
        """Launches that will be made again and again, ready to run; None: Python has something to do in each of them."""
        return None

    def synchronize(self) -> None:
        """Everything launched before has ended; an asynchronous runtime overrides this."""
        return

    def wait(self) -> None:
        """Launches with `sync` have ended, for who measures them; others see their results in any case."""
        return

    def prepare(self, executable: Executable) -> None:
        """Compile what a launch would compile first, so that a measured launch does not."""
        return

    def work(self, executable: Executable, args: Sequence[object]) -> tuple[int | None, int | None]:
        """Bytes that one program moves and float operations that it does, where the IR and the integer arguments tell."""
        load("eas.analysis.cost")
        from eas.analysis.cost import program_cost

        numbers = {a.name: v for a, v in zip(executable.module.args, args, strict=False) if isinstance(v, int)}
        cost = program_cost(executable.module, numbers)
        return cost.nbytes, cost.flops

    has_clock = False
    """Whether the device tells how long it has worked for a launch."""

    def timed(self) -> AbstractContextManager[None]:
        """Within it, every launch is timed alone by the clock of the device; `take_times` has the times."""
        return nullcontext()

    def take_times(self, *, of_all: bool = False) -> list[tuple[str, float]]:
        """Kernels and seconds of the launches of this thread, or of all, that have ended since they were last taken."""
        return []

    def seconds_of(self, launch: Callable[[], object]) -> tuple[float, float | None]:
        """Seconds of a launch that is waited for: by the wall, and by the clock of the device, if it has one."""
        with self.timed():
            self.take_times()
            start = time.perf_counter()
            launch()
            self.wait()
            wall = time.perf_counter() - start
            return wall, sum(seconds for _, seconds in self.take_times()) if self.has_clock else None

    def benchmark(
        self,
        executable: Executable,
        args: Sequence[object],
        grid: Grid,
        *,
        warmup: int = 3,
        repeat: int = 20,
    ) -> list[float]:
        """Seconds of each of `repeat` launches, by the clock of the device if it has one, else of the wall; the arguments are really written."""
        for _ in range(warmup):
            self.run(executable, args, grid)
        self.synchronize()
        seconds = []
        for _ in range(repeat):
            wall, device = self.seconds_of(lambda: self.run(executable, args, grid))
            seconds.append(wall if device is None else device)
        return seconds


_runtimes: dict[str, Runtime] = {}
_lock = new_lock()


def get_runtime(backend: str | None = None) -> Runtime:
    """The runtime of that name (None: `EAS_BACKEND`), the same object each time.

    A missing device does not raise here: ask `is_available`, or let `require` refuse the launch.
    `auto` is the first available backend for host memory.
    """
    name = config.backend() if backend is None else backend
    if name not in names():
        near = config.closest(name, names())
        raise UnknownBackend(
            f"there is no backend {name!r}; the backends are {', '.join(names())}",
            hint=f"did you mean {near!r}?"
            if near
            else "'auto' runs a kernel where its arguments live",
        )
    if name == "auto":
        return _first_available()
    return _runtime(ALIASES.get(name, name))


def synchronize() -> None:
    """Wait until every launch of this process has ended, on all backends; raises what failed."""
    for runtime in opened_runtimes():
        runtime.synchronize()


_INSTEAD = {"mps": "set EAS_BACKEND=cpu to run here, or EAS_BACKEND=sim to run the Metal text on the software Metal", "sim": "set EAS_BACKEND=cpu to run on the CPU"}


def opened_runtimes() -> list[Runtime]:
    """Those that somebody has asked for."""
    return list(_runtimes.values())


def add_runtime(name: str, runtime: Runtime) -> Runtime:
    """Let `synchronize` wait for a runtime that no backend is named after."""
    with _lock:
        _runtimes[name] = runtime
    return runtime


def require(runtime: Runtime) -> Runtime:
    """The same runtime, if it can run kernels; else `BackendUnavailable` says what to do."""
    reason = runtime.why_unavailable()
    if reason is not None:
        raise BackendUnavailable(
            f"the {runtime.name} backend is not available: {reason}",
            hint=_INSTEAD.get(runtime.name, "set EAS_BACKEND=interp to run on the NumPy interpreter"),
        )
    return runtime


def _first_available() -> Runtime:
    hosts = (_runtime(b.name) for b in BACKENDS if b.is_host)  # loads no more than it has to
    return next(r for r in hosts if r.is_available())  # the interpreter always is


def _runtime(name: str) -> Runtime:
    known = _runtimes.get(name)
    if known is not None:
        return known
    with _lock:
        if name not in _runtimes:
            row = row_of(name)
            assert row is not None, name
            module, _, class_name = row.runtime.partition(":")
            load(module)
            made = getattr(import_module(module), class_name)()
            assert isinstance(made, Runtime)
            _runtimes[name] = made
        return _runtimes[name]
