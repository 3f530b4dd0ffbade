"""What each optional step of the CPU schedule is worth: rows with and without it, interleaved in one run.

A row whose code a step does not change is not timed. Results are checked before anything is timed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.measure import Budget, interleave
from benchmarks.registry import Call, Workload, forget_outputs, wrong_by

MOVES = 0.05
"""The share of a row's time from which on a step counts."""


def run_ablation(rows: Sequence[Workload], steps: Sequence[str], budget: Budget) -> None:
    """Print, for every step, the rows that take more than 5 % longer or shorter without it."""
    unknown = [step for step in steps if step not in optional_steps()]
    if unknown:
        raise SystemExit(f"no optional step {', '.join(unknown)}; there are {', '.join(optional_steps())}")
    os.environ["EAS_CACHE"] = "0"  # code of earlier processes is not compiled, and so not seen
    moved: dict[str, list[str]] = {step: [] for step in steps}
    for row in rows:
        if row.self_timed:
            continue
        for step, ratio in ratios(row, steps, budget):
            print(f"{row.title}: without {step} {ratio:.2f}x", flush=True)
            if abs(ratio - 1) > MOVES:
                moved[step].append(f"{row.title} {ratio:.2f}")
    print("\n| step | rows that move by more than 5 % without it |\n|---|---|")
    for step, found in moved.items():
        print(f"| `{step}` | {', '.join(found) or '-'} |")


def optional_steps() -> list[str]:
    """The names of the steps that may be left out."""
    from eas.schedule.cpu_steps import CPU_STEPS

    return [step.name for step in CPU_STEPS if step.is_optional]


def ratios(row: Workload, steps: Sequence[str], budget: Budget) -> Iterator[tuple[str, float]]:
    """(step, time without it relative to the time with it) for the steps that change the row's code."""
    forget_outputs()
    inputs = row.make(np.random.default_rng(0))
    want = row.reference(*inputs) if row.reference is not None else None
    entry = next((e for e in row.entries if e.peer == "eas"), None)
    if entry is None:
        return
    whole, texts = _prepared(entry.prepare, inputs, "")
    for step in steps:
        part, other = _prepared(entry.prepare, inputs, step)
        if other == texts:
            continue
        got = part()
        if want is not None and wrong_by(got, want) > max(row.tolerance, 1e-5):
            raise SystemExit(f"{row.title} is wrong without {step}")
        times = interleave({"eas": whole, "without": part}, budget)
        yield step, times["without"].best / times["eas"].best


def _prepared(prepare: Callable[..., Call], inputs: tuple[Any, ...], step: str) -> tuple[Call, frozenset[str]]:
    """The row's call without a step, and what the code of its kernels is known by."""
    with _without(step), _generated() as texts:
        call = prepare(*inputs)
        call()

    def timed() -> Any:
        with _without(step):
            return call()

    return timed, frozenset(texts)


@contextmanager
def _without(step: str) -> Iterator[None]:
    before = os.environ.get("EAS_WITHOUT", "")
    os.environ["EAS_WITHOUT"] = step
    try:
        yield
    finally:
        os.environ["EAS_WITHOUT"] = before


@contextmanager
def _generated() -> Iterator[set[str]]:
    """Within the block the set learns the digest of each text that is generated."""
    from eas import lowering

    texts: set[str] = set()
    make = lowering.make_native

    def noted(*args: Any) -> Any:
        native = make(*args)
        texts.add(hashlib.sha256(native.llvm.encode()).hexdigest())
        return native

    lowering.make_native = noted
    try:
        yield texts
    finally:
        lowering.make_native = make
