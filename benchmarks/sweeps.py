"""eas against itself: no block size or tile falls off a cliff, and the second thread pays."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import Budget, interleave
from benchmarks.registry import Call, show_time
from eas import lib

BLOCKS = [64 << i for i in range(8)]  # 64 .. 8192
TILES = [32, 64, 96, 128]


@dataclass(frozen=True)
class Sweep:
    title: str
    bar: float  # the slowest may take this many times the fastest
    calls: dict[str, Call]


def run_sweeps(budget: Budget, threads: int) -> str:
    """One paragraph per sweep."""
    lines = []
    for sweep in (add_blocks(), softmax_blocks(), matmul_tiles()):
        seconds = {label: t.best for label, t in interleave(sweep.calls, budget).items()}
        best = min(seconds.values())
        worst = max(seconds.values()) / best
        lines.append(f"{sweep.title}: slowest {worst:.2f}x of fastest, bar <={sweep.bar:.2f}x  {'PASS' if worst <= sweep.bar else 'FAIL'}")
        lines += [f"  {label:>6}  {show_time(s):>9}  {s / best:5.2f}x" for label, s in seconds.items()]
    for title, call in compute_bound().items():
        seconds = {n: t.best for n, t in interleave({str(n): with_threads(n, call) for n in (1, threads)}, budget).items()}
        gain, bar = seconds["1"] / seconds[str(threads)], 0.9 * threads
        lines.append(f"{title}: {threads} threads {gain:.2f}x as fast as one, bar >={bar:.2f}x  {'PASS' if gain >= bar else 'FAIL'}")
    return "\n".join(lines)


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def labelled(sizes: list[int], bind: Callable[[int], Call]) -> dict[str, Call]:
    return {str(size): bind(size) for size in sizes}


def add_blocks() -> Sweep:
    x, y = normal(2, 1 << 24)
    out = np.empty_like(x)
    return Sweep("add 2^24 over BLOCK", 1.5, labelled(BLOCKS, lambda block: lambda: lib.add(x, y, out, block=block)))


def softmax_blocks() -> Sweep:
    x = normal(4096, 1024)
    out = np.empty_like(x)
    return Sweep("softmax 4096x1024 over BLOCK", 1.5, labelled(BLOCKS, lambda block: lambda: lib.softmax(x, out, block=block)))


def matmul_tiles() -> Sweep:
    a, b = normal(2, 1024, 1024)
    out = np.empty_like(a)
    return Sweep("matmul 1024^3 over tiles", 1.25, labelled(TILES, lambda t: lambda: lib.matmul(a, b, out, tiles=(t, t, 32))))


def compute_bound() -> dict[str, Call]:
    """The rows of the benchmarks that are limited by arithmetic."""
    a, b = normal(2, 1024, 1024)
    q, k, v = normal(3, 8, 1024, 64)
    x = normal(4096, 1024)
    product, small, rows = np.empty_like(a), np.empty((512, 512), np.float32), np.empty_like(x)
    halves = [np.ascontiguousarray(m[:512, :512]) for m in (a, b)]
    return {
        "matmul 1024^3": lambda: lib.matmul(a, b, product),
        "matmul 512^3": lambda: lib.matmul(*halves, small),
        "attention h8 N1024 D64": lambda: lib.attention(q, k, v),
        "softmax 4096x1024": lambda: lib.softmax(x, rows),
        "gelu 2^22": lambda: lib.gelu(x, out=rows),
    }


def with_threads(n: int, call: Call) -> Call:
    """eas reads its number of threads at each launch."""

    def run() -> Any:
        os.environ["EAS_NUM_THREADS"] = str(n)
        return call()

    return run
