"""The end of a process: its launches end before it does, and what failed is told and is no success."""

from __future__ import annotations

import atexit
import ctypes
import sys
from typing import Protocol


class Unfinished(Protocol):
    """Launches that may not have ended; `LaunchQueue` is one implementation."""

    @property
    def pending(self) -> ctypes.c_int64: ...
    def drain(self) -> None: ...
    def stop(self, *, of_all: bool) -> None: ...
    def take_errors(self, *, of_all: bool) -> list[BaseException]: ...


_watched: list[Unfinished] = []


def finish_before_exit(queue: Unfinished) -> None:
    """The results of a launch may be files or shared memory: from now on this process ends after those of the queue."""
    if not _watched:
        atexit.register(_finish)
    _watched.append(queue)


def _finish() -> None:
    problems = [problem for queue in _watched for problem in _drain(queue)]
    for problem in problems:
        print(f"eas: {problem}", file=sys.stderr)
    if problems:
        sys.stdout = _LastFlush(sys.stdout)


def _drain(queue: Unfinished) -> list[str]:
    """What was not done, one sentence each."""
    problems = []
    try:
        queue.drain()
    except BaseException as error:  # Ctrl-C, or what another signal handler raises
        n = queue.pending.value
        queue.stop(of_all=True)
        problems.append(f"{type(error).__name__} at exit: {n} launch{'' if n == 1 else 'es'} did not end, and what they should have written is lost")
    errors = queue.take_errors(of_all=True)
    return problems + [f"a launch failed, and nobody synchronized: {error}" for error in errors]


class _LastFlush:
    """Stands for stdout at exit. An interpreter that cannot flush it ends with status 120, the one way to say so now."""

    closed = False

    def __init__(self, stream: object) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def flush(self) -> None:
        getattr(self._stream, "flush", lambda: None)()
        if sys._getframe().f_back is not None:  # somebody prints, not yet the interpreter that ends
            return
        report = sys.unraisablehook

        def say_nothing_once(_: object) -> None:
            sys.unraisablehook = report

        sys.unraisablehook = say_nothing_once
        raise RuntimeError("launches of eas failed")
