"""Interleaved timing: everybody in turn, many short rounds, samples that had to wait for a core set aside.

Wall clock. On a machine that is never quiet the processor time of the busiest thread stands in for it.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.registry import Call

SAMPLE_SECONDS = 200e-6  # shorter calls are repeated inside one sample
SETTLE_SECONDS = 2e-3  # between turns: the scheduler forgives us
MOST_SETTLING = 0.3  # seconds: until workers of the last one park; those of OpenBLAS take 0.11, of libomp 0.2
SAMPLES_PER_TURN = 3
WARM_CALLS, WARM_SECONDS = 20, 20e-3  # before a call is measured: first calls compile, load, learn
QUIET = 0.03  # share of a sample that its threads may have waited for a core
ENOUGH = 3  # quiet samples that make a timing believable
FAR = 4.0  # who is this much slower than the best after some turns is not timed to the end
TURNS_BEFORE_FAR = 3


@dataclass(frozen=True)
class Budget:
    samples: int  # quiet ones that every participant should get
    seconds: float  # when to stop waiting for them


FULL = Budget(samples=30, seconds=25.0)
QUICK = Budget(samples=6, seconds=4.0)


@dataclass
class Timing:
    """Seconds per call of the samples of one participant."""

    repeats: int
    quiet: list[float] = field(default_factory=list)
    contended: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)  # processor time of the busiest thread

    @property
    def is_contended(self) -> bool:
        """Too few samples ran undisturbed; `best` is then an estimate."""
        return len(self.quiet) < ENOUGH

    @property
    def samples(self) -> list[float]:
        return self.quiet + self.contended if self.is_contended else self.quiet

    @property
    def best(self) -> float:
        """The fastest sample; of contended ones rather what its busiest thread computed."""
        return min(self.busy) if self.is_contended and self.busy else min(self.samples)

    @property
    def wall(self) -> float:
        """The fastest sample by the clock, whoever disturbed it."""
        return min(self.quiet + self.contended)

    @property
    def median(self) -> float:
        return float(np.median(self.samples))

    def as_json(self) -> dict[str, Any]:
        p10, p90 = np.percentile(self.samples, [10, 90])
        return {
            "min": self.best, "is_contended": self.is_contended, "wall_min": self.wall, "median": self.median, "p10": float(p10), "p90": float(p90),
            "quiet_samples": len(self.quiet), "contended_samples": len(self.contended), "calls_per_sample": self.repeats,
        }  # fmt: skip


def interleave(calls: dict[str, Call], budget: Budget) -> dict[str, Timing]:
    """Time all calls in turns until each has its samples or the time is over; the far slower leave early."""
    timings = {name: Timing(_repeats(call)) for name, call in calls.items()}
    end = time.perf_counter() + budget.seconds
    names, turns = list(calls), 0
    while names and (turns < TURNS_BEFORE_FAR or time.perf_counter() < end):
        for name in names:
            _settle()
            calls[name]()
            for _ in range(SAMPLES_PER_TURN):
                _sample(calls[name], timings[name])
        turns += 1
        names = [n for n in names if len(timings[n].quiet) < budget.samples]
        if turns >= TURNS_BEFORE_FAR:
            best = min(t.best for t in timings.values())
            names = [n for n in names if n == "eas" or timings[n].best < FAR * best]
        names = names[1:] + names[:1]  # nobody always follows the same neighbour
    return timings


def collect(calls: dict[str, Call], rounds: int) -> dict[str, Timing]:
    """The same for calls that return their own seconds, such as the start of a process."""
    timings = {name: Timing(1) for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            timings[name].quiet.append(call())
    return timings


def _repeats(call: Call) -> int:
    """Calls per sample, by the fastest of the first calls."""
    call()
    once, end = float("inf"), time.perf_counter() + WARM_SECONDS
    for _ in range(WARM_CALLS):
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        once = min(once, now - start)
        if now > end and once * WARM_CALLS > WARM_SECONDS:  # a single slow one may have compiled something
            break
    return max(1, int(SAMPLE_SECONDS / max(once, 1e-9)))


def _sample(call: Call, timing: Timing) -> None:
    before, cpu = _threads(), time.thread_time()
    start = time.perf_counter()
    for _ in range(timing.repeats):
        call()
    seconds = time.perf_counter() - start
    cpu, after = time.thread_time() - cpu, _threads()
    spent = {t: [now - then for now, then in zip(after[t], before.get(t, (0, 0)), strict=True)] for t in after}
    waited = sum(wait for _, wait in spent.values())
    (timing.quiet if waited <= QUIET * seconds else timing.contended).append(seconds / timing.repeats)
    if after:
        # The kernel brings the count of a running thread, which we are, up to date only at its ticks.
        others = [ran for t, (ran, _) in spent.items() if t != str(threading.get_native_id())]
        timing.busy.append(max(cpu, *others, 0.0) / timing.repeats)


def _settle() -> None:
    """Wait until no other thread of this process spins in wait for the next call of the last participant."""
    end, me = time.perf_counter() + MOST_SETTLING, str(threading.get_native_id())
    before = _threads()
    while True:
        time.sleep(SETTLE_SECONDS)
        after = _threads()
        ran = [now - before.get(t, (0.0, 0.0))[0] for t, (now, _) in after.items() if t != me]
        if max(ran, default=0.0) < SETTLE_SECONDS / 10 or time.perf_counter() > end:
            return
        before = after


def _threads() -> dict[str, tuple[float, float]]:
    """Seconds that each thread of this process has run, and has been ready to run; empty if unknown."""
    found = {}
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/schedstat") as f:
                ran, waited = f.read().split()[:2]
            found[task] = int(ran) / 1e9, int(waited) / 1e9
    except OSError:
        return {}
    return found
