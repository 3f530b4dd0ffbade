"""Affine offsets, box masks and launch facts; random kernels agree with their formulas."""

from __future__ import annotations

import contextlib
import itertools
import random

import numpy as np
import pytest

from eas.analysis.indexing import (
    Access,
    Affine,
    Boxes,
    Fact,
    Forms,
    Linear,
    Symbol,
    analyse,
    interval,
    launch_facts,
)
from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Value, walk
from eas.passes.specialise import specialise
from tests.unit.index_kernels import MATMUL, module
from tests.unit.observed_run import Overflow, Run
from tests.unit.random_indices import random_arguments, random_module

ADD = """
%pid = program_id {axis=0} : i32
%c = const 64 : i32
%s = mul %pid, %c : i32
%sb = broadcast %s {shape=(64,)} : i32[64]
%i = arange {start=0, end=64} : i32[64]
%o = add %sb, %i : i32[64]
%nb = broadcast %N {shape=(64,)} : i32[64]
%m = lt %o, %nb : bool[64]
%pb = broadcast %a {shape=(64,)} : ptr<f32>[64]
%q = addptr %pb, %o : ptr<f32>[64]
%x = load %q, %m : f32[64]
"""


def only(args: str, body: str) -> Access:
    (access,) = analyse(module(args, body)).accesses
    return access


def form_of(access: Access) -> Affine:
    assert access.form is not None
    return access.form


def test_masked_load_of_a_vector():
    got = analyse(module("%a: ptr<f32>, %N: i32", ADD)).dump()
    assert got == "load a: a + 64*pid + iota0   mask: iota0 < N - 64*pid   [contiguous axis 0, runs of 64 from multiples of 64, 4-byte aligned]\n"


def test_alignment_of_the_buffer_reaches_the_access():
    access = only("%a: ptr<f32> {align=64}, %N: i32", ADD)
    assert access.aligned_nbytes(0) == 64
    assert access.contiguous_axis == 0
    assert (access.range.lo, access.range.hi) == (0, 2**31 - 1)


MATMUL_DUMP = """\
load a: a + 16*stride_ak*k + offs_am[iota0]*stride_am + iota1*stride_ak   mask: iota1 < K - 16*k
load b: b + 16*stride_bk*k + iota0*stride_bk + offs_bn[iota1]*stride_bn   mask: iota0 < K - 16*k
store c: c + 512*stride_cm*group_id + 64*stride_cm*r + 32*stride_cn*pid_n + iota0*stride_cm + iota1*stride_cn   mask: iota0 < M - 512*group_id - 64*r, iota1 < N - 32*pid_n
"""


def test_the_matmul_every_triton_user_knows_is_affine():
    info = analyse(MATMUL)
    assert info.dump() == MATMUL_DUMP
    assert all(a.is_affine and a.box.is_box for a in info.accesses)
    assert [t.axis for t in form_of(info.accesses[0]).terms] == [0, 1]


def test_launch_facts_of_the_matmul():
    strides = ["stride_am", "stride_ak", "stride_bk", "stride_bn", "stride_cm", "stride_cn"]
    want = [f"equals_1({s})" for s in strides]
    want += ["positive(M)", "positive(N)"]  # of `rows % M`
    want += [f"divisible_16({s})" for s in ["M", "N", "K", *strides]]
    want += ["aligned_64(a)", "aligned_64(b)", "aligned_64(c)", "disjoint", "in_place", "fits_32"]
    assert [str(f) for f in launch_facts(MATMUL)] == want


def test_specialised_matmul_is_contiguous():
    ones = ("stride_ak", "stride_bn", "stride_cn")
    facts = [f for f in launch_facts(MATMUL) if f.kind != "equals_1" or f.arg in ones]
    got = analyse(specialise(MATMUL, [*facts, Fact("positive", "N")])).dump().splitlines()
    assert got[0] == "load a: a + 16*k + offs_am[iota0]*stride_am + iota1   mask: iota1 < K - 16*k   [contiguous axis 1, runs of 16 from multiples of 16, 64-byte aligned]"
    assert got[1].endswith("offs_bn[iota1]   mask: iota0 < K - 16*k   [contiguous axis 1, runs of 16 from multiples of 16, 64-byte aligned]")


def test_facts_are_only_those_that_an_access_asks_for():
    assert [str(f) for f in launch_facts(module("%a: ptr<f32>, %N: i32", ADD))] == ["divisible_16(N)", "aligned_64(a)"]
    assert launch_facts(module("%a: ptr<f32>, %N: i32", "%x = load %a : f32")) == ()
    scalar_store = "%x = load %a : f32\nstore %b, %x"
    assert launch_facts(module("%a: ptr<f32>, %b: ptr<f32>", scalar_store)) == (Fact("disjoint"),)


def masked(comparison: str, args: str = "%N: i32, %s: i32") -> str:
    """The box of a mask over 32 lanes; `%o` is iota, `%n`, `%t` are N and s as blocks."""
    access = only(
        f"%a: ptr<f32>, {args}",
        f"""
        %o = arange {{start=0, end=32}} : i32[32]
        %n = broadcast %N {{shape=(32,)}} : i32[32]
        %t = broadcast %s {{shape=(32,)}} : i32[32]
        %two = const 2 : i32[32]
        {comparison}
        %p = broadcast %a {{shape=(32,)}} : ptr<f32>[32]
        %x = load %p, %m : f32[32]
        """,
    )
    return str(access.box)


@pytest.mark.parametrize(
    ("comparison", "want"),
    [
        ("%m = lt %o, %n : bool[32]", "iota0 < N"),
        ("%m = le %o, %n : bool[32]", "iota0 < N + 1"),
        ("%m = gt %n, %o : bool[32]", "iota0 < N"),
        ("%m = ge %n, %o : bool[32]", "iota0 < N + 1"),
        ("%m = ge %o, %n : bool[32]", "iota0 >= N"),
        ("%m = gt %o, %n : bool[32]", "iota0 >= N + 1"),
        ("%m = eq %o, %n : bool[32]", "iota0 >= N, iota0 < N + 1"),
        ("%m = ne %o, %n : bool[32]", "where m[iota0]"),
        ("%p2 = mul %o, %two : i32[32]\n%m = lt %p2, %n : bool[32]", "iota0 < ceil((N) / 2)"),
        ("%p2 = sub %n, %o : i32[32]\n%m = lt %p2, %t : bool[32]", "iota0 >= N - s + 1"),
        ("%p2 = mul %o, %t : i32[32]\n%m = lt %p2, %n : bool[32]", "where m[iota0]"),
        ("%m = lt %t, %n : bool[32]", "when 0 < N - s"),
        ("%c = lt %s, %N : bool\n%m = broadcast %c {shape=(32,)} : bool[32]", "when 0 < N - s"),
        ("%u = lt %o, %n : bool[32]\n%v = ge %o, %t : bool[32]\n%m = and %u, %v : bool[32]", "iota0 >= s, iota0 < N"),
        ("%u = lt %o, %n : bool[32]\n%v = lt %o, %t : bool[32]\n%w = or %u, %v : bool[32]\n%m = not %w : bool[32]", "iota0 >= N, iota0 >= s"),
        ("%u = lt %o, %n : bool[32]\n%m = not %u : bool[32]", "iota0 >= N"),
        ("%q = const 40 : i32[32]\n%m = lt %o, %q : bool[32]", "none"),
        ("%q = const 20 : i32[32]\n%m = lt %o, %q : bool[32]", "iota0 < 20"),
        ("%q = const 0 : i32[32]\n%m = lt %o, %q : bool[32]", "when 0 < 0"),
    ],
)
def test_masks_are_boxes(comparison, want):
    assert masked(comparison) == want


def test_a_loaded_mask_stays_one_dimensional():
    access = only(
        "%a: ptr<f32>, %b: ptr<bool>",
        """
        %i = arange {start=0, end=8} : i32[8]
        %bb = broadcast %b {shape=(8,)} : ptr<bool>[8]
        %bq = addptr %bb, %i : ptr<bool>[8]
        %valid = load %bq : bool[8]
        """,
    )
    assert str(access.box) == "none"
    info = analyse(
        module(
            "%a: ptr<f32>, %b: ptr<bool>",
            """
            %i = arange {start=0, end=8} : i32[8]
            %bb = broadcast %b {shape=(8,)} : ptr<bool>[8]
            %bq = addptr %bb, %i : ptr<bool>[8]
            %valid = load %bq : bool[8]
            %e = expand_dims %valid {axis=0} : bool[1,8]
            %m = broadcast %e {shape=(4,8,)} : bool[4,8]
            %p = broadcast %a {shape=(4,8,)} : ptr<f32>[4,8]
            %x = load %p, %m : f32[4,8]
            """,
        )
    )
    assert str(info.accesses[1].box) == "where valid[iota1]"


def offset(body: str, args: str = "%n: i32, %s: i32") -> str:
    """The formula of `%o`, the offset of a load."""
    text = module(f"%a: ptr<f32>, {args}", body)
    forms = Forms(text)
    value = next(v for i in walk(text.body) for v in i.outs if v.hint == "o")
    form = forms.of(value)
    return "gather" if form is None else str(form)


IOTA = "%i = arange {start=0, end=32} : i32[32]\n%nb = broadcast %n {shape=(32,)} : i32[32]\n"
SMALL = "%n: i32 {range=(1,100,)}, %s: i32 {range=(0,100,)}"


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("%o = mod %i, %nb : i32[32]", "o[iota0]"),
        ("%c = const 8 : i32[32]\n%o = mod %i, %c : i32[32]", "o[iota0]"),
        ("%c = const 32 : i32[32]\n%o = mod %i, %c : i32[32]", "iota0"),
        ("%c = const 32 : i32[32]\n%t = mul %nb, %c : i32[32]\n%u = add %t, %i : i32[32]\n%o = mod %u, %c : i32[32]", "iota0"),
        ("%c = const 32 : i32[32]\n%t = mul %nb, %c : i32[32]\n%u = add %t, %i : i32[32]\n%o = floordiv %u, %c : i32[32]", "n"),
        ("%o = reshape %i {shape=(4,8,)} : i32[4,8]", "iota0*8 + iota1"),
        ("%r = mod %i, %nb : i32[32]\n%o = mul %r, %nb : i32[32]", "r[iota0]*n"),
        ("%o = neg %i : i32[32]", "iota0*-1"),
        ("%c = const 2 : i32[32]\n%o = shl %i, %c : i32[32]", "iota0*4"),
        ("%o = cast %i : i64[32]", "iota0"),
        ("%o = mul %i, %i : i32[32]", "o[iota0]"),
        ("%t = mul %n, %s : i32\n%u = add %t, %n : i32\n%o = mul %u, %u : i32", "n*n + 2*n*n*s + n*n*s*s"),
        ("%t = min %n, %s : i32\n%o = add %t, %t : i32", "2*t"),
    ],
)
def test_formulas_of_values(body, want):
    assert offset(IOTA + body, SMALL) == want


def test_values_without_a_name_show_as_in_the_text():
    assert offset("%5 = xor %n, %s : i32\n%o = add %5, %5 : i32", SMALL) == "2*%0"


def test_a_value_that_may_wrap_is_a_symbol():
    assert offset("%o = mul %n, %s : i32") == "o"


def test_two_dimensional_nonlinear_offsets_are_gathers():
    body = """
    %i = arange {start=0, end=8} : i32[8]
    %e = expand_dims %i {axis=1} : i32[8,1]
    %f = expand_dims %i {axis=0} : i32[1,8]
    %eb = broadcast %e {shape=(8,8,)} : i32[8,8]
    %fb = broadcast %f {shape=(8,8,)} : i32[8,8]
    %o = xor %eb, %fb : i32[8,8]
    %p = broadcast %a {shape=(8,8,)} : ptr<f32>[8,8]
    %q = addptr %p, %o : ptr<f32>[8,8]
    %x = load %q : f32[8,8]
    """
    access = only("%a: ptr<f32>", body)
    assert not access.is_affine
    assert str(access) == "load a: gather a"


STEPPED = """
%one = const 1 : i32
%four = const 4 : i32
%i = arange {start=0, end=8} : i32[8]
%p = broadcast %a {shape=(8,)} : ptr<f32>[8]
%q0 = addptr %p, %i : ptr<f32>[8]
%q = for %START, %n, %STEP, %q0 : ptr<f32>[8] (%k: i32, %c: ptr<f32>[8]) {
  %x = load %c : f32[8]
  %by = BY
  %bb = broadcast %by {shape=(8,)} : i32[8]
  %d = addptr %c, %bb : ptr<f32>[8]
  yield %d
}
%y = load %q : f32[8]
"""


@pytest.mark.parametrize(
    ("start", "step", "by", "want"),
    [
        ("zero", "one", "mul %s, %four : i32", ("4*s*k", "4*s*trips(k)")),
        ("zero", "four", "mul %s, %four : i32", ("s*k", "4*s*trips(k)")),
        ("s", "four", "const 8 : i32", ("-2*s + 2*k", "8*trips(k)")),
        ("one", "four", "const 3 : i32", ("3*iteration(k)", "3*trips(k)")),
        ("zero", "s", "const 3 : i32", ("3*iteration(k)", "3*trips(k)")),
        ("zero", "one", "const 0 : i32", ("0", "0")),
    ],
)
def test_pointers_that_step_are_functions_of_the_counter(start, step, by, want):
    text = "%zero = const 0 : i32\n" + STEPPED.replace("%START", f"%{start}").replace("%STEP", f"%{step}").replace("BY", by)
    info = analyse(module("%a: ptr<f32>, %n: i32, %s: i32", text))
    forms = [form_of(a) for a in info.accesses]
    assert tuple(str(f.offset) for f in forms) == want
    assert all(f.stride(0) == Linear(1) for f in forms)


def test_a_step_that_changes_makes_a_gather():
    text = "%zero = const 0 : i32\n" + STEPPED.replace("%START", "%zero").replace("%STEP", "%one").replace("BY", "add %k, %k : i32")
    info = analyse(module("%a: ptr<f32>, %n: i32, %s: i32", text))
    assert [a.is_affine for a in info.accesses] == [False, False]


def test_bounds_use_loop_ends_and_divisibility():
    text = module("%K: i32 {divisible=16}", "%z = const 0 : i32\n%c = const 16 : i32\nfor %z, %K, %c (%k: i32) {\nyield\n}")
    forms = Forms(text)
    total, (counter,) = text.args[0].value, forms.counters
    remaining = Linear.symbol(forms.symbol(total)) - Linear.symbol(forms.symbol(counter))
    assert interval(Affine(remaining), (), forms)[0] == 16


def test_bounds_multiply_quotients_out():
    text = module(
        "%a: ptr<f32>, %K: i32",
        """
        %z = const 0 : i32
        %one = const 1 : i32
        %seven = const 7 : i32
        %eight = const 8 : i32
        %u = add %K, %seven : i32
        %n = floordiv %u, %eight : i32
        for %z, %n, %one (%k: i32) {
          %o = mul %k, %eight : i32
          %q = addptr %a, %o : ptr<f32>
          %x = load %q : f32
          yield
        }
        """,
    )
    forms = Forms(text)
    o = next(v for i in walk(text.body) for v in i.outs if v.hint == "o")
    form = forms.of(o)
    assert form is not None
    left = Affine(Linear.symbol(forms.symbol(text.args[1].value))) - form
    assert str(left) == "K - 8*k"
    assert interval(left, (), forms)[0] == 1  # the last iteration has at least one element left


def test_formulas_have_one_normal_form():
    x, y = (Symbol(i, "value", name, Value(Type(dtypes.i32), name)) for i, name in enumerate("xy"))
    a, b = Linear.symbol(x), Linear.symbol(y)
    assert (a + b) * (a - b) == a * a - b * b
    assert str((a + b) * (a + b) - Linear(3)) == "x*x + 2*x*y + y*y - 3"
    assert str(Linear()) == "0"
    assert str(-a) == "-x"
    assert (a * Linear(4) + Linear(8)).divided(4) == a + Linear(2)
    assert (a * Linear(2) + b).replaced(x, b) == b * Linear(3)
    assert ((a + b) * (a + b)).evaluate({x: 3, y: 4}) == 49


@pytest.mark.parametrize("seed", range(100, 120))
def test_random_kernels_agree_with_their_formulas_and_boxes(seed):
    text = random_module(seed, 25)
    forms, rng = Forms(text), random.Random(seed)
    boxes = Boxes(forms)

    def witness(value, run):
        form = forms.of(value)
        if form is not None:
            got = run.numbers(form, value.shape)
            assert np.all(got == run.elements(value)), f"%{forms.names[value]} is not {form}"
            lo, hi = interval(form, value.shape, forms)
            assert lo <= np.min(got) <= np.max(got) <= hi
        if value.type.is_value and value.dtype.is_bool:
            for truth in (True, False):
                box = boxes.of(value, truth)
                assert np.all(run.lanes(box, value.shape) == (run.env[value] == truth)), f"%{forms.names[value]} is not {box}"

    for _ in range(3):
        try:
            Run(text, random_arguments(rng), rng.choice((0, 1, 5)), witness)
        except Overflow:
            continue


def agree(text, args, pids):
    """Every formula and box of a module is what its program computes."""
    forms = Forms(text)
    boxes = Boxes(forms)

    def witness(value, run):
        form = forms.of(value)
        if form is not None:
            assert np.all(run.numbers(form, value.shape) == run.elements(value)), f"%{forms.names[value]} is not {form}\n{text}"
            lo, hi = interval(form, value.shape, forms)
            assert lo <= np.min(run.elements(value)) <= np.max(run.elements(value)) <= hi, f"%{forms.names[value]}\n{text}"
        if value.type.is_value and value.dtype.is_bool:
            for truth in (True, False):
                box = boxes.of(value, truth)
                assert np.all(run.lanes(box, value.shape) == (run.env[value] == truth)), f"%{forms.names[value]} is not {box}\n{text}"

    for pid in pids:
        with contextlib.suppress(Overflow):
            Run(text, args, pid, witness)


@pytest.mark.parametrize("stride", [-8, -3, -2, -1, 0, 1, 2, 3, 8])
def test_quotients_remainders_and_bounds_of_every_small_stride(stride):
    """pid * p + stride * i + c, divided and compared: one program has all numbers of c."""
    lines = ["%pid = program_id {axis=0} : i32", "%i = arange {start=0, end=8} : i32[8]", f"%s = const {stride} : i32[8]", "%si = mul %i, %s : i32[8]"]
    for k, (d, per) in enumerate(itertools.product((1, 3, 8), (0, 8, 12))):
        lines += [f"%d{k} = const {d} : i32[8]", f"%f{k} = const {per} : i32", f"%g{k} = mul %pid, %f{k} : i32", f"%h{k} = broadcast %g{k} {{shape=(8,)}} : i32[8]", f"%b{k} = add %h{k}, %si : i32[8]"]
        for j, c in enumerate((-9, -8, -1, 0, 1, 7, 8, 15)):
            n = f"{k}_{j}"
            lines += [f"%c{n} = const {c} : i32[8]", f"%x{n} = add %b{k}, %c{n} : i32[8]"]
            lines += [f"%q{n} = floordiv %x{n}, %d{k} : i32[8]", f"%r{n} = mod %x{n}, %d{k} : i32[8]", f"%t{n} = mul %q{n}, %d{k} : i32[8]"]
            lines += [f"%{op}{n} = {op} %x{n}, %d{k} : bool[8]" for op in ("lt", "le", "gt", "ge", "eq", "ne")]
    agree(module("", "\n".join(lines)), {}, (0, 1, 5))


def test_texts_are_the_same_in_every_process():
    assert analyse(MATMUL).dump() == analyse(MATMUL).dump()
    assert [str(f) for f in launch_facts(random_module(7))] == [str(f) for f in launch_facts(random_module(7))]
