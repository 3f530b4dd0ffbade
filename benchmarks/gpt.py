"""Rows: one step of training of the small GPT of `examples/gpt.py`, with eas operators and without."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.registry import Bar, Call, Workload

BATCH = 8
CHECKED_STEPS = 6  # whose losses must be those of eager torch


def workloads() -> list[Workload]:
    return [gpt_step(), compiled_gpt_step()]


def row(name: str, bar: Bar) -> Workload:
    from_seed = "4 layers, 256 wide, vocabulary 512, batch 8x128"
    return Workload(name, from_seed, bar, reference=lambda: losses("TorchOps"), tolerance=1e-4)


def gpt_step() -> Workload:
    """The network as users run it; the bar is eager torch."""
    w = row("gpt_step", Bar(ratio=1.0))
    w.entry("eas", allocates=True)(lambda: step("EasOps"))
    w.entry("torch", allocates=True)(lambda: step("TorchOps"))
    return w


def compiled_gpt_step() -> Workload:
    """Both through torch.compile(fullgraph=True), which needs a C++ compiler."""
    w = row("gpt_step_compiled", Bar())
    w.entry("eas", allocates=True)(lambda: step("EasOps", compiled=True))
    w.entry("torch.compile", allocates=True)(lambda: step("TorchOps", compiled=True))
    return w


def training(ops: str, compiled: bool) -> tuple[Any, Any]:
    """The network after the steps whose losses are checked, and its data."""
    from examples import gpt

    data = gpt.batches(gpt.SIZES, BATCH)
    made = gpt.Training(getattr(gpt, ops), compiled=compiled)
    for _ in range(CHECKED_STEPS):
        made.step(*next(data))
    return made, data


def losses(ops: str) -> Any:
    from benchmarks.torch_peer import torch

    with torch.enable_grad():
        return np.array(training(ops, compiled=False)[0].losses)


def step(ops: str, *, compiled: bool = False) -> Call:
    from benchmarks.torch_peer import torch

    with torch.enable_grad():
        made, data = training(ops, compiled)
    curve, batch = np.array(made.losses), next(data)

    def call() -> Any:
        with torch.enable_grad():
            made.step(*batch)
        return curve

    return call
