"""Errors of a call, of Python that kernels cannot contain, and what is left behind by any of them: nothing."""

from __future__ import annotations

import functools
import threading
import traceback
from queue import SimpleQueue

import numpy as np
import pytest

import eas
from eas import mk
from eas.frontend.builder import is_tracing
from tests.unit.kernel_runs import caught, first, refusal, relative, run
from tests.unit.plain_hooks import load_source

F = np.arange(8, dtype=np.float32)


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")


@eas.kernel
def copy(a, b, N, BLOCK: eas.constexpr = 8):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(b, i, mk.load(a, i, i < N), i < N)


@eas.kernel
def threads(a, b):
    i = mk.tid(0, 8)
    mk.store(b, i, mk.load(a, i))


# --- arguments --------------------------------------------------------------------------------------------


def read_only():
    made = np.zeros(8, np.float32)
    made.flags.writeable = False
    return made


BASE = np.zeros(17, np.float32)
CALLS = [
    ("missing", (F,), {}, eas.ArgumentError, "copy is missing `b`, `N`", "call it as copy(a, b, N, BLOCK)"),
    ("superfluous", (F, F, 8, 8, 1), {}, eas.ArgumentError, "copy takes 4 arguments (a, b, N, BLOCK), got 5", "launch options such as _grid are given by name"),
    ("duplicate", (F, F, 8), {"a": F}, eas.ArgumentError, "copy got the argument `a` twice", "pass it by position or by name, not both"),
    ("unknown", (F, F, 8), {"BLOK": 4}, eas.ArgumentError, "copy has no argument `BLOK`", "did you mean `BLOCK`?"),
    ("unknown option", (F, F, 8), {"grid": 4}, eas.ArgumentError, "copy has no argument `grid`", "did you mean `_grid`?"),
    ("unlike anything", (F, F, 8), {"zzz": 4}, eas.ArgumentError, "copy has no argument `zzz`", "its arguments are a, b, N, BLOCK"),
    ("complex", (F.astype(np.complex64), F, 8), {}, eas.ArgumentError, "argument 'a': kernels cannot take NumPy dtype 'complex64'", "pass a.real and a.imag, or a.view of the float type with a last axis of 2"),
    ("list", ([1.0], F, 8), {}, eas.ArgumentError, "argument 'a' is a list, not an array", "make one with np.asarray, and read results from that array"),
    ("text", ("abc", F, 8), {}, eas.ArgumentError, "argument 'a' is 'abc', which a kernel cannot take", "annotate the parameter as eas.constexpr"),
    ("read-only", (F, read_only(), 8), {}, eas.LostWrite, "the kernel writes argument 'b', which is read-only", "pass b.copy()"),
    ("overlap", (BASE[:16:2], BASE[1:9], 8), {}, eas.LostWrite, "arguments 'a' and 'b' share memory and one of them is written, but 'a' is not contiguous, so the kernel would run on a copy of it", "pass np.ascontiguousarray(a)"),
    ("tptg", (F, F, 8), {"_tptg": (8, 1, 1)}, eas.GridError, "_tptg=(8, 1, 1) contradicts kernel copy, which runs in spmd mode with (1, 1, 1)", "leave _tptg out, or pass _tptg=(1, 1, 1)"),
    ("grid of 4", (F, F, 8), {"_grid": (1, 2, 3, 4)}, eas.GridError, "_grid of kernel copy has 4 extents, it takes 1 to 3: (1, 2, 3, 4)", "pass an int or a tuple of 1 to 3 ints"),
    ("float grid", (F, F, 8), {"_grid": 1.5}, eas.GridError, "_grid of kernel copy needs integers, got 1.5 (float)", "-(-n // BLOCK) rounds up and stays an int"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "options", "kind", "message", "hint"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
def test_call(args, options, kind, message, hint):
    head = "def copy(a, b, N, BLOCK: eas.constexpr = 8):"
    text = relative(refusal(kind, copy, *args, **options), copy)
    assert text == f"{message}\n  at +1\n    {head}\n    {'^' * len(head)}\n  hint: {hint}"


def test_array_where_a_number_is_wanted_and_the_other_way_round():
    assert refusal(eas.TypeMismatch, copy, None, F, 8).startswith("the buffer of load is None\n  at test_errors_launch.py:")
    assert refusal(eas.TypeMismatch, copy, 3.0, F, 8).startswith("load needs a buffer or pointer, got f32\n  at ")
    with pytest.raises(eas.TypeMismatch, match="lt needs values, got the pointer <N: ptr<f32>>"):
        copy(F, F.copy(), F)


def test_missing_grid_information():
    @eas.kernel
    def linear(b, M):
        mk.store(b, mk.program_id(0) * 8 + mk.arange(0, 8), M)

    @eas.kernel
    def spatial(b, W):
        mk.store(b, mk.program_id(1) * W + mk.program_id(0) * 8 + mk.arange(0, 8), 1.0)

    assert relative(refusal(eas.GridError, linear, F, 8), linear) == (
        "cannot infer the grid of kernel linear: N not given\n"
        "  at +1\n    def linear(b, M):\n    ^^^^^^^^^^^^^^^^^\n"
        "  hint: pass _nthreads=..., _shape=(N,), or an integer argument named N, or the number of programs as _grid=..."
    )
    assert relative(refusal(ValueError, spatial, F, 8), spatial) == (
        "cannot infer the grid of kernel spatial: H not given\n"
        "  at +1\n    def spatial(b, W):\n    ^^^^^^^^^^^^^^^^^^\n"
        "  hint: pass _shape=(H, W), or an integer argument named H, or the number of programs as _grid=..."
    )


def test_tptg_of_a_thread_kernel():
    assert relative(refusal(eas.GridError, threads, F, F.copy(), _tptg=4, _grid=1), threads) == (
        "_tptg=(4, 1, 1) contradicts kernel threads, which runs in thread mode with (8, 1, 1)\n"
        "  at +1\n    def threads(a, b):\n    ^^^^^^^^^^^^^^^^^^\n  hint: leave _tptg out, or pass _tptg=(8, 1, 1)"
    )


def test_grid_given_twice():
    with pytest.raises(eas.ArgumentError, match=r"copy\[grid\]\(\.\.\.\) was also given _grid"):
        copy[1](F, F.copy(), 8, _grid=2)


# --- unsupported Python --------------------------------------------------------------------------------------

STATEMENTS = [
    ("try: pass\n    except ValueError: pass", "try is not supported in a kernel", "try: pass"),
    ("with y: pass", "with is not supported in a kernel", "with y: pass"),
    ("global g", "global is not supported in a kernel", "global g"),
    ("n = 1\n    del n", "del of a name is not supported in a kernel", "del n"),
    ("import os", "import is not supported in a kernel", "import os"),
    ("from os import path", "import is not supported in a kernel", "from os import path"),
    ("class A: pass", "class is not supported in a kernel", "class A: pass"),
    ("match y:\n        case 1: pass", "match is not supported in a kernel", "match y:"),
    ("async def f(): pass", "async def is not supported in a kernel", "async def f(): pass"),
    ("a = y and (n := 3)", ":= inside and is not supported in a kernel", "n := 3"),
]


@pytest.mark.parametrize(("statement", "message", "marked"), STATEMENTS, ids=[s[0].split()[0] for s in STATEMENTS])
def test_unsupported_statement(statement, message, marked):
    source = f"def kernel(y):\n    {statement}\n    mk.store(y, 0, 1.0)\n"
    kernel = load_source(source, mk=mk)["kernel"]
    for _ in range(2):  # remembered refusals read the same
        text = refusal(eas.UnsupportedPython, kernel, F)
        assert text.startswith(f"{message}\n  at <source ")
        assert "^" * len(marked) in text
        assert "\n  hint: " in text


def test_unsupported_statement_in_a_helper_shows_the_helper():
    helper = load_source("def helper(v):\n    with v: pass\n")["helper"]

    def kernel(y):
        mk.store(y, 0, helper(1.0))

    assert refusal(eas.UnsupportedPython, kernel, F).startswith("with is not supported in a kernel\n  at <source ")


# --- tracebacks -----------------------------------------------------------------------------------------------


def shown(error):
    """(file, line of code) of every frame of a traceback."""
    return [(frame.filename.rpartition("/")[2], frame.line) for frame in traceback.extract_tb(error.__traceback__)]


def test_traceback_has_the_users_lines_only():
    def helper(v, n):
        for _i in range(n):
            if v > 2:
                v = mk.exp(v)
        return v

    def kernel(y, n):
        if n > 3:
            mk.store(y, 0, helper(n, n))

    lines = shown(caught(eas.TypeMismatch, kernel, F, 3))
    assert lines[0][1] == "kernel(*args, **meta)"
    assert [line for _, line in lines[1:]] == ["mk.store(y, 0, helper(n, n))", "v = mk.exp(v)"]


def test_traceback_of_a_launch_in_brackets():
    tuned = eas.autotune(configs=[eas.Config({"BLOCK": 8})])(copy.fn)
    for launch in (functools.partial(copy[1]), functools.partial(tuned[1])):  # not functions, which `caught` would make kernels
        for args in ((F,), (F.astype(np.complex64), F.copy(), 8), (3.0, F.copy(), 8)):
            caught(eas.EasError, launch, *args)
        assert "pass the grid once" in refusal(eas.ArgumentError, launch, F, F.copy(), 8, _grid=1)


def test_size_that_is_no_integer():
    assert "N of kernel copy needs integers, got 8.0 (float)\n" in (text := refusal(eas.GridError, copy, F, F.copy(), 8.0))
    assert text.endswith("hint: pass a Python or NumPy integer")


class Unlucky:
    @property
    def size(self):
        return {}["size"]


@pytest.mark.parametrize(
    ("kind", "expression"),
    [(ZeroDivisionError, "1 // (3 - 3)"), (AttributeError, "(3).missing"), (IndexError, "[1][2]"), (KeyError, "unlucky.size"), (TypeError, "len(3)"), (NameError, "nowhere"), (UnicodeEncodeError, "'é'.encode('ascii')")],
)
@pytest.mark.parametrize("around", ["{}", "[{} for _ in range(2)]", "({} if n > 0 else 0)", "(n > 0 and {})", "helper(lambda: {})"])
def test_errors_of_the_users_own_code_keep_their_type_and_line(kind, expression, around):
    statement = f"mk.store(y, 0, {around.format(expression)})"
    source = f"def helper(f):\n    return f()\ndef kernel(y, n):\n    for i in range(n):\n        {statement}\n"
    kernel = load_source(source, mk=mk, unlucky=Unlucky())["kernel"]
    error = caught(kind, kernel, F, 3)
    assert type(error) is kind
    assert statement in [line for _, line in shown(error)]


def test_cause_and_context_of_a_users_error_stay():
    def table(name):
        return load_source("def look(name):\n    try:\n        return {}[name]\n    except KeyError as error:\n        raise ValueError(name) from error\n")["look"](name)

    wrapped = np.vectorize(table, otypes=[int])

    def kernel(y):
        mk.store(y, 0, wrapped("a").item())

    error = caught(ValueError, kernel, F)
    assert isinstance(error.__cause__, KeyError)


# --- nothing is left behind -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_interrupted_trace_leaves_no_state(kind):
    trouble = [True]

    def fail(v):
        raise kind

    def helper(v):
        return fail(v) if trouble[0] else v

    @eas.kernel
    def kernel(y, n):
        total = 0
        for i in range(n):
            if i > 1:
                total += helper(i)
        mk.store(y, 0, total)

    caught(kind, kernel, np.zeros(8, np.int32), 4)
    assert not is_tracing()
    trouble[0] = False
    assert first(kernel, 4) == 5


def test_a_refused_kernel_works_with_other_types():
    @eas.kernel
    def kernel(y, v):
        mk.store(y, 0, mk.exp(v))

    caught(eas.TypeMismatch, kernel, F.copy(), 1)
    assert first(kernel, 0.0, out=np.float32) == 1.0
    caught(eas.TypeMismatch, kernel, F.copy(), 1)
    assert first(kernel, 0.0, out=np.float32) == 1.0


def test_a_failed_launch_works_the_next_time():
    @eas.kernel
    def kernel(y, n):
        mk.store(y, n, 1)

    caught(eas.OutOfBounds, kernel, np.zeros(4, np.int32), 4)
    assert run(kernel, 2, size=4) == [0, 0, 1, 0]


def test_errors_pickle_with_their_text():
    import pickle

    error = caught(eas.TypeMismatch, lambda y: mk.store(y, 0, mk.exp(mk.program_id(0))), F)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_kernels_trace_in_several_threads_at_once():
    barrier = threading.Barrier(4)
    results = {}

    def work(k):
        @eas.kernel
        def kernel(y, n):
            total = 0
            for i in range(n):
                total += i * k if i > 1 else k
            mk.store(y, 0, total)

        barrier.wait(10)
        for _ in range(5):
            kernel._compiled.clear()
            results.setdefault(k, []).append(first(kernel, 5))
        with pytest.raises(eas.TypeMismatch):
            eas.kernel(lambda y: mk.store(y, 0, mk.exp(mk.program_id(0))))(F)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert results == {k: [11 * k] * 5 for k in range(1, 5)}


def test_one_kernel_compiles_once_for_many_threads():
    traces = SimpleQueue()  # a list would be something that the kernel reads, and it changes

    @eas.kernel
    def kernel(y, n):
        traces.put(threading.get_ident())
        mk.store(y, 0, n)

    made = []
    workers = [threading.Thread(target=lambda: made.append(kernel.compile(F, 1))) for _ in range(8)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert traces.qsize() == 1
    assert len({id(m) for m in made}) == 1
