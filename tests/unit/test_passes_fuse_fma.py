"""fuse_fma: only with permission, only for products with one use."""

from __future__ import annotations

import pytest

from eas.passes import fuse_fma
from tests.unit.ir_texts import check, check_same

ARGS = "%x: f32, %y: f32, %z: f32, %i: i32"
RELAXED = ' {math="relaxed"}'


@pytest.mark.parametrize("math", ["relaxed", "fast"])
def test_product_joins_its_only_sum(math):
    check(
        fuse_fma, ARGS,
        """
        %m = mul %x, %y : f32
        %r = add %z, %m : f32
        """,
        """
        %m = mul %x, %y : f32
        %r = fma %x, %y, %z : f32
        """,
        f' {{math="{math}"}}',
    )  # fmt: skip


def test_differences_negate_the_right_operand():
    check(
        fuse_fma, ARGS,
        """
        %m = mul %x, %y : f32
        %r = sub %m, %z : f32
        %n = mul %x, %z : f32
        %s = sub %y, %n : f32
        """,
        """
        %m = mul %x, %y : f32
        %0 = neg %z : f32
        %r = fma %x, %y, %0 : f32
        %n = mul %x, %z : f32
        %1 = neg %x : f32
        %s = fma %1, %z, %y : f32
        """,
        RELAXED,
    )  # fmt: skip


def test_safe_math_keeps_both_roundings():
    lines = "%m = mul %x, %y : f32\n%r = add %m, %z : f32"
    check_same(fuse_fma, ARGS, lines)
    check_same(fuse_fma, ARGS, lines, ' {math="safe"}')


def test_product_with_two_uses_stays():
    check_same(fuse_fma, ARGS, "%m = mul %x, %y : f32\n%r = add %m, %z : f32\n%s = neg %m : f32", RELAXED)
    check_same(fuse_fma, ARGS, "%m = mul %x, %y : f32\n%r = add %m, %m : f32", RELAXED)


def test_integers_stay():
    check_same(fuse_fma, ARGS, "%m = mul %i, %i : i32\n%r = add %m, %i : i32", RELAXED)
