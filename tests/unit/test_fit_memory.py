"""Sharing of threadgroup memory: by lifetime, and never between statements without a barrier."""

from __future__ import annotations

import itertools
import random

import numpy as np

import eas
from eas import mk
from eas.base import dtypes
from eas.ir import walk
from eas.schedule.gpu.fit_memory import _join_largest, _Place, fit_memory
from eas.schedule.gpu.target import APPLE7, MetalTarget
from eas.schedule.gpu_steps import schedule_metal


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


class _Array:
    """Stands for an allocation."""

    def __init__(self, number, dtype):
        self.number, self.dtype = number, dtype

    def __getitem__(self, name):
        return self.dtype


def _places(arrays):
    return [_Place([_Array(k, dtype)], [span], size) for k, (dtype, span, size) in enumerate(arrays)]


def _joined_pair_by_pair(places, limit):
    """The best of all pairs again and again."""
    while sum(p.nbytes for p in places) > limit:
        pairs = [(a, b) for k, a in enumerate(places) for b in places[k + 1 :] if a.can_join(b)]
        if not pairs:
            break
        a, b = max(pairs, key=lambda pair: min(p.nbytes for p in pair))
        places.remove(b)
        a.join(b)
    return places


def test_the_largest_pairs_share_first():
    rng = random.Random(0)
    for _ in range(500):
        starts = [rng.randrange(30) for _ in range(rng.randrange(1, 12))]
        arrays = [(rng.choice((dtypes.f32, dtypes.f32, dtypes.f16)), (a, a + rng.randrange(1, 8)), rng.choice((33, 64, 64, 128, 256))) for a in starts]
        limit, places = rng.randrange(4000), _places(arrays)
        while sum(p.nbytes for p in places) > limit and _join_largest(places, limit):
            pass
        shared = [[[m.number for m in p.members] for p in some] for some in (places, _joined_pair_by_pair(_places(arrays), limit))]
        assert shared[0] == shared[1]
        used = [[arrays[m.number][1] for m in p.members] for p in places]
        assert all(a[1] < b[0] or b[1] < a[0] for spans in used for a, b in itertools.combinations(spans, 2)), "in use at one time"


def test_places_are_compared_a_few_times(monkeypatch):
    counts = []
    for n in (50, 200):
        calls, plain = 0, _Place.can_join

        def counted(self, other, plain=plain):
            nonlocal calls
            calls += 1
            return plain(self, other)

        with monkeypatch.context() as patch:
            patch.setattr(_Place, "can_join", counted)
            places = _places([(dtypes.f32, (2 * k, 2 * k + 3), 64) for k in range(n)])
            assert _join_largest(places, 600)
        assert len(places) == 2
        counts.append(calls)
    assert counts[1] <= 5 * counts[0]
