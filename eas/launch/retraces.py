"""Tells the author of a kernel that launches trace it again and again, and why."""

from __future__ import annotations

import sys
import warnings

MANY = 10  # traces in a row, after which we warn


def told_of_retrace(kernel: str, change: str, count: int) -> int:
    """Say that a launch has found its kernel out of date for the `count`-th time in a row; returns the count."""
    from eas.runtime.debug import note  # loaded by those who need it

    note(1, f"    retraced {kernel} because {change} has changed")
    if count == MANY + 1:
        warnings.warn(
            f"kernel {kernel} was traced anew by each of the last {count} launches, because {change} changes between them; "
            "a trace takes thousands of times longer than a launch: pass what changes as an argument",
            RuntimeWarning,
            stacklevel=_users_level(),
        )
    return count


def _users_level() -> int:
    """The stack level, counted as `warnings.warn` does in our caller, of the first frame that is not ours."""
    from eas.frontend.our_frames import is_our_frame

    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_our_frame(frame):
        level, frame = level + 1, frame.f_back
    return level
