"""The object that `@eas.kernel` makes: calling, compiling, options, and how it behaves as a Python object."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import re

import numpy as np
import pytest

import eas
from eas import mk
from tests.unit.kernel_runs import caught

F = np.arange(20, dtype=np.float32)


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")


@eas.kernel
def add(a, b, c, N, BLOCK: eas.constexpr = 8):
    """Adds two arrays."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)


@eas.kernel
def pids(y, BLOCK: eas.constexpr):
    """Counts its programs; needs all axes."""
    x, w, d = mk.program_id(0), mk.program_id(1), mk.program_id(2)
    mk.store(y, (d * mk.num_programs(1) + w) * mk.num_programs(0) + x, 1 + mk.arange(0, BLOCK).sum() * 0)


@eas.kernel
def threads(y):
    t = mk.tid(0, 4)
    mk.store(y, mk.program_id(0) * 4 + t, t)


def programs(*args, **options):
    """How many programs a launch of `pids` ran."""
    y = np.zeros(200, np.int32)
    pids(y, *args, **options)
    return int(y.sum())


# --- launching --------------------------------------------------------------------------------------------


def test_call_infers_the_grid_from_n():
    out = np.zeros_like(F)
    assert add(F, F, out, F.size) is None
    np.testing.assert_array_equal(out, F + F)


@pytest.mark.parametrize("options", [{"_grid": 3}, {"_grid": (3,)}, {"_grid": [3, 1]}, {"_grid": (3, 1, 1)}, {"_grid": np.int64(3)}, {"_nthreads": 20}, {"_shape": (20,)}, {"_shape": 20}, {"_grid": lambda meta: (mk.cdiv(20, meta["BLOCK"]),)}, {"_grid": lambda meta, args: -(-args["N"] // meta["BLOCK"])}, {"_grid": 3, "_sync": False, "_tptg": (1, 1, 1)}])
def test_grid_options(options):
    out = np.zeros_like(F)
    add(F, F, out, 20, BLOCK=8, **options)
    np.testing.assert_array_equal(out, F + F)


def test_bracket_form():
    for grid in (3, (3,), lambda meta: (3,), lambda meta, args: 3):
        out = np.zeros_like(F)
        assert add[grid](F, F, out, 20, BLOCK=8) is None
        np.testing.assert_array_equal(out, F + F)


def test_a_grid_smaller_than_the_data_runs_only_its_programs():
    out = np.zeros_like(F)
    add[1](F, F, out, 20)
    np.testing.assert_array_equal(out, np.where(np.arange(20) < 8, F + F, 0))


def test_spatial_grids():
    assert programs(4, _grid=(2, 3, 4)) == 24
    assert programs(4, _shape=(5, 3, 8)) == 2 * 3 * 5
    assert programs(4, _grid=(2, 0, 4)) == 0


def test_arguments_named_h_w_d_size_the_grid():
    @eas.kernel
    def kernel(y, H, W, BLOCK: eas.constexpr):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(y, mk.program_id(1) * W + i, 1, i < W)

    y = np.zeros((3, 10), np.int32)
    kernel(y, 3, 10, BLOCK=4)
    assert y.sum() == 30


def test_a_zero_sized_grid_launches_nothing():
    out = np.zeros(0, np.float32)
    add(out, out, out, 0)
    kept = np.ones(8, np.float32)
    add[0](F, F, kept, 8)
    assert kept.sum() == 8


def test_a_thread_kernel_runs_and_knows_its_threads():
    y = np.zeros(8, np.int32)
    threads(y, _grid=2, _tptg=(4, 1, 1))
    assert y.tolist() == [0, 1, 2, 3] * 2
    made = threads.compile(y)
    assert (made.launch_mode, made.tptg, made.block_size, made.writes) == ("thread", (4, 1, 1), 4, ("y",))


def test_keyword_arguments_in_any_order():
    out = np.zeros_like(F)
    add(c=out, N=20, b=F, a=F, BLOCK=4)
    np.testing.assert_array_equal(out, F + F)


def test_module_kernel_has_get_runtime():
    import importlib

    module = importlib.import_module("eas.kernel")
    assert callable(module.get_runtime)
    assert isinstance(add, eas.Kernel)
    assert eas.kernel is not module


# --- compiling ----------------------------------------------------------------------------------------------


def test_compile_gives_the_same_object_for_the_same_types():
    made = add.compile(F, F, F, 20, BLOCK=8)
    assert isinstance(made, eas.CompiledKernel)
    assert add.compile(F, F, F, 7) is made
    assert add.compile(np.zeros((3, 5), np.float32), F, F, np.int64(3), BLOCK=8, _grid=5, _sync=False) is made
    assert add.compile(F, F, F, 2**40) is not made
    assert add.compile(F, F, F, 20, BLOCK=16) is not made
    assert add.compile(F.astype(np.float16), F, F, 20) is not made


def test_attributes_of_a_compiled_kernel():
    made = add.compile(F, F, F, 20, BLOCK=8)
    assert made.name == "add"
    assert made.launch_mode == "spmd"
    assert made.block_size == 8
    assert made.tptg == (1, 1, 1)
    assert made.writes == ("c",)
    assert made.reads == ("a", "b")
    assert made.arg_names == ("a", "b", "c", "N")
    assert str(made.ir).startswith("kernel add(")
    assert made.ir is made.ir
    assert repr(made).startswith("CompiledKernel(add(a: ptr<f32>, b: ptr<f32>, c: ptr<f32>, N: i32), spmd, ")


def test_block_size_is_none_with_two_lengths():
    @eas.kernel
    def kernel(y):
        mk.store(y, mk.arange(0, 4), 1)
        mk.store(y, mk.arange(0, 2), 1)

    assert kernel.compile(F).block_size is None


def test_cpu_texts_are_made_on_first_access(monkeypatch):
    pytest.importorskip("llvmlite")
    made = add.compile(F, F, F, 20)
    assert "define void @eas_kernel(" in made.llvm
    assert made.variant().native is made.variant().native
    assert re.search(r"^_?eas_kernel:", made.asm, re.MULTILINE)
    monkeypatch.setenv("EAS_NOOPT", "1")
    assert re.search(r"^_?eas_kernel:", made.asm, re.MULTILINE)


def test_metal_text_is_made_on_first_access():
    made = add.compile(F, F, F, 20)
    assert "kernel void add(" in made.msl
    assert made.variant().metal is made.variant().metal
    assert made.threads_per_threadgroup == made.variant().metal.threads
    assert made.tptg == (1, 1, 1)  # logical


def test_to_msl_takes_launch_options_and_hides_our_frames():
    assert "kernel void" in add.to_msl(F, F, F, 20, BLOCK=8, _grid=3)
    caught(eas.ArgumentError, add.to_msl, F)
    caught(eas.ArgumentError, add.compile, F)


def test_none_is_an_absent_buffer():
    @eas.kernel
    def kernel(y, bias):
        mk.store(y, 0, 1.0 if bias is None else mk.load(bias, 0))

    y = np.zeros(1, np.float32)
    kernel(y, None)
    assert y[0] == 1
    kernel(y, np.array([5], np.float32))
    assert y[0] == 5
    assert kernel.compile(y, None).arg_names == ("y",)


# --- as a Python object ---------------------------------------------------------------------------------------


def test_it_looks_like_the_function():
    assert add.__name__ == add.__qualname__ == "add"
    assert add.__doc__ == "Adds two arrays."
    assert add.__module__ == __name__
    assert add.__wrapped__ is add.fn
    assert list(inspect.signature(add).parameters) == ["a", "b", "c", "N", "BLOCK"]
    assert inspect.signature(add).parameters["BLOCK"].default == 8
    assert inspect.getsource(add).startswith("@eas.kernel\ndef add(")
    assert repr(add) == "<eas.kernel add(a, b, c, N, BLOCK)>"
    assert callable(add)

    @functools.wraps(add)
    def wrapper(*args):
        return add(*args)

    assert wrapper.__name__ == "add"


def test_it_is_copied_and_pickled_like_a_function(monkeypatch):
    assert copy.copy(add) is add
    assert copy.deepcopy({"k": [add]})["k"][0] is add
    monkeypatch.setitem(__import__("sys").modules, __name__, __import__("types").SimpleNamespace(add=add, Holder=Holder))
    assert pickle.loads(pickle.dumps(add)) is add
    assert pickle.loads(pickle.dumps(Holder.inside)) is Holder.inside
    local = eas.kernel(lambda y: mk.store(y, 0, 1))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(local)


def test_it_can_be_a_key_and_compares_by_identity():
    other = eas.kernel(add.fn)
    assert {add: 1, other: 2}[add] == 1
    assert add != other


class Holder:
    @eas.kernel
    def inside(y, v):
        mk.store(y, 0, v)

    @staticmethod
    @eas.kernel
    def static(y, v):
        mk.store(y, 0, v + 1)

    borrowed = add


def test_kernels_as_class_attributes_do_not_bind():
    y = np.zeros(4, np.float32)
    for kernel, want in ((Holder.inside, 3), (Holder().inside, 3), (Holder.static, 4), (Holder().static, 4)):
        kernel(y, 3.0)
        assert y[0] == want
    assert Holder().borrowed is add
    assert Holder.inside.__qualname__ == "Holder.inside"


def test_bound_methods_can_be_kernels():
    class Model:
        scale = 3

        def kernel(self, y, n):
            if n > 1:
                mk.store(y, 0, n * self.scale)

    model = Model()
    made = eas.kernel(model.kernel)
    y = np.zeros(1, np.int32)
    made(y, 4)
    assert y[0] == 12
    model.scale = 5
    made(y, 4)
    assert y[0] == 20


@pytest.mark.parametrize("thing", [3, "fast", None, object(), print, int, functools.partial(print), [1]])
def test_only_functions_can_be_kernels(thing):
    if thing is None:
        assert callable(eas.kernel(thing))  # @eas.kernel()
        return
    with pytest.raises(eas.ArgumentError) as info:
        eas.kernel(thing)
    assert str(info.value) == f'eas.kernel decorates a Python function, got {thing!r}\n  hint: write @eas.kernel, or @eas.kernel(math_mode="fast"), above a def'


def test_other_wrong_decorations():
    for made, text in (
        (add, "add is a kernel already\n  hint: decorate it once"),
        (staticmethod(add.fn), "eas.kernel got a staticmethod\n  hint: write @staticmethod above @eas.kernel, or leave it out"),
        (classmethod(add.fn), "eas.kernel got a classmethod\n  hint: write @classmethod above @eas.kernel, or leave it out"),
        (lambda *a: None, "kernel <lambda> takes *a\n  hint: kernels have a fixed list of parameters"),
        (lambda **k: None, "kernel <lambda> takes **k\n  hint: kernels have a fixed list of parameters"),
        (lambda _grid: None, "kernel <lambda> has a parameter named _grid, which is a launch option\n  hint: rename it"),
    ):
        with pytest.raises(eas.ArgumentError) as info:
            eas.kernel(made)
        assert str(info.value) == text
    with pytest.raises(eas.ArgumentError, match="math_mode 'quick' is not one of safe, relaxed, fast"):
        eas.kernel(math_mode="quick")(add.fn)


def test_math_mode_is_recorded():
    @eas.kernel(math_mode="fast")
    def kernel(y):
        mk.store(y, 0, 1.0)

    assert kernel.math_mode == "fast"
    assert kernel.compile(F).traced.attr("math") == "fast"
