"""Random thread-mode kernels: divergence, barriers, simd ops, atomics, threadgroup memory."""

from __future__ import annotations

import numpy as np
import pytest

from eas.ir import verify
from eas.ir.text import parse_module
from tests.unit.thread_harness import both, i32
from tests.unit.thread_kernels import BINS, INPUT, SHARED, SLOTS, random_kernel


@pytest.mark.parametrize("seed", range(60))
def test_random_kernel_runs_as_its_threads_would(seed):
    module = verify(parse_module(random_kernel(seed)))
    rng = np.random.default_rng(seed)
    cells = 2 * module.attr("threads") * SLOTS
    x = rng.integers(-20, 50, INPUT).astype(np.int32)
    both(
        module,
        [x, i32(cells), i32(BINS), i32(2 * SHARED), *map(int, rng.integers(-5, 30, 2))],
        programs=2,
    )
