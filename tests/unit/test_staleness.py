"""A kernel is compiled anew when something it reads was edited, and only then."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
import warnings

import numpy as np
import pytest

import eas
from eas import mk
from tests.unit.kernel_runs import first
from tests.unit.plain_hooks import load_source

Y = np.zeros(8, np.int32)


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")


def module_of(source, **names):
    """(kernel, the globals it reads) of a piece of source."""
    loaded = load_source(source, mk=mk, eas=eas, **names)
    return eas.kernel(loaded["kernel"]), loaded


def compiled(kernel, n=2):
    return kernel.compile(Y, n)


def test_untouched_kernels_give_the_same_object():
    kernel, names = module_of("SCALE = 3\ndef kernel(y, n):\n    mk.store(y, 0, n * SCALE)\n")
    made = compiled(kernel)
    assert compiled(kernel) is made
    assert compiled(kernel, n=77) is made
    assert kernel.compile(np.zeros((3, 4), np.int32), 2) is made
    assert kernel.compile(Y.astype(np.int64), 2) is not made
    names["SCALE"] = 3
    assert compiled(kernel) is made


def test_a_global_number():
    kernel, names = module_of("SCALE = 3\ndef kernel(y, n):\n    mk.store(y, 0, n * SCALE)\n")
    assert first(kernel, 2) == 6
    names["SCALE"] = 5
    assert first(kernel, 2) == 10
    names["SCALE"] = 3
    assert first(kernel, 2) == 6
    del names["SCALE"]
    with pytest.raises(NameError):
        first(kernel, 2)


def test_unrelated_globals_do_not_matter():
    kernel, names = module_of("SCALE, OTHER = 3, [1]\ndef unused(): return OTHER\ndef kernel(y, n):\n    mk.store(y, 0, n * SCALE)\n")
    made = compiled(kernel)
    names["OTHER"].append(2)
    names["OTHER"] = 7
    names["unused"] = None
    names["new"] = 1
    assert compiled(kernel) is made


def test_a_closure_cell():
    def make():
        scale = 3

        def set_scale(v):
            nonlocal scale
            scale = v

        @eas.kernel
        def kernel(y, n):
            mk.store(y, 0, n * scale)

        return kernel, set_scale

    kernel, set_scale = make()
    assert first(kernel, 2) == 6
    made = compiled(kernel)
    set_scale(3)
    assert compiled(kernel) is made
    set_scale(4)
    assert first(kernel, 2) == 8


@pytest.mark.parametrize("edit", [lambda d: d["T"].append(100), lambda d: d["T"].__setitem__(0, 50), lambda d: d["D"].update(k=9), lambda d: d["D"]["deep"].__setitem__(0, 1), lambda d: d["S"].add(4)])
def test_lists_dicts_and_sets_changed_in_place(edit):
    kernel, names = module_of("T, D, S = [1, 2], {'k': 3, 'deep': [0]}, {7}\ndef kernel(y, n):\n    mk.store(y, 0, sum(T) + D['k'] + D['deep'][0] + sum(S) + n)\n")
    made = compiled(kernel)
    assert first(kernel, 0) == 13
    assert compiled(kernel) is made
    edit(names)
    assert first(kernel, 0) == sum(names["T"]) + names["D"]["k"] + names["D"]["deep"][0] + sum(names["S"])


def test_a_helper_is_redefined():
    kernel, names = module_of("def helper(v):\n    return v + 1 if v > 0 else v\ndef kernel(y, n):\n    mk.store(y, 0, helper(n))\n")
    assert first(kernel, 2) == 3
    names["helper"] = load_source("def helper(v):\n    return v + 10 if v > 0 else v\n")["helper"]
    assert first(kernel, 2) == 12


def test_a_helpers_code_defaults_and_own_globals_change():
    kernel, names = module_of(
        "STEP = 1\ndef inner(v):\n    return v + STEP\ndef helper(v, by=10, *, more=100):\n    return inner(v) * by + more\ndef kernel(y, n):\n    mk.store(y, 0, helper(n))\n"
    )
    helper = names["helper"]
    assert first(kernel, 2) == 130
    names["STEP"] = 2
    assert first(kernel, 2) == 140
    helper.__defaults__ = (20,)
    assert first(kernel, 2) == 180
    helper.__kwdefaults__ = {"more": 0}
    assert first(kernel, 2) == 80
    helper.__code__ = load_source("def helper(v, by=10, *, more=100):\n    return by\n")["helper"].__code__
    assert first(kernel, 2) == 20


def test_a_module_attribute_and_a_reloaded_module(tmp_path):
    path = tmp_path / "settings_of_kernels.py"
    path.write_text("FACTOR = 2\ndef helper(v):\n    return v * FACTOR if v > 0 else v\n")
    spec = importlib.util.spec_from_file_location("settings_of_kernels", path)
    settings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(settings)
    kernel, _ = module_of("def kernel(y, n):\n    mk.store(y, 0, settings.helper(n) + settings.FACTOR)\n", settings=settings)
    assert first(kernel, 3) == 8
    settings.FACTOR = 5
    assert first(kernel, 3) == 20
    path.write_text("FACTOR = 1\n\n\ndef helper(v):\n    return v * 100 if v > 0 else v\n")
    sys.dont_write_bytecode, saved = True, sys.dont_write_bytecode
    try:
        spec.loader.exec_module(settings)
    finally:
        sys.dont_write_bytecode = saved
    assert first(kernel, 3) == 301


def test_a_class_attribute_and_an_instance_attribute():
    class Config:
        factor = 2

    config = Config()

    @eas.kernel
    def kernel(y, n):
        mk.store(y, 0, n * config.factor)

    assert first(kernel, 3) == 6
    Config.factor = 4
    assert first(kernel, 3) == 12
    config.factor = 5
    assert first(kernel, 3) == 15


def test_an_attribute_that_only_a_method_reads():
    class Config:
        factor = 2

        def scaled(self, v):
            return v * self.factor if v > 0 else v

    config = Config()

    @eas.kernel
    def kernel(y, n):
        mk.store(y, 0, config.scaled(n))

    assert first(kernel, 3) == 6
    config.factor = 5
    assert first(kernel, 3) == 15


def test_what_a_constexpr_function_or_callback_reads():
    kernel, names = module_of("STEP = 1\ndef f(v):\n    return v + STEP\ndef kernel(y, n, F: eas.constexpr):\n    mk.store(y, 0, F(n) + list(map(f, [n]))[0])\n")
    f = names["f"]
    assert first(kernel, 2, f) == 6
    names["STEP"] = 10
    assert first(kernel, 2, f) == 24


@dataclasses.dataclass
class Data:
    factor: int


def test_constexpr_values_that_change_in_place():
    class Config:
        def __init__(self):
            self.factor = 2

    @eas.kernel
    def kernel(y, n, C: eas.constexpr):
        c = C.factor if isinstance(C, (Config, Data)) else C["factor"] if isinstance(C, dict) else C[0]
        mk.store(y, 0, n * (c.item() if isinstance(c, np.generic) else c))

    config, data, table, items, array = Config(), Data(2), {"factor": 2}, [2], np.array([2])
    config.owner = config  # a cycle does no harm
    for made in (config, data, table, items, array):
        assert first(kernel, 3, made) == 6
    config.factor = data.factor = table["factor"] = items[0] = array[0] = 7
    for made in (config, data, table, items, array):
        assert first(kernel, 3, made) == 21


def test_constexpr_methods_and_callable_objects_that_change_in_place():
    class Scale:
        def __init__(self):
            self.factor = 2

        def __call__(self, v):
            return v * self.factor if v > 0 else v

        def method(self, v):
            return self(v)

    @eas.kernel
    def kernel(y, n, F: eas.constexpr):
        mk.store(y, 0, F(n))

    scale = Scale()
    assert first(kernel, 3, scale) == first(kernel, 3, scale.method) == 6
    scale.factor = 7
    assert first(kernel, 3, scale) == first(kernel, 3, scale.method) == 21


@pytest.mark.parametrize(("a", "b"), [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,)), ((0.0,), (-0.0,)), (np.float32(1), 1.0), (None, 0), ("a", b"a")])
def test_equal_looking_constexpr_values_are_different(a, b):
    kernel = eas.kernel(load_source("def kernel(y, C: eas.constexpr):\n    mk.store(y, 0, 1)\n", mk=mk, eas=eas)["kernel"])
    assert kernel.compile(Y, a) is not kernel.compile(Y, b)
    assert kernel.compile(Y, a) is kernel.compile(Y, a)


def test_nan_and_fresh_equal_values_share_a_kernel():
    kernel = eas.kernel(load_source("def kernel(y, C: eas.constexpr):\n    mk.store(y, 0, 1)\n", mk=mk, eas=eas)["kernel"])
    for make in (lambda: float("nan"), lambda: np.float32("nan"), lambda: [1, {"a": (2.0,)}], lambda: np.dtype("f4"), lambda: mk.f32):
        assert kernel.compile(Y, make()) is kernel.compile(Y, make())


def test_defaults_of_the_kernel_itself():
    def kernel(y, n=2, *, K: eas.constexpr = 3):
        mk.store(y, 0, n * K)

    made = eas.kernel(kernel)
    assert first(made) == 6
    kernel.__defaults__ = (5,)
    assert first(made) == 15
    kernel.__kwdefaults__ = {"K": 4}
    assert first(made) == 20


def test_redefining_the_kernel_in_a_notebook_gives_new_numbers():
    cell = "@eas.kernel\ndef kernel(y, n):\n    mk.store(y, 0, n * {})\n"
    names = load_source(cell.format(2), mk=mk, eas=eas)
    assert first(names["kernel"], 3) == 6
    names.update(load_source(cell.format(7), mk=mk, eas=eas))
    assert first(names["kernel"], 3) == 21


def test_a_kernel_used_as_helper_is_redefined():
    kernel, names = module_of("@eas.kernel\ndef part(y, v):\n    mk.store(y, 0, v)\ndef kernel(y, n):\n    part(y, n)\n")
    assert first(kernel, 3) == 3
    names["part"] = eas.kernel(load_source("def part(y, v):\n    mk.store(y, 0, v + 1)\n", mk=mk)["part"])
    assert first(kernel, 3) == 4


def test_an_attribute_of_a_namespace():
    source = "from types import SimpleNamespace\nCONFIG = SimpleNamespace(scale=3)\ndef kernel(y, n):\n    mk.store(y, 0, n * CONFIG.scale)\n"
    kernel, names = module_of(source)
    assert first(kernel, 2) == 6
    names["CONFIG"].scale = 5
    assert first(kernel, 2) == 10


def test_functions_that_a_kernel_defines_do_not_make_it_stale():
    kernel, names = module_of(
        "STEP = 1\ndef twice(f, v):\n    return f(f(v))\ndef kernel(y, n):\n    v = n\n    for s in (1, 2, 3):\n        add = lambda a: a + s * STEP\n"
        "        def double(b, by=s):\n            return b * 2 + by\n        v = double(twice(add, v))\n    mk.store(y, 0, v)\n"
    )
    made = compiled(kernel)
    assert compiled(kernel) is made
    names["STEP"] = 2  # what such a function reads outside still counts
    assert compiled(kernel) is not made


def test_a_function_made_before_the_kernel_is_looked_at():
    kernel, names = module_of("def make(n):\n    def add(v):\n        return v + n\n    return add\nadd = make(1)\ndef kernel(y, n):\n    mk.store(y, 0, add(make(5)(n)))\n")
    made = compiled(kernel)
    assert compiled(kernel) is made
    names["add"].__closure__[0].cell_contents = 7
    assert compiled(kernel) is not made


def test_retraces_are_told(monkeypatch, capsys):
    kernel, _ = module_of("SEEN = []\ndef kernel(y, n):\n    SEEN.append(1)\n    mk.store(y, 0, n)\n")
    compiled(kernel)
    monkeypatch.setenv("EAS_DEBUG", "1")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(15):
            compiled(kernel)
    assert len(told) == 1
    assert re.match(r"kernel kernel was traced anew by each of the last 11 launches, because .*SEEN changes between them", str(told[0].message))
    assert told[0].filename == __file__
    said = capsys.readouterr().err
    assert said.count("retraced kernel because") == 15


def test_a_launch_between_retraces_ends_the_row(recwarn):
    kernel, names = module_of("STEP = 0\ndef kernel(y, n):\n    mk.store(y, 0, n + STEP)\n")
    for step in range(15):
        names["STEP"] = step
        compiled(kernel)
        compiled(kernel)
    assert not recwarn
