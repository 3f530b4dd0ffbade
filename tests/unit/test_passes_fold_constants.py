"""fold_constants: what is computed at compile time, and what is not."""

from __future__ import annotations

import pytest

from eas.passes import fold_constants
from tests.unit.ir_texts import body_text, check, check_same, kernel


def folded(line: str, *constants: str) -> str:
    """The last line after folding `line` over %0, %1, ..."""
    texts = [f"%c{i} = const {c}" for i, c in enumerate(constants)]
    return body_text(fold_constants(kernel("", "\n".join([*texts, line])))).splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "constants", "result"),
    [
        ("%r = add %c0, %c1 : i32", ["2147483647 : i32", "1 : i32"], "%r = const -2147483648 : i32"),
        ("%r = mul %c0, %c1 : i32[4]", ["3 : i32[4]", "5 : i32[4]"], "%r = const 15 : i32[4]"),
        ("%r = floordiv %c0, %c1 : i32", ["7 : i32", "0 : i32"], "%r = const 0 : i32"),
        ("%r = floordiv %c0, %c1 : i32", ["-7 : i32", "2 : i32"], "%r = const -4 : i32"),
        ("%r = not %c0 : u8", ["1 : u8"], "%r = const 254 : u8"),
        ("%r = lt %c0, %c1 : bool", ["1 : i32", "2 : i32"], "%r = const true : bool"),
        ("%r = div %c0, %c1 : f32", ["1.0 : f32", "3.0 : f32"], "%r = const 0.33333334 : f32"),
        ("%r = add %c0, %c1 : f16", ["2048.0 : f16", "1.0 : f16"], "%r = const 2048.0 : f16"),
        ("%r = add %c0, %c1 : bf16", ["256.0 : bf16", "1.0 : bf16"], "%r = const 256.0 : bf16"),
        ("%r = cast %c0 : i32", ["nan : f32"], "%r = const 0 : i32"),
        ("%r = cast %c0 : u8", ["300.0 : f32"], "%r = const 255 : u8"),
        ("%r = bitcast %c0 : i32", ["1.0 : f32"], "%r = const 1065353216 : i32"),
        ("%r = multiple_of %c0 {n=4} : i32", ["8 : i32"], "%r = const 8 : i32"),
        ("%r = mul %c0, %c1 : u64", ["18446744073709551615 : u64", "1 : u64"], "%r = const 18446744073709551615 : u64"),
    ],
)
def test_exact_ops_over_constants_are_constants(line, constants, result):
    assert folded(line, *constants) == result


@pytest.mark.parametrize(
    ("line", "constants", "result"),
    [
        ("%r = mul %c0, %c1 : f32", ["-0.0 : f32", "1.0 : f32"], "%r = const -0.0 : f32"),
        ("%r = add %c0, %c1 : f32", ["-0.0 : f32", "-0.0 : f32"], "%r = const -0.0 : f32"),
        ("%r = add %c0, %c1 : f32", ["-0.0 : f32", "0.0 : f32"], "%r = const 0.0 : f32"),
        ("%r = neg %c0 : f32", ["0.0 : f32"], "%r = const -0.0 : f32"),
        ("%r = div %c0, %c1 : f32", ["-1.0 : f32", "0.0 : f32"], "%r = const -inf : f32"),
        ("%r = mul %c0, %c1 : f32", ["1e+38 : f32", "10.0 : f32"], "%r = const inf : f32"),
        ("%r = sub %c0, %c1 : f32", ["inf : f32", "inf : f32"], "%r = const nan : f32"),
        ("%r = max %c0, %c1 : f32", ["nan : f32", "1.0 : f32"], "%r = const nan : f32"),
        ("%r = ne %c0, %c0 : bool", ["nan : f32"], "%r = const true : bool"),
        ("%r = broadcast %c0 {shape=(4,)} : f32[4]", ["-0.0 : f32"], "%r = const -0.0 : f32[4]"),
        ("%r = reshape %c0 {shape=(2, 2,)} : f32[2,2]", ["nan : f32[4]"], "%r = const nan : f32[2,2]"),
    ],
)
def test_special_numbers_survive(line, constants, result):
    assert folded(line, *constants) == result


@pytest.mark.parametrize(
    ("line", "constants"),
    [
        ("%r = exp %c0 : f32", ["1.0 : f32"]),  # backends may differ by some ulp
        ("%r = pow %c0, %c1 : f32", ["2.0 : f32", "3.0 : f32"]),
        ("%r = bitcast %c0 : f32", ["2143289345 : i32"]),  # a NaN with a payload
        ("%r = neg %c0 : f32", ["nan : f32"]),  # a NaN with a sign
        ("%r = join %c0, %c1 : f32[2]", ["0.0 : f32", "-0.0 : f32"]),
        ('%r = inline_target %c0 {texts=(("numpy", "a0 + 1",),)} : f32', ["1.0 : f32"]),
        ("%r = arange {end=4, start=0} : i32[4]", []),
        ("%r = program_id {axis=0} : i32", []),
    ],
)
def test_what_is_not_one_exact_number_stays(line, constants):
    assert folded(line, *constants).startswith(line.split(" {")[0].split(" :")[0])


def test_shape_ops_of_constants_are_constants():
    check(
        fold_constants, "",
        """
        %a = const 3 : i32
        %b = expand_dims %a {axis=0} : i32[1]
        %c = broadcast %b {shape=(2, 4,)} : i32[2,4]
        %d = permute %c {order=(1, 0,)} : i32[4,2]
        %e, %f = split %d : i32[4], i32[4]
        %g = cat %e, %f {axis=0} : i32[8]
        """,
        """
        %a = const 3 : i32
        %b = const 3 : i32[1]
        %c = const 3 : i32[2,4]
        %d = const 3 : i32[4,2]
        %e = const 3 : i32[4]
        %f = const 3 : i32[4]
        %g = const 3 : i32[8]
        """,
    )  # fmt: skip


def test_select_with_a_constant_condition_is_its_branch():
    check(
        fold_constants, "%x: f32, %y: f32",
        """
        %t = const true : bool
        %f = const false : bool
        %a = select %t, %x, %y : f32
        %b = select %f, %x, %y : f32
        device_print %a, %b {prefix=""}
        """,
        """
        %t = const true : bool
        %f = const false : bool
        device_print %x, %y {prefix=""}
        """,
    )  # fmt: skip


def test_decided_branch_is_inlined():
    check(
        fold_constants, "%x: i32, %p: ptr<i32>",
        """
        %one = const 1 : i32
        %two = const 2 : i32
        %c = lt %two, %one : bool
        %r = if %c : i32 () {
          store %p, %x
          yield %x
        } () {
          %y = add %x, %x : i32
          store %p, %y
          yield %y
        }
        store %p, %r
        """,
        """
        %one = const 1 : i32
        %two = const 2 : i32
        %c = const false : bool
        %y = add %x, %x : i32
        store %p, %y
        store %p, %y
        """,
    )  # fmt: skip


@pytest.mark.parametrize("bounds", ["%five, %five, %one", "%five, %zero, %one", "%zero, %five, %minus", "%n, %n, %one", "%zero, %n, %zero"])
def test_empty_loop_gives_its_initial_values(bounds):
    constants = """
        %zero = const 0 : i32
        %five = const 5 : i32
        %one = const 1 : i32
        %minus = const -1 : i32
    """
    module = kernel(
        "%n: i32, %p: ptr<i32>",
        constants
        + f"""
        %r = for {bounds}, %n : i32 (%i: i32, %acc: i32) {{
          store %p, %i
          yield %i
        }}
        store %p, %r
        """,
    )
    assert body_text(fold_constants(module)).endswith("%minus = const -1 : i32\nstore %p, %n")


def test_loop_that_may_run_stays():
    check_same(
        fold_constants, "%n: i32, %p: ptr<i32>",
        """
        %zero = const 0 : i32
        %one = const 1 : i32
        for %zero, %n, %one (%i: i32) {
          store %p, %i
          yield
        }
        """,
    )  # fmt: skip


def test_while_that_never_starts_gives_its_initial_values():
    body = """
        %f = const false : bool
        %r = while %n : i32 (%a: i32) {{
          {test}
          yield %f
        }} (%b: i32) {{
          yield %b
        }}
        store %p, %r
    """
    args = "%n: i32, %p: ptr<i32>"
    check(fold_constants, args, body.format(test=""), "%f = const false : bool\nstore %p, %n")
    check_same(fold_constants, args, body.format(test="store %p, %a"))


def test_places_and_names_are_kept():
    module = kernel("", "%x = const 1 : i32\n%y = add %x, %x : i32")
    (out,) = [i.out for i in fold_constants(module).body.body if i.outs and i["value"] == 2]
    assert out.hint == "y"
