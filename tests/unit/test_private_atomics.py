"""Which buffers threads may change in copies of their own."""

from __future__ import annotations

import pytest

from eas.ir import verify
from eas.ir.text import parse_module
from eas.schedule.rewrite.private_atomics import private_buffers


def found(body: str, bins: str = "ptr<i32> {noalias=true}"):
    text = f"kernel k(%x: ptr<i32>, %bins: {bins}, %n: i32) spmd {{\n%i = arange {{end=64, start=0}} : i32[64]\n%b = broadcast %bins {{shape=(64,)}} : {bins.split()[0]}[64]\n%p = addptr %b, %i : {bins.split()[0]}[64]\n{body}\nyield\n}}"
    return private_buffers(verify(parse_module(text)))


ADD = "%o = atomic_add %p, %i : i32[64]"


def test_a_buffer_of_one_kind_of_atomic_is_private():
    assert found(ADD) == ((1, "add", 64),)
    assert found(f"{ADD}\n%q = atomic_add %p, %i : i32[64]") == ((1, "add", 128),)


@pytest.mark.parametrize(
    "body",
    [
        f"{ADD}\n%q = atomic_max %p, %i : i32[64]",  # the order of two kinds matters
        f"{ADD}\nstore %p, %o",  # the old value is asked for
        f"{ADD}\n%q = atomic_add %p, %i : i32[64]\ndevice_print %o {{prefix=\"\"}}",  # of one of two
        f"{ADD}\n%q = atomic_add %p, %i : i32[64]\ndevice_print %q {{prefix=\"\"}}",
        f"{ADD}\n%l = load %p : i32[64]",
        "%o = atomic_xchg %p, %i : i32[64]",
    ],
)
def test_a_buffer_that_is_used_in_another_way_is_not(body):
    assert found(body) == ()


def test_a_buffer_that_may_overlap_another_is_not():
    assert found(ADD, "ptr<i32>") == ()


def test_sums_of_narrow_floats_are_not():
    add = "%v = cast %i : f16[64]\n%o = atomic_add %p, %v : f16[64]"
    assert found(add, "ptr<f16> {noalias=true}") == ()
    assert found(add.replace("f16", "f32"), "ptr<f32> {noalias=true}") == ((1, "add", 64),)
