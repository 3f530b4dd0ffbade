"""What native launchers know of a backend: the function that runs programs, and what it calls for a kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from eas.base.errors import SourcePlace


class LaunchSite(NamedTuple):
    """Where the launches of a backend go."""

    run_address: int
    """`i32 run(code, frame, programs, 0, n_threads, scratch_nbytes, rate, stop, max_programs)`: 0, 4 with a Python error, 5 to refuse, or no memory."""
    pending: ctypes.c_int64
    """Launches before this one that have not ended: launchers refuse while there are some."""
    n_threads: int


class LaunchEntry(Protocol):
    """The code of a variant."""

    @property
    def address(self) -> int: ...
    @property
    def scratch_nbytes(self) -> int: ...
    @property
    def rate(self) -> ctypes.c_int64: ...
    @property
    def max_programs(self) -> int: ...


class LaunchCode(NamedTuple):
    """The code of a variant, and where its messages come from."""

    entry: LaunchEntry
    places: Sequence[tuple[str, SourcePlace | None]]
