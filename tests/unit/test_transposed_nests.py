"""A block that is only read transposed is turned in registers while it is made."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import constexpr, mk
from eas.base.facts import Fact
from eas.ir import walk
from eas.schedule.cpu_steps import schedule
from eas.schedule.target import AVX2, AVX512, NEON


@eas.kernel
def transpose(x, y, M, N, BM: constexpr, BN: constexpr):
    rows, cols = mk.arange(0, BM), mk.arange(0, BN)
    values = mk.load(x, rows[:, None] * N + cols[None, :], (rows[:, None] < M) & (cols[None, :] < N))
    mk.store(y, cols[:, None] * M + rows[None, :], mk.trans(values), (cols[:, None] < N) & (rows[None, :] < M))


@eas.kernel
def symmetric(x, y, M, N, BM: constexpr, BN: constexpr):
    rows, cols = mk.arange(0, BM), mk.arange(0, BN)
    values = mk.load(x, rows[:, None] * N + cols[None, :])
    mk.store(y, cols[:, None] * M + rows[None, :], mk.trans(values) + values)


def ops_of(kernel, target, tile=(32, 32), dtype=np.float32):
    x = np.zeros((32, 32), dtype)
    compiled = kernel.compile(x, np.zeros_like(x), 32, 32, BM=tile[0], BN=tile[1])
    module = schedule(compiled.variant(frozenset([Fact("disjoint")])).module, target)
    return [inst for inst in walk(module.body) if inst.op.name in ("vtranspose", "relayout", "scratch")]


@pytest.mark.parametrize(("target", "edge"), [(AVX2, 8), (AVX512, 16), (NEON, 4)], ids=lambda t: getattr(t, "name", ""))
def test_squares_are_as_large_as_a_register(target, edge):
    scratch, *rest = ops_of(transpose, target)
    assert {(inst.op.name, len(inst.outs)) for inst in rest} == {("vtranspose", edge)}
    assert scratch["size"] == 32 * (32 + 16), "rows are one line further apart"


def test_one_block_of_scratch_is_enough():
    assert [i.op.name for i in ops_of(transpose, AVX2, dtype=np.float16)].count("scratch") == 1


def test_a_block_without_whole_squares_is_kept_as_it_is():
    assert not [i for i in ops_of(transpose, AVX2, (32, 12)) if i.op.name == "vtranspose"]


def test_a_block_that_is_read_both_ways_is_kept_as_it_is():
    assert [i.op.name for i in ops_of(symmetric, AVX2)] == ["scratch", "scratch", "relayout"]
