"""How far addresses move along the axes of a block and along the iterations of a loop."""

from __future__ import annotations

import pytest

from eas.analysis import constant_behind, dependents
from eas.analysis.motion import STILL, Direction, Motion, motion_of
from eas.ir import walk
from tests.unit.ir_texts import kernel

ARGS = "%x: ptr<f32>, %n: i32, %s: i32 {range=(1, 99)}"
HEAD = """%zero = const 0 : i32
%two = const 2 : i32
%i = arange {end=64, start=0} : i32[64]
%b = broadcast %x {shape=(64,)} : ptr<f32>[64]
for %zero, %n, %two (%k: i32) {
"""


def address_steps(lines: str):
    """The steps of x + %o along its axis, and along the loop."""
    module = kernel(ARGS, f"{HEAD}{lines}\n%p = addptr %b, %o : ptr<f32>[64]\n%v = load %p : f32[64]\nyield\n}}")
    insts = {inst.op.name: inst for inst in walk(module.body)}
    address, motion = insts["load"].operands[0], motion_of(module)
    return said(motion, motion.move(address, 0)), said(motion, motion.along_loop(insts["for"]).move(address))


def said(motion: Motion, move) -> int | str | None:
    """A number, or `k * value * ... + ...`."""
    if move is None or move.number is not None:
        return None if move is None else move.number
    return " + ".join("*".join([str(t.number), *(motion.scalar(v).hint for v, _ in t.times)]) for t in move.terms)


SPREAD = "%kk = broadcast %k {shape=(64,)} : i32[64]"


@pytest.mark.parametrize(
    ("lines", "along", "each"),
    [
        (f"{SPREAD}\n%o = add %i, %kk : i32[64]", 1, 1),
        (f"{SPREAD}\n%o = sub %i, %kk : i32[64]", 1, -1),
        (f"%m = mul %k, %two : i32\n{SPREAD.replace('%k ', '%m ')}\n%o = add %i, %kk : i32[64]", 1, 2),
        (f"{SPREAD}\n%o = mul %i, %kk : i32[64]", "1*k", "1*i"),
        (f"%m = mul %k, %s : i32\n{SPREAD.replace('%k ', '%m ')}\n%o = add %i, %kk : i32[64]", 1, "1*s"),
        (f"%m = mul %k, %k : i32\n{SPREAD.replace('%k ', '%m ')}\n%o = add %i, %kk : i32[64]", 1, None),
        (f"%m = floordiv %k, %two : i32\n{SPREAD.replace('%k ', '%m ')}\n%o = add %i, %kk : i32[64]", 1, None),
        ("%o = add %i, %i : i32[64]", 2, 0),
    ],
)  # fmt: skip
def test_steps_along_a_block_and_a_loop(lines, along, each):
    assert address_steps(lines) == (along, each)


def test_neighbours_are_in_ascending_order_where_what_they_are_multiplied_by_is_positive():
    lines = "%w = broadcast %s {shape=(64,)} : i32[64]\n%v = broadcast %n {shape=(64,)} : i32[64]\n%a = mul %i, %w : i32[64]\n%c = mul %i, %v : i32[64]\n%d = sub %i, %a : i32[64]"
    module = kernel(ARGS, f"{HEAD}{lines}\nyield\n}}")
    values, motion = {out.hint: out for inst in walk(module.body) for out in inst.outs}, motion_of(module)
    assert [motion.grows(values[name], 0) for name in "iacdb"] == [True, True, False, False, False]


def test_what_stays_a_program_further_and_a_block_back_is_made_of_their_sum():
    body = """%pid = program_id {axis=0} : i32
%c64 = const 64 : i32
%i = arange {end=64, start=0} : i32[64]
%first = mul %pid, %c64 : i32
%start = broadcast %first {shape=(64,)} : i32[64]
%at = add %start, %i : i32[64]
%twice = add %at, %at : i32[64]
%even = and %at, %start : i32[64]
%wide = cast %at {type=i64[64]} : i64[64]
%early = cast %start {type=i64[64]} : i64[64]
%b = broadcast %x {shape=(64,)} : ptr<f32>[64]
%p = addptr %b, %twice : ptr<f32>[64]
%v = load %p : f32[64]
%w = mul %v, %v : f32[64]
store %p, %w"""
    module = kernel(ARGS, body)
    values, motion = {out.hint: out for inst in walk(module.body) for out in inst.outs}, motion_of(module)
    further = motion.along(Direction(motion.programs(0), through_loads=True, is_exact=True))
    moves = {name: further.move(values[name], (-64,)) for name in ("at", "twice", "even", "wide", "early", "p", "v", "w", "i")}
    assert {name for name, move in moves.items() if move == STILL} == {"at", "twice", "wide", "p", "v", "w"}
    assert (moves["i"].number, moves["even"], moves["early"]) == (-64, None, None)  # 64 programs may not fit other bits


def test_dependents_go_through_loops_and_branches():
    body = """%pid = program_id {axis=0} : i32
%zero = const 0 : i32
%one = const 1 : i32
%twice = add %pid, %pid : i32
%other = add %n, %one : i32
%is_odd = lt %pid, %one : bool
%sum = for %zero, %n, %one, %zero : i32 (%k: i32, %s: i32) {
  %t = add %s, %pid : i32
  yield %t
}
%same = for %zero, %n, %one, %zero : i32 (%j: i32, %u: i32) {
  %w = add %u, %other : i32
  yield %w
}
%last = for %zero, %twice, %one, %zero : i32 (%c: i32, %d: i32) {
  %e = add %d, %c : i32
  yield %e
}
%chosen = if %is_odd : i32 () {
  yield %zero
} () {
  yield %one
}"""
    module = kernel(ARGS, body)
    pid = next(inst.out for inst in walk(module.body) if inst.op.name == "program_id")
    assert {v.hint for v in dependents(module, [pid])} == {"pid", "twice", "is_odd", "sum", "s", "t", "last", "c", "d", "e", "chosen"}


def test_the_number_and_the_scalar_behind_views():
    lines = """%five = const 5 : i32
%fives = broadcast %five {shape=(64,)} : i32[64]
%hint = multiple_of %fives {n=5} : i32[64]
%wide = cast %hint {type=i64[64]} : i64[64]
%ns = broadcast %n {shape=(64,)} : i32[64]"""
    module = kernel(ARGS, lines)
    values, motion = {out.hint: out for inst in walk(module.body) for out in inst.outs}, motion_of(module)
    assert [constant_behind(values[name], motion.made) for name in ("five", "hint", "wide", "ns")] == [5, 5, None, None]
    assert (motion.literal(values["wide"]), motion.scalar(values["ns"]).hint) == (5, "n")
