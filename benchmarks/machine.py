"""The machine: what it is, and what it can do at best (STREAM triad, fused multiply-add)."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import baselines
from benchmarks.measure import Budget, interleave
from benchmarks.peers import BUILD, versions
from benchmarks.registry import Workload

TRIAD_ELEMENTS = 1 << 24  # 192 MiB in three arrays: beyond any cache
FMA_ITERATIONS = 1_000_000  # about 2 ms: waking a thread must not count


@dataclass(frozen=True)
class Limits:
    gbytes_per_s: float
    gflops: float
    source: str  # which probe measured them

    def seconds(self, w: Workload) -> float | None:
        """The least time that a row could take, or None if it has no such limit."""
        least = max(w.nbytes / (self.gbytes_per_s * 1e9), w.flops / (self.gflops * 1e9))
        return least or None


def c_probe(budget: Budget) -> Limits:
    """The limits as our C reaches them; by the clock, since memory is shared with other processes."""
    a, b, c = (np.ones(TRIAD_ELEMENTS, np.float32) for _ in range(3))
    sink = np.zeros(1, np.float32)
    flops = baselines.bind("fma_peak", FMA_ITERATIONS, sink)()
    timings = interleave(
        {
            "triad": baselines.bind("triad", a, b, c, 2.0, TRIAD_ELEMENTS),
            "fma": baselines.bind("fma_peak", FMA_ITERATIONS, sink),
        },
        budget,
    )
    return Limits(12 * TRIAD_ELEMENTS / timings["triad"].wall / 1e9, flops / timings["fma"].wall / 1e9, "c")


# A probe through our own LLVM path goes here, first: the first one that can run is used.
PROBES: dict[str, tuple[Callable[[], str | None], Callable[[Budget], Limits]]] = {
    "c": (baselines.why_unavailable, c_probe),
}


def measure_limits(budget: Budget, threads: int) -> Limits | None:
    """The best that was ever measured here: a limit is a fact of the machine, a busy hour is not."""
    for why_unavailable, probe in PROBES.values():
        if why_unavailable() is None:
            return _best_ever(probe(budget), threads)
    return None


def _best_ever(now: Limits, threads: int) -> Limits:
    name = f"limits-{now.source}-{threads}-{platform.node()}-{chip()}".replace(" ", "_").replace("/", "_")
    path = BUILD / f"{name}.json"
    if path.exists():
        old = Limits(**json.loads(path.read_text()))
        now = Limits(max(now.gbytes_per_s, old.gbytes_per_s), max(now.gflops, old.gflops), now.source)
    BUILD.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(now)))
    return now


def describe(threads: int, limits: Limits | None) -> dict[str, Any]:
    """What a reader needs to know to believe, or repeat, the numbers."""
    return {
        "chip": chip(),
        "os": platform.platform(),
        "python": platform.python_version(),
        "commit": commit(),
        "threads": threads,
        "power_state": "unknown",
        "versions": versions(),
        "limits": asdict(limits) if limits else None,
    }


def chip() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
