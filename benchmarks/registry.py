"""What a benchmark row is: inputs, the right answer, who takes part, and the bar that eas must reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

Call = Callable[[], Any]  # one timed run; returns the answer, or its own seconds if self-timed

GROUPS = ("elementwise", "rows", "reductions", "matmul", "convolution", "attention", "transpose", "gpt", "held", "lazy", "user_loops", "start_up")


@dataclass(frozen=True)
class Bar:
    """What eas must reach: a ratio to the best peer, or a time of its own."""

    ratio: float | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        if self.ratio is not None:
            return f"<={self.ratio:.2f}x"
        return f"<{show_time(self.seconds)}" if self.seconds is not None else "-"

    def passes(self, seconds: float, best: float | None) -> bool | None:
        """None if there is nothing to compare with."""
        if self.seconds is not None:
            return seconds < self.seconds
        return None if self.ratio is None or best is None else seconds <= self.ratio * best


@dataclass(frozen=True)
class Entry:
    """One participant: `prepare(*inputs)` returns the call that is timed."""

    peer: str
    prepare: Callable[..., Call]
    allocates: bool  # its API gives no way to pass the output memory


@dataclass
class Workload:
    name: str
    size: str
    bar: Bar
    make: Callable[[np.random.Generator], tuple[Any, ...]] = lambda rng: ()
    reference: Callable[..., Any] | None = None
    tolerance: float = 1e-5  # of the largest magnitude in the answer; 0 is exact
    nbytes: float = 0  # least traffic to and from memory
    flops: float = 0
    self_timed: bool = False
    entries: list[Entry] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.name} {self.size}"

    def entry(self, peer: str, *, allocates: bool = False) -> Callable[[Callable[..., Call]], None]:
        """Decorates the function that prepares a participant."""
        return lambda prepare: self.entries.append(Entry(peer, prepare, allocates))


_outputs: dict[tuple[tuple[int, ...], np.dtype[Any]], np.ndarray] = {}


def output(shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Memory for an answer, the same for all participants of a row: pages that are slow are nobody's bad luck."""
    key = (shape,) if isinstance(shape, int) else tuple(shape), np.dtype(dtype)
    if key not in _outputs:
        _outputs[key] = np.empty(*key)
    return _outputs[key]


def output_like(x: np.ndarray) -> np.ndarray:
    """Memory for an answer of the shape and dtype of x."""
    return output(x.shape, x.dtype)


def forget_outputs() -> None:
    """Before a row: its outputs are its own."""
    _outputs.clear()


def spoil_outputs() -> None:
    """Before a participant: the answers of the one before it are gone."""
    for out in _outputs.values():
        out.view(np.uint8)[...] = 0xA5


def workloads(names: list[str] | None = None) -> list[Workload]:
    """Every row, or those whose name or title starts with one of the names."""
    rows = [w for group in GROUPS for w in import_module(f"benchmarks.{group}").workloads()]
    return [w for w in rows if not names or any(w.title.startswith(n) or w.name == n for n in names)]


def wrong_by(answer: Any, want: Any) -> float:
    """Largest error relative to the largest magnitude of the right answer; masked elements may be anything."""
    matters = ~np.ma.getmaskarray(want) if isinstance(want, np.ma.MaskedArray) else ...
    got, want = np.asarray(answer, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape:
        return float("inf")
    got, want = got[matters], want[matters]
    error = np.abs(got - want).max(initial=0.0) / max(np.abs(want).max(initial=0.0), 1e-30)
    return float(error) if np.isfinite(error) else float("inf")


def show_time(seconds: float) -> str:
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
