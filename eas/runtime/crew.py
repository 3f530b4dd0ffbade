"""Threads that run tasks for others, without a lock that a signal handler or `__del__` could meet."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue

Task = Callable[[], None]


class Crew:
    """Daemon threads that run tasks in the order in which these come, started when they are needed.

    Each step is one operation on a queue, dict or list, which the GIL makes atomic, and between two
    steps everything is right: a task may come from anywhere at any time.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._restart()
        _crews.add(self)

    def _restart(self) -> None:
        """Without tasks and threads: at first, and in a child after fork."""
        self._tasks: SimpleQueue[Task] = SimpleQueue()
        self._seats: dict[int, object] = {}
        """By number: the threads there are, and those that are being started."""
        self._idle: list[object] = []
        """One token per thread that waits for a task and has not been promised one."""
        self._inside: list[int] = []
        """The threads that run tasks."""

    @property
    def is_here(self) -> bool:
        """Whether the calling thread runs tasks."""
        return threading.get_ident() in self._inside

    def put(self, task: Task, max_threads: int) -> None:
        """Run a task on one of at most `max_threads` threads; on this one if no thread can be started."""
        self._tasks.put(task)
        try:
            self._idle.pop()
            return
        except IndexError:
            pass
        if not self._hire(max_threads):
            self._inside.append(threading.get_ident())
            try:
                while True:
                    self._tasks.get_nowait()()
            except Empty:
                pass
            finally:
                self._inside.remove(threading.get_ident())

    def _hire(self, max_threads: int) -> bool:
        """Whether there is a thread that will take the tasks."""
        mark = object()
        seat = next((i for i in range(max_threads) if self._seats.setdefault(i, mark) is mark), None)
        if seat is None:
            return True
        try:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        except (RuntimeError, MemoryError):
            del self._seats[seat]
            return bool(self._seats)
        return True

    def _serve(self) -> None:
        self._inside.append(threading.get_ident())
        tasks, idle, token = self._tasks, self._idle, object()
        while True:
            try:
                task = tasks.get_nowait()
            except Empty:
                idle.append(token)
                task = tasks.get()
                with contextlib.suppress(ValueError):  # it was promised to us, or to nobody
                    idle.remove(token)
            task()
            del task


_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


def _after_fork() -> None:
    for crew in list(_crews):
        crew._restart()


os.register_at_fork(after_in_child=_after_fork)
