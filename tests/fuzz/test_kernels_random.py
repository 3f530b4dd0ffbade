"""Random thread-mode kernels and random control flow: every backend does what single threads and plain Python do."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.compiler import NO_FACTS, Variant
from eas.ir import verify
from eas.ir.text import parse_module
from eas.passes import optimise
from eas.runtime import get_runtime
from tests.unit.plain_hooks import load_source
from tests.unit.random_control_flow import SIZE, PlainMk, RandomKernel, inputs
from tests.unit.thread_harness import both, i32
from tests.unit.thread_kernels import BINS, INPUT, SHARED, SLOTS, random_kernel

PROGRAMS = 2


@pytest.fixture(autouse=True)
def _sanitized(monkeypatch):
    monkeypatch.setenv("EAS_SANITIZE", "1")


def check_threads(seed: int, backend: str) -> None:
    """One thread-mode kernel without races, before or after the passes, as its threads would run it."""
    module = verify(parse_module(random_kernel(seed, one_writer=True)))
    rng = np.random.default_rng(seed)
    x = rng.integers(-20, 50, INPUT).astype(np.int32)
    args = [x, i32(PROGRAMS * module.attr("threads") * SLOTS), i32(BINS), i32(PROGRAMS * SHARED), *map(int, rng.integers(-5, 30, 2))]
    want = both(module, args, PROGRAMS)
    given = module if seed % 2 else optimise(module)
    got = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    get_runtime(backend).run(Variant(module.name, given, NO_FACTS), got, (PROGRAMS, 1, 1))
    for arg, ours, theirs in zip(module.args, got, want, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=arg.name)


@pytest.mark.parametrize("seed", range(32))
def test_random_threads(seed, backend):
    check_threads(seed, backend)


def check_control_flow(seed: int) -> None:
    """One program, whose stores would race with those of others."""
    source = RandomKernel(seed).source()
    kernel = eas.kernel(load_source(source, mk=mk)["kernel"])
    x, z = inputs(seed)
    n, s = (0, 0.5) if seed % 4 == 0 else (3, -1.25)
    want, y = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    load_source(source, mk=PlainMk(0))["kernel"](x, z, want, n, s)
    kernel(x, z, y, n, s, _grid=1)
    assert y.tolist() == want.tolist(), source


@pytest.mark.parametrize("seed", range(20))
def test_random_control_flow(seed, backend, monkeypatch):
    monkeypatch.setenv("EAS_NOOPT", str(seed % 2))
    check_control_flow(seed)
