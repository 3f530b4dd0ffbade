"""Where lanes are done one by one: few atomics in a loop, narrow elements under a mask where the target has no instruction for them."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import walk
from eas.schedule.target import AVX2, AVX512, MOST_UPDATES, NEON, SSE
from tests.unit.fixed_target import scheduled

TARGETS = pytest.mark.parametrize("target", [SSE, AVX2, AVX512, NEON], ids=lambda t: t.name)


@eas.kernel
def bins_kernel(x, bins, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.atomic_add(bins, mk.load(x, i, i < n, 0), 1, i < n)


@eas.kernel
def histogram_kernel(x, out, n, BLOCK: mk.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(out, mk.arange(0, 4096), mk.histogram(mk.load(x, i, i < n, 0), 4096, mask=i < n))


@eas.kernel
def row_sums_kernel(x, out, n, BLOCK: mk.constexpr):
    row, c = mk.program_id(0), mk.arange(0, BLOCK)
    mk.store(out, row, mk.sum(mk.load(x, row * n + c, c < n).to(mk.i32)))


def loops_with(module, *names):
    return [i for i in walk(module.body) if i.op.name == "loop" and any(j.op.name in names for j in walk(i.regions[0]))]


@TARGETS
@pytest.mark.parametrize(("kernel", "op"), [(bins_kernel, "atomic_add"), (histogram_kernel, "count")])
def test_few_lanes_change_memory_one_by_one(target, kernel, op):
    """Processors lose track of many such instructions in one loop."""
    module = scheduled(kernel, np.zeros(1024, np.int32), np.zeros(4096, np.int32), 1000, target=target, BLOCK=1024)
    loops = loops_with(module, op)
    assert loops
    assert all(loop["lanes"] <= MOST_UPDATES for loop in loops)


@TARGETS
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32])
def test_masked_elements_are_vectors_where_that_is_one_instruction(target, dtype):
    module = scheduled(row_sums_kernel, np.zeros(1000, dtype), np.zeros(10, np.int32), 100, target=target, BLOCK=128)
    has_single_elements = any(loop["lanes"] == 1 for loop in loops_with(module, "load", "vload"))
    assert has_single_elements == (target in (SSE, NEON) or (target is AVX2 and dtype is not np.int32))
