"""What loops and branches cannot carry: each is refused at the line that matters."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.unit.kernel_runs import first, refusal, relative, run

X = np.array([3, -1, 4, 1, -5, 9, 2, 6], np.int32)


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")


def grows(y, n):
    v = ()
    for i in range(n):
        v = (*v, i)
    mk.store(y, 0, n)


def grows_a_list(y, n):
    v = []
    for i in range(n):
        mk.store(y, len(v), i)
        v = [*v, i]


def changes_a_word(y, n):
    v = "first"
    while n > 0:
        mk.store(y, n, 1 if v == "first" else 2)
        v = "later"
        n -= 1


def becomes_none(y, n):
    v = 1
    for i in range(n):
        mk.store(y, i, 0 if v is None else v)
        v = None


@pytest.mark.parametrize("kernel", [grows, grows_a_list, changes_a_word, becomes_none])
def test_what_a_loop_changes_but_cannot_carry_is_an_error_where_the_loop_reads_it(kernel):
    text = relative(refusal(eas.UndefinedName, kernel, np.zeros(8, np.int32), 3), kernel)
    assert text.startswith("`v` is changed by a runtime loop in a way that the kernel cannot carry\n  at +3\n")


def test_what_cannot_be_carried_may_be_local_to_a_turn():
    def kernel(y, n):
        word, box = None, None
        for i in range(n):
            word, box = "a", [i, 5]
            mk.store(y, i, box[1] + len(word))
            word = "bbb"

    assert run(kernel, 2)[:3] == [6, 6, 0]


def test_number_changed_in_a_loop_is_no_shape():
    def kernel(y, n):
        size = 4
        for _i in range(n):
            size = size + 4
        mk.store(y, mk.arange(0, size), 1)

    assert relative(refusal(eas.TypeMismatch, kernel, np.zeros(8, np.int32), 3), kernel) == (
        "the end of arange must be known when the kernel is traced, got the runtime value <size: i32>; `size` changes in the loop at +2\n"
        "  at +4\n"
        "    mk.store(y, mk.arange(0, size), 1)\n"
        "                ^^^^^^^^^^^^^^^^^^\n"
        "  hint: make it an eas.constexpr parameter or a Python number"
    )


def test_number_that_differs_between_branches_is_no_shape():
    def kernel(y, n):
        size = 4 if n > 2 else 8
        if n > 2:
            size = 2
        mk.store(y, mk.arange(0, size), 1)

    text = relative(refusal(eas.TypeMismatch, kernel, np.zeros(8, np.int32), 3), kernel)
    assert "got the runtime value <size: i32>; `size` differs between the paths of the if at +2\n  at +4\n" in text


def test_variable_undefined_on_one_path_is_an_error_at_its_use():
    def kernel(y, n):
        if n > 3:
            v = 1
        mk.store(y, 1, n)
        mk.store(y, 0, v)

    assert relative(refusal(eas.UndefinedName, kernel, np.zeros(8, np.int32), 3), kernel) == (
        "`v` has no value on every path through the if\n"
        "  at +4\n"
        "    mk.store(y, 0, v)\n"
        "    ^^^^^^^^^^^^^^^^^\n"
        "  hint: give it a value on every path, for example before the branch or loop"
    )


def test_variable_assigned_only_in_a_loop_and_one_never_assigned():
    def in_loop(y, n):
        for i in range(n):
            v = i
        mk.store(y, 0, v)

    def never(y, n):
        mk.store(y, 0, v)  # noqa: F821
        v = 1
        if n > 0:
            v = 2  # noqa: F841

    text = refusal(eas.UndefinedName, in_loop, np.zeros(8, np.int32), 3)
    assert text.startswith("`v` is only assigned inside a runtime loop, which may not run\n")
    with pytest.raises(NameError, match="v"):
        run(never, 3)


def test_unused_variable_of_one_path_is_no_error():
    def kernel(y, n):
        v = None
        if n > 3:
            v = [1]
            mk.store(y, 1, v[0])
        mk.store(y, 0, n)

    assert first(kernel, 3) == 3


def test_value_of_two_kinds_is_an_error_at_its_use():
    def kernel(y, n):
        f = mk.exp if n > 3 else mk.log
        mk.store(y, 0, f(1.0))

    text = refusal(eas.UndefinedName, kernel, np.zeros(8, np.int32), 3)
    assert "is a function on one path through the if and a function on the other" in text


def test_list_append_in_a_runtime_loop_is_an_error_at_its_line():
    def kernel(y, n):
        parts = []
        for i in range(n):
            parts.append(i)
        mk.store(y, 0, parts[0])

    assert relative(refusal(eas.EscapedValue, kernel, np.zeros(8, np.int32), 3), kernel) == (
        "the list `parts` changes its size inside a runtime for loop, or which lists and objects it holds\n"
        "  at +3\n"
        "    parts.append(i)\n"
        "    ^^^^^^^^^^^^\n"
        "  hint: make all elements before it, and assign to them: `values[0] = x` and `state.total += x` are carried"
    )


def change_nested(y, n):
    acc = [[1], [2]]
    for _i in range(n):
        acc[1].append(3)
    mk.store(y, 0, len(acc[1]))


def count_with_a_list(y, n):
    acc = []
    for _i in range(n):
        acc.append(1)
    mk.store(y, 0, len(acc))


def swap_lists(y, n):
    acc = [[1], [2]]
    for _i in range(n):
        acc[0], acc[1] = acc[1], acc[0]
        acc[0][0] += 1
    mk.store(y, 0, acc[0][0])


@pytest.mark.parametrize("kernel", [change_nested, count_with_a_list, swap_lists])
def test_containers_changed_under_runtime_control_are_refused(kernel):
    text = refusal(eas.EscapedValue, kernel, np.zeros(8, np.int32), 3)
    assert "the list `acc` changes its size inside a runtime " in text


def test_containers_may_change_where_control_is_static():
    def kernel(y, x, n):
        parts = []
        for i in range(3):
            parts.append(mk.load(x, i))
            parts[0] = parts[0] + 1
        for k in range(n):
            local = [k]
            for j in range(2):
                local.append(k + j)
            mk.store(y, k, sum(local) + sum(parts))

    total = sum(X[:3]) + 3
    assert run(kernel, X, 2)[:2] == [total + 1, total + 4]


def test_value_made_in_a_branch_does_not_exist_outside():
    box = {}

    def kernel(y, n):
        if n > 2:
            box["v"] = n + 1
        mk.store(y, 0, box["v"])

    text = relative(refusal(eas.EscapedValue, kernel, np.zeros(8, np.int32), 3), kernel)
    assert text.startswith("a value was made inside the if at +1 and does not exist outside of it\n  at +3\n")


def test_value_of_an_earlier_trace_is_refused():
    kept = []

    def keeps(y, n):
        kept.append(n + 1)
        mk.store(y, 0, n)

    def uses(y, n):
        mk.store(y, 0, kept[0])

    run(keeps, 3)
    text = refusal(eas.EscapedValue, uses, np.zeros(8, np.int32), 3)
    assert text.startswith("a value belongs to an earlier trace of a kernel\n")
    with pytest.raises(eas.OutsideKernel, match="can only be used inside a kernel"):
        kept[0] + 1


def test_conditional_expression_names_the_variable_without_a_value():
    def kernel(y, n):
        for i in range(n):
            mk.store(y, i, 1)
        mk.store(y, 0, i if n > 0 else -1)

    assert refusal(eas.UndefinedName, kernel, np.zeros(8, np.int32), 3).startswith("`i` is only assigned inside a runtime loop")
