"""Which loops become contractions, and with which bounds."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.ir import walk
from eas.lib.linear import linear_kernel
from eas.lib.matmul import matmul_kernel
from eas.schedule.cpu_steps import prepared
from eas.schedule.rewrite.contractions import contract_loops
from eas.schedule.target import AVX2

X = np.zeros((64, 64), np.float32)
TILES = {"BM": 32, "BN": 32, "BK": 16}


def contracted(kernel, *args, **meta):
    module = prepared(kernel.compile(*args, **meta).variant().module)
    return contract_loops(module, AVX2)


def names(module) -> list[str]:
    return [inst.op.name for inst in walk(module.body)]


@pytest.mark.parametrize(("kernel", "args"), [(matmul_kernel, (X, X, X, 64, 64, 64)), (linear_kernel, (X, X, None, X, 64, 64, 64))])
def test_a_product_over_k_is_one_contraction(kernel, args):
    found = names(contracted(kernel, *args, **TILES))
    assert found.count("contraction") == 1
    assert "dot" not in found
    assert "for" not in found
    assert "min" in found  # rows and columns behind the end are not computed


def test_programs_that_share_columns_follow_each_other():
    a, b, c = (np.zeros((64, 64), np.float32) for _ in range(3))
    compiled = matmul_kernel.compile(a, b, c, 64, 64, 64, **TILES)
    disjoint = frozenset(f for f in compiled.facts if f.kind == "disjoint")
    module = contract_loops(prepared(compiled.variant(disjoint).module), AVX2)
    assert module.attr("axis_1_first")
    unknown = contract_loops(prepared(compiled.variant().module), AVX2)
    assert not unknown.attr("axis_1_first")  # c may be b: nothing is kept


@eas.kernel
def unequal_masks(a, b, c, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    rows, cols = mk.arange(0, BM), mk.arange(0, BN)
    acc = mk.zeros([BM, BN], mk.f32)
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * K + inner[None, :], inner[None, :] < K)
        acc = mk.dot(left, mk.load(b, inner[:, None] * BN + cols[None, :]), acc)
    mk.store(c, rows[:, None] * BN + cols[None, :], acc)


@eas.kernel
def rows_that_are_summed(a, b, c, M, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    rows, cols = mk.arange(0, BM), mk.arange(0, BN)
    acc = mk.zeros([BM, BN], mk.f32)
    for first in range(0, K, BK):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * K + inner[None, :], rows[:, None] < M)
        acc = mk.dot(left, mk.load(b, inner[:, None] * BN + cols[None, :]), acc)
    mk.store(c, cols, mk.sum(acc, axis=0))


@eas.kernel
def overlapping_steps(a, b, c, K, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr):
    rows, cols = mk.arange(0, BM), mk.arange(0, BN)
    acc = mk.zeros([BM, BN], mk.f32)
    for first in range(0, K, BK // 2):
        inner = first + mk.arange(0, BK)
        left = mk.load(a, rows[:, None] * K + inner[None, :])
        acc = mk.dot(left, mk.load(b, inner[:, None] * BN + cols[None, :]), acc)
    mk.store(c, rows[:, None] * BN + cols[None, :], acc)


@pytest.mark.parametrize(("kernel", "numbers"), [(unequal_masks, (64,)), (rows_that_are_summed, (20, 64)), (overlapping_steps, (64,))], ids=lambda x: getattr(x, "name", ""))
def test_what_is_not_a_plain_product_stays_a_loop(kernel, numbers):
    found = names(contracted(kernel, X, X, X, *numbers, **TILES))
    assert "contraction" not in found
    assert "dot" in found
