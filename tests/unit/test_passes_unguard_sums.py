"""Sums under a condition, before and after."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from eas.ir import verify, walk
from eas.ir.text import parse_module
from eas.passes.unguard_sums import unguard_sums
from eas.runtime.interp import execute

LOOP = """
kernel f(%x: ptr<f32>, %w: ptr<f32>, %out: ptr<f32>, %n: i32) spmd {{
  %0 = const 0 : i32
  %1 = const 1 : i32
  %i = arange {{end=8, start=0}} : i32[8]
  %2 = broadcast %x {{shape=(8,)}} : ptr<f32>[8]
  %3 = broadcast %w {{shape=(8,)}} : ptr<f32>[8]
  %4 = broadcast %n {{shape=(8,)}} : i32[8]
  %start = const {start} : f32[8]
  %5 = lt %i, %4 : bool[8]
  %total = for %0, %n, %1, %start : f32[8] (%k: i32, %t: f32[8]) {{
    %6 = broadcast %k {{shape=(8,)}} : i32[8]
    %7 = add %i, %6 : i32[8]
    %8 = lt %7, %4 : bool[8]
    %9 = and %5, %8 : bool[8]
    %10 = addptr %2, %7 : ptr<f32>[8]
    %11 = load %10{first} : f32[8]
    %12 = addptr %3, %6 : ptr<f32>[8]
    %13 = load %12{mask} : f32[8]
    %14 = mul %11, %13 : f32[8]
    %15 = add %t, %14 : f32[8]
    %16 = select {condition}, %15, %t : f32[8]
    yield %16
  }}
  %17 = broadcast %out {{shape=(8,)}} : ptr<f32>[8]
  %18 = addptr %17, %i : ptr<f32>[8]
  store %18, %total
  yield
}}
"""


def loop(start="0.0", mask=", %9", first=", %9", condition="%8"):
    return parse_module(LOOP.format(start=start, mask=mask, first=first, condition=condition).strip())


def has_choice(start="0.0", mask=", %9"):
    module = unguard_sums(loop(start, mask))
    return any(inst.op.name == "select" for inst in walk(module.body))


def test_a_sum_of_masked_products_needs_no_choice():
    assert not has_choice()


def test_a_factor_that_may_be_infinite_keeps_it():
    assert has_choice(mask="")


def test_a_sum_that_may_be_negative_zero_keeps_it():
    assert has_choice(start="-0.0")


MASKS = ("", ", %5", ", %8", ", %9")  # of 5 and 8, 9 is the conjunction


@pytest.mark.parametrize("start", ["0.0", "-0.0", "1.0"])
def test_every_pair_of_masks_gives_what_was_written(start):
    """Conditions that a load has, has in part, or has not; memory holds what a factor of 0 does not undo."""
    x = np.array([np.inf, -0.0, 1, np.nan, -2, 3, -np.inf, 5, 0, 7, -0.0, 9, np.inf, 1, 2, 3], np.float32)
    w = np.array([-0.0, np.inf, 2, -1, 0, np.nan, 1, 3, -0.0, 1, 2, 3, np.inf, 5, 6, 7], np.float32)
    for first, mask, condition in itertools.product(MASKS, MASKS, ("%5", "%8", "%9")):
        module = loop(start, mask, first, condition)
        want, got = (np.full(8, 77, np.float32) for _ in range(2))
        for n in (0, 3, 5, 8):
            execute(module, [x, w, want, n], (1, 1, 1))
            execute(verify(unguard_sums(module)), [x, w, got, n], (1, 1, 1))
            np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]), f"{first}{mask} under {condition}")
            np.testing.assert_array_equal(got, want, f"{first}{mask} under {condition}")
