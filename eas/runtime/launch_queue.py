"""Launches that run later, in the order in which they were made, on a thread of their own."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable

Task = Callable[[], None]


class LaunchQueue:
    """First in, first out; errors wait until somebody asks for them."""

    def __init__(self) -> None:
        self.pending = ctypes.c_int64(0)
        """Launches that have not ended; native code reads it, Python changes it under the lock."""
        self._restart()
        _queues.add(self)

    def _restart(self) -> None:
        """Empty and without a thread: at first, and in a child after fork."""
        self._changed = threading.Condition(threading.Lock())
        self._tasks: deque[Task] = deque()
        self._errors: list[BaseException] = []
        self._thread: threading.Thread | None = None
        self.pending.value = 0

    def submit(self, task: Task, max_in_flight: int) -> None:
        """Run `task` after those before it; waits while `max_in_flight` launches are pending."""
        with self._changed:
            while self.pending.value >= max_in_flight:
                self._changed.wait()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="eas-launches", daemon=True
                )
                self._thread.start()
            self._tasks.append(task)
            self.pending.value += 1
            self._changed.notify_all()

    def drain(self) -> None:
        """Afterwards everything that was submitted before has ended, well or not."""
        if not self.pending.value:
            return
        with self._changed:
            while self.pending.value:
                self._changed.wait()

    def take_errors(self) -> list[BaseException]:
        """What failed since the last call, in order."""
        with self._changed:
            errors, self._errors = self._errors, []
        return errors

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._tasks:
                    self._changed.wait()
                task = self._tasks.popleft()
            try:
                task()
            except BaseException as error:  # delivered by `take_errors`
                with self._changed:
                    self._errors.append(error)
            del task  # arguments are free before anybody hears that the launch has ended
            with self._changed:
                self.pending.value -= 1
                self._changed.notify_all()


_queues: weakref.WeakSet[LaunchQueue] = weakref.WeakSet()


def _after_fork() -> None:
    for queue in list(_queues):
        queue._restart()


def _at_exit() -> None:
    """The results of a launch may be files or shared memory: a process ends after its launches."""
    for queue in list(_queues):
        queue.drain()
        for error in queue.take_errors():
            print(f"eas: a launch failed, and nobody synchronized: {error}", file=sys.stderr)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
