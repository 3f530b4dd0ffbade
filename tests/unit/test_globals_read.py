"""Dependencies notice every edit of what a function reads, and nothing else."""

import math
import types

import pytest

from eas import mk
from eas.frontend.reads.globals_read import Dependencies


def module_of(source, **names):
    made = types.ModuleType("user_module")
    vars(made).update(names)
    exec(source, vars(made))
    return made


def test_untouched_function_is_current():
    m = module_of("A = 1\ndef f(x): return x + A")
    deps = Dependencies.of(m.f)
    assert deps.is_current()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 2), (1, True), (1, 1.0), (0.0, -0.0), ("a", "b"), (None, 0), ((1, 2), (1, 3)),
        ((1, [2]), (1, [3])), ([1], [2]), ({"a": 1}, {"a": 2}), ({1}, {2}), (object(), object()),
        (len, max), (int, float), ([1, [2, [3]]], [1, [2, [4]]]),
    ],
)  # fmt: skip
def test_rebound_global_makes_stale(before, after):
    m = module_of("def f(x): return x + A", A=before)
    deps = Dependencies.of(m.f)
    m.A = after
    assert not deps.is_current()
    m.A = before
    assert deps.is_current()


@pytest.mark.parametrize(
    "value", [1000, 1.5, float("nan"), "text", (1, (2.0, "x")), [1, 2], {"k": [1]}]
)
def test_rebinding_to_an_equal_plain_value_stays_current(value):
    m = module_of("def f(x): return x + A", A=value)
    deps = Dependencies.of(m.f)
    m.A = eval(repr(value), {"nan": math.nan})
    assert deps.is_current()


def test_edit_in_place_makes_stale():
    m = module_of("A = [1, {'k': {2}}]\nT = ([],)\ndef f(x): return x + A[0] + len(T)")
    deps = Dependencies.of(m.f)
    m.A[1]["k"].add(3)
    assert not deps.is_current()
    m.A[1]["k"].remove(3)
    assert deps.is_current()
    m.T[0].append(1)
    assert not deps.is_current()


def test_deleted_global_makes_stale():
    m = module_of("A = None\ndef f(x): return A")
    deps = Dependencies.of(m.f)
    del m.A
    assert not deps.is_current()


def test_unread_global_does_not_matter():
    m = module_of("A = 1\nB = 1\ndef f(x): return x + A")
    deps = Dependencies.of(m.f)
    m.B = 2
    assert deps.is_current()


def test_names_in_nested_functions_count():
    m = module_of("A = 1\ndef f(x):\n    return [(lambda: A + y)() for y in x]")
    deps = Dependencies.of(m.f)
    m.A = 2
    assert not deps.is_current()


def test_closure_cells_count():
    def make():
        scale, table = 2, [1]

        def f(x):
            return x * scale + table[0]

        def rescale(value):
            nonlocal scale
            scale = value

        return f, rescale, table

    f, rescale, table = make()
    deps = Dependencies.of(f)
    assert deps.is_current()
    rescale(3)
    assert not deps.is_current()
    rescale(2)
    assert deps.is_current()
    table[0] = 5
    assert not deps.is_current()


def test_cell_filled_later_makes_stale():
    def make():
        def f(x):
            return late + x

        deps = Dependencies.of(f)
        assert deps.is_current()
        late = 1
        return deps

    assert not make().is_current()


def test_code_and_defaults_count():
    m = module_of("def f(x, a=1, *, b=2): return x + a + b\ndef g(x, a=1, *, b=2): return x")
    deps = Dependencies.of(m.f)
    m.f.__defaults__ = (1,)
    assert deps.is_current()
    m.f.__defaults__ = (2,)
    assert not deps.is_current()
    m.f.__defaults__ = (1,)
    m.f.__kwdefaults__["b"] = 3
    assert not deps.is_current()
    m.f.__kwdefaults__["b"] = 2
    assert deps.is_current()
    m.f.__code__ = m.g.__code__
    assert not deps.is_current()


def test_attribute_of_user_module_counts():
    config = module_of("BLOCK = 64\nOTHER = 1")
    m = module_of("def f(x): return x + config.BLOCK", config=config)
    deps = Dependencies.of(m.f)
    config.OTHER = 2
    assert deps.is_current()
    config.BLOCK = 128
    assert not deps.is_current()


def test_attribute_of_class_and_instance_counts():
    class Config:
        block = 64

    Config.__module__ = "user_module"
    m = module_of("def f(x): return x + c.block", c=Config())
    deps = Dependencies.of(m.f)
    assert deps.is_current()
    m.c.block = 32
    assert not deps.is_current()
    del m.c.block
    assert deps.is_current()
    Config.block = 65
    assert not deps.is_current()


def test_attribute_of_the_standard_library_counts(monkeypatch):
    m = module_of("import math\ndef f(x): return math.pi * x")
    deps = Dependencies.of(m.f)
    assert deps.is_current()
    monkeypatch.setattr(math, "pi", 3.0)
    assert not deps.is_current()


def test_language_costs_nothing_per_launch():
    m = module_of("def f(x): return mk.exp(x) + mk.f32(1)", mk=mk)
    assert Dependencies.of(m.f)._names == []


def test_helpers_are_added():
    helper = module_of("B = 1\ndef g(x): return x + B")
    m = module_of("def f(x): return g(x)", g=helper.g)
    deps = Dependencies.of(m.f)
    deps.add(helper.g)
    deps.add(helper.g)
    helper.B = 2
    assert not deps.is_current()


def test_callables_without_python_code_read_nothing():
    deps = Dependencies.of(len)
    deps.add([].append)
    assert deps.is_current()


def test_self_containing_list_is_bounded():
    loop: list[object] = []
    loop.append(loop)
    m = module_of("def f(x): return A", A=loop)
    assert Dependencies.of(m.f).is_current()
