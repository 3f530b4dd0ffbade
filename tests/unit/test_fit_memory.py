"""Sharing of threadgroup memory: by lifetime, and never between statements without a barrier."""

from __future__ import annotations

import numpy as np

import eas
from eas import mk
from eas.ir import walk
from eas.schedule.fit_memory import fit_memory
from eas.schedule.metal import schedule_metal
from eas.schedule.metal_target import APPLE7, MetalTarget


@eas.kernel
def turned_thrice(x, y, N: eas.constexpr):
    """Three transposes, each through memory: while one is read the next is written."""
    i, j = mk.arange(0, N), mk.arange(0, N)
    at = i[:, None] * N + j[None, :]
    first = mk.trans(mk.exp(mk.load(x, at))) + 1.0
    mk.store(y, at, first)
    second = mk.trans(mk.exp(first)) + 1.0
    mk.store(y, N * N + at, second)
    mk.store(y, 2 * N * N + at, mk.trans(mk.exp(second)))


def _arrays(target: MetalTarget):
    x, y = np.zeros((32, 32), np.float32), np.zeros((3, 32, 32), np.float32)
    module = turned_thrice.compile(x, y, N=32).variant().module
    lowered = schedule_metal(module, target)
    return [i for i in walk(lowered.body) if i.op.name == "alloc_tg"], lowered


def test_arrays_of_different_times_share_where_memory_is_short():
    roomy, _ = _arrays(APPLE7)
    assert [i["size"] for i in roomy] == [1056, 1056, 1056]  # 32 rows of 33
    tight, lowered = _arrays(MetalTarget("small", threadgroup_nbytes=8704))
    assert [i["size"] for i in tight] == [1056, 1056], "the third takes the place of the first"
    assert sum(i.op.name == "sync" for i in walk(lowered.body)) == 3


def test_nothing_changes_where_memory_suffices():
    _, lowered = _arrays(APPLE7)
    assert fit_memory(lowered, APPLE7) is lowered
