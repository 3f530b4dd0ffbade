"""What a stage says while it runs, one JSON line each, so that nothing is lost when its process dies."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MAX_DETAIL = 2000  # characters of one check: compilers can say a lot


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: "passed", "failed" or "skipped", and what there is to say about it."""

    name: str
    status: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that this machine was found to do; `expected` is what our code takes for granted, if it does."""

    name: str
    value: Any
    unit: str = ""
    expected: Any = None


@dataclass(frozen=True, slots=True)
class Point:
    """One number of a plot: the series `series` of the plot `plot` is `y` at `x`."""

    plot: str
    series: str
    x: float | str
    y: float


@dataclass(slots=True)
class Events:
    """All that a stage has said so far."""

    checks: list[Check] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    done: float = 0.0
    """Share of the stage, from 0 to 1."""
    is_complete: bool = False

    def add(self, line: str) -> None:
        """Take one line of the file in; a line that a dying process cut off is no event."""
        try:
            kind, content = json.loads(line)
        except ValueError:
            return
        if kind == "check":
            self.checks.append(Check(**content))
        elif kind == "fact":
            self.facts.append(Fact(**content))
        elif kind == "point":
            self.points.append(Point(**content))
        elif kind == "progress":
            self.done = float(content)
        elif kind == "complete":
            self.is_complete = True


class Recorder:
    """Where a stage says what it finds."""

    def __init__(self, path: Path, seconds: float, *, is_short: bool = False) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._end = time.monotonic() + seconds
        self.is_short = is_short

    @property
    def seconds_left(self) -> float:
        """Until the stage should come to its end by itself; it is killed a little later."""
        return self._end - time.monotonic()

    def passed(self, name: str, detail: str = "") -> None:
        """Something is as it should be."""
        self._say("check", asdict(Check(name, "passed", detail[:MAX_DETAIL])))

    def failed(self, name: str, detail: str) -> None:
        """Something is wrong."""
        self._say("check", asdict(Check(name, "failed", detail[:MAX_DETAIL])))

    def skipped(self, name: str, why: str) -> None:
        """Something could not be looked at here."""
        self._say("check", asdict(Check(name, "skipped", why[:MAX_DETAIL])))

    def check(self, name: str, is_right: bool, detail: str = "") -> None:
        """Passed or failed."""
        (self.passed if is_right else self.failed)(name, detail)

    @contextlib.contextmanager
    def checking(self, name: str) -> Iterator[None]:
        """What is raised inside is a failure of this name, and the stage goes on."""
        try:
            yield
        except Exception as error:  # one check must not end the others
            self.failed(name, f"{type(error).__name__}: {error}")
        else:
            self.passed(name)

    def fact(self, name: str, value: object, unit: str = "", expected: object = None) -> None:
        """Something that was measured."""
        self._say("fact", asdict(Fact(name, value, unit, expected)))

    def point(self, plot: str, series: str, x: float | str, y: float) -> None:
        """A number for a plot."""
        self._say("point", asdict(Point(plot, series, x, y)))

    def progress(self, done: int, total: int) -> None:
        """How far the stage is."""
        self._say("progress", done / max(total, 1))

    def complete(self) -> None:
        """The stage has come to its end; without this line it was interrupted."""
        self._say("complete", None)

    def _say(self, kind: str, content: object) -> None:
        self._file.write(json.dumps([kind, content]) + "\n")
        self._file.flush()  # the next step may end this process
