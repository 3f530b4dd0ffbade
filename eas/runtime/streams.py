"""Streams and events: who asks for an order of launches that their memory does not show, on every backend.

Launches that touch the same memory are ordered by themselves, in whichever streams they are. A stream is a sequence of
launches that an event can mark; a wait lets later launches of a stream start after such a mark.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from eas.base.errors import ArgumentError
from eas.runtime import Lane, Mark, Runtime, opened_runtimes

SPECIAL: list[object] = []
"""One entry per `with stream`, `with capture` and `with profile` that is open in this process: launches then look where they belong."""
PROFILES: list[Any] = []
"""The `eas.profile` that is being taken, if any."""


class Event:
    """A moment in a stream: `event.query()` tells whether it has come, `event.wait()` waits until it has.

    It has come when everything has ended that was launched in the stream before `record`; one that was never recorded has come.
    """

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: tuple[Mark, ...] = ()

    def record(self, stream: Stream | None = None) -> Event:
        """Mark all launches that were made until now in a stream (None: the current one); returns the event."""
        chosen = current_stream() if stream is None else stream
        self._marks = tuple(lane.mark() for lane in chosen._opened())
        return self

    def query(self) -> bool:
        """Whether all launches before it have ended; does not wait."""
        return all(mark.is_done for mark in self._marks)

    def wait(self) -> None:
        """Wait until all launches before it have ended; what failed is for `synchronize` to raise."""
        for mark in self._marks:
            mark.wait()

    def __repr__(self) -> str:
        return f"<eas.Event, {'past' if self.query() else 'to come'}>"


class Stream:
    """A sequence of launches: `with stream: kernel(...)`, or `kernel(..., _stream=stream)`.

    With `_sync=False` launches of different streams run side by side, unless they touch the same memory and one writes it.
    """

    __slots__ = ("_awaited", "_lanes")

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        """By backend."""
        self._awaited: list[Mark] = []
        """What lanes that are opened later have to wait for."""

    def __enter__(self) -> Stream:
        SPECIAL.append(self)
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _entered.set(_entered.get()[:-1])
        SPECIAL.remove(self)

    def record(self, event: Event | None = None) -> Event:
        """An event that has come when all launches made here until now have ended."""
        return (Event() if event is None else event).record(self)

    def wait(self, event: Event) -> None:
        """Launches made here from now on start after the event; this call itself does not wait."""
        if not isinstance(event, Event):
            raise ArgumentError(f"a stream waits for an eas.Event, got {type(event).__name__}", hint="event = other_stream.record()")
        marks = [mark for mark in event._marks if not mark.is_done]
        self._awaited = [mark for mark in self._awaited if not mark.is_done] + marks
        for lane in self._opened():
            for mark in marks:
                lane.wait(mark)

    def query(self) -> bool:
        """Whether everything that was launched here has ended; does not wait."""
        return self.record().query()

    def synchronize(self) -> None:
        """Wait until everything that was launched here has ended; raises what failed of this thread's launches."""
        for lane in self._opened():
            lane.synchronize()

    def _lane_of(self, runtime: Runtime) -> Lane:
        """The part of the stream that a backend runs."""
        found = self._lanes.get(runtime.name)
        if found is None:
            made = runtime.new_lane()
            for mark in self._awaited:
                made.wait(mark)
            found = self._lanes.setdefault(runtime.name, made)
        return found

    def _opened(self) -> list[Lane]:
        return list(self._lanes.values())

    def __repr__(self) -> str:
        return f"<eas.Stream, {'idle' if self.query() else 'busy'}>"


class _DefaultStream(Stream):
    """What is launched in no other stream."""

    __slots__ = ()

    def _lane_of(self, runtime: Runtime) -> Lane:
        return runtime.default_lane

    def _opened(self) -> list[Lane]:
        return [runtime.default_lane for runtime in opened_runtimes()]


_default = _DefaultStream()
_entered: ContextVar[tuple[Stream, ...]] = ContextVar("eas_streams", default=())


def current_stream() -> Stream:
    """The stream of the innermost `with stream`; outside of all, the one that launches without a stream are in."""
    return (_entered.get() or (_default,))[-1]


def lane_of(stream: Stream | None, runtime: Runtime) -> Lane | None:
    """Where a launch goes that names a stream, or none; None: no stream at all."""
    if stream is not None and not isinstance(stream, Stream):
        raise ArgumentError(f"_stream is an eas.Stream, got {type(stream).__name__}", hint="stream = eas.Stream()")
    chosen = current_stream() if stream is None else stream
    return None if chosen is _default else chosen._lane_of(runtime)
