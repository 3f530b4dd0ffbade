"""Launches that run later: those that touch the same memory in the order in which they were made, others at once."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

Task = Callable[[], None]


class Span(NamedTuple):
    """Bytes that a launch touches."""

    begin: int
    end: int
    is_written: bool


class Launch:
    """A task, and what stands between it and its start."""

    __slots__ = ("followers", "number", "spans", "task", "waits_for")

    def __init__(self, number: int, task: Task, spans: tuple[Span, ...] | None) -> None:
        self.number = number
        self.task: Task | None = task
        self.spans = spans
        self.waits_for = 0
        self.followers: list[Launch] = []


def conflict(one: tuple[Span, ...] | None, other: tuple[Span, ...] | None) -> bool:
    """Whether the order of two launches matters; None may touch anything."""
    if one is None or other is None:
        return True
    return any(
        a.begin < b.end and b.begin < a.end and (a.is_written or b.is_written)
        for a in one
        for b in other
    )


class LaunchQueue:
    """Runs launches on threads of its own; errors wait until somebody asks for them."""

    def __init__(self) -> None:
        self.pending = ctypes.c_int64(0)
        """Launches that have not ended; native code reads it, Python changes it under the lock."""
        self._restart()
        _queues.add(self)

    def _restart(self) -> None:
        """Empty and without threads: at first, and in a child after fork."""
        self._changed = threading.Condition(threading.Lock())
        self._unfinished: dict[int, Launch] = {}  # by number, in order
        self._ready: deque[Launch] = deque()
        self._errors: list[tuple[int, BaseException]] = []
        self._threads = self._idle = self._made = 0
        self.pending.value = 0

    def submit(self, task: Task, max_in_flight: int, spans: Iterable[Span] | None = None, n_threads: int = 1) -> None:
        """Run `task` after the earlier ones that touch its memory, while at most `n_threads` run.

        Waits while `max_in_flight` launches are pending. Without spans it runs after everything before it,
        and before everything after it.
        """
        touched = None if spans is None else tuple(spans)
        with self._changed:
            while self.pending.value >= max_in_flight:
                self._changed.wait()
            self._made += 1
            launch = Launch(self._made, task, touched)
            for earlier in self._unfinished.values():
                if conflict(earlier.spans, touched):
                    earlier.followers.append(launch)
                    launch.waits_for += 1
            self._unfinished[launch.number] = launch
            self.pending.value += 1
            if not launch.waits_for:
                self._ready.append(launch)
                if len(self._ready) > self._idle and self._threads < n_threads:
                    self._threads += 1
                    threading.Thread(target=self._serve, name="eas-launches", daemon=True).start()
                self._changed.notify_all()

    def drain(self) -> None:
        """Afterwards everything that was submitted before has ended, well or not."""
        self.wait_for(None)

    def wait_for(self, spans: Iterable[Span] | None) -> None:
        """Afterwards no launch submitted before, whose order with these spans matters, is pending."""
        if not self.pending.value:
            return
        touched = None if spans is None else tuple(spans)
        with self._changed:
            before = {n for n, launch in self._unfinished.items() if conflict(launch.spans, touched)}
            while not before.isdisjoint(self._unfinished):
                self._changed.wait()

    def take_errors(self) -> list[BaseException]:
        """What failed since the last call, in the order of the launches."""
        with self._changed:
            errors, self._errors = self._errors, []
        return [error for _, error in sorted(errors, key=lambda found: found[0])]

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._ready:
                    self._changed.wait()
                self._idle -= 1
                launch = self._ready.popleft()
            task, launch.task = launch.task, None
            assert task is not None
            error = _failure(task)
            del task  # arguments are free before anybody hears that the launch has ended
            with self._changed:
                if error is not None:
                    self._errors.append((launch.number, error))
                    error = None
                del self._unfinished[launch.number]
                self.pending.value -= 1
                for follower in launch.followers:
                    follower.waits_for -= 1
                    if not follower.waits_for:
                        self._ready.append(follower)
                launch.followers = []
                self._changed.notify_all()


def _failure(task: Task) -> BaseException | None:
    try:
        task()
    except BaseException as error:  # delivered by `take_errors`
        return error
    return None


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
