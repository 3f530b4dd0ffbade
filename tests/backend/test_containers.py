"""Lists, dicts and dataclasses that runtime loops and branches change in place."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import eas
from eas import mk

X = np.arange(1, 9, dtype=np.float32)


@dataclass
class Sums:
    total: Any
    squares: Any


@dataclass(slots=True)
class Slotted:
    total: Any


def add(sums, value):
    sums.total += value
    sums.squares += value * value


@eas.kernel
def dataclasses(x, y, N):
    sums, small = Sums(0.0, 0.0), Slotted(0)
    for i in range(N):
        add(sums, mk.load(x, i))
        small.total += i
    mk.store(y, 0, sums.total)
    mk.store(y, 1, sums.squares)
    mk.store(y, 2, mk.cast(small.total, mk.f32))


@eas.kernel
def nested(x, y, N):
    state = {"sums": [0.0, 1.0], "count": 0}
    other = state["sums"]  # another name of the same list
    i = 0
    while i < N:
        value = mk.load(x, i)
        if value > 3.0:
            state["sums"][0] += value
            state["count"] += 1
        else:
            other[1] = other[1] * value
        for k in range(N):
            if k > i:
                break
            other[0] += 0.5
        i += 1
    mk.store(y, 0, other[0])
    mk.store(y, 1, state["sums"][1])
    mk.store(y, 2, mk.cast(state["count"], mk.f32))


class Plain:
    def __init__(self):
        self.count = 0


@eas.kernel
def plain_objects(x, y, N):
    counter = Plain()
    if N > 2:
        counter.count = 5
    for i in range(N):
        counter.count += i
    mk.store(y, 0, mk.cast(counter.count, mk.f32))


def test_containers_are_carried_by_their_elements(backend):
    y = np.zeros(16, np.float32)
    dataclasses[1](X, y, 5)
    assert y[:3].tolist() == [15, 55, 10]
    plain_objects[1](X, y, 4)
    assert y[0] == 11
    nested[1](X, y, 6)
    assert y[:3].tolist() == [4 + 5 + 6 + 0.5 * 21, 6, 3]


def test_values_may_change_places(backend):
    y = np.zeros(16, np.float32)

    @eas.kernel
    def fir(x, y, N, TAPS: eas.constexpr):
        past = [0.0] * TAPS
        for i in range(N):
            for t in range(TAPS - 1):
                past[t] = past[t + 1]
            past[TAPS - 1] = mk.load(x, i)
            mk.store(y, i, past[0] + past[TAPS - 1])
        for _ in range(40):  # over 16: unrolled, since a list changes
            past[0] = past[0] + 1.0
        mk.store(y, N, past[0])

    fir[1](X, y, 6, TAPS=3)
    assert y[:7].tolist() == [1, 2, 4, 6, 8, 10, 44]


def test_stores_into_buffers_do_not_unroll_a_long_loop():
    @eas.kernel
    def filled(x, BLOCK: eas.constexpr):
        for i in range(100):
            x[i] = 2.0

    assert str(filled.compile(np.zeros(100, np.float32), BLOCK=1).ir).count("store") == 1


def test_a_container_that_grows_is_refused():
    def grows(x, y, N):
        found = []
        for i in range(N):
            found.append(mk.load(x, i))
        mk.store(y, 0, found[0])

    def loses(x, y, N):
        found = {"a": 1.0}
        if N > 2:
            del found["a"]
        mk.store(y, 0, 1.0)

    for fn, kind in ((grows, "list"), (loses, "dict")):
        with pytest.raises(eas.EscapedValue, match=f"the {kind} `found` changes its size inside a runtime") as error:
            eas.kernel(fn)[1](X, X.copy(), 3)
        assert "state.total += x" in str(error.value)
