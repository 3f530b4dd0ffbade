"""Who reads and writes what, what pointers point into, what address arithmetic is."""

from __future__ import annotations

import pytest

from eas.analysis import (
    PointerBases,
    address_values,
    block_lengths,
    carried_steps,
    num_programs_axes,
    producers,
    program_axes,
    reads,
    uses,
    value_names,
    writes,
)
from eas.base.errors import Unsupported
from eas.ir import Arg, IRModule, Value, verify, walk
from eas.ir.text import parse_module, print_module
from tests.unit.index_kernels import MATMUL, module


def named(text: IRModule, name: str) -> Value:
    names = value_names(text)
    return next(v for v, n in names.items() if n == name)


def test_matmul_reads_its_inputs_and_writes_its_output():
    assert reads(MATMUL) == ("a", "b")
    assert writes(MATMUL) == ("c",)


def test_atomics_read_and_write():
    text = module("%x: ptr<i32>, %h: ptr<i32>", "%v = load %x : i32\n%o = atomic_add %h, %v : i32")
    assert reads(text) == ("x", "h")
    assert writes(text) == ("h",)


def test_writes_are_found_through_loops_branches_and_shapes():
    text = module(
        "%c: bool, %a: ptr<f32>, %b: ptr<f32>, %n: i32",
        """
        %z = const 0 : i32
        %one = const 1 : i32
        %e = expand_dims %b {axis=0} : ptr<f32>[1]
        %r = broadcast %e {shape=(8,)} : ptr<f32>[8]
        %s = reshape %r {shape=(4,2,)} : ptr<f32>[4,2]
        %t = permute %s {order=(1,0,)} : ptr<f32>[2,4]
        %x = const 0.0 : f32[2,4]
        %by = const 8 : i32[2,4]
        %q = for %z, %n, %one, %t : ptr<f32>[2,4] (%k: i32, %p: ptr<f32>[2,4]) {
          store %p, %x
          %p2 = addptr %p, %by : ptr<f32>[2,4]
          yield %p2
        }
        %f = if %c : ptr<f32> () {
          yield %a
        } () {
          %a1 = addptr %a, %one : ptr<f32>
          yield %a1
        }
        %v = load %f : f32
        """,
    )
    assert writes(text) == ("b",)
    assert reads(text) == ("a",)
    bases = PointerBases(text)
    assert bases[named(text, "f")] is text.args[1]
    assert bases[named(text, "q")] is text.args[2]


def test_threadgroup_memory_is_a_base_of_its_own():
    text = verify(parse_module('kernel k() thread {\n%s = alloc_tg {dtype=f32, name="s", size=32} : tg_ptr<f32>\n%x = load %s : f32\nstore %s, %x\nyield\n}'))
    assert reads(text) == writes(text) == ()
    base = PointerBases(text)[named(text, "s")]
    assert not isinstance(base, Arg)
    assert base is named(text, "s")


@pytest.mark.parametrize(
    "body",
    [
        "%p = if %c : ptr<f32> () {\nyield %a\n} () {\nyield %b\n}",
        "%p = for %n, %n, %n, %a : ptr<f32> (%k: i32, %q: ptr<f32>) {\nyield %b\n}",
        "%p = while %a : ptr<f32> (%q: ptr<f32>) {\nyield %c\n} (%r: ptr<f32>) {\nyield %b\n}",
        "%p, %q = for %n, %n, %n, %a, %b : ptr<f32>, ptr<f32> (%k: i32, %r: ptr<f32>, %s: ptr<f32>) {\nyield %s, %r\n}",
    ],
)
def test_a_pointer_into_two_buffers_is_refused(body):
    with pytest.raises(Unsupported) as error:
        writes(module("%a: ptr<f32>, %b: ptr<f32>, %c: bool, %n: i32", body))
    assert str(error.value) == "a pointer may point into two different buffers\n  hint: select offsets, not pointers"


def test_axes_of_the_grid():
    text = module("", "%a = program_id {axis=2} : i32\n%b = program_id {axis=0} : i32\n%c = program_id {axis=2} : i32\n%d = num_programs {axis=1} : i32")
    assert program_axes(text) == (0, 2)
    assert num_programs_axes(text) == (1,)


def test_block_lengths_in_order_of_appearance():
    text = module("", "%a = arange {start=0, end=64} : i32[64]\n%b = arange {start=8, end=24} : i32[16]\n%c = arange {start=1, end=65} : i32[64]")
    assert block_lengths(text) == (64, 16)


def test_uses_count_operands_and_yields():
    text = module("%c: bool, %n: i32", "%a = add %n, %n : i32\n%b = if %c : i32 () {\nyield %a\n} () {\nyield %n\n}")
    counts = uses(text)
    assert [counts[named(text, name)] for name in "cnab"] == [1, 3, 1, 0]


def test_producers_know_results_only():
    text = module("%n: i32", "%a = add %n, %n : i32")
    assert producers(text)[named(text, "a")].op.name == "add"
    assert named(text, "n") not in producers(text)


def test_names_are_those_of_the_printer():
    shown = print_module(MATMUL)
    names = value_names(MATMUL)
    for inst in walk(MATMUL.body):
        for out in inst.outs:
            assert f"%{names[out]}" in shown
    assert len(set(names.values())) == len(names)


def test_addresses_are_what_reaches_offsets_and_masks():
    text = module(
        "%a: ptr<i32>, %n: i32, %m: i32",
        """
        %hash = mul %n, %n : i32
        %slot = mod %hash, %m : i32
        %row = mul %slot, %m : i32
        %wide = cast %row : i64
        %q = addptr %a, %wide : ptr<i32>
        %end = add %n, %m : i32
        %in = lt %row, %end : bool
        %x = load %q, %in : i32
        %other = mul %x, %x : i32
        """,
    )
    addresses = address_values(text)
    got = {name: named(text, name) in addresses for name in ("hash", "slot", "row", "wide", "end", "in", "other", "x")}
    assert got == {"hash": False, "slot": True, "row": True, "wide": True, "end": True, "in": True, "other": False, "x": False}


def test_addresses_go_around_loops():
    text = module(
        "%a: ptr<i32>, %n: i32",
        """
        %z = const 0 : i32
        %one = const 1 : i32
        %end = add %n, %one : i32
        %r = for %z, %end, %one, %z : i32 (%k: i32, %o: i32) {
          %q = addptr %a, %o : ptr<i32>
          %t = load %q : i32
          %by = mul %k, %n : i32
          %o2 = add %o, %by : i32
          yield %o2
        }
        """,
    )
    addresses = address_values(text)
    assert all(named(text, name) in addresses for name in ("o", "o2", "by", "k", "end"))


def test_steps_of_carried_values():
    text = module(
        "%n: i32, %s: i32",
        """
        %z = const 0 : i32
        %one = const 1 : i32
        %a, %b, %c, %d, %e = for %z, %n, %one, %z, %z, %z, %z, %z : i32, i32, i32, i32, i32 (%k: i32, %p: i32, %q: i32, %r: i32, %t: i32, %u: i32) {
          %two = mul %s, %s : i32
          %p1 = add %two, %p : i32
          %p2 = sub %p1, %s : i32
          %q1 = add %q, %k : i32
          %r1 = sub %s, %r : i32
          %u1 = add %u, %t : i32
          yield %p2, %q1, %r1, %t, %u1
        }
        """,
    )
    loop = next(i for i in walk(text.body) if i.op.name == "for")
    steps = carried_steps(loop, producers(text))
    assert [None if s is None else [(sign, v.hint) for sign, v in s.terms] for s in steps] == [[(1, "two"), (-1, "s")], None, None, [], None]
