"""Masks and comparisons that ranges decide, and modules specialised by facts; IR to the letter."""

from __future__ import annotations

import random

import pytest

from eas.analysis.indexing import Fact, launch_facts
from eas.ir import verify, walk
from eas.ir.text import print_module
from eas.passes.fold_masks import fold_masks
from eas.passes.specialise import specialise
from tests.unit.index_kernels import MATMUL, module
from tests.unit.ir_texts import check, check_same, kernel
from tests.unit.observed_run import Overflow, Run
from tests.unit.random_indices import random_arguments, random_module

LOAD = """
%i = arange {end=64, start=0} : i32[64]
%n = broadcast %N {shape=(64,)} : i32[64]
%m = lt %i, %n : bool[64]
%p = broadcast %a {shape=(64,)} : ptr<f32>[64]
%q = addptr %p, %i : ptr<f32>[64]
%x = load %q, %m : f32[64]
store %q, %x, %m
"""


def test_full_masks_are_dropped():
    check(
        fold_masks,
        "%a: ptr<f32>, %N: i32 {range=(64,128,)}",
        LOAD,
        """
        %i = arange {end=64, start=0} : i32[64]
        %n = broadcast %N {shape=(64,)} : i32[64]
        %m = const true : bool[64]
        %p = broadcast %a {shape=(64,)} : ptr<f32>[64]
        %q = addptr %p, %i : ptr<f32>[64]
        %x = load %q : f32[64]
        store %q, %x
        """,
    )


def test_empty_masks_drop_the_access():
    check(
        fold_masks,
        "%a: ptr<f32>, %N: i32 {range=(-5,0,)}",
        LOAD,
        """
        %i = arange {end=64, start=0} : i32[64]
        %n = broadcast %N {shape=(64,)} : i32[64]
        %m = const false : bool[64]
        %p = broadcast %a {shape=(64,)} : ptr<f32>[64]
        %q = addptr %p, %i : ptr<f32>[64]
        %x = const 0.0 : f32[64]
        """,
    )


@pytest.mark.parametrize("attrs", ["", "{range=(1,64,)} ", "{divisible=64}", "{equals=63}"])
def test_masks_that_may_cut_stay(attrs):
    if "equals" in attrs:
        assert "load %q, %m" in print_module(fold_masks(kernel(f"%a: ptr<f32>, %N: i32 {attrs}", LOAD)))
    else:
        check_same(fold_masks, f"%a: ptr<f32>, %N: i32 {attrs}", LOAD)


def test_comparisons_decided_by_divisibility():
    check(
        fold_masks,
        "%N: i32 {divisible=16}",
        "%c = const 24 : i32\n%e = eq %N, %c : bool\n%f = ne %N, %c : bool\n%d = const 32 : i32\n%g = eq %N, %d : bool",
        """
        %c = const 24 : i32
        %e = const false : bool
        %f = const true : bool
        %d = const 32 : i32
        %g = eq %N, %d : bool
        """,
    )


def test_choices_that_are_made_disappear():
    check(
        fold_masks,
        "%n: i32 {range=(0,7,)}, %f: f32, %g: f32",
        """
        %c = const 8 : i32
        %a = min %n, %c : i32
        %b = max %n, %c : i32
        %m = mod %a, %c : i32
        %l = lt %n, %c : bool
        %s = select %l, %f, %g : f32
        %t = add %m, %b : i32
        device_print %s, %t {prefix=""}
        """,
        """
        %c = const 8 : i32
        %l = const true : bool
        %t = add %n, %c : i32
        device_print %f, %t {prefix=""}
        """,
    )


def test_one_half_of_a_mask_is_dropped():
    check(
        fold_masks,
        "%a: ptr<f32>, %N: i32",
        """
        %i = arange {end=64, start=0} : i32[64]
        %n = broadcast %N {shape=(64,)} : i32[64]
        %c = const 64 : i32[64]
        %u = lt %i, %n : bool[64]
        %v = lt %i, %c : bool[64]
        %m = and %u, %v : bool[64]
        %p = broadcast %a {shape=(64,)} : ptr<f32>[64]
        %x = load %p, %m : f32[64]
        """,
        """
        %i = arange {end=64, start=0} : i32[64]
        %n = broadcast %N {shape=(64,)} : i32[64]
        %c = const 64 : i32[64]
        %u = lt %i, %n : bool[64]
        %v = const true : bool[64]
        %p = broadcast %a {shape=(64,)} : ptr<f32>[64]
        %x = load %p, %u : f32[64]
        """,
    )


STRIPS = """
%z = const 0 : i32
%c = const 16 : i32
for %z, %K, %c (%k: i32) {
  %i = arange {end=16, start=0} : i32[16]
  %kb = broadcast %k {shape=(16,)} : i32[16]
  %o = add %i, %kb : i32[16]
  %n = broadcast %K {shape=(16,)} : i32[16]
  %m = lt %o, %n : bool[16]
  %p = broadcast %a {shape=(16,)} : ptr<f32>[16]
  %q = addptr %p, %o : ptr<f32>[16]
  %x = load %q, %m : f32[16]
  store %q, %x, %m
  yield
}
"""


def test_strips_of_a_multiple_need_no_mask():
    check(
        fold_masks,
        "%a: ptr<f32>, %K: i32 {divisible=16}",
        STRIPS,
        """
        %z = const 0 : i32
        %c = const 16 : i32
        for %z, %K, %c (%k: i32) {
          %i = arange {end=16, start=0} : i32[16]
          %kb = broadcast %k {shape=(16,)} : i32[16]
          %o = add %i, %kb : i32[16]
          %n = broadcast %K {shape=(16,)} : i32[16]
          %m = const true : bool[16]
          %p = broadcast %a {shape=(16,)} : ptr<f32>[16]
          %q = addptr %p, %o : ptr<f32>[16]
          %x = load %q : f32[16]
          store %q, %x
          yield
        }
        """,
    )


@pytest.mark.parametrize("attrs", ["", " {divisible=8}"])
def test_strips_of_something_else_keep_theirs(attrs):
    check_same(fold_masks, f"%a: ptr<f32>, %K: i32{attrs}", STRIPS)


def accesses(text) -> list[str]:
    return [line.strip() for line in print_module(text).splitlines() if "load" in line or "store" in line]


def test_matmul_of_whole_strips_loads_without_masks():
    text = verify(fold_masks(specialise(MATMUL, [Fact("divisible_16", "K")])))
    assert accesses(text) == ["%at = load %a_ptrs : f32[64,16]", "%bt = load %b_ptrs : f32[16,32]", "store %c_ptrs, %acc, %mask_c"]
    assert accesses(fold_masks(MATMUL)) == accesses(MATMUL)


def test_conditions_decide_inside_of_their_branch_only():
    check(
        fold_masks,
        "%n: i32",
        """
        %z = const 0 : i32
        %c = gt %n, %z : bool
        if %c () {
          %d = ge %n, %z : bool
          device_print %d {prefix=""}
          yield
        } () {
          yield
        }
        %e = ge %n, %z : bool
        device_print %e {prefix=""}
        """,
        """
        %z = const 0 : i32
        %c = gt %n, %z : bool
        if %c () {
          %d = const true : bool
          device_print %d {prefix=""}
          yield
        } () {
          yield
        }
        %e = ge %n, %z : bool
        device_print %e {prefix=""}
        """,
    )


@pytest.mark.parametrize("seed", range(200, 220))
def test_random_kernels_store_the_same(seed):
    text = random_module(seed, 25)
    folded, rng = verify(fold_masks(text)), random.Random(seed)
    for _ in range(3):
        args, pid = random_arguments(rng), rng.choice((0, 1, 5))
        try:
            before = Run(text, args, pid, lambda value, run: None)
        except Overflow:
            continue
        after = Run(folded, args, pid, lambda value, run: None)
        assert after.machine.stores == before.machine.stores


# --- specialise ---


def test_facts_become_attributes_and_constants():
    text = module("%a: ptr<f32>, %b: ptr<f32>, %s: i32, %n: i32 {range=(0,8,)}", "%o = add %s, %n : i32\n%p = addptr %a, %o : ptr<f32>\n%x = load %p : f32\nstore %b, %x")
    facts = frozenset([Fact("equals_1", "s"), Fact("divisible_16", "n"), Fact("aligned_64", "a"), Fact("disjoint"), Fact("fits_32")])
    got = verify(specialise(text, facts))
    assert print_module(got) == (
        "kernel k(%a: ptr<f32> {align=64}, %b: ptr<f32> {noalias=true}, %s: i32 {equals=1}, %n: i32 {divisible=16, range=(0,8,)}) spmd {offsets32=true} {\n"
        "  %0 = const 1 : i32\n"
        "  %o = add %0, %n : i32\n"
        "  %p = addptr %a, %o : ptr<f32>\n"
        "  %x = load %p : f32\n"
        "  store %b, %x\n"
        "  yield\n"
        "}\n"
    )
    assert "equals" not in print_module(text)


def test_without_facts_the_module_stays():
    assert specialise(MATMUL, frozenset()) is MATMUL


def test_a_specialised_module_asks_no_longer():
    facts = [f for f in launch_facts(MATMUL) if f.kind == "equals_1"]
    text = specialise(MATMUL, facts)
    assert not any(f.kind == "equals_1" for f in launch_facts(text))
    strides = {a.value for a in text.args if a.name.startswith("stride")}
    assert not any(v in strides for i in walk(text.body) for v in i.operands)


def test_positive_divisors_are_known_to_be():
    text = specialise(MATMUL, [Fact("positive", "M")])
    assert text.arg("M").attr("range") == (1, 2**31 - 1)
