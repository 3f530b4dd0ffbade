"""The native launcher: what it takes, what it leaves to Python, errors, guards, variants, lifetimes."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref
from types import FunctionType
from typing import cast

import numpy as np
import pytest

from eas.analysis.indexing import Fact
from eas.base import dtypes
from eas.base.errors import DeviceAssertion
from eas.base.facts import EQUALS
from eas.launch import native_plan
from eas.launch import plan as lp
from eas.runtime import cpu
from eas.runtime.cpu import ASSERTION, LoadedKernel
from eas.runtime.launch_site import LaunchSite
from eas.runtime.native.pool import pool
from tests.unit.native_kernels import (
    COUNT,
    add_kernel,
    buffer,
    executable,
    failing,
    per_program,
    scalar,
    slot,
)

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def _possible_here():
    if native_plan.why_not_here() is not None:
        pytest.skip(str(native_plan.why_not_here()))


F32 = dtypes.f32
ADD_PARAMS = (
    lp.Param("x", "buffer", 0, F32),
    lp.Param("y", "buffer", 1, F32),
    lp.Param("z", "buffer", 2, F32, is_written=True),
    lp.Param("N", "i32", 3),
    lp.Param("BLOCK", "constant", value=256, default=256),
)
LINEAR = (lp.Axis(slot=3, block=256), lp.Axis(), lp.Axis())


def site(pending=None, n_threads=1):
    return LaunchSite(pool().run_address, ctypes.c_int64(0) if pending is None else pending, n_threads)


def made_of(params, axes, where, **options):
    slots = {p.slot: p.name for p in params if p.slot >= 0}
    return native_plan.make_native(lp.LaunchPlan(params, tuple(slots[i] for i in sorted(slots)), axes, where, **options))


def launcher(params=ADD_PARAMS, grid=LINEAR, **options):
    made = made_of(params, grid, site(options.pop("pending", None), options.pop("n_threads", 2)), **options)
    assert made is not None
    return made


def loaded(kernel):
    return LoadedKernel(kernel.args, kernel.native)


@pytest.fixture
def add():
    made = launcher()
    made.add_variant(frozenset(), loaded(add_kernel()), "add", ())
    return made


def arrays(n):
    x, y = np.random.default_rng(n).random((2, n), np.float32)
    return x, y, np.zeros(n, np.float32)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 100_000])
def test_add(add, n):
    x, y, z = arrays(n)
    assert add.call((x, y, z, n), {}, None) is None
    assert (z == x + y).all()


def test_arguments_by_name(add):
    x, y, z = arrays(300)
    assert add.call((x, y), {"N": 300, "z": z}, None) is None
    assert (z == x + y).all()
    assert add.call((x, y, z), {"N": 300, "BLOCK": 256}, None) is None


def test_int_meta_of_equal_value_is_the_same(add):
    x, y, z = arrays(8)
    block = int("2" + "56")  # small ints are one object each; this one is not guaranteed to be
    assert add.call((x, y, z, 8), {"BLOCK": block}, None) is None
    assert add.call((x, y, z, 8, 512), {}, None) is NotImplemented
    assert add.call((x, y, z, 8, 256.0), {}, None) is NotImplemented


def test_float_meta_of_the_same_bits_is_the_same():
    params = (*ADD_PARAMS[:4], lp.Param("BLOCK", "constant", value=float("-inf")))
    made = launcher(params)
    made.add_variant(frozenset(), loaded(add_kernel()), "add", ())
    x, y, z = arrays(8)
    assert made.call((x, y, z, 8, float("-inf")), {}, None) is None
    assert made.call((x, y, z, 8, float("inf")), {}, None) is NotImplemented
    assert made.call((x, y, z, 8, 0), {}, None) is NotImplemented
    zero = launcher((*ADD_PARAMS[:4], lp.Param("BLOCK", "constant", value=0.0)))
    zero.add_variant(frozenset(), loaded(add_kernel()), "add", ())
    assert zero.call((x, y, z, 8, -0.0), {}, None) is NotImplemented, "another kernel divides by it"


class SubArray(np.ndarray):
    pass


def refused():
    x, y, z = arrays(64)
    frozen = z.copy()
    frozen.flags.writeable = False
    odd = np.zeros(64 * 4 + 1, np.uint8)[1:].view(np.float32)
    return {
        "too few": ((x, y, z), {}, None),
        "too many": ((x, y, z, 64, 256, 1), {}, None),
        "twice": ((x, y, z, 64), {"N": 64}, None),
        "unknown name": ((x, y, z, 64), {"M": 64}, None),
        "a list": (([1.0] * 64, y, z, 64), {}, None),
        "a subclass": ((x.view(SubArray), y, z, 64), {}, None),
        "f64": ((x.astype(np.float64), y, z, 64), {}, None),
        "byte-swapped": ((x.astype(">f4"), y, z, 64), {}, None),
        "strided": ((x[::2], y, z, 32), {}, None),
        "fortran": ((np.asfortranarray(x.reshape(8, 8)), y, z, 64), {}, None),
        "read-only output": ((x, y, frozen, 64), {}, None),
        "misaligned": ((x, y, odd, 64), {}, None),
        "bool for int": ((x, y, z, True), {}, None),
        "float for int": ((x, y, z, 64.0), {}, None),
        "numpy int": ((x, y, z, np.int64(64)), {}, None),
        "i64 for i32": ((x, y, z, 2**31), {}, None),
        "huge int": ((x, y, z, 2**100), {}, None),
        "negative extent": ((x, y, z, -1), {}, None),
        "callable grid": ((x, y, z, 64), {}, lambda meta: (1,)),
        "list grid": ((x, y, z, 64), {}, [1]),
        "long grid": ((x, y, z, 64), {}, (1, 1, 1, 1)),
        "empty grid": ((x, y, z, 64), {}, ()),
        "float grid": ((x, y, z, 64), {}, (1.0,)),
        "negative grid": ((x, y, z, 64), {}, (-1,)),
        "huge grid": ((x, y, z, 64), {}, (2**31,)),
        "endless grid": ((x, y, z, 64), {}, (2**31 - 1, 2**31 - 1, 2**31 - 1)),
        "args are a list": ([x, y, z, 64], {}, None),
        "kwargs are None": ((x, y, z, 64), None, None),
    }


@pytest.mark.parametrize("case", refused())
def test_what_is_unusual_is_left_to_python(add, case):
    args, kwargs, grid = refused()[case]
    before = np.array(args[2], copy=True) if isinstance(args, tuple) else None
    assert add.call(args, kwargs, grid) is NotImplemented
    if before is not None:
        assert (np.asarray(args[2]) == before).all()  # nothing has run


def test_wrong_number_of_arguments_of_the_call_itself(add):
    assert add.call((), {}) is NotImplemented
    assert add.call() is NotImplemented


def test_read_only_inputs_and_matrices_are_taken(add):
    x, y, z = arrays(64)
    x.flags.writeable = False
    assert add.call((x.reshape(4, 16), y.reshape(2, 4, 8), z.reshape(64, 1), 64), {}, None) is None
    assert (z == x + y).all()


# --- scalars, slots and grids ---------------------------------------------------------------------

# out[0] = scalar bits, out[1..3] = grid, out[4..5] = sizes, out[6] += 1
SLOTS = per_program(
    "slots",
    slot(0)
    + slot(1, "i64")
    + "  store i64 %a1, ptr %a0\n"
    + "".join(
        slot(source, "i64")
        + f"  %q{to} = getelementptr i64, ptr %a0, i64 {to}\n  store i64 %a{source}, ptr %q{to}\n"
        for to, source in enumerate([2, 3, 4, 7, 8], 1)
    )
    + "  %p = getelementptr i64, ptr %a0, i64 6\n  %o = atomicrmw add ptr %p, i64 1 monotonic\n",
)


TWO_BY_THREE = (lp.Axis(count=2), lp.Axis(count=3), lp.Axis())


def slots_launcher(kind, dtype, grid=TWO_BY_THREE):
    params = (
        lp.Param("out", "buffer", 0, dtypes.i64, is_written=True),
        lp.Param("s", kind, 1),
    )
    made = launcher(params, grid)
    kernel = executable("slots", SLOTS, [buffer("out", dtypes.i64), scalar("s", dtype)])
    made.add_variant(frozenset(), loaded(kernel), "slots", ())
    return made


@pytest.mark.parametrize(
    ("kind", "dtype", "value", "bits"),
    [
        ("i32", dtypes.i32, -7, -7),
        ("i32", dtypes.i32, 2**31 - 1, 2**31 - 1),
        ("i64", dtypes.i64, 2**31, 2**31),
        ("i64", dtypes.i64, -(2**63), -(2**63)),
        ("f32", dtypes.f32, 1.1, 0x3F8CCCCD),
        ("f32", dtypes.f32, 1e39, 0x7F800000),
        ("f32", dtypes.f32, -0.0, 0x80000000),
        ("bool", dtypes.bool_, True, 1),
        ("bool", dtypes.bool_, False, 0),
    ],
)
def test_scalars_arrive(kind, dtype, value, bits):
    made, out = slots_launcher(kind, dtype), np.zeros(7, np.int64)
    assert made.call((out, value), {}, None) is None
    assert out.tolist() == [bits, 2, 3, 1, 7, 0, 6]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("i64", 5),
        ("i64", 2**63),
        ("f32", 1),
        ("f32", np.float32(1)),
        ("bool", 1),
        ("bool", np.True_),
        ("bool", None),
    ],
)
def test_scalars_of_another_kind_are_left_to_python(kind, value):
    made, out = slots_launcher(kind, dtypes.i64), np.zeros(7, np.int64)
    assert made.call((out, value), {}, None) is NotImplemented
    assert not out.any()


@pytest.mark.parametrize(
    ("grid", "count"), [((4,), 4), ((2, 3), 6), ((2, 3, 5), 30), ((0,), 0), ((3, 0, 2), 0)]
)
def test_explicit_grids(grid, count):
    made, out = slots_launcher("i32", dtypes.i32, grid=None), np.zeros(7, np.int64)
    assert made.call((out, 1), {}, None) is NotImplemented  # this kernel says nothing of its grid
    assert made.call((out, 1), {}, grid) is None
    assert out[6] == count
    if count:
        assert out[1:4].tolist() == [*grid, 1, 1][:3]


# --- variants, guards, the queue ------------------------------------------------------------------

FACTS = (
    Fact("equals_1", "N"),
    Fact("divisible_16", "N"),
    Fact("aligned_64", "x"),
    Fact("disjoint"),
    Fact("fits_32"),
    Fact("in_place"),
)


def aligned(n, offset):
    memory = np.zeros(n * 4 + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + n * 4].view(np.float32)


@pytest.mark.parametrize(
    ("make", "n", "facts"),
    [
        (lambda: (aligned(64, 0), aligned(64, 4), aligned(64, 4)), 64, {1, 2, 3, 4}),
        (lambda: (aligned(64, 4), aligned(64, 4), aligned(64, 4)), 64, {1, 3, 4}),
        (lambda: (aligned(64, 4), aligned(64, 4), aligned(64, 4)), 1, {0, 3, 4}),
        (lambda: (aligned(64, 4), aligned(64, 4), aligned(64, 4)), 3, {3, 4}),
        (lambda: (x := aligned(64, 0), aligned(64, 0), x), 16, {1, 2, 4, 5}),
        (lambda: (aligned(64, 0), x := aligned(64, 4), x[:40]), 16, {1, 2, 4, 5}),
        (lambda: (x := aligned(64, 0), x[1:], x), 16, {1, 2, 4}),
        (lambda: ((x := aligned(100, 0))[:40], aligned(64, 0), x[30:]), 30, {2, 4}),
        (lambda: ((x := aligned(64, 0))[:32], aligned(64, 0), x[32:]), 32, {1, 2, 3, 4}),
    ],
)
def test_variant_is_chosen_by_facts(make, n, facts):
    made = launcher(facts=FACTS)
    right, x = {FACTS[i] for i in facts}, make()
    others = [frozenset(right ^ {fact}) for fact in FACTS]
    wrong = loaded(executable("count", COUNT, add_kernel().module.args))
    for other in others:
        made.add_variant(other, wrong, "wrong", ())
    assert made.call((*x, n), {}, None) is NotImplemented
    made.add_variant(frozenset(right), loaded(add_kernel()), "add", ())
    assert made.call((*x, n), {}, None) is None


def holds(fact, args):
    """Whether the native launcher takes a variant that needs the fact."""
    made = launcher(facts=(fact,))
    made.add_variant(frozenset({fact}), loaded(add_kernel()), "add", ())
    return made.call(args, {}, (1,)) is None


@pytest.mark.parametrize("n", [-16, -1, 0, 1, 2, 3, 4, 5, 8, 15, 16, 17, 24, 32, 56, 64])
def test_facts_of_numbers_hold_exactly(n):
    args = (*arrays(64), n)
    assert holds(Fact("positive", "N"), args) == (n > 0)
    assert holds(Fact("divisible_16", "N"), args) == (n % 16 == 0)
    assert [holds(Fact(kind, "N"), args) for kind in EQUALS] == [n == number for number in EQUALS.values()]


@pytest.mark.parametrize("shift", [-65, -64, -63, -1, 0, 1, 63, 64, 65])
def test_facts_of_memory_hold_exactly(shift):
    """The output is shifted by some elements against an input of 64."""
    memory = aligned(300, 0)
    x, z = memory[100:164], memory[100 + shift : 164 + shift]
    args = (x, aligned(64, 0), z, 64)
    assert holds(Fact("disjoint"), args) == (abs(shift) >= 64)
    assert holds(Fact("in_place"), args) == (shift == 0)
    assert holds(Fact("aligned_64", "z"), args) == (z.ctypes.data % 64 == 0)


@pytest.mark.parametrize("offset", range(0, 68, 4))
def test_facts_of_alignment_hold_exactly(offset):
    args = (aligned(64, 0), aligned(64, 0), aligned(64, offset), 64)
    assert holds(Fact("aligned_64", "z"), args) == (offset % 64 == 0)


@pytest.mark.parametrize(("count", "has_room"), [(1, True), (64, True), (65, False), (200, False)])
def test_no_more_arguments_than_a_frame_has_room_for(count, has_room):
    params = tuple(lp.Param(f"a{k}", "i32", k) for k in range(count))
    assert (made_of(params, None, site(None, 1)) is not None) == has_room


def test_no_more_variants_than_there_is_room(add):
    made = launcher(facts=tuple(Fact("divisible_16", "N") for _ in range(1)))
    for _ in range(100):
        made.add_variant(frozenset(), loaded(add_kernel()), "add", ())
    assert len(made._owner.variants) == 1


def helper(scale=2):
    return scale


def test_guards():
    cell_value: object = object()
    table, cell = {"a": 1.5}, (lambda: cell_value).__closure__
    assert cell is not None
    guards = (
        lp.ItemGuard(table, "a", table["a"]),
        lp.ItemGuard(table, "b", lp.MISSING),
        lp.CellGuard(cell[0], cell_value),
        lp.FunctionGuard(cast(FunctionType, helper), helper.__code__, helper.__defaults__, None),
    )
    made = launcher(guards=guards)
    made.add_variant(frozenset(), loaded(add_kernel()), "add", ())
    args = (*arrays(16), 16)
    assert made.call(args, {}, None) is None
    table["b"] = 0
    assert made.call(args, {}, None) is NotImplemented
    del table["b"]
    assert made.call(args, {}, None) is None
    old, table["a"] = table["a"], 2.5
    assert made.call(args, {}, None) is NotImplemented
    table["a"] = old
    assert made.call(args, {}, None) is None
    saved, cell_value = cell_value, None
    assert made.call(args, {}, None) is NotImplemented
    cell_value = saved
    assert made.call(args, {}, None) is None
    defaults, helper.__defaults__ = helper.__defaults__, (3,)
    assert made.call(args, {}, None) is NotImplemented
    helper.__defaults__ = defaults
    assert made.call(args, {}, None) is None


def test_environment_is_guarded(monkeypatch):
    guards = native_plan.environment_guards("EAS_BACKEND", "EAS_DEBUG")
    assert guards is not None
    made = launcher(guards=guards)
    made.add_variant(frozenset(), loaded(add_kernel()), "add", ())
    args = (*arrays(16), 16)
    assert made.call(args, {}, None) is None
    monkeypatch.setenv("EAS_DEBUG", "2")
    assert made.call(args, {}, None) is NotImplemented


def test_waits_for_nobody_but_leaves_the_launch_to_python_while_others_are_pending():
    pending = ctypes.c_int64(1)
    made = launcher(pending=pending)
    made.add_variant(frozenset(), loaded(add_kernel()), "add", ())
    args = (*arrays(16), 16)
    assert made.call(args, {}, None) is NotImplemented
    pending.value = 0
    assert made.call(args, {}, None) is None


def test_failing_kernel_raises():
    made = launcher((lp.Param("c", "buffer", 0, dtypes.i32),), None)
    kernel = executable("failing", failing(ASSERTION, 0, 1, 5), [buffer("c", dtypes.i32)])
    made.add_variant(frozenset(), loaded(kernel), "failing", [("no good", None)])
    counts = np.zeros(4, np.int32)
    with pytest.raises(DeviceAssertion, match=r"no good \(kernel failing, program \(1,2,0\)\)"):
        made.call((counts,), {}, (2, 3))
    assert made.call((counts,), {}, (2, 2)) is None


def test_scratch_without_memory_is_a_memory_error():
    made = launcher((lp.Param("c", "buffer", 0, dtypes.i32),), None)
    kernel = executable("count", COUNT, [buffer("c", dtypes.i32)], scratch_nbytes=1 << 60)
    made.add_variant(frozenset(), loaded(kernel), "count", ())
    with pytest.raises(MemoryError):
        made.call((np.zeros(4, np.int32),), {}, (4,))


# --- lifetimes ------------------------------------------------------------------------------------


def test_no_reference_is_lost_or_kept(add):
    x, y, z = arrays(64)
    args, kwargs = (x, y, z), {"N": 64}
    watched = [x, y, z, args, kwargs, F32, add.call, None, NotImplemented]
    add.call(args, kwargs, None)
    before = [sys.getrefcount(o) for o in watched]
    for _ in range(1000):
        add.call(args, kwargs, None)
        add.call(args, kwargs, (1,))
        add.call((x, y), kwargs, None)
    after = [sys.getrefcount(o) for o in watched]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 10


def test_function_keeps_its_code_and_lets_it_go(add):
    kernel = loaded(add_kernel())
    made = launcher()
    made.add_variant(frozenset(), kernel, "add", ())
    code, call = weakref.ref(kernel.code), made.call
    del made, kernel
    gc.collect()
    x, y, z = arrays(64)
    assert call((x, y, z, 64), {}, None) is None
    assert (z == x + y).all()
    del call
    gc.collect()
    assert code() is None


def test_many_threads(add):
    wrong = []

    def work(seed):
        x, y, z = arrays(1000 + seed)
        for _ in range(300):
            z[:] = 0
            if add.call((x, y, z, len(x)), {}, None) is not None or (z != x + y).any():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_signatures_that_need_python_have_no_launcher():
    many = tuple(lp.Param(f"x{i}", "buffer", i, F32) for i in range(65))
    assert made_of(many, None, site()) is None
    unused = (lp.Param("x", "buffer", -1, F32),)
    assert made_of(unused, None, site()) is None


def test_the_most_arguments():
    params = tuple(lp.Param(f"x{i}", "buffer", i, dtypes.i32) for i in range(64))
    made = launcher(params, None)
    kernel = executable("count", COUNT, [buffer(p.name, dtypes.i32) for p in params])
    made.add_variant(frozenset(), loaded(kernel), "count", ())
    many = tuple(np.zeros(3, np.int32) for _ in params)
    assert made.call(many, {}, (3,)) is None
    assert many[0].tolist() == [1, 1, 1]


def test_errors_of_launchers_and_of_the_runtime_are_the_same():
    record = cpu.ErrorRecord(1, ASSERTION, 0, 3, 0, 0)
    with pytest.raises(DeviceAssertion, match=r"program \(1,1,0\)"):
        cpu.raise_error("k", [("", None)], (2, 2, 1), record)
