"""A loop that carries a block of which only the sum is used, before and after."""

from __future__ import annotations

import pytest

from eas.ir import verify, walk
from eas.ir.text import parse_module
from eas.schedule.rewrite.fold_carried import fold_carried

LOOP = """
kernel f(%x: ptr<f32>, %out: ptr<f32>, %n: i32) spmd {{
  %0 = const 0 : i32
  %1 = const 128 : i32
  %start = const {start} : f32[128]
  %2 = broadcast %x {{shape=(128,)}} : ptr<f32>[128]
  %3 = arange {{end=128, start=0}} : i32[128]
  %total = for %0, %n, %1, %start : f32[128] (%k: i32, %t: f32[128]) {{
    %4 = broadcast %k {{shape=(128,)}} : i32[128]
    %5 = add %3, %4 : i32[128]
    %6 = addptr %2, %5 : ptr<f32>[128]
    %7 = load %6 : f32[128]
    %8 = {update} : f32[128]
    yield %8
  }}
  %9 = reduce %total {{axis=0}} : f32 (%a: f32, %b: f32) {{
    %10 = add %a, %b : f32
    yield %10
  }}
  store %out, %9
  yield
}}
"""


def carried(start="0.0", update="add %t, %7", dtype="f32", math="safe"):
    text = LOOP.format(start=start, update=update).replace("f32", dtype)
    module = fold_carried(parse_module(text.strip()).with_attrs(math=math))
    verify(module)
    (loop,) = (inst for inst in walk(module.body) if inst.op.name == "for")
    return loop.outs[0].shape


@pytest.mark.parametrize("update", ["add %t, %7", "add %7, %t"])
def test_the_loop_carries_the_sum(update):
    assert carried(update=update) == ()


def test_fma_of_a_user_rounds_once():
    assert carried(update="fma %7, %7, %t") == (128,)
    assert carried(update="fma %7, %7, %t", math="relaxed") == ()


@pytest.mark.parametrize(("start", "update"), [("1.0", "add %t, %7"), ("0.0", "max %t, %7"), ("0.0", "fma %7, %t, %7"), ("0.0", "add %t, %t")])
def test_what_is_no_sum_stays_a_block(start, update):
    assert carried(start, update) == (128,)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_short_floats_stay_a_block(dtype):
    """One large number is rounded more than many small ones."""
    assert carried(dtype=dtype) == (128,)
