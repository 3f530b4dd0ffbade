"""Runs one row: prepares everybody, checks the answers, times those that are right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.machine import Limits
from benchmarks.measure import Budget, Timing, collect, interleave
from benchmarks.registry import Call, Entry, Workload, forget_outputs, spoil_outputs, wrong_by


@dataclass
class Row:
    """What came out of one workload; ratios are of the fastest samples."""

    workload: Workload
    timings: dict[str, Timing]
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def best_peer(self) -> str | None:
        peers = [p for p in self.timings if p != "eas"]
        return min(peers, key=lambda p: self.timings[p].best, default=None)

    @property
    def best_seconds(self) -> float | None:
        return self.timings[self.best_peer].best if self.best_peer else None

    @property
    def verdict(self) -> str:
        if "eas" in self.failures:
            return "FAIL"
        if "eas" not in self.timings:
            return "-"
        passes = self.workload.bar.passes(self.timings["eas"].best, self.best_seconds)
        if passes is None:
            return "-"
        return ("PASS" if passes else "FAIL") + ("?" if self.is_unclear else "")

    @property
    def is_unclear(self) -> bool:
        """The machine was busy: one side of the comparison is only an upper bound."""
        sides = {"eas", self.best_peer} if self.workload.bar.ratio is not None else {"eas"}
        return any(self.timings[s].is_contended for s in sides if s in self.timings)

    def ratio(self, peer: str) -> float | None:
        """Time relative to the best peer."""
        return self.timings[peer].best / self.best_seconds if self.best_seconds else None

    def as_json(self, limits: Limits | None) -> dict[str, Any]:
        w = self.workload
        allocates = {e.peer: e.allocates for e in w.entries}
        return {
            "name": w.name, "size": w.size, "bar": str(w.bar), "verdict": self.verdict, "nbytes": w.nbytes, "flops": w.flops,
            "limit_seconds": limits.seconds(w) if limits else None, "best_peer": self.best_peer,
            "participants": {p: {**t.as_json(), "ratio": self.ratio(p), "allocates": allocates[p]} for p, t in self.timings.items()},
            "failures": self.failures,
        }  # fmt: skip


def run(w: Workload, peers: list[str], budget: Budget) -> Row:
    """Everybody in `peers` who knows this row; a participant that fails is recorded, not fatal."""
    entries = [e for e in w.entries if e.peer in peers]
    forget_outputs()
    inputs = w.make(np.random.default_rng(0))
    want = w.reference(*inputs) if w.reference is not None and entries else None
    calls: dict[str, Call] = {}
    failures: dict[str, str] = {}
    for entry in entries:
        try:
            calls[entry.peer] = _checked(w, entry, inputs, want)
        except Exception as error:  # any library may fail in its own way; the others still count
            failures[entry.peer] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    timings = collect(calls, 3 if budget.seconds < 10 else 7) if w.self_timed else interleave(calls, budget)
    return Row(w, timings, failures)


def _checked(w: Workload, entry: Entry, inputs: tuple[Any, ...], want: Any) -> Call:
    """The participant's call, after its answer was right twice."""
    call = entry.prepare(*inputs)
    spoil_outputs()
    if want is None:
        return call
    for _ in range(2):  # a kernel that accumulates into its output is right only once
        error = wrong_by(call(), want)
        if error > w.tolerance:
            raise ValueError(f"wrong answer: off by {error:.3g}, {w.tolerance:.3g} allowed")
    return call
