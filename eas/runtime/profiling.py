"""`eas.profile`: how often kernels were launched, and how long each took by the clock of the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from eas.base.errors import LaunchError
from eas.base.locks import new_lock
from eas.runtime import Runtime, opened_runtimes, synchronize
from eas.runtime.streams import PROFILES, SPECIAL


@dataclass(frozen=True, slots=True)
class KernelTime:
    """What one kernel did on one backend."""

    kernel: str
    backend: str
    launches: int
    seconds: float
    """Of all launches."""
    least: float
    """Of the shortest launch, in seconds."""

    @property
    def mean(self) -> float:
        """Seconds of a launch."""
        return self.seconds / self.launches


class Profile:
    """Times by kernel: iterate over it for `KernelTime` rows, the most expensive first, or print it.

    By the clock of the GPU where there is one, where each launch then has a command buffer of its own; on other backends by the wall, and
    launches are waited for. Launches of a graph count one by one.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], KernelTime] = {}
        self._lock = new_lock()
        self._timing = ExitStack()
        self._timed: list[Runtime] = []

    def __enter__(self) -> Profile:
        if PROFILES:
            raise LaunchError("a profile is being taken already", hint="end it first: profiles do not nest")
        synchronize()
        PROFILES.append(self)
        SPECIAL.append(self)  # launches then look
        for runtime in opened_runtimes():
            if runtime.is_available():  # others were only asked whether they are
                self.watch(runtime)
        return self

    def __exit__(self, *_: object) -> None:
        SPECIAL.remove(self)
        try:
            synchronize()
        finally:
            self._collect()
            PROFILES.remove(self)
            self._timing.close()

    def watch(self, runtime: Runtime) -> None:
        """Ask the device for times from now on, if it has a clock."""
        if runtime.has_clock and runtime not in self._timed:
            self._timed.append(runtime)
            self._timing.enter_context(runtime.timed())

    def _collect(self) -> None:
        for runtime in self._timed:
            self.add(runtime.name, runtime.take_times(of_all=True))

    def add(self, backend: str, times: Iterable[tuple[str, float]]) -> None:
        """Count launches: names of kernels and seconds."""
        with self._lock:
            for kernel, seconds in times:
                old = self._rows.get((kernel, backend), KernelTime(kernel, backend, 0, 0.0, seconds))
                self._rows[kernel, backend] = KernelTime(kernel, backend, old.launches + 1, old.seconds + seconds, min(old.least, seconds))

    def __iter__(self) -> Iterator[KernelTime]:
        return iter(sorted(self._rows.values(), key=lambda row: (-row.seconds, row.kernel, row.backend)))

    def __len__(self) -> int:
        return len(self._rows)

    def __str__(self) -> str:
        total = sum(row.seconds for row in self) or 1.0
        lines = [f"{'kernel':<32} {'backend':<9} {'launches':>8} {'total ms':>10} {'mean us':>10} {'least us':>10} {'share':>6}"]
        lines += [
            f"{row.kernel:<32} {row.backend:<9} {row.launches:>8} {row.seconds * 1e3:>10.3f} {row.mean * 1e6:>10.2f} {row.least * 1e6:>10.2f} {row.seconds / total:>6.0%}"
            for row in self
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<eas.Profile of {len(self)} kernels, {sum(row.launches for row in self)} launches>"


def profile() -> Profile:
    """`with eas.profile() as times: ...; print(times)`: how long each kernel took."""
    return Profile()
