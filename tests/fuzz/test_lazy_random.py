"""Random graphs of lazy tensors equal NumPy: through kernels, and through NumPy's own path for small arrays."""

from __future__ import annotations

import pytest

from eas.lazy import realise
from tests.fuzz.lazy_graphs import run


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_equal_numpy(backend, seed, monkeypatch):
    monkeypatch.setattr(realise, "HOT", 0)
    run(seed if backend != "sim" else seed + 100, 10 if backend != "sim" else 5)


@pytest.mark.parametrize("seed", range(200, 220))
def test_random_small_graphs_equal_numpy_before_they_are_hot(seed, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setattr(realise, "HOT", 1 << 30)
    run(seed)
