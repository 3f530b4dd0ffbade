"""`python -m eas demo`: one kernel on this machine, its speed beside NumPy's, its Metal text, one error."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import eas
from eas import mk

ROWS, COLS = 4096, 1000


@eas.kernel
def softmax(x, y, BLOCK: eas.constexpr):  # type: ignore[no-untyped-def]
    row, cols = mk.program_id(0), mk.arange(0, BLOCK)
    mask = cols < x.shape[1]
    values = mk.load(x, row * x.shape[1] + cols, mask, other=-float("inf"))
    exps = mk.exp(values - mk.max(values))
    mk.store(y, row * x.shape[1] + cols, exps / mk.sum(exps), mask)


@eas.kernel
def forgetful(x, y, BLOCK: eas.constexpr):  # type: ignore[no-untyped-def]
    i = mk.arange(0, BLOCK)
    mk.store(y, mk.exp(mk.load(x, i)))


SOURCE = """@eas.kernel
def softmax(x, y, BLOCK: eas.constexpr):
    row, cols = mk.program_id(0), mk.arange(0, BLOCK)
    mask = cols < x.shape[1]
    values = mk.load(x, row * x.shape[1] + cols, mask, other=-float("inf"))
    exps = mk.exp(values - mk.max(values))
    mk.store(y, row * x.shape[1] + cols, exps / mk.sum(exps), mask)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(options: argparse.Namespace) -> int:
    """Show what eas does, in a few seconds; 1 if a number is wrong."""
    x = np.random.default_rng(0).standard_normal((ROWS, COLS), dtype=np.float32)
    y = np.empty_like(x)
    print(f"A kernel is a Python function:\n\n{SOURCE}")
    start = time.perf_counter()
    softmax[ROWS](x, y, BLOCK=1024)
    first = time.perf_counter() - start
    error = float(np.abs(y - _reference(x)).max())
    ours, numpys = _best(lambda: softmax[ROWS](x, y, BLOCK=1024)), _best(lambda: _reference(x))
    backend = eas.runtime.get_runtime().name
    print(f"softmax of {ROWS} x {COLS} on {backend}: first call {first * 1e3:.0f} ms, then {ours * 1e3:.2f} ms; NumPy {numpys * 1e3:.2f} ms ({numpys / ours:.1f}x)")
    print(f"largest error against NumPy: {error:.2g}\n")
    text = softmax.to_msl(x, y, BLOCK=1024)
    print(f"The same kernel for Apple GPUs ({len(text.splitlines())} lines of Metal, kernel.to_msl(...)):\n")
    print("\n".join(f"    {line}" for line in text[text.index("kernel void") :].splitlines()[:8]), "\n    ...\n")
    print("And what a mistake looks like:\n")
    try:
        forgetful(x, y, BLOCK=8)
    except eas.EasError as mistake:
        print("\n".join(f"    {line}" for line in f"eas.{type(mistake).__name__}: {mistake}".splitlines()))
    print("\nNext: python -m eas doctor, python -m eas show file.py:kernel, python -m eas bench file.py:kernel; examples are in eas.examples.")
    return int(not error < 1e-5)


def _reference(x: Any) -> Any:
    exps = np.exp(x - x.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


def _best(work: Callable[[], Any], rounds: int = 7) -> float:
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)
