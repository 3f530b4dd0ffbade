"""Launches that are prepared once and run again: one after another, and what recordings of all backends need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eas.runtime import Lane, Recording, Runtime, Step
from eas.runtime.launch_queue import Span


class OneByOne(Recording):
    """For launches that have something to do in Python: messages, copies, a backend without native replay."""

    def __init__(self, runtime: Runtime, steps: Sequence[Step]) -> None:
        self._runtime, self._steps = runtime, tuple(steps)

    def run(self, *, sync: bool, lane: Lane | None) -> None:
        from eas.runtime import debug  # imported by whoever records

        for step in self._steps:
            debug.run(self._runtime, step.executable, step.args, step.grid, sync=sync, lane=lane)


def united(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same bytes as few spans: those that are written, and those that are read."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.is_written, s.begin)):
        if found and found[-1].is_written == span.is_written and span.begin <= found[-1].end:
            found[-1] = Span(found[-1].begin, max(found[-1].end, span.end), span.is_written)
        else:
            found.append(span)
    return tuple(found)


def name_of(steps: Sequence[Step]) -> str:
    """What errors call a graph."""
    names = list(dict.fromkeys(step.executable.name for step in steps))
    return f"a graph of {len(steps)} launches of {', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"
