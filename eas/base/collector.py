"""Python's cycle collector rests while a kernel is compiled: it would look at all that exists again and again, and find nothing.

A compiler's objects live until it ends. For a kernel of a thousand statements the collector took a third of the time.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from eas.base.locks import new_lock

_lock = new_lock()
_depths: dict[int, int] = {}  # by thread: how many of its calls let the collector rest
_was_on = False


@contextmanager
def resting() -> Iterator[None]:
    """The collector is off; afterwards it is as it was before the first of all threads that are in here."""
    global _was_on
    me = threading.get_ident()
    try:
        with _lock:
            if not _depths:
                _was_on = gc.isenabled()
            _depths[me] = _depths.get(me, 0) + 1
            gc.disable()
        yield
    finally:
        with _lock:
            _leave(me)


def _leave(thread: int) -> None:
    depth = _depths.pop(thread, 0) - 1
    if depth > 0:
        _depths[thread] = depth
    if not _depths and _was_on:
        gc.enable()


def _after_fork() -> None:
    """The other threads are not here any more."""
    me = threading.get_ident()
    others = [thread for thread in _depths if thread != me]
    for thread in others:
        _depths[thread] = 1
        _leave(thread)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


__all__ = ["resting"]
