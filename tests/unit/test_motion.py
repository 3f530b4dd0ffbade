"""How far addresses move along the axes of a block and along the iterations of a loop."""

from __future__ import annotations

import pytest

from eas.ir import walk
from eas.schedule.nest.axis_steps import Apart, AxisSteps, LoopSteps
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
    address, steps = insts["load"].operands[0], AxisSteps(module)
    return steps.along(address, 0), LoopSteps(steps, insts["for"]).each(address)


SPREAD = "%kk = broadcast %k {shape=(64,)} : i32[64]"


@pytest.mark.parametrize(
    ("lines", "along", "each"),
    [
        (f"{SPREAD}\n%o = add %i, %kk : i32[64]", 1, 1),
        (f"{SPREAD}\n%o = sub %i, %kk : i32[64]", 1, -1),
        (f"%m = mul %k, %two : i32\n{SPREAD.replace('%k ', '%m ')}\n%o = add %i, %kk : i32[64]", 1, 2),
        (f"{SPREAD}\n%o = mul %i, %kk : i32[64]", Apart.EVEN, Apart.EVEN),
        (f"%m = mul %k, %s : i32\n{SPREAD.replace('%k ', '%m ')}\n%o = add %i, %kk : i32[64]", 1, Apart.POSITIVE),
        (f"%m = mul %k, %k : i32\n{SPREAD.replace('%k ', '%m ')}\n%o = add %i, %kk : i32[64]", 1, Apart.UNEVEN),
        (f"%m = floordiv %k, %two : i32\n{SPREAD.replace('%k ', '%m ')}\n%o = add %i, %kk : i32[64]", 1, Apart.UNEVEN),
        ("%o = add %i, %i : i32[64]", 2, 0),
    ],
)  # fmt: skip
def test_steps_along_a_block_and_a_loop(lines, along, each):
    assert address_steps(lines) == (along, each)
