"""Kernels as Python functions: helpers, closures, defaults, methods, lambdas, other modules, source or none."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import math

import numpy as np
import pytest

import eas
from eas import mk
from tests.unit.kernel_runs import caught, first, refusal, run
from tests.unit.plain_hooks import load_source

X = np.array([3, -1, 4, 1, -5, 9, 2, 6], np.int32)


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")


# --- helpers ------------------------------------------------------------------------------------------


def first_negative(x, n):
    for i in range(n):
        if mk.load(x, i) < 0:
            return i
    return -1


def sign(v):
    if v > 0:
        return 1
    if v < 0:
        return -1
    return 0


def classify(x, n):
    """Returns from two loops, with other types."""
    for i in range(n):
        if mk.load(x, i) == 9:
            return 1.5
    while n > 0:
        n -= 1
        if mk.load(x, n) == 4:
            return n
    return None


def test_helpers_return_from_branches_and_loops():
    def kernel(y, x, n):
        mk.store(y, 0, first_negative(x, n))
        mk.store(y, 1, sign(mk.load(x, n)) + 10)

    assert run(kernel, X, 5)[:2] == [1, 11]
    assert run(kernel, X, 1)[:2] == [-1, 9]


def test_helper_that_gives_a_value_on_some_paths_only():
    def kernel(y, x, n):
        mk.store(y, 0, classify(x, n))

    text = refusal(eas.UndefinedName, kernel, np.zeros(8, np.float32), X, 5)
    assert text.startswith("the result of this function has no value on every path through the if\n")


def test_helper_that_returns_after_while_true():
    def find(x, wanted):
        i = 0
        while True:
            if mk.load(x, i) == wanted:
                break
            i += 1
        return i

    def kernel(y, x, wanted):
        mk.store(y, 0, find(x, wanted))

    assert first(kernel, X, 9) == 5


def test_static_recursion_works_and_runtime_recursion_is_refused():
    def power(v, k):
        return 1 if k == 0 else v * power(v, k - 1)

    def endless(v):
        if v > 3:
            return endless(v - 1)
        return v

    def kernel(y, n):
        mk.store(y, 0, power(n, 5))

    def bad(y, n):
        mk.store(y, 0, endless(n))

    assert first(kernel, 3) == 243
    text = refusal(eas.CompileError, bad, np.zeros(8, np.int32), 3)
    assert text.startswith("kernel bad recurses without end while it is traced\n  at test_control_flow_functions.py:")
    assert text.endswith("hint: end the recursion by a trace-time condition, or write a loop")


def test_kernel_calls_another_kernel_as_helper():
    @eas.kernel
    def double(y, at, v, TIMES: eas.constexpr = 2):
        if v > 0:
            mk.store(y, at, v * TIMES)

    def kernel(y, n):
        double(y, 0, n)
        double(y, 1, n, TIMES=5)
        for write in (functools.partial(double, y, 2), lambda v: double(y, 3, v)):
            write(n + 2)

    def launches(y, n):
        double[1](y, 0, n)

    assert run(kernel, 3)[:4] == [6, 15, 10, 10]
    assert refusal(eas.CompileError, launches, np.zeros(8, np.int32), 3).startswith("kernel double cannot be launched inside of a kernel\n")


def test_callbacks_of_builtins_are_rewritten_too():
    def clip(v):
        if v < 0:
            return 0
        return v

    def add(a, b):
        return a + b if b > 1 else a

    def kernel(y, x):
        values = [mk.load(x, i) for i in range(4)]
        for i, v in enumerate(map(clip, values)):
            mk.store(y, i, v)
        mk.store(y, 4, functools.reduce(add, values))
        mk.store(y, 5, sum(v * 2 for v in filter(lambda v: v is not values[0], values)))

    assert run(kernel, X)[:6] == [3, 0, 4, 1, 7, 8]


def test_closures_defaults_partials_and_star_arguments():
    scale = 3

    def helper(v, bias=10, *more, factor=scale):
        for m in more:
            bias = bias + m
        return v * factor + bias

    def kernel(y, n, K=4):
        inner, options = n * 2, {"factor": 2}

        def nested(v):
            return v + inner if v > 5 else v

        mk.store(y, 0, helper(n))
        mk.store(y, 1, functools.partial(helper, factor=1)(n, 0, 1, 2))
        mk.store(y, 2, nested(n))
        mk.store(y, 3, K)
        mk.store(y, 4, helper(*(n, 1), **options))

    assert run(kernel, 7)[:5] == [31, 10, 21, 4, 15]
    assert run(kernel, 1, 9)[:5] == [13, 4, 1, 9, 3]


class Scaler:
    factor = 2

    def __init__(self, bias):
        self.bias = bias

    def __call__(self, v):
        return self.apply(v) + 1

    def apply(self, v):
        if v > 3:
            return v * self.factor + self.bias
        return self.least(v)

    @staticmethod
    def least(v):
        return -1 if v < 0 else v

    @classmethod
    def doubled(cls, v):
        return v * cls.factor if v > 0 else v


def test_methods():
    scaler = Scaler(100)

    def kernel(y, n):
        mk.store(y, 3, scaler(n))
        mk.store(y, 0, scaler.apply(n))
        mk.store(y, 1, Scaler.least(n))
        mk.store(y, 2, scaler.doubled(n))

    assert run(kernel, 5)[:4] == [110, 5, 10, 111]
    assert run(kernel, -5)[:4] == [-1, -1, -5, 0]


def test_comprehensions():
    def kernel(y, x, n):
        parts = [mk.load(x, i) * n for i in range(4) if i != 1]
        table = {i + 1: p for i, p in enumerate(parts)}
        mk.store(y, 0, sum(parts))
        mk.store(y, 1, max(p + 1 for p in parts))
        mk.store(y, 2, table[2])
        mk.store(y, 3, 1 if any(p > 7 for p in parts) else 0)
        mk.store(y, 4, 1 if all(p > 2 for p in parts) else 0)
        mk.store(y, 5, max(i for i in (1, 3, 2)))

    assert run(kernel, X, 2)[:6] == [16, 9, 8, 1, 0, 3]


# --- trace-time values ----------------------------------------------------------------------------------


def test_constexpr_arithmetic_functions_dtypes_and_none():
    def kernel(y, x, bias, B: mk.constexpr, F: eas.constexpr, D: eas.constexpr = mk.i32, FLAG: mk.constexpr[bool] = False):
        offs = mk.arange(0, B // 2) + (B % 3)
        v = mk.cast(mk.load(x, offs), D)
        if bias is not None:
            v = v + mk.load(bias, 0)
        if FLAG:
            v = -v
        mk.store(y, mk.arange(0, B >> 1), F(v))

    assert run(kernel, X, None, 4, lambda v: v * 2)[:2] == [-2, 8]
    assert run(kernel, X, np.array([10], np.int32), B=4, F=abs, FLAG=True)[:2] == [9, 14]
    assert run(kernel, X, None, 4, mk.exp, mk.f32, out=np.float32)[0] == pytest.approx(math.exp(-1), rel=1e-6)


def test_lambda_constexpr_with_condition_is_refused_with_its_line():
    def kernel(y, n, F: mk.constexpr):
        mk.store(y, 0, F(n))

    text = refusal(eas.CompileError, kernel, np.zeros(8, np.int32), 3, lambda v: 1 if v > 2 else 0)
    assert text.startswith("<lambda> cannot branch on a runtime value: a lambda is traced as it is\n")
    assert "called at test_control_flow_functions.py" in text


def test_numpy_constants():
    table = np.array([5, 6, 7])

    def kernel(y, n):
        mk.store(y, 0, np.float32(2.5) * n)
        mk.store(y, 1, n + np.pi)
        mk.store(y, 2, np.int64(3) - n)
        mk.store(y, 3, np.sqrt(16.0) + math.floor(2.5))
        mk.store(y, 4, table[1] + table.sum() + n)
        for i in np.arange(2):
            mk.store(y, 5 + i, table[i])

    assert run(kernel, 2, out=np.float32) == [5.0, np.float32(2) + np.float32(np.pi), 1.0, 6.0, 26.0, 5.0, 6.0, 0.0]


def test_static_print_prints_once_although_loops_are_traced_again(capsys):
    def kernel(y, x, n):
        total = 0
        for i in range(n):
            mk.static_print("turn")
            print("round", end=".")
            total += mk.load(x, i) * 0.5
            if total > 3:
                break
        mk.store(y, 0, total)

    run(kernel, X, 3, out=np.float32)
    assert capsys.readouterr().out == "turn\nround."


# --- where the source is --------------------------------------------------------------------------------


def test_helper_of_another_module(tmp_path):
    path = tmp_path / "kernel_helpers.py"
    path.write_text("from eas import mk\n\ndef count(x, n, least):\n    c = 0\n    for i in range(n):\n        if mk.load(x, i) < least:\n            continue\n        c += 1\n    return c\n")
    spec = importlib.util.spec_from_file_location("kernel_helpers", path)
    helpers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(helpers)

    def kernel(y, x, n):
        mk.store(y, 0, helpers.count(x, n, 2))

    assert first(kernel, X, 8) == 5


SOURCE = "def kernel(y, n):\n    r = 1\n    if n > 2:\n        r = 5\n    mk.store(y, 0, r)\n"


def test_exec_with_linecache_and_notebook_cells():
    assert first(load_source(SOURCE, mk=mk)["kernel"], 3) == 5
    for name in ("<ipython-input-7-abcdef>", "/tmp/ipykernel_123/456.py"):
        linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(True), name)
        cell = {"mk": mk, "__name__": "__main__"}
        exec(compile(SOURCE, name, "exec"), cell)
        assert [first(cell["kernel"], n) for n in (2, 3)] == [1, 5]


def test_missing_source_traces_until_a_runtime_condition():
    names = {"mk": mk}
    exec(SOURCE.replace("if n > 2", "if 3 > 2"), names)
    assert first(names["kernel"], 3) == 5
    exec(SOURCE, names)
    text = refusal(eas.CompileError, names["kernel"], np.zeros(8, np.int32), 3)
    assert text == (
        "kernel cannot branch on a runtime value: its source is not available\n"
        "  at <string>:3\n"
        "  hint: define it with def in a file or notebook cell, or use mk.where"
    )


@pytest.mark.parametrize(("loop", "what"), [("range(n)", "use a runtime value in range() or as an index"), ("mk.range(n)", "loop over a runtime range")])
def test_missing_source_says_why_a_runtime_loop_is_refused(loop, what):
    names = {"mk": mk}
    exec(f"def kernel(y, n):\n    for i in {loop}:\n        mk.store(y, i, 1)\n", names)
    assert refusal(eas.CompileError, names["kernel"], np.zeros(8, np.int32), 3).startswith(f"kernel cannot {what}: its source is not available\n  at <string>:2\n  hint: ")


def test_helper_without_source_says_so():
    names = {"mk": mk}
    exec("def pick(n):\n    if n > 2:\n        return 1\n    return 2\n", names)

    def kernel(y, n):
        mk.store(y, 0, names["pick"](n))

    assert refusal(eas.CompileError, kernel, np.zeros(8, np.int32), 3).startswith("pick cannot branch on a runtime value: its source is not available\n")


def test_lambda_kernel():
    kernel = eas.kernel(lambda y, n: mk.store(y, 0, mk.where(n > 2, 5, 1)))
    assert [first(kernel, n) for n in (2, 3)] == [1, 5]


def test_kernels_made_by_a_function_keep_their_own_closure():
    def make(step, deep):
        @eas.kernel
        def kernel(y, n):
            total = 0
            for i in range(0, n, step):
                total += i if not deep else make_term(i)
            mk.store(y, 0, total)

        def make_term(i):
            return i * step if i > step else 0

        return kernel

    assert first(make(2, False), 7) == 12
    assert first(make(3, False), 7) == 9
    assert first(make(2, True), 7) == 20


def test_async_and_generator_kernels_are_refused():
    async def waits(y):
        mk.store(y, 0, 1)

    def gives(y):
        yield 1

    for fn, word in ((waits, "async"), (gives, "a generator")):
        with pytest.raises(eas.UnsupportedPython) as info:
            eas.kernel(fn)
        assert str(info.value).startswith(f"kernel {fn.__name__} is {word}\n  at test_control_flow_functions.py:{fn.__code__.co_firstlineno}\n")


def test_generator_helper_is_iterated_while_tracing():
    def pieces(x, count):
        for i in range(count):
            yield mk.load(x, i)

    def kernel(y, x, n):
        total = n
        for piece in pieces(x, 3):
            if piece > 0:
                total += piece
        mk.store(y, 0, total)

    assert first(kernel, X, 10) == 17


def test_positional_only_and_keyword_only_parameters():
    def kernel(y, n, /, *, K: mk.constexpr = 2):
        mk.store(y, 0, n * K)

    assert first(kernel, 4) == 8
    assert first(kernel, 4, K=5) == 20


def test_deep_static_nesting_is_limited_by_unrolling():
    def kernel(y, n):
        total = 0
        for i in range(20_000):
            total = i
        mk.store(y, 0, total)

    text = str(caught(eas.CompileError, kernel, np.zeros(8, np.int32), 3))
    assert text.startswith("a for loop on trace-time values ran 10000 times while tracing\n")
