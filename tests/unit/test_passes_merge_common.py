"""merge_common: equal instructions become one, loads only while memory stays the same."""

from __future__ import annotations

from eas.ir import verify, walk
from eas.ir.text import parse_module
from eas.passes import merge_common
from tests.unit.ir_texts import check, check_same

ARGS = "%p: ptr<f32>, %q: ptr<f32>, %a: i32, %b: i32, %n: i32"


def test_equal_instructions_become_one():
    check(
        merge_common, ARGS,
        """
        %x = add %a, %b : i32
        %y = add %b, %a : i32
        %z = sub %a, %b : i32
        %w = sub %b, %a : i32
        device_print %x, %y, %z, %w {prefix=""}
        """,
        """
        %x = add %a, %b : i32
        %z = sub %a, %b : i32
        %w = sub %b, %a : i32
        device_print %x, %x, %z, %w {prefix=""}
        """,
    )  # fmt: skip


def test_zeros_of_different_sign_and_type_stay():
    check_same(
        merge_common, "",
        """
        %a = const 0.0 : f32
        %b = const -0.0 : f32
        %c = const 0.0 : f64
        %d = const 0 : i32
        %e = const false : bool
        %m = min %a, %b : f32
        %o = min %b, %a : f32
        """,
    )  # fmt: skip


def test_inner_blocks_see_outer_values_and_not_the_other_way_round():
    check(
        merge_common, ARGS,
        """
        %c = lt %a, %b : bool
        %x = mul %a, %b : i32
        %r = if %c : i32 () {
          %y = mul %a, %b : i32
          %z = add %a, %b : i32
          yield %y
        } () {
          %z2 = add %a, %b : i32
          yield %z2
        }
        %z3 = add %a, %b : i32
        """,
        """
        %c = lt %a, %b : bool
        %x = mul %a, %b : i32
        %r = if %c : i32 () {
          %z = add %a, %b : i32
          yield %x
        } () {
          %z2 = add %a, %b : i32
          yield %z2
        }
        %z3 = add %a, %b : i32
        """,
    )  # fmt: skip


REDUCE = """
%{r} = reduce %x {{axis=0}} : i32 (%l: i32, %k: i32) {{
  %one = const 1 : i32
  %t = {op} %l, %k : i32
  %u = mul %t, %one : i32
  yield %u
}}
"""


def test_reductions_merge_only_with_the_same_combination_and_keep_it_closed():
    before = "%one = const 1 : i32\n%x = arange {end=4, start=0} : i32[4]\n"
    before += REDUCE.format(r="s", op="add") + REDUCE.format(r="m", op="max") + REDUCE.format(r="s2", op="add")
    after = """
    %one = const 1 : i32
    %x = arange {end=4, start=0} : i32[4]
    %s = reduce %x {axis=0} : i32 (%l: i32, %k: i32) {
      %one.1 = const 1 : i32
      %t = add %l, %k : i32
      %u = mul %t, %one.1 : i32
      yield %u
    }
    %m = reduce %x {axis=0} : i32 (%l.1: i32, %k.1: i32) {
      %one.2 = const 1 : i32
      %t.1 = max %l.1, %k.1 : i32
      %u.1 = mul %t.1, %one.2 : i32
      yield %u.1
    }
    device_print %s, %m, %s {prefix=""}
    """
    check(merge_common, "", before + 'device_print %s, %m, %s2 {prefix=""}', after)


def test_loads_merge_until_something_is_written():
    check(
        merge_common, ARGS,
        """
        %x = load %p : f32
        %y = load %p : f32
        store %q, %y
        %z = load %p : f32
        %w = load %p : f32
        device_print %x, %y, %z, %w {prefix=""}
        """,
        """
        %x = load %p : f32
        store %q, %x
        %z = load %p : f32
        device_print %x, %x, %z, %z {prefix=""}
        """,
    )  # fmt: skip


def test_loads_of_unwritten_noalias_buffers_merge_across_writes():
    check(
        merge_common, "%p: ptr<f32> {noalias=true}, %q: ptr<f32>",
        """
        %x = load %p : f32
        store %q, %x
        %y = load %p : f32
        store %q, %y
        """,
        """
        %x = load %p : f32
        store %q, %x
        store %q, %x
        """,
    )  # fmt: skip


def test_a_write_in_a_branch_parts_the_loads_around_it():
    check_same(
        merge_common, "%p: ptr<f32> {noalias=true}, %c: bool, %v: f32",
        """
        %x = load %p : f32
        if %c () {
          store %p, %v
          yield
        } () {
          yield
        }
        %y = load %p : f32
        """,
    )  # fmt: skip


LOOP = """
%zero = const 0 : i32
%one = const 1 : i32
%x = load %p : f32
for %zero, %n, %one (%i: i32) {{
  %y = load %p : f32
  {effect}
  yield
}}
%z = load %p : f32
device_print %z {{prefix=""}}
"""


def test_a_write_in_a_loop_parts_its_iterations():
    check_same(merge_common, ARGS, LOOP.format(effect="store %q, %y"))


def test_a_loop_without_writes_parts_nothing():
    check(
        merge_common, ARGS, LOOP.format(effect='device_print %y {prefix=""}'),
        """
        %zero = const 0 : i32
        %one = const 1 : i32
        %x = load %p : f32
        for %zero, %n, %one (%i: i32) {
          device_print %x {prefix=""}
          yield
        }
        device_print %x {prefix=""}
        """,
    )  # fmt: skip


def test_atomics_never_merge():
    check_same(merge_common, "%p: ptr<i32>, %v: i32", "%a = atomic_add %p, %v : i32\n%b = atomic_add %p, %v : i32")


def test_loads_on_both_sides_of_a_barrier_stay():
    """Other threads write between them."""
    module = parse_module(
        """kernel k(%p: ptr<f32>, %a: i32) thread {threads=8} {
  %t = tid {end=8, start=0} : i32
  %q = addptr %p, %t : ptr<f32>
  %x = load %q : f32
  barrier
  %y = load %q : f32
  %z = load %q : f32
  %r = addptr %p, %a : ptr<f32>
  store %r, %y
  device_print %x, %y, %z {prefix=""}
  yield
}"""
    )
    merged = [inst for inst in walk(merge_common(verify(module)).body) if inst.op.name in ("load", "barrier")]
    assert [inst.op.name for inst in merged] == ["load", "barrier", "load"]
