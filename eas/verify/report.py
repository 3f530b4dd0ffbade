"""The report as data: one JSON file, written anew after each job, and read again to go on with an interrupted run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from eas.verify.events import Check, Fact, Point
from eas.verify.runner import Outcome

FORMAT = 1


@dataclass(slots=True)
class Report:
    """All outcomes on one machine."""

    machine: dict[str, Any]
    mode: str
    """"short", "normal" or "full"."""
    outcomes: list[Outcome] = field(default_factory=list)
    planned: int = 0
    """Jobs of a complete run."""

    @property
    def is_complete(self) -> bool:
        return len(self.outcomes) >= self.planned

    @property
    def has_failed(self) -> bool:
        return any(o.status == "failed" for o in self.outcomes)

    @property
    def verdict(self) -> str:
        """One word for the whole."""
        if self.has_failed:
            return "failed"
        return "passed" if self.is_complete else "incomplete"

    def facts(self) -> dict[str, Fact]:
        """All facts by name."""
        return {f.name: f for o in self.outcomes for f in o.facts}

    def add(self, outcome: Outcome) -> None:
        """Add an outcome, in place of an older one of the same job."""
        self.outcomes = [o for o in self.outcomes if o.key != outcome.key] + [outcome]

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT, "verdict": self.verdict, "mode": self.mode, "planned": self.planned, "machine": self.machine,
            "outcomes": [asdict(o) for o in self.outcomes],
        }  # fmt: skip


def write(path: Path, text: str) -> None:
    """Replace a file in one step: who reads it sees the old or the new one."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def read(path: Path) -> Report | None:
    """The report of an earlier run, or None if there is none of this format."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return None
        return Report(data["machine"], data["mode"], [_outcome(o) for o in data["outcomes"]], data["planned"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _outcome(data: dict[str, Any]) -> Outcome:
    kinds = {"checks": Check, "facts": Fact, "points": Point}
    read_in: dict[str, Any] = {key: [kinds[key](**x) for x in value] if key in kinds else value for key, value in data.items()}
    return Outcome(**read_in)


def table(report: Report) -> str:
    """One line per job, and what is wrong or left out below."""
    lines = [f"{'stage':<62} {'result':<8} {'checks':>14} {'time':>8}"]
    for o in report.outcomes:
        counts = f"{o.count('passed')}" + (f" +{o.count('failed')} wrong" if o.count("failed") else "")
        lines.append(f"{o.title:<62} {o.status:<8} {counts:>14} {o.seconds:>7.1f}s")
    for o in report.outcomes:
        if o.status != "passed":
            lines.append(f"\n{o.title}: {o.status}: {o.why}")
            lines += [f"  {c.name}: {c.detail}" for c in o.checks if c.status == "failed"][:12]
            lines += [f"  | {line}" for line in o.last_lines]
    surprising = [f for f in report.facts().values() if f.expected is not None and f.value != f.expected]
    lines += [f"\nfact {f.name}: {f.value}{f.unit and ' ' + f.unit}, expected {f.expected}" for f in surprising]
    return "\n".join(lines)
