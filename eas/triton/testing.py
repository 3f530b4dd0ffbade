"""`triton.testing`: timing, comparing, and plots of both."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from eas.base.errors import ArgumentError


def do_bench(fn: Callable[[], Any], warmup: float = 25, rep: float = 100, grad_to_none: Any = None, quantiles: Sequence[float] | None = None, return_mode: str = "mean") -> Any:
    """Milliseconds that a call takes: the mean of many, or some of their quantiles; `warmup` and `rep` are milliseconds, too."""
    if return_mode not in ("min", "max", "mean", "median", "all"):
        raise ArgumentError(f"return_mode {return_mode!r}", hint="it is min, max, mean, median or all")
    _timed(fn, warmup, grad_to_none)
    return _summary(sorted(_timed(fn, rep, grad_to_none)), quantiles, return_mode)


def do_bench_cudagraph(fn: Callable[[], Any], rep: float = 20, grad_to_none: Any = None, quantiles: Sequence[float] | None = None, return_mode: str = "mean") -> Any:
    """The same: there are no CUDA graphs here."""
    return do_bench(fn, rep / 4, rep, grad_to_none, quantiles, return_mode)


def _timed(fn: Callable[[], Any], budget_ms: float, grad_to_none: Any) -> list[float]:
    """The times of calls that take so long together; at least one."""
    times: list[float] = []
    while not times or (sum(times) < budget_ms and len(times) < 100_000):
        for tensor in grad_to_none or ():
            tensor.grad = None
        start = time.perf_counter()
        fn()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def _summary(times: list[float], quantiles: Sequence[float] | None, mode: str) -> Any:
    if quantiles is not None:
        found = [_quantile(times, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    if mode == "all":
        return times
    return {"min": times[0], "max": times[-1], "mean": sum(times) / len(times), "median": _quantile(times, 0.5)}[mode]


def _quantile(ordered: list[float], q: float) -> float:
    """Between the two nearest of ordered numbers."""
    if not 0 <= q <= 1:
        raise ArgumentError(f"quantiles are between 0 and 1, got {q}")
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
