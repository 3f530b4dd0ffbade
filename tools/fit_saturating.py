"""Fits the numbers of `Saturating` in eas/codegen/llvm/math/exp.py: `python tools/fit_saturating.py`.

An odd function f that is 1 from `end` on is written x * (slope + p(t) / q(t)) with t = x * x. The
constant terms are fixed, so that small x are right; the others follow from a least-squares fit of
p - (f / x - slope) q whose weights are moved until the relative error of f is the same everywhere.
Then both are divided by the last coefficient of q. What is left is the rounding in f32, which depends
on the digits: of many ends, that one is taken whose results are best and exactly 1 from there on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

ROUNDS = 60


class Fit(NamedTuple):
    end: np.float32
    slope: np.float32
    p: list[np.float32]
    q: list[np.float32]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """As the generated code does it; a product of two f32 is exact in f64."""
        x = np.clip(x, -self.end, self.end)
        t = x * x
        sides = []
        for coefficients in (self.p, self.q):
            value = np.full_like(t, coefficients[-1])
            for c in reversed(coefficients[:-1]):
                value = (value.astype(np.float64) * t + c).astype(np.float32)
            sides.append(value)
        return x * (sides[0] / sides[1] + self.slope)


def fit(f: Callable[[float], float], slope_at_0: float, end: float, degree: int) -> Fit:
    """p and q of one degree for f, which is 1 from `end` on."""
    end = float(np.float32(end))
    slope = float(np.float32(f(end) / end))
    x = (np.cos(np.linspace(0, math.pi, 1000)) + 1) / 2 * end
    x = x[x > 1e-3]
    t = (x / end) ** 2
    whole = np.array([f(v) / v for v in x])
    rest, first = whole - slope, slope_at_0 - slope
    columns = [t**i for i in range(1, degree + 1)] + [-rest * t**j for j in range(1, degree + 1)]
    weights, q_at = np.ones_like(x), np.ones_like(x)
    best, least = (np.array([first]), np.array([1.0])), math.inf
    for _ in range(ROUNDS):
        scale = np.sqrt(weights) / (whole * q_at)
        found = np.linalg.lstsq(np.stack(columns, 1) * scale[:, None], (rest - first) * scale, rcond=1e-16)[0]
        p, q = np.r_[first, found[:degree]], np.r_[1.0, found[degree:]]
        q_at = np.polyval(q[::-1], t)
        error = np.abs((np.polyval(p[::-1], t) / q_at - rest) / whole)
        if error.max() < least:
            best, least = (p, q), error.max()
        weights *= np.sqrt(error / error.max() + 1e-3)
        weights /= weights.sum()
    p, q = ([c / end ** (2 * i) for i, c in enumerate(side)] for side in best)
    return Fit(np.float32(end), np.float32(slope), [np.float32(c / q[-1]) for c in p], [np.float32(c / q[-1]) for c in q])


def best_fit(f: Callable[[float], float], slope_at_0: float, ends: np.ndarray, degree: int) -> str:
    """The numbers with the least greatest error, and that error in units of the last place."""
    rng, top = np.random.default_rng(1), ends[-1] * 1.1
    x = np.concatenate([np.exp(rng.uniform(math.log(1e-6), math.log(top), 150_000)), rng.uniform(0, top, 300_000)]).astype(np.float32)
    want = np.array([f(float(v)) for v in x])
    unit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    best, least = None, math.inf
    for end in ends:
        one = fit(f, slope_at_0, end, degree)
        got = one(x)
        error = (np.abs(got - want) / unit).max()
        if got.max() <= 1 and one(np.array([np.inf], np.float32))[0] == 1 and error < least:
            best, least = one, error
    return f"{best}, within {least:.2f} ulp"


if __name__ == "__main__":
    print("TANH", best_fit(math.tanh, 1.0, np.linspace(8.4, 9.08, 600), 4))
    print("ERF ", best_fit(math.erf, 2 / math.sqrt(math.pi), np.linspace(3.8, 3.95, 400), 5))
