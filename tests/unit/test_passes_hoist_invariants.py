"""hoist_invariants: what leaves a loop, and which loads may not."""

from __future__ import annotations

import pytest

from eas.ir import verify, walk
from eas.ir.text import parse_module
from eas.passes import hoist_invariants
from tests.unit.ir_texts import body_text, check, check_same, kernel

ARGS = "%p: ptr<f32>, %q: ptr<f32>, %a: i32, %b: i32, %n: i32"
BOUNDS = "%zero = const 0 : i32\n%one = const 1 : i32\n%five = const 5 : i32\n"


def test_pure_instructions_leave_all_loops_they_do_not_depend_on():
    check(
        hoist_invariants, ARGS,
        BOUNDS + """
        for %zero, %n, %one (%i: i32) {
          %x = floordiv %a, %b : i32
          %y = add %x, %i : i32
          for %zero, %n, %one (%j: i32) {
            %c = const 7 : i32
            %z = mul %y, %c : i32
            %w = add %z, %j : i32
            device_print %w {prefix=""}
            yield
          }
          yield
        }
        """,
        BOUNDS + """\
%x = floordiv %a, %b : i32
%c = const 7 : i32
for %zero, %n, %one (%i: i32) {
  %y = add %x, %i : i32
  %z = mul %y, %c : i32
  for %zero, %n, %one (%j: i32) {
    %w = add %z, %j : i32
    device_print %w {prefix=""}
    yield
  }
  yield
}""",
    )  # fmt: skip


def test_branches_keep_what_is_theirs():
    check_same(
        hoist_invariants, ARGS,
        """
        %c = lt %a, %b : bool
        if %c () {
          %x = mul %a, %b : i32
          device_print %x {prefix=""}
          yield
        } () {
          yield
        }
        """,
    )  # fmt: skip


def test_while_gives_up_invariants_of_test_and_body():
    check(
        hoist_invariants, ARGS,
        """
        %r = while %n : i32 (%i: i32) {
          %limit = mul %a, %b : i32
          %x = load %p : f32
          %c = lt %i, %limit : bool
          yield %c
        } (%j: i32) {
          %s = add %a, %b : i32
          %y = load %q : f32
          %k = add %j, %s : i32
          yield %k
        }
        """,
        """
        %limit = mul %a, %b : i32
        %x = load %p : f32
        %s = add %a, %b : i32
        %r = while %n : i32 (%i: i32) {
          %c = lt %i, %limit : bool
          yield %c
        } (%j: i32) {
          %y = load %q : f32
          %k = add %j, %s : i32
          yield %k
        }
        """,
    )  # fmt: skip


def is_hoisted(bounds: str, effect: str, args: str = ARGS) -> bool:
    """Whether `%x = load %p` leaves the loop."""
    loop = f"for {bounds} (%i: i32) {{\n  %x = load %p : f32\n  {effect}\n  yield\n}}"
    text = body_text(hoist_invariants(kernel(args, BOUNDS + "%v = const 1.0 : f32\n" + loop)))
    return text.index("load %p") < text.index("for ")


NOALIAS = ARGS.replace("%p: ptr<f32>", "%p: ptr<f32> {noalias=true}")


@pytest.mark.parametrize(
    ("bounds", "effect", "args", "expected"),
    [
        ("%zero, %five, %one", 'device_print %x {prefix=""}', ARGS, True),
        ("%zero, %n, %one", 'device_print %x {prefix=""}', ARGS, False),  # may not run
        ("%zero, %five, %one", "store %q, %x", ARGS, False),  # p and q may be one array
        ("%zero, %five, %one", "store %q, %x", NOALIAS, True),
        ("%zero, %five, %one", "store %p, %v", NOALIAS, False),
        ("%zero, %n, %one", "store %q, %x", NOALIAS, False),
    ],
)
def test_loads_leave_loops_that_surely_run_and_do_not_write_there(bounds, effect, args, expected):
    assert is_hoisted(bounds, effect, args) is expected


def test_load_in_a_branch_of_a_loop_stays():
    check_same(
        hoist_invariants, ARGS + ", %c: bool",
        BOUNDS + """
        for %zero, %five, %one (%i: i32) {
          if %c () {
            %x = load %p : f32
            device_print %x {prefix=""}
            yield
          } () {
            yield
          }
          yield
        }
        """,
    )  # fmt: skip


def test_carried_value_that_never_changes_is_the_initial_one():
    check(
        hoist_invariants, ARGS,
        BOUNDS + """
        %r, %s = for %zero, %n, %one, %a, %b : i32, i32 (%i: i32, %x: i32, %y: i32) {
          %z = mul %x, %x : i32
          %w = add %y, %z : i32
          yield %x, %w
        }
        device_print %r, %s {prefix=""}
        """,
        BOUNDS + """\
%z = mul %a, %a : i32
%r, %s = for %zero, %n, %one, %a, %b : i32, i32 (%i: i32, %x: i32, %y: i32) {
  %w = add %y, %z : i32
  yield %a, %w
}
device_print %a, %s {prefix=""}""",
    )  # fmt: skip


def test_loads_behind_a_barrier_stay_behind_it():
    """What other threads wrote in front of the loop is there after its first barrier only."""
    module = parse_module(
        """kernel k(%p: ptr<f32>, %out: ptr<f32>, %a: i32) thread {threads=8} {
  %zero = const 0 : i32
  %one = const 1 : i32
  %two = const 2 : i32
  %f = const 1.0 : f32
  %t = tid {end=8, start=0} : i32
  %q = addptr %p, %t : ptr<f32>
  store %q, %f
  %r = addptr %p, %a : ptr<f32>
  for %zero, %two, %one (%i: i32) {
    barrier
    %x = load %r : f32
    %w = addptr %out, %i : ptr<f32>
    device_print %x {prefix=""}
    yield
  }
  yield
}"""
    )
    hoisted = hoist_invariants(verify(module))
    (loop,) = [inst for inst in walk(hoisted.body) if inst.op.name == "for"]
    names = [inst.op.name for inst in loop.regions[0].body]
    assert names.index("barrier") < names.index("load")
