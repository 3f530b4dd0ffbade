"""Fits the numbers of `Saturating` in eas/codegen/vector_math_exp.py: `python tools/fit_saturating.py`.

An odd function f that is 1 from `end` on is written x * (slope + p(t) / q(t)) with t = x * x. The
constant terms are fixed, so that small x are right; the others follow from a least-squares fit of
p - (f / x - slope) q whose weights are moved until the relative error of f is the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

ROUNDS = 80


def fit(f: Callable[[float], float], slope_at_0: float, end: float, m: int, n: int) -> str:
    """The text of a `Saturating` with p of degree m and q of degree n."""
    end = float(np.float32(end))
    slope = float(np.float32(f(end) / end))
    x = (np.cos(np.linspace(0, math.pi, 3000)) + 1) / 2 * end
    x = x[x > 1e-3]
    t = (x / end) ** 2
    whole = np.array([f(v) / v for v in x])
    rest, first = whole - slope, slope_at_0 - slope
    columns = [t**i for i in range(1, m + 1)] + [-rest * t**j for j in range(1, n + 1)]
    weights, q_at = np.ones_like(x), np.ones_like(x)
    best, least = (np.array([first]), np.array([1.0])), math.inf
    for _ in range(ROUNDS):
        scale = np.sqrt(weights) / (whole * q_at)
        found = np.linalg.lstsq(np.stack(columns, 1) * scale[:, None], (rest - first) * scale, rcond=1e-16)[0]
        p, q = np.r_[first, found[:m]], np.r_[1.0, found[m:]]
        q_at = np.polyval(q[::-1], t)
        error = np.abs((np.polyval(p[::-1], t) / q_at - rest) / whole)
        if error.max() < least:
            best, least = (p, q), error.max()
        weights *= np.sqrt(error / error.max() + 1e-3)
        weights /= weights.sum()
    p32, q32 = ([np.float32(c / end ** (2 * i)) for i, c in enumerate(side)] for side in best)
    shown = [f"({', '.join(map(str, side))})" for side in (p32, q32)]
    return f"end {end:.7g}, slope {np.float32(slope)}, p {shown[0]}, q {shown[1]}; relative error {least:.1e}"


if __name__ == "__main__":
    print("TANH", fit(math.tanh, 1.0, 8.96, 4, 4))
    print("ERF ", fit(math.erf, 2 / math.sqrt(math.pi), 3.925, 5, 5))
