"""What the GPU did not do, as Python's errors: who is told, and what a launch that depends on a failed one says."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import groupby
from types import ModuleType
from typing import Any, NamedTuple

from eas.base.errors import EasError, FailedDependency, KernelError, LaunchError
from eas.runtime.gpu.launch import MetalLaunch

HINTS = {
    "fault": "the kernel touched memory outside of its buffers: EAS_BACKEND=interp or EAS_CHECK_BOUNDS=1 on the CPU name the line",
    "timeout": "the GPU ended it after some seconds: give each program less work",
    "memory": "eas.empty_cache() frees buffers that are kept for later",
    "removed": "the GPU is gone: start the process again",
    "ignored": "it was not run, because of the fault before it: launch it again",
    "compile": "this Metal text should compile: please report it with the text of to_msl()",
}


class Failure(NamedTuple):
    """A launch without a result, as `eas._metal` tells of it."""

    number: int
    batch: int
    """Equal for launches of one command buffer: Metal does not say which of them failed."""
    root: int
    """The launch that failed first, and that this one depends on; or itself."""
    kind: str
    name: str
    text: str


class Logged(NamedTuple):
    """A launch that may have printed, or asserted, and has not been looked at."""

    name: str
    launch: MetalLaunch
    stream: Any
    ticket: int


class Failures:
    """The errors of launches that nobody waited for, and the messages of kernels."""

    def __init__(self, metal: ModuleType) -> None:
        self._metal = metal
        self._logged: dict[int, Logged] = {}
        self._assertions: dict[int, KernelError] = {}

    def watch(self, number: int, logged: Logged) -> None:
        """Remember a launch whose kernel has a log."""
        self._logged[number] = logged

    def show_logs(self) -> None:
        """Print what kernels that have ended have to say, in the order of their launches."""
        for number, logged in sorted(self._logged.items()):
            if logged.stream.completed >= logged.ticket and self._logged.pop(number, None) is logged:
                try:
                    logged.launch.finish(logged.name)
                except KernelError as error:
                    self._assertions[number] = error

    def of_launch(self, number: int) -> BaseException | None:
        """The error of one launch that has ended; it counts as told."""
        return next(iter(self._errors(self._metal.take_failures((), number))), None)

    def of_this_thread(self, stream: Any = None) -> list[BaseException]:
        """What failed of the launches (in a stream) of this thread, and of those that have ended, in their order; told from now on."""
        here = threading.current_thread()
        others = tuple(t.ident for t in threading.enumerate() if t is not here and t.ident is not None)
        return list(self._errors(self._metal.take_failures(others, 0, -1 if stream is None else stream.index)))

    def of_all(self) -> list[BaseException]:
        """What failed of the launches of all threads; told from now on."""
        return list(self._errors(self._metal.take_failures(())))

    def dependency(self, name: str, root: int) -> FailedDependency:
        """The error of a launch that uses what a failed one should have written."""
        found = self._metal.describe_failure(root)
        failed = None if found is None else Failure(*found)
        error = FailedDependency(
            f"{name} has no result: {failed.name if failed else 'a kernel'}, launched before it, failed and should have written memory that it uses",
            hint="eas.synchronize() raises that error on the thread that launched; then the memory can be used again",
        )
        error.__cause__ = None if failed is None else self._error([failed], is_told=False)
        return error

    def _errors(self, found: Iterable[tuple[Any, ...]]) -> Iterator[BaseException]:
        """One for each launch; of a command buffer that failed as a whole, one for all of its launches."""
        failures = sorted(Failure(*f) for f in found)
        for (_, kind), group in groupby(failures, key=lambda f: (f.batch, f.kind)):
            same = list(group)
            yield from (self._error([f]) for f in same) if kind in ("dependency", "assert") else [self._error(same)]

    def _error(self, same: list[Failure], *, is_told: bool = True) -> EasError:
        first = same[0]
        if first.kind == "dependency":
            return self.dependency(first.name, first.root)
        if first.kind == "assert":
            self.show_logs()
            found = (self._assertions.pop if is_told else self._assertions.get)(first.number, None)
            return found or KernelError(f"an assertion of kernel {first.name} failed")
        return refusal(", ".join(dict.fromkeys(f.name for f in same)), first.kind, first.text)


def refusal(names: str, kind: str, text: str) -> LaunchError:
    """What Metal did not do, with advice."""
    if kind == "use":  # nothing of this kernel
        return LaunchError(text[0].upper() + text[1:])
    return LaunchError(f"kernel {names} failed on the GPU ({kind}): {text}", hint=HINTS.get(kind, ""))
