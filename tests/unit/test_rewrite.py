"""Rewritten functions do what the originals do, at the same source positions."""

import functools
import importlib
import linecache
import sys
import textwrap
import traceback

import pytest

from eas.base.errors import UnsupportedPython
from eas.frontend.syntax.rewrite import SourceSpot, rewrite
from tests.unit.plain_hooks import PlainHooks, load_source
from tests.unit.rewrite_cases import LOG, SAME, SINGLES, early_return, emit


def outcome(fn, *args):
    """What a call returned or raised, and what it logged."""
    LOG.clear()
    try:
        result = repr(fn(*args))
    except (
        ArithmeticError,
        AssertionError,
        LookupError,
        NameError,
        TypeError,
        ValueError,
    ) as error:
        kind = "NameError" if isinstance(error, NameError) else type(error).__name__
        result = f"{kind}: {'' if kind == 'NameError' else error}"
    return result, tuple(LOG)


def rewritten(fn):
    got = rewrite(fn, PlainHooks())
    assert got.rewritten, got.reason
    assert (
        "__eas__" in got.fn.__code__.co_freevars or got.fn.__code__.co_code == fn.__code__.co_code
    )
    return got.fn


@pytest.mark.parametrize(("fn", "calls"), SAME, ids=[fn.__name__ for fn, _ in SAME])
def test_same_result_and_effects(fn, calls):
    new = rewritten(fn)
    for args in calls:
        assert outcome(new, *args) == outcome(fn, *args), args


def test_asserts():
    # Not in the table: pytest rewrites the asserts of this file.
    source = "def f(n):\n    assert n != 3\n    assert n < 6, f'too large: {emit(n)}'\n    return n"
    fn = load_source(source, emit=emit)["f"]
    for args in SINGLES:
        assert outcome(rewritten(fn), *args) == outcome(fn, *args)


def test_function_whose_asserts_pytest_rewrote_is_still_found():
    def f(n):
        assert n > 1, "small"
        return 1 if n > 2 else 0

    assert "@pytest_ar" in f.__code__.co_names
    assert rewritten(f)(3) == 1


# --- the shape of the functional form -------------------------------------------------------------


def states_of(source, *args):
    hooks = PlainHooks()
    fn = load_source(textwrap.dedent(source))["f"]
    rewrite(fn, hooks).fn(*args)
    return hooks.states, hooks.names


def test_state_leaves_out_names_that_die_in_the_body():
    source = """
    def f(n):
        acc = 0
        for i in range(n):
            t = i * 2
            if t > 1:
                u = t
                acc += u
        return acc
    """
    states, names = states_of(source, 2)
    assert states == [("acc",), ("acc",), ("acc",)]
    assert names == ["acc", "i", "t", "i", "t", "u", "acc"]


def test_target_read_after_the_loop_is_state():
    states, _ = states_of("def f(n):\n  for i, j in n:\n    pass\n  return j", [(1, 2)])
    assert states == [("j",)]


def test_guard_returns_carry_no_flags():
    source = """
    def f(n):
        if n < 0:
            return
        x = n
        if x > 5:
            return
        print(end="")
    """
    assert states_of(source, 2)[0] == [(), ()]


def test_break_flag_is_the_only_hidden_loop_state():
    source = """
    def f(n):
        s = 0
        while True:
            if s > n:
                break
            s += 1
        return s
    """
    states, names = states_of(source, 1)
    assert states[0] == ("__eas_brk1", "s")
    assert names == ["s", "s", "s"]


def test_named_gets_the_shape_of_the_target():
    source = "def f(n):\n  a, (b, *c), d[0] = 1, (2, 3), 4\n  x = y = 1\n  d[0] = 2\n"
    hooks = PlainHooks()
    rewrite(load_source(source, d=[0])["f"], hooks).fn(1)
    assert hooks.names == [("a", ("b", "*c"), None), "x"]


def test_calls_go_through_the_hook():
    class Hooks(PlainHooks):
        def call(self, fn):
            return (lambda *a: max(a)) if fn is min else fn

    def f(a, b):
        return min(a, b), [min(x, 2) for x in (1, 3)], locals()["a"]

    assert rewrite(f, Hooks()).fn(1, 5) == (5, [2, 3], 1)


def test_raise_is_announced_only_inside_control_flow():
    class Hooks(PlainHooks):
        def raise_(self):
            raise RuntimeError("refused")

    space = load_source("def f(c):\n  if c: raise KeyError\ndef g(c):\n  raise KeyError\n")
    with pytest.raises(RuntimeError, match="refused"):
        rewrite(space["f"], Hooks()).fn(1)
    with pytest.raises(KeyError):
        rewrite(space["g"], Hooks()).fn(1)


# --- identity of the function ---------------------------------------------------------------------


def test_cells_globals_and_defaults_are_the_originals():
    scale = 2

    def f(x, y=3, *, z=4):
        """Docs."""
        if x:
            return scale * y + z + SOME_GLOBAL
        return 0

    f.__dict__["note"] = "kept"
    new = rewritten(f)
    global SOME_GLOBAL
    SOME_GLOBAL = 100
    assert new(1) == 110
    scale, SOME_GLOBAL = 5, 0
    assert (new(1), new(0)) == (19, 0)
    assert new.__globals__ is f.__globals__
    assert new.__defaults__ is f.__defaults__
    assert new.__kwdefaults__ == {"z": 4}
    assert (new.__name__, new.__qualname__, new.__doc__) == (f.__name__, f.__qualname__, "Docs.")
    assert new.__code__.co_firstlineno == f.__code__.co_firstlineno
    assert new.__code__.co_qualname == f.__code__.co_qualname
    assert new.__dict__ == {"note": "kept"}
    assert "__eas__" not in f.__globals__


SOME_GLOBAL = 0


def test_code_is_compiled_once_and_hooks_are_per_call():
    first, second = PlainHooks(), PlainHooks()
    one, two = rewrite(early_return, first).fn, rewrite(early_return, second).fn
    assert one.__code__ is two.__code__
    one(6)
    assert first.states
    assert not second.states


def test_equal_code_in_two_files_keeps_both_filenames():
    source = "def f(x):\n    if x:\n        return 1 / x\n"
    fns = [load_source(source)["f"] for _ in range(2)]
    names = [rewritten(fn).__code__.co_filename for fn in fns]
    assert names == [fn.__code__.co_filename for fn in fns]
    assert names[0] != names[1]


def test_rewriting_twice_gives_the_same():
    def outer(n):
        def inner(x):
            if x:
                return n
            return x

        return inner

    once = rewritten(early_return)
    assert rewrite(once, PlainHooks()).fn is once
    inner = rewritten(outer)(2)
    assert rewrite(inner, PlainHooks()).fn is inner


class Base:
    def __init__(self, n):
        self.__n = n

    def value(self, n):
        return n + self.__n


class Derived(Base):
    def __init__(self, n):
        super().__init__(n)
        self.__n = 10

    def value(self, n):
        if n > 2:
            for _ in range(2):
                n = super().value(n) + self.__n
            return n, __class__.__name__, Derived is type(self)  # type: ignore[name-defined]
        return super().value(n) if n else self.__n

    @staticmethod
    def fact(n):
        return n * Derived.fact(n - 1) if n > 1 else 1


def test_methods_with_super_and_private_names():
    for n in range(5):
        assert rewritten(Derived.value)(Derived(1), n) == Derived(1).value(n)
    bound = rewrite(Derived(1).value, PlainHooks())
    assert bound.rewritten
    assert bound.fn(4) == Derived(1).value(4)
    assert rewritten(Derived.fact)(5) == 120


def test_private_and_annotated_names_as_state():
    source = """
    from __future__ import annotations
    class K:
        def m(self, n: Missing, *, k: Missing = 1) -> Missing:
            __t: int = 0
            for __i in range(n):
                __t += __i
                u: Missing = __t
                if u > 2:
                    def __g(x): return x + __t
                    u = __g(k)
            return __t, u
    """
    cls = load_source(textwrap.dedent(source))["K"]
    assert rewritten(cls.m)(cls(), 4, k=2) == cls().m(4, k=2) == (6, 8)


def test_local_class_and_recursion():
    class Local:
        def twice(self, n):
            return Local().twice(n - 1) + 2 if n else 0

    def fact(n):
        return n * fact(n - 1) if n > 1 else 1

    assert rewritten(Local.twice)(Local(), 3) == 6
    assert rewritten(fact)(5) == 120


def passing(*_, **__):
    return lambda fn: fn


def wrapping(fn):
    @functools.wraps(fn)
    def wrapper(x):
        if x > 1:
            return "wrapped"
        return fn(x)

    return wrapper


@passing(
    1,
    key=lambda x: x,
)
@passing()
def decorated(
    x=(1, 2),
):
    if x:
        return 1
    return 2


@wrapping
def wrapped(x):
    return x


def test_decorated_functions():
    assert [rewritten(decorated)(x) for x in (0, 1)] == [2, 1]
    assert [rewritten(wrapped)(x) for x in (0, 2)] == [0, "wrapped"]


if True:

    def twin(x):
        return "first" if x else 0

    first_twin = twin

    def twin(x):
        return "second" if x else 0


def test_functions_of_the_same_name():
    assert (rewritten(first_twin)(1), rewritten(twin)(1)) == ("first", "second")


# --- positions ------------------------------------------------------------------------------------

FAILING = """
class K:
    def unrelated(self): pass

def f(c, z):
    x = 1
    if c > 0:
        for i in range(3):
            while x < 9:
                x = x + 1; y = (x +
                     1 / z) if c > 1 else 1 % z
                if c == 3: return y
    elif c == 0:
        w = [1 // z for _ in "a" if 5 % z or 1]
    elif c == -1:
        ("é" + str(z)
            .join([])
            .index("zz"))
    elif c == -2:
        z += 1 << (z - 1)
    elif c == -3:
        for k in z: pass
    else:
        r = 1 < 2 < 1 / z and z
    return x / z
"""


def last_position(fn, *args):
    try:
        fn(*args)
    except Exception as error:
        frames = [
            (f.f_code.co_filename, f.f_code.co_name, tb_positions(tb))
            for tb, f in ((tb, tb.tb_frame) for tb in walk(error.__traceback__))
        ]
        return [frame for frame in frames if frame[0].startswith("<source")][-1]
    raise AssertionError("must fail")


def walk(tb):
    while tb is not None:
        yield tb
        tb = tb.tb_next


def tb_positions(tb):
    return list(tb.tb_frame.f_code.co_positions())[tb.tb_lasti // 2]


@pytest.mark.parametrize("c", [1, 2, 3, 0, -1, -2, -4])
def test_exception_has_the_original_position(c):
    fn = load_source(FAILING)["f"]
    want, got = last_position(fn, c, 0), last_position(rewritten(fn), c, 0)
    assert got[0::2] == want[0::2]
    if want[1] == "f":
        assert got[1] in ("f", "<lambda>")


def test_traceback_shows_the_users_lines():
    fn = rewritten(load_source(FAILING)["f"])
    with pytest.raises(ZeroDivisionError) as caught:
        fn(2, 0)
    text = "".join(traceback.format_exception(caught.value))
    assert "in f\n    x = x + 1; y = (x +" in text
    assert "1 / z) if c > 1 else 1 % z\n    ~~^~~" in text
    assert "__eas_" not in text


def test_failing_loop_points_at_what_is_iterated():
    position = last_position(rewritten(load_source(FAILING)["f"]), -3, 0)[2]
    assert position == (22, 22, 17, 18)


# --- functions that stay as they are --------------------------------------------------------------


def unchanged(fn):
    got = rewrite(fn, PlainHooks())
    assert got.fn is fn
    assert not got.rewritten
    return got.reason


def test_functions_without_statements_or_source_are_returned():
    def generator(x):
        yield x

    async def coroutine(x):
        return x

    space: dict[str, object] = {}
    exec("def f(x):\n  return 1 if x else 0", space)
    assert unchanged(lambda x: x) == "a lambda is traced as it is"
    assert unchanged(len) == "not a Python function"
    assert unchanged(functools.partial(early_return, 1)) == "not a Python function"
    assert unchanged(generator) == "a generator or async function is called as it is"
    assert unchanged(coroutine) == "a generator or async function is called as it is"
    assert unchanged(space["f"]) == "its source is not available"


def test_indented_source_and_linecache():
    fn = load_source("if 1:\n    if 2:\n\n        def f(x):\n            return 1 if x else 2")["f"]
    assert [rewritten(fn)(x) for x in (0, 1)] == [2, 1]


def test_edited_source_is_not_trusted(tmp_path, monkeypatch):
    path = tmp_path / "edited.py"
    path.write_text("def f(x):\n    return 1 if x else 2\ndef g(x):\n    return 1 if x else 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    edited = importlib.import_module("edited")

    path.write_text("def f(x):\n    return 1 if x else 345\n\n")
    linecache.clearcache()
    assert unchanged(edited.f) == "its source changed after it was imported"
    assert unchanged(edited.g) == "its source is not available"


def test_source_in_a_broken_file_is_not_available():
    fn = load_source("def f(x):\n    return x")["f"]
    name = fn.__code__.co_filename
    linecache.cache[name] = (1, None, ["def f(x:\n"], name)
    assert unchanged(fn) == "its source is not available"


# --- refusals -------------------------------------------------------------------------------------

REFUSED = [
    ("try:\n        x = 1\n    finally:\n        pass", "try"),
    ("with x: pass", "with"),
    ("global G", "global"),
    ("def g():\n        nonlocal x\n        x = 2", "nonlocal"),
    ("class C: pass", "class"),
    ("import math", "import"),
    ("from math import pi", "import"),
    ("match x:\n        case 1: pass", "match"),
    ("del x", "del of a name"),
    ("del x[0], (x)", "del of a name"),
    ("def g():\n        yield 1", "yield"),
    ("g = lambda: (yield)", "yield"),
    ("async def g(): pass", "async def"),
    ("y = x and (z := 1)", ":= inside and"),
    ("y = 1 if x else (z := 1)", ":= inside a conditional expression"),
    ("y = 1 < x < (z := 1)", ":= inside a chained comparison"),
    ("y = [(z := i) for i in x]", ":= inside a comprehension"),
    ("y = [i for i in x if (z := i)]", ":= inside a comprehension"),
    ("while (z := x) > 1: pass", ":= inside a while test"),
    ("assert x, (z := 1)", ":= inside an assert message"),
]


@pytest.mark.parametrize(("stmt", "what"), REFUSED)
def test_refused_statement_is_named(stmt, what):
    fn = load_source(f"def f(x):\n    {stmt}\n")["f"]
    with pytest.raises(UnsupportedPython) as caught:
        rewrite(fn, PlainHooks())
    assert caught.value.message == f"{what} is not supported in a kernel"
    assert caught.value.hint


def test_refusal_is_repeated():
    fn = load_source("def f(x):\n    import math\n")["f"]
    texts = []
    for _ in range(2):
        with pytest.raises(UnsupportedPython) as caught:
            rewrite(fn, PlainHooks())
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_refusal_text():
    source = "def f(x):\n    y = 1\n    if x:\n        é = y and (z := 2)\n"
    fn = load_source(source)["f"]
    with pytest.raises(UnsupportedPython) as caught:
        rewrite(fn, PlainHooks())
    at = fn.__code__.co_filename
    assert str(caught.value) == (
        ":= inside and is not supported in a kernel\n"
        f"  at {at}:4\n"
        "    é = y and (z := 2)\n"
        "               ^^^^^^\n"
        "  hint: assign z on a line of its own"
    )
    fn = load_source("def f(x):\n    try:\n        y = 1\n    finally: pass\n")["f"]
    with pytest.raises(UnsupportedPython) as caught:
        rewrite(fn, PlainHooks())
    assert str(caught.value).splitlines()[2:4] == ["    try:", "    ^^^^"]


def test_spot_without_source_shows_the_line_number():
    assert SourceSpot("/no/such/file.py", 3, 0, 4).describe() == ["at file.py:3"]


def test_item_deletion_and_lambda_walrus_are_allowed():
    fn = load_source("def f(x):\n    del x[0]\n    return (lambda: (y := x[0]) + y)()")["f"]
    assert rewritten(fn)([1, 2]) == 4
