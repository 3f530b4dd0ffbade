"""Loops and branches on runtime values, judged by plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from eas import mk
from tests.unit.kernel_runs import first, run

X = np.array([3, -1, 4, 1, -5, 9, 2, 6], np.int32)
F = np.linspace(-1, 1, 8, dtype=np.float32)


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")


# --- for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b", "c"), [(0, 5, 1), (5, 0, -1), (1, 9, 3), (9, 1, -3), (3, 3, 1), (4, 0, 1), (0, 4, -1)])
@pytest.mark.parametrize("leaves", [False, True])
def test_for_is_pythons_range(a, b, c, leaves):
    def kernel(y, a, b, c, x, LEAVES: mk.constexpr):
        count = total = 0
        for i in range(a, b, c):
            if LEAVES and mk.load(x, i & 7) == -99:
                break
            count += 1
            total += i * count
        mk.store(y, 0, count)
        mk.store(y, 1, total)

    want = [i * (k + 1) for k, i in enumerate(range(a, b, c))]
    assert run(kernel, a, b, c, X, leaves)[:2] == [len(want), sum(want)]


def test_a_runtime_step_of_zero_makes_no_turn_also_with_break():
    def kernel(y, step, x):
        for _i in range(5, 0, step):
            mk.store(y, 0, 1)
        for i in range(5, 0, step):
            mk.store(y, 1, 1)
            if mk.load(x, i) > 100:
                break

    assert run(kernel, 0, X)[:2] == [0, 0]


def test_step_known_while_tracing_goes_down():
    def kernel(y, n):
        last = -1
        for i in range(n, -1, -2):
            last = i
        mk.store(y, 0, last)

    assert [first(kernel, n) for n in (7, 6, 0)] == [1, 0, 0]


def test_nested_loops_and_reused_names():
    def kernel(y, n, m):
        total = 0
        for i in range(n):
            for j in range(i, m):
                total += i * 10 + j
            for j in range(2):
                total += j
        mk.store(y, 0, total)

    def plain(n, m):
        return sum(sum(i * 10 + j for j in range(i, m)) + 1 for i in range(n))

    assert [first(kernel, n, m) for n, m in ((3, 4), (0, 9), (5, 2))] == [plain(3, 4), plain(0, 9), plain(5, 2)]


def test_range_of_other_integer_types():
    def kernel(y, n, bounds):
        total = 0
        for i in range(mk.load(bounds, 0), n):
            total += i
        mk.store(y, 0, total)

    for dtype in (np.int8, np.uint8, np.int16, np.uint32, np.int64):
        assert first(kernel, 6, np.array([2], dtype)) == 2 + 3 + 4 + 5, dtype


def test_mk_range_loops_and_static_range_unrolls():
    def kernel(y, LOOP: mk.constexpr):
        total = 0
        for i in mk.range(3) if LOOP else mk.static_range(3):
            total += i
        mk.store(y, 0, total)

    import eas

    for loop, count in ((True, 1), (False, 0)):
        made = eas.kernel(kernel).compile(np.zeros(1, np.int32), loop)
        assert str(made.traced).count(" = for ") == count
        assert first(kernel, loop) == 3


def test_loop_variable_after_the_loop_is_the_last_one():
    def kernel(y, n):
        i = 77
        for i in range(n):  # noqa: B007
            pass
        mk.store(y, 0, i)

    assert [first(kernel, n) for n in (4, 0)] == [3, 77]


def test_changing_the_loop_variable_does_not_change_the_loop():
    def kernel(y, n):
        count = 0
        for i in range(n):
            i = i + 10
            count += i
        mk.store(y, 0, count)

    assert first(kernel, 3) == 33


# --- while ----------------------------------------------------------------------------------------


def test_while_collatz():
    def kernel(y, n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        mk.store(y, 0, steps)

    assert [first(kernel, n) for n in (1, 6, 27)] == [0, 8, 111]


def test_while_true_with_runtime_break():
    def kernel(y, x, n):
        i = 0
        while True:
            if i >= n or mk.load(x, i) < 0:
                break
            mk.store(y, i, mk.load(x, i))
            i += 1
        mk.store(y, 7, i)

    assert run(kernel, X, 8) == [3, 0, 0, 0, 0, 0, 0, 1]
    assert run(kernel, np.abs(X), 3) == [3, 1, 4, 0, 0, 0, 0, 3]


def test_while_on_trace_time_values_unrolls_until_a_runtime_break():
    def kernel(y, n):
        i = 0
        while i < 5:
            if i == 3 and n > 2:
                break
            i += 1
        mk.store(y, 0, i)

    assert [first(kernel, n) for n in (1, 3)] == [5, 3]


def test_while_with_side_effects_in_the_test():
    def kernel(y, x):
        i = 0
        while mk.load(x, i) != 9:
            i += 1
        mk.store(y, 0, i)

    assert first(kernel, X) == 5


# --- if, ternary, truth -----------------------------------------------------------------------------


def test_if_elif_else():
    def kernel(y, n):
        if n < 0:
            r = -1
        elif n == 0:
            r = 0
        elif n < 10:
            r = 1
        else:
            r = 2
        mk.store(y, 0, r)

    assert [first(kernel, n) for n in (-5, 0, 3, 10)] == [-1, 0, 1, 2]


def test_branches_touch_only_their_own_memory():
    def kernel(y, x, n):
        if n < 8:
            mk.store(y, 0, mk.load(x, n))
        else:
            mk.store(y, 1, mk.load(x, n - 8))

    assert run(kernel, X, 2)[:2] == [4, 0]
    assert run(kernel, X, 10)[:2] == [0, 4]


def test_ternary_runs_only_the_chosen_load():
    def kernel(y, x, n):
        mk.store(y, 0, mk.load(x, n) if n < 8 else -7)
        mk.store(y, 1, n if n > 3 else n * 2)
        a, b = (n, 1) if n > 3 else (0, n)
        mk.store(y, 2, a - b)

    assert run(kernel, X, 5)[:3] == [9, 5, 4]
    assert run(kernel, X, 99)[:3] == [-7, 99, 98]
    assert run(kernel, X, 2)[:3] == [4, 4, -2]


def test_and_or_leave_the_right_side_alone_when_the_left_decides():
    def kernel(y, x, n):
        mk.store(y, 0, 1 if n < 8 and mk.load(x, n) > 3 else 0)
        mk.store(y, 1, 1 if n >= 8 or mk.load(x, n) > 3 else 0)
        mk.store(y, 2, 1 if 0 <= n < 8 and mk.load(x, n) > 0 and mk.load(x, mk.load(x, n)) > 0 else 0)
        ok = not (n < 8 and mk.load(x, n) > 3)
        mk.store(y, 3, mk.cast(ok, mk.i32))

    assert run(kernel, X, 2)[:4] == [1, 1, 0, 0]
    assert run(kernel, X, 3)[:4] == [0, 0, 0, 1]
    assert run(kernel, X, 1000)[:4] == [0, 1, 0, 1]
    assert run(kernel, X, 0)[:4] == [0, 0, 1, 1]


def test_chained_comparison_evaluates_its_middle_once_and_its_end_late():
    def kernel(y, x, n):
        def middle():
            mk.atomic_add(y, 1, 1)
            return n

        mk.store(y, 0, 1 if 0 <= middle() < 8 < mk.load(x, n) else 0)

    assert run(kernel, X, 5)[:2] == [1, 1]
    assert run(kernel, X, 2)[:2] == [0, 1]
    assert run(kernel, X, 100)[:2] == [0, 1]


def test_and_or_give_an_operand_as_in_python():
    def kernel(y, n, m):
        mk.store(y, 0, n or 4)
        mk.store(y, 1, n and m)
        mk.store(y, 2, n or m or 9)
        mk.store(y, 3, 0 or n)
        mk.store(y, 4, 3 and m)
        mk.store(y, 5, (n > 0 and m) + 0)

    for n, m in [(0, 0), (0, 5), (3, 0), (3, 5)]:
        assert run(kernel, n, m)[:6] == [n or 4, n and m, n or m or 9, 0 or n, 3 and m, (n > 0 and m) + 0], (n, m)


def test_truth_of_numbers_and_in():
    def kernel(y, n, f):
        mk.store(y, 0, 1 if n else 2)
        mk.store(y, 1, 1 if not f else 2)
        mk.store(y, 2, 1 if n in (1, 3, 5) else 2)
        mk.store(y, 3, 1 if n not in [1, 3, 5] else 2)
        mk.store(y, 4, 1 if bool(n) else 2)

    assert run(kernel, 3, 0.0)[:5] == [1, 1, 1, 2, 1]
    assert run(kernel, 0, -0.5)[:5] == [2, 2, 2, 1, 2]


# --- break, continue, else, return --------------------------------------------------------------------


def plain_search(x, n, m):
    found = []
    for i in range(n):
        if x[i] < 0:
            continue
        for j in range(m):
            if x[j] == x[i] + 1:
                found.append(i * 10 + j)
                break
        else:
            found.append(-i)
        if x[i] == 9:
            break
    else:
        found.append(99)
    return [*found, *[0] * 8][:8]


def test_break_continue_else_nested():
    def kernel(y, x, n, m):
        at = 0
        for i in range(n):
            if mk.load(x, i) < 0:
                continue
            for j in range(m):
                if mk.load(x, j) == mk.load(x, i) + 1:
                    mk.store(y, at, i * 10 + j)
                    at += 1
                    break
            else:
                mk.store(y, at, -i)
                at += 1
            if mk.load(x, i) == 9:
                break
        else:
            mk.store(y, at, 99)

    for n, m in [(8, 8), (4, 8), (5, 2), (0, 0)]:
        assert run(kernel, X, n, m) == plain_search(X.tolist(), n, m), (n, m)


def test_while_else_and_continue():
    def kernel(y, x, limit):
        i = total = 0
        while i < 8:
            i += 1
            if mk.load(x, i - 1) < 0:
                continue
            if mk.load(x, i - 1) > limit:
                break
            total += mk.load(x, i - 1)
        else:
            total += 100
        mk.store(y, 0, total)
        mk.store(y, 1, i)

    assert run(kernel, X, 5)[:2] == [8, 6]
    assert run(kernel, X, 50)[:2] == [125, 8]


def test_break_that_depends_on_a_number_changed_by_the_loop():
    def kernel(y, n):
        count = 0
        for i in range(n):
            count += 1
            if count == 3:
                break
            mk.store(y, 1, i)
        mk.store(y, 0, count)

    assert [run(kernel, n)[:2] for n in (7, 2)] == [[3, 1], [2, 1]]


def test_static_loop_with_runtime_break_and_continue():
    def kernel(y, x, n):
        total = 0
        for i in (0, 2, 4, 6):
            if mk.load(x, i) == n:
                break
            if i == n:
                continue
            total += mk.load(x, i)
        else:
            total += 1000
        mk.store(y, 0, total)

    assert [first(kernel, X, n) for n in (-5, 2, 77)] == [7, 3 - 5, 1004]


def test_unconditional_break_and_return_in_loops():
    def kernel(y, n):
        for i in range(n):
            mk.store(y, 0, i + 1)
            break
        for _i in range(n):
            mk.store(y, 1, 5)
            return
        mk.store(y, 2, 6)

    assert run(kernel, 3)[:3] == [1, 5, 0]
    assert run(kernel, 0)[:3] == [0, 0, 6]


def test_early_return_of_a_kernel():
    def kernel(y, x, n):
        if n < 0:
            return
        for i in range(n):
            if mk.load(x, i) < 0:
                mk.store(y, 1, i)
                return
            mk.store(y, 0, i)
        mk.store(y, 2, 1)

    assert run(kernel, X, -1)[:3] == [0, 0, 0]
    assert run(kernel, X, 8)[:3] == [0, 1, 0]
    assert run(kernel, X, 1)[:3] == [0, 0, 1]
