"""eliminate_dead: only what effects need is left."""

from __future__ import annotations

from eas.passes import eliminate_dead
from tests.unit.ir_texts import check, check_same

ARGS = "%p: ptr<f32>, %q: ptr<i32>, %a: i32, %b: i32, %n: i32, %c: bool"
BOUNDS = "%zero = const 0 : i32\n%one = const 1 : i32\n"


def test_unused_pure_instructions_and_loads_go():
    check(
        eliminate_dead, ARGS,
        """
        %x = add %a, %b : i32
        %y = mul %x, %x : i32
        %z = load %p : f32
        %w = sub %a, %b : i32
        store %q, %w
        """,
        """
        %w = sub %a, %b : i32
        store %q, %w
        """,
    )  # fmt: skip


def test_atomics_and_dead_stores_stay():
    check_same(eliminate_dead, ARGS, "%old = atomic_add %q, %a : i32\nstore %q, %a\nstore %q, %b")


def test_fences_stay_where_an_atomic_is_looked_at():
    check_same(eliminate_dead, ARGS, "%old = atomic_add %q, %a : i32\nfence {order=\"acquire\"}\nstore %q, %old")
    check(
        eliminate_dead, ARGS,
        "fence {order=\"release\"}\n%old = atomic_add %q, %a : i32\nfence {order=\"acquire\"}\nfence {order=\"volatile\"}",
        "%old = atomic_add %q, %a : i32\nfence {order=\"volatile\"}",
    )  # fmt: skip


def test_unused_carried_values_go_even_if_they_feed_themselves():
    check(
        eliminate_dead, ARGS,
        BOUNDS + """
        %r, %s, %t = for %zero, %n, %one, %a, %b, %a : i32, i32, i32 (%i: i32, %x: i32, %y: i32, %z: i32) {
          %x2 = add %x, %i : i32
          %y2 = add %y, %z : i32
          yield %x2, %y2, %z
        }
        store %q, %s
        """,
        BOUNDS + """\
%s, %t = for %zero, %n, %one, %b, %a : i32, i32 (%i: i32, %y: i32, %z: i32) {
  %y2 = add %y, %z : i32
  yield %y2, %z
}
store %q, %s""",
    )  # fmt: skip


def test_value_needed_only_by_an_effect_in_the_loop_is_still_carried():
    check_same(
        eliminate_dead, ARGS,
        BOUNDS + """
        %r = for %zero, %n, %one, %a : i32 (%i: i32, %x: i32) {
          store %q, %x
          %y = add %x, %i : i32
          yield %y
        }
        """,
    )  # fmt: skip


def test_loops_and_branches_without_effects_and_uses_go():
    check(
        eliminate_dead, ARGS,
        BOUNDS + """
        %r = for %zero, %n, %one, %a : i32 (%i: i32, %x: i32) {
          %v = load %q : i32
          %s = if %c : i32 () {
            yield %v
          } () {
            yield %x
          }
          yield %s
        }
        store %q, %one
        """,
        "%one = const 1 : i32\nstore %q, %one",
    )  # fmt: skip


def test_unused_branch_results_go():
    check(
        eliminate_dead, ARGS,
        """
        %r, %s = if %c : i32, i32 () {
          %x = add %a, %b : i32
          %y = mul %a, %b : i32
          yield %x, %y
        } () {
          yield %a, %b
        }
        store %q, %s
        """,
        """
        %s = if %c : i32 () {
          %y = mul %a, %b : i32
          yield %y
        } () {
          yield %b
        }
        store %q, %s
        """,
    )  # fmt: skip


def test_branch_with_an_effect_loses_its_unused_results():
    check(
        eliminate_dead, ARGS,
        """
        %r = if %c : i32 () {
          store %q, %a
          yield %a
        } () {
          yield %b
        }
        """,
        """
        if %c () {
          store %q, %a
          yield
        } () {
          yield
        }
        """,
    )  # fmt: skip


def test_while_stays_but_loses_what_it_does_not_need():
    check(
        eliminate_dead, ARGS,
        """
        %r, %s = while %a, %b : i32, i32 (%x: i32, %y: i32) {
          %t = lt %x, %n : bool
          yield %t
        } (%z: i32, %w: i32) {
          %z2 = add %z, %a : i32
          %w2 = add %w, %z : i32
          yield %z2, %w2
        }
        """,
        """
        %r = while %a : i32 (%x: i32) {
          %t = lt %x, %n : bool
          yield %t
        } (%z: i32) {
          %z2 = add %z, %a : i32
          yield %z2
        }
        """,
    )  # fmt: skip


def test_reduction_keeps_all_of_its_combination():
    check_same(
        eliminate_dead, ARGS,
        """
        %x = arange {end=4, start=0} : i32[4]
        %y = neg %x : i32[4]
        %m, %i = reduce %y, %x {axis=0} : i32, i32 (%a1: i32, %i1: i32, %a2: i32, %i2: i32) {
          %g = ge %a1, %a2 : bool
          %v = select %g, %a1, %a2 : i32
          %w = select %g, %i1, %i2 : i32
          yield %v, %w
        }
        store %q, %i
        """,
    )  # fmt: skip
