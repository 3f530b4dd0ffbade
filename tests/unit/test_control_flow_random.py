"""Random kernels with runtime control flow give what plain Python gives, with and without optimisation."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.unit.plain_hooks import load_source
from tests.unit.random_control_flow import SIZE, PlainMk, RandomKernel, inputs

GRID = 3
COUNT, QUICK = 100, 40


def run_plain(source, x, z, n, s):
    y = np.zeros(SIZE, np.float32)
    for pid in range(GRID):
        load_source(source, mk=PlainMk(pid))["kernel"](x, z, y, n, s)
    return y


@pytest.mark.parametrize(
    "first", [pytest.param(n, marks=[pytest.mark.slow] if n >= QUICK else []) for n in range(0, COUNT, 20)]
)
def test_random_kernels(first, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    monkeypatch.setenv("EAS_VERIFY", "0")  # as much time again; the passes have their own tests
    for seed in range(first, first + 20):
        source = RandomKernel(seed).source()
        kernel = eas.kernel(load_source(source, mk=mk)["kernel"])
        x, z = inputs(seed)
        for n, s in [(0, 0.5), (3, -1.25)]:
            want = run_plain(source, x, z, n, s)
            for noopt in "01":
                monkeypatch.setenv("EAS_NOOPT", noopt)
                y = np.zeros(SIZE, np.float32)
                kernel(x, z, y, n, s, _grid=GRID)
                assert y.tolist() == want.tolist(), f"seed {seed} n {n} s {s} noopt {noopt}\n{source}"
