"""mark_negative_exponents: only where the maximum is proved to be that of the same elements."""

from __future__ import annotations

import pytest

from eas.schedule.rewrite.exponents import mark_negative_exponents
from tests.unit.ir_texts import check, check_same

ARGS = "%p: ptr<f32>, %s: f32"
LOADED = """
%a = arange {end=8, start=0} : i32[8]
%q = broadcast %p {shape=(8,)} : ptr<f32>[8]
%r = addptr %q, %a : ptr<f32>[8]
%x = load %r : f32[8]
"""
SQUARE = """
%x1 = broadcast %x {shape=(8,8,)} : f32[8,8]
"""


def reduced(x="%x", axis=0, out="f32", combine="max"):
    return f"""
%m = reduce {x} {{axis={axis}}} : {out} (%u: f32, %v: f32) {{
  %w = {combine} %u, %v : f32
  yield %w
}}
"""


def body(case):
    return "\n".join(line for line in (LOADED + case).split("\n") if line)


def marked(text, name="exp"):
    before, _, after = text.rpartition("= exp ")
    return f"{before}= {name}_of_negative {after}"


PROVED = {
    "row": reduced() + "%b = broadcast %m {shape=(8,)} : f32[8]\n%d = sub %x, %b : f32[8]\n%e = exp %d : f32[8]",
    "columns": SQUARE + reduced("%x1", 1, "f32[8]") + "%c = expand_dims %m {axis=1} : f32[8,1]\n%b = broadcast %c {shape=(8,8,)} : f32[8,8]\n%d = sub %x1, %b : f32[8,8]\n%e = exp %d : f32[8,8]",
    "online": reduced() + "%n = max %s, %m : f32\n%i = const -inf : f32\n%z = const 0.0 : f32\n%c = eq %n, %i : bool\n%t = select %c, %z, %n : f32\n%b = broadcast %t {shape=(8,)} : f32[8]\n%d = sub %x, %b : f32[8]\n%e = exp %d : f32[8]",
    "earlier maximum": "%m = max %s, %s : f32\n%d = sub %s, %m : f32\n%e = exp %d : f32",
}  # fmt: skip
UNPROVED = {
    "smallest": reduced(combine="min") + "%b = broadcast %m {shape=(8,)} : f32[8]\n%d = sub %x, %b : f32[8]\n%e = exp %d : f32[8]",
    "turned around": reduced() + "%b = broadcast %m {shape=(8,)} : f32[8]\n%d = sub %b, %x : f32[8]\n%e = exp %d : f32[8]",
    "of another axis": SQUARE + reduced("%x1", 0, "f32[8]") + "%c = expand_dims %m {axis=1} : f32[8,1]\n%b = broadcast %c {shape=(8,8,)} : f32[8,8]\n%d = sub %x1, %b : f32[8,8]\n%e = exp %d : f32[8,8]",
    "of other elements": "%y = add %x, %x : f32[8]\n" + reduced("%y") + "%b = broadcast %m {shape=(8,)} : f32[8]\n%d = sub %x, %b : f32[8]\n%e = exp %d : f32[8]",
    "replaced where 0": reduced() + "%z = const 0.0 : f32\n%c = eq %m, %z : bool\n%k = const -5.0 : f32\n%t = select %c, %k, %m : f32\n%b = broadcast %t {shape=(8,)} : f32[8]\n%d = sub %x, %b : f32[8]\n%e = exp %d : f32[8]",
    "some number": "%b = broadcast %s {shape=(8,)} : f32[8]\n%d = sub %x, %b : f32[8]\n%e = exp %d : f32[8]",
}  # fmt: skip


@pytest.mark.parametrize("case", PROVED)
def test_difference_to_a_maximum_is_marked(case):
    check(mark_negative_exponents, ARGS, body(PROVED[case]), marked(body(PROVED[case])))


@pytest.mark.parametrize("case", PROVED)
def test_difference_to_a_maximum_as_a_power_of_two_is_marked(case):
    text = body(PROVED[case]).replace("= exp ", "= exp2 ")
    check(mark_negative_exponents, ARGS, text, marked(body(PROVED[case]), "exp2"))


@pytest.mark.parametrize("case", UNPROVED)
def test_other_differences_keep_the_whole_exp(case):
    check_same(mark_negative_exponents, ARGS, body(UNPROVED[case]))
