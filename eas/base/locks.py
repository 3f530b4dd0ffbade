"""Every lock of the package: re-entrant, and free in a child after fork.

A signal handler, or `__del__` of an object that the collector finds, may launch a kernel while its own
thread is inside of any function of ours. So a thread may take a lock that it holds, and what a lock
protects is right between any two steps of its holder. A child after fork has one thread: locks that
others held are made anew, for nobody is left to release them.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager
from typing import Any

_registered: weakref.WeakSet[Any] = weakref.WeakSet()
_stoppers: list[Any] = []


def new_lock(*, stops_fork: bool = False) -> AbstractContextManager[bool]:
    """A lock for `with`; with `stops_fork` no thread forks while another one holds it.

    That is for native code with locks of its own, which nobody could make anew. Who takes several of
    these takes them in the order in which they were made, as fork does.
    """
    lock = threading.RLock()
    _registered.add(lock)
    if stops_fork:
        _stoppers.append(lock)
    return lock


def is_registered(lock: object) -> bool:
    """Whether a lock was made here."""
    return lock in _registered


def is_held_here(lock: Any) -> bool:
    """Whether the calling thread holds a lock."""
    return bool(lock._is_owned())


def _hold() -> None:
    for lock in _stoppers:
        lock.acquire()


def _let_go() -> None:
    for lock in reversed(_stoppers):
        if lock._is_owned():  # not so if Ctrl-C came while we waited for it
            lock.release()


def _renew() -> None:
    _let_go()
    for lock in list(_registered):
        if not lock._is_owned():  # what the thread that forked holds, it will release
            lock._at_fork_reinit()


class Gate:
    """Closed at first; others wait until one thread opens it, once."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        self._lock.release()

    def wait(self, timeout: float = -1) -> bool:
        """Whether it was opened in time (seconds; -1: for ever); signal handlers run meanwhile, and may raise."""
        if not self._lock.acquire(timeout=timeout):
            return False
        self._lock.release()
        return True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_renew)
