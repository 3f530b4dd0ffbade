"""A task on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from eas.base.locks import Gate

T = TypeVar("T")


class Aside(Generic[T]):
    """A task on a thread of its own, side by side with what the caller does; `result` is what it gives or raises."""

    def __init__(self, task: Callable[[], T]) -> None:
        self._task = task
        self._gate = Gate()
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="eas-aside", daemon=True)
        try:
            self._thread.start()
        except (RuntimeError, MemoryError):  # no thread to be had
            self._run()

    def _run(self) -> None:
        try:
            self._result.append(self._task())
        except BaseException as error:  # the caller's
            self._error = error
        self._gate.open()

    def result(self) -> T:
        """Wait until it has ended; signal handlers run meanwhile, and may raise: the task then ends alone."""
        self._gate.wait()
        if self._error is not None:
            raise self._error
        return self._result[0]

    def finish(self) -> None:
        """The thread has ended, or is not part of this process (a child after fork)."""
        if self._thread.is_alive():
            self._thread.join()
