"""`eas.capture`: launches that are written down instead of run, and replayed as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eas.base import config
from eas.base.errors import ArgumentError, LaunchError
from eas.interop.arg_view import ArgView, address_of
from eas.interop.arguments import view
from eas.runtime import Executable, Grid, Recording, Runtime, Step
from eas.runtime.launch_settings import setting_now
from eas.runtime.recordings import OneByOne
from eas.runtime.streams import PROFILES, SPECIAL, Stream, lane_of

if TYPE_CHECKING:
    from eas.launch.learn import Learner

Array = np.ndarray[Any, np.dtype[Any]]
Values = list[Any]
_MAX_RECORDINGS = 4  # sets of arguments that a graph is prepared for at once


class Captured(NamedTuple):
    """One launch that was not made."""

    name: str
    runtime: Runtime
    values: Values
    """Of all parameters: flat arrays and numbers."""
    grid: Grid
    choose: Callable[[Values], tuple[Executable, Sequence[object]]]
    """The code for such values, and what it runs on."""
    written: tuple[ArgView, ...]
    """Arguments whose owner has to hear of writes."""
    learner: Learner | None
    """Of such launches, if there is a plan."""


class _Input(NamedTuple):
    """An argument of the graph."""

    seen: ArgView
    begin: int
    end: int


class Graph:
    """Launches of a `with eas.capture()`; `replay` runs all of them in their order, with one call into the backend.

    It keeps the memory that they use. A kernel that changes after the capture is replayed as it was.
    """

    def __init__(self, inputs: dict[str, Any]) -> None:
        self._inputs = {name: _input(name, value) for name, value in inputs.items()}
        self._captured: list[Captured] = []
        self._recordings: dict[tuple[int, ...], Recording] = {}
        self._state = "new"
        self._token: Token[Graph | None] | None = None

    def __len__(self) -> int:
        return len(self._captured)

    def __enter__(self) -> Graph:
        if _current.get() is not None:
            raise LaunchError("a capture is going on already", hint="end it first: captures do not nest")
        if self._state != "new":
            raise LaunchError("this graph has been captured", hint="call eas.capture() again")
        self._state = "open"
        self._token = _current.set(self)
        SPECIAL.append(self)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        SPECIAL.remove(self)
        assert self._token is not None
        _current.reset(self._token)
        self._state = "done" if kind is None else "broken"

    def add(self, captured: Captured) -> None:
        """Write a launch down."""
        first = self._captured[0] if self._captured else captured
        if captured.runtime is not first.runtime:
            raise LaunchError(
                f"{captured.name} runs on {captured.runtime.name}, the graph on {first.runtime.name}", hint="capture a graph for each backend"
            )
        self._captured.append(captured)

    def replay(self, *, _sync: bool = True, _stream: Stream | None = None, **new: Any) -> None:
        """Run the captured launches; `x=array` takes the place of what `eas.capture(x=...)` was given."""
        if self._state != "done":
            reason = {"open": "is still being captured", "new": "was never captured"}.get(self._state, "was not captured to its end: an error was raised")
            raise LaunchError(f"this graph {reason}", hint="with eas.capture() as graph: ...; then graph.replay()")
        if _current.get() is not None:
            raise LaunchError("a graph cannot be replayed while another one is captured", hint="replay it after the capture")
        if not self._captured:
            return
        runtime, recording = self._captured[0].runtime, self._recording(new)
        lane = None if _stream is None and not SPECIAL else lane_of(_stream, runtime)
        recording.run(sync=_sync, lane=lane)
        for captured in self._captured:
            for seen in captured.written:
                seen.note_write()

    def _recording(self, new: dict[str, Any]) -> Recording:
        given = {name: self._checked(name, value) for name, value in new.items()}
        key = tuple(address_of(given[name].array) if name in given else 0 for name in self._inputs)
        found = self._recordings.get(key)
        if found is None or self._is_watched():
            found = self._recorded(given)
            if len(self._recordings) >= _MAX_RECORDINGS:
                self._recordings.pop(next(iter(self._recordings)), None)
            self._recordings[key] = found
        return found

    def _recorded(self, given: dict[str, ArgView]) -> Recording:
        runtime, steps = self._captured[0].runtime, []
        for captured in self._captured:
            values = [self._replaced(captured.name, v, given) if isinstance(v, np.ndarray) else v for v in captured.values]
            executable, args = captured.choose(values)
            steps.append(Step(executable, args, captured.grid))
        recording = None if self._is_watched() else runtime.record(steps)
        return recording or OneByOne(runtime, steps)

    def _is_watched(self) -> bool:
        """Whether each launch is looked at on its own."""
        return bool(setting_now(config.debug)) or (bool(PROFILES) and not self._captured[0].runtime.has_clock)

    def _replaced(self, kernel: str, array: Array, given: dict[str, ArgView]) -> Array:
        """The memory of a new argument at the place of the old one; others as they are."""
        begin = address_of(array)
        for name, new in given.items():
            old = self._inputs[name]
            if begin >= old.end or begin + array.nbytes <= old.begin or not array.nbytes:
                continue
            if begin < old.begin or begin + array.nbytes > old.end:
                raise LaunchError(f"{kernel} uses memory that only in part is that of `{name}`", hint=f"capture with {name}= the whole array")
            flat = new.array.reshape(-1).view(np.uint8)
            return flat[begin - old.begin : begin - old.begin + array.nbytes].view(array.dtype)
        return array

    def _checked(self, name: str, value: Any) -> ArgView:
        if name not in self._inputs:
            known = ", ".join(f"`{n}`" for n in self._inputs) or "none"
            raise ArgumentError(f"the graph has no argument `{name}`; it has {known}", hint=f"eas.capture({name}=array) names one")
        old, new = self._inputs[name].seen, _input(name, value).seen
        for what, a, b in (("shape", old.shape, new.shape), ("dtype", old.dtype, new.dtype), ("device", old.device, new.device)):
            if a != b:
                raise ArgumentError(f"`{name}` of the graph has {what} {a}, got {b}", hint="capture another graph for such arguments")
        if new.readonly and not old.readonly:
            raise ArgumentError(f"`{name}` of the graph can be written, got a read-only array", hint=f"pass {name}.copy()")
        return new

    def __repr__(self) -> str:
        return f"<eas.Graph of {len(self)} launches, arguments {', '.join(self._inputs) or 'none'}>"


def _input(name: str, value: Any) -> _Input:
    seen = view(value, name)
    if not seen.is_contiguous:
        raise ArgumentError(f"argument `{name}` of a graph is not contiguous", hint=f"pass np.ascontiguousarray({name})")
    begin = address_of(seen.array)
    return _Input(seen, begin, begin + seen.array.nbytes)


_current: ContextVar[Graph | None] = ContextVar("eas_capture", default=None)


def capturing() -> Graph | None:
    """The graph that launches of this thread are written into."""
    return _current.get()


def capture(**inputs: Any) -> Graph:
    """`with eas.capture(x=x) as graph:` writes launches down instead of running them; `graph.replay(x=other)` runs them."""
    return Graph(inputs)
