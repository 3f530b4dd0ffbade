"""What autotuning tells: how far it is, on a terminal, and a table when it has chosen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from eas.base import config


class Tried(NamedTuple):
    """One config: how long its launch took, or why there was none."""

    config: str
    seconds: float | None
    reason: str


def show_progress(kernel: str, done: int, total: int, trying: str) -> None:
    """One line on a terminal, written over and over; a total of 0 takes it away."""
    if not sys.stderr.isatty():
        return
    text = f"autotune {kernel}: {done}/{total} {trying}"[:100] if total else ""
    sys.stderr.write(f"\r{text:<100}\r" if total else f"\r{'':<100}\r")
    sys.stderr.flush()


def show_table(kernel: str, backend: str, tried: Sequence[Tried], best: int, stored: str) -> None:
    """The configs, their times, the choice and where it is kept: on a terminal, and where EAS_DEBUG asks for it."""
    if sys.stderr.isatty() or config.debug():
        sys.stderr.write(table(kernel, backend, tried, best, stored))


def table(kernel: str, backend: str, tried: Sequence[Tried], best: int, stored: str) -> str:
    """The text of that table."""
    fastest = tried[best].seconds or 0.0
    lines = [f"autotune {kernel} on {backend}: {len(tried)} configs"]
    width = max(len(each.config) for each in tried)
    for number, each in enumerate(tried):
        time = f"{each.seconds * 1e6:>12.2f} us {each.seconds / fastest if fastest else 1:>6.2f}x" if each.seconds is not None else f"{'-':>12}    {each.reason}"
        lines.append(f"  {'>' if number == best else ' '} {each.config:<{width}} {time}")
    where = f"kept in {stored}" if stored else "kept in this process only (EAS_CACHE=0)"
    return "\n".join([*lines, f"  chosen: {tried[best].config}, {where}", ""])
