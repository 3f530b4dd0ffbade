"""Random modules: a backend that runs lanes and programs in order leaves what the interpreter leaves in memory.

Lanes and programs collide here on purpose; see `test_programs_random` for the others.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

from eas.base.dtypes import f16, f32, f64
from eas.compiler import NO_FACTS, Variant
from eas.passes import optimise
from eas.runtime import get_runtime
from eas.runtime.interp import execute
from eas.testing import ulp_distance
from tests.backend.launches import METAL
from tests.fuzz.random_ir import RandomKernel

SEEDS = range(100)
GRID = (2, 1, 1)


def judged(module, args):
    args = copy.deepcopy(args)
    execute(module, args, GRID, lambda line: None)
    return [a for a in args if isinstance(a, np.ndarray)]


@pytest.mark.left_out(lambda backend: backend in METAL)  # lanes that collide are a race there; test_programs_random.py has none
@pytest.mark.parametrize("seed", SEEDS)
def test_backend_agrees_with_the_interpreter(seed, backend, monkeypatch):
    monkeypatch.setenv("EAS_NUM_THREADS", "1")  # two threads run programs in any order
    kernel = RandomKernel(seed)
    module = kernel.module()
    given = kernel.arguments()
    want = judged(module, given)
    for variant in (module, optimise(module)):
        args = copy.deepcopy(given)
        get_runtime(backend).run(Variant(module.name, variant, NO_FACTS), args, GRID)
        for got, expected in zip([a for a in args if isinstance(a, np.ndarray)], want, strict=True):
            if got.dtype.kind == "f":
                distance = ulp_distance(got, expected, {4: f32, 8: f64, 2: f16}[got.dtype.itemsize])
                assert distance.max(initial=0) <= 64, (got, expected)
            else:
                np.testing.assert_array_equal(got, expected)
