"""What loops and branches carry: types that widen, tuples, pointers."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import eas
from eas import mk
from tests.unit.kernel_runs import first, refusal, relative, run

X = np.array([3, -1, 4, 1, -5, 9, 2, 6], np.int32)
F = np.arange(1, 9, dtype=np.float32) / 4
Pair = namedtuple("Pair", "low high")


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")


# --- widening -----------------------------------------------------------------------------------------


def test_int_zero_becomes_the_dtype_of_what_is_added():
    def kernel(y, f, n):
        acc = 0
        for i in range(n):
            acc += mk.load(f, i)
        mk.store(y, 0, acc)

    for dtype in (np.float32, np.float16, np.float64, np.int64):
        assert first(kernel, F.astype(dtype), 5, out=dtype) == F[:5].astype(dtype).sum()
    assert first(kernel, F, 0, out=np.float32) == 0


def test_zeros_of_both_signs_are_two_numbers():
    def kernel(y, n):
        v, w, t = 0.0, -0.0, 1
        if n > 2:
            v = -0.0
        for _ in range(n):
            w, t = 0.0, 1.0
        mk.store(y, 0, v)
        mk.store(y, 1, w)
        mk.store(y, 2, t)

    for n, signs in ((0, [False, True]), (1, [False, False]), (3, [True, False])):
        found = run(kernel, n, out=np.float32)
        assert np.signbit(found[:2]).tolist() == signs
        assert found[2] == 1


def test_scalar_becomes_a_block():
    def kernel(y, x, n):
        offs = mk.arange(0, 4)
        acc = 0
        low = 100
        for i in range(n):
            acc = acc + mk.load(x, i + offs)
            low = min(low, i + offs)
        mk.store(y, offs, acc)
        mk.store(y, 4 + offs, low)

    assert run(kernel, X, 3) == [sum(X[i + k] for i in range(3)) for k in range(4)] + [0, 1, 2, 3]
    assert run(kernel, X, 0) == [0] * 4 + [100] * 4


def test_int_becomes_float_in_a_branch_and_in_a_loop():
    def kernel(y, n, m):
        v = 1
        if n > 2:
            v = 2.5
        mk.store(y, 0, v)
        w = n
        for _i in range(m):
            w = w / 2
        mk.store(y, 1, w)

    assert run(kernel, 3, 2, out=np.float32)[:2] == [2.5, 0.75]
    assert run(kernel, 1, 0, out=np.float32)[:2] == [1.0, 1.0]


def test_bool_flags_and_none_that_no_path_reads():
    def kernel(y, x, n):
        seen, last = False, None
        for i in range(n):
            last = mk.load(x, i)
            seen = seen or last < 0
            mk.store(y, i, last)
        mk.store(y, 7, 1 if seen else 0)

    assert run(kernel, X, 2) == [3, -1, 0, 0, 0, 0, 0, 1]
    assert run(kernel, X, 1) == [3, 0, 0, 0, 0, 0, 0, 0]


def test_types_that_do_not_join_name_the_variable_and_both_types():
    def kernel(y, n):
        v = mk.arange(0, 4)
        if n > 2:
            v = mk.arange(0, 8)
        mk.store(y, mk.arange(0, 4), v)

    assert relative(refusal(eas.ShapeMismatch, kernel, np.zeros(8, np.int32), 3), kernel) == (
        "`v` is i32[8] on one path and i32[4] on the other\n"
        "  at +2\n"
        "    if n > 2:\n"
        "       ^^^^^\n"
        "  hint: make both paths give it one type, for example with mk.cast or mk.broadcast_to"
    )


# --- tuples and pointers --------------------------------------------------------------------------------


def test_tuples_and_named_tuples_are_carried_by_element():
    def kernel(y, x, n):
        pair = Pair(100, (-100, 0))
        for i in range(n):
            v = mk.load(x, i)
            low, (high, count) = pair
            pair = pair._replace(low=min(low, v), high=(max(high, v), count + 1))
        mk.store(y, 0, pair.low)
        mk.store(y, 1, pair.high[0])
        mk.store(y, 2, pair[1][1])

    assert run(kernel, X, 8)[:3] == [-5, 9, 8]
    assert run(kernel, X, 0)[:3] == [100, -100, 0]


def test_swap_in_a_loop():
    def kernel(y, n):
        a, b = 0, 1
        for _i in range(n):
            a, b = b, a + b
        mk.store(y, 0, a)

    assert [first(kernel, n) for n in (0, 1, 10)] == [0, 1, 55]


def test_pointers_are_carried():
    def kernel(y, x, n):
        p = x
        block = x + mk.arange(0, 2)
        total = mk.zeros([2], mk.i32)
        for i in range(n):
            mk.store(y, i, mk.load(p))
            total += mk.load(block)
            p += 2
            block += 2
        mk.store(y, 4 + mk.arange(0, 2), total)

    assert run(kernel, X, 3) == [3, 4, -5, 0, 3 + 4 - 5, -1 + 1 + 9, 0, 0]


def test_pointer_chosen_by_a_branch():
    def kernel(y, x, n):
        p = x
        if n > 4:
            p = x + 2
        mk.store(y, 0, mk.load(p if n < 9 else p + 1))

    assert [first(kernel, X, n) for n in (1, 5, 9)] == [3, 4, 1]


def test_pointer_returned_from_inside_a_loop_is_refused():
    def find(x, n):
        for i in range(n):
            if mk.load(x, i) < 0:
                return x + i
        return x

    def kernel(y, x, n):
        mk.store(y, 0, mk.load(find(x, n)))

    assert relative(refusal(eas.TypeMismatch, kernel, np.zeros(8, np.int32), X, 3), find) == (
        "a ptr<i32> cannot be returned from inside a runtime loop\n"
        "  at +2\n"
        "    if mk.load(x, i) < 0:\n"
        "       ^^^^^^^^^^^^^^^^^\n"
        "  called at +7\n"
        "  hint: return an offset, and add it to the pointer afterwards"
    )


def test_tuple_returned_from_inside_a_loop():
    def find(x, n, wanted):
        for i in range(n):
            v = mk.load(x, i)
            if v > wanted:
                return i, (v, 1)
        return -1, (0, 0)

    def kernel(y, x, n, wanted):
        i, (v, ok) = find(x, n, wanted)
        mk.store(y, 0, i)
        mk.store(y, 1, v)
        mk.store(y, 2, ok)

    assert run(kernel, X, 8, 5)[:3] == [5, 9, 1]
    assert run(kernel, X, 5, 5)[:3] == [-1, 0, 0]


def test_numbers_of_any_size():
    def kernel(y, n):
        total, flag = 0, True
        for _i in range(n):
            total = total + 2**40
            flag = flag + 1
        mk.store(y, 0, total)
        mk.store(y, 1, flag)
        for i in range(mk.cast(n, mk.u32), -1, -1):
            mk.store(y, 2 + i, i)
        for i in range(mk.cast(n, mk.u64)):
            mk.store(y, 6, i)

    assert run(kernel, 2, out=np.int64) == [2**41, 3, 0, 1, 2, 0, 1, 0]


# --- containers ----------------------------------------------------------------------------------------


@dataclass
class Running:
    """A sum and a count."""

    total: Any
    count: Any = 0

    def with_(self, x):
        return Running(self.total + x, self.count + 1)


@dataclass(frozen=True, slots=True)
class Frozen:
    low: Any
    high: Any


def test_lists_are_carried_by_element():
    def kernel(y, x, n):
        a, *v = (n, n + 1, n + 2)
        acc = [0, 1.5]
        for i in range(n):
            a, *v = (*v, a)
            acc = [acc[0] + mk.load(x, i), acc[1]]
            if i > 1:
                acc = [acc[0] + 100, acc[1]]
        mk.store(y, 0, a)
        mk.store(y, 1, v[0])
        mk.store(y, 2, v[1])
        mk.store(y, 3, acc[0])
        mk.store(y, 4, mk.to_i32(acc[1] * 2))

    for n in (0, 1, 4):
        items = [n, n + 1, n + 2]
        for _ in range(n):
            items = [*items[1:], items[0]]
        assert run(kernel, X, n)[:5] == [*items, X[:n].sum() + 100 * max(n - 2, 0), 3]


def test_dicts_and_dataclasses_are_carried_by_field():
    def kernel(y, x, n):
        run, ends, seen = Running(0), Frozen(1000, -1000), {"even": 0, "odd": 0}
        for i in range(n):
            v = mk.load(x, i)
            run = run.with_(v)
            ends = Frozen(min(ends.low, v), max(ends.high, v))
            if v % 2 == 0:
                seen = {**seen, "even": seen["even"] + 1}
            else:
                seen = {**seen, "odd": seen["odd"] + 1}
        for i, v in enumerate((run.total, run.count, ends.low, ends.high, seen["even"], seen["odd"])):
            mk.store(y, i, v)

    x = X[:7]
    assert run(kernel, X, 7)[:6] == [x.sum(), 7, x.min(), x.max(), (x % 2 == 0).sum(), (x % 2 == 1).sum()]
    assert run(kernel, X, 0)[:6] == [0, 0, 1000, -1000, 0, 0]


def test_what_a_branch_changes_in_place_is_merged():
    def kernel(y, n):
        box, made = [1, 2], Running(5)
        if n > 3:
            box, made = box, made
            box[0] = n
            made.total = 50
        mk.store(y, 0, box[0])
        mk.store(y, 1, made.total)

    assert run(kernel, 3)[:2] == [1, 5]
    assert run(kernel, 9)[:2] == [9, 50]
