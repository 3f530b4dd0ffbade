"""Runs the jobs one after the other, each in a process of its own with a time limit; a dead process is a failed job."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import eas
from eas.verify.events import Check, Events, Fact, Point
from eas.verify.stage_table import Job

GRACE = 1.25  # a stage that watches its time ends by itself; only one that hangs is killed
POLL_SECONDS = 0.1
LAST_LINES = 25


@dataclass(slots=True)
class Outcome:
    """What came of a job."""

    key: str
    stage: str
    backend: str
    title: str
    status: str
    """"passed", "failed" or "skipped"."""
    seconds: float = 0.0
    why: str = ""
    checks: list[Check] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    last_lines: list[str] = field(default_factory=list)
    """Of what its process printed, if that did not end well."""

    def count(self, status: str) -> int:
        """Checks of that status."""
        return sum(c.status == status for c in self.checks)


def run_job(job: Job, *, is_short: bool, is_full: bool, tell: Callable[[float], None] = lambda share: None) -> Outcome:
    """Run a job to its end, or to its limit."""
    outcome = Outcome(job.key, job.stage.name, job.backend, job.title, "skipped", why=job.why_not)
    if job.why_not:
        return outcome
    with tempfile.TemporaryDirectory(prefix="eas-verify-") as scratch:
        events_path, log_path = Path(scratch, "events"), Path(scratch, "log")
        events_path.touch()
        limit = job.stage.limit(is_short, is_full)
        start = time.monotonic()
        with log_path.open("wb") as log:
            command = [sys.executable, "-m", "eas.verify.stage_process", job.stage.name, job.backend, str(events_path), str(limit)]
            process = subprocess.Popen(
                [*command, *(["--short"] if is_short else [])], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=_environment(job), start_new_session=True,
            )  # fmt: skip
            ended, events = _wait(process, events_path, limit * GRACE, tell)
        outcome.seconds = time.monotonic() - start
        outcome.checks, outcome.facts, outcome.points = events.checks, events.facts, events.points
        outcome.status, outcome.why = _verdict(ended, process.returncode, events, limit * GRACE)
        if outcome.status == "failed":
            outcome.last_lines = log_path.read_text(errors="replace").splitlines()[-LAST_LINES:]
    return outcome


def _environment(job: Job) -> dict[str, str]:
    """Ours, with this very package first on the path of modules."""
    here = str(Path(eas.__file__).parent.parent)
    paths = [here, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, **job.env, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "PYTHONUNBUFFERED": "1"}


def _wait(process: subprocess.Popen[bytes], events_path: Path, limit: float, tell: Callable[[float], None]) -> tuple[bool, Events]:
    """Whether the process ended by itself, and what it said."""
    events, end = Events(), time.monotonic() + limit
    try:
        with events_path.open(encoding="utf-8") as lines:
            pending = ""
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
                is_over = process.returncode is not None
                *whole, pending = (pending + lines.read()).split("\n")
                for line in whole:
                    events.add(line)
                tell(events.done)
                if is_over or time.monotonic() > end:
                    return is_over, events
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a process and of those that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _verdict(ended: bool, code: int, events: Events, limit: float) -> tuple[str, str]:
    if not ended:
        return "failed", f"it took longer than {limit:.0f} s and was killed"
    if code < 0:
        return "failed", f"its process was killed by {signal.Signals(-code).name}"
    if code or not events.is_complete:
        return "failed", f"its process ended with status {code}"
    wrong = [c.name for c in events.checks if c.status == "failed"]
    if wrong:
        return "failed", f"{len(wrong)} of {len(events.checks)} checks: {', '.join(wrong[:4])}{', ...' if len(wrong) > 4 else ''}"
    if not any(c.status == "passed" for c in events.checks):
        whys = dict.fromkeys(c.detail for c in events.checks)
        return "skipped", "; ".join(whys) or "nothing to look at"
    return "passed", ""
