"""simplify_algebra: each law fires, and its near neighbour that does not hold stays."""

from __future__ import annotations

import pytest

from eas.passes import simplify_algebra
from tests.unit.ir_texts import body_text, check, check_same, kernel

SINK = '\ndevice_print %r {prefix=""}'
TRUE, FALSE = "%c = const true : bool\n", "%c = const false : bool\n"


def const(number: str, type: str) -> str:
    return f"%c = const {number} : {type}\n"


def result(args: str, lines: str, attrs: str = "") -> str:
    """What %r has become: the name of a value, or the line that makes it."""
    *rest, sink = body_text(simplify_algebra(kernel(args, lines + SINK, attrs))).splitlines()
    name = sink.split()[1]
    made = [line.split(" = ", 1)[1] for line in rest if line.startswith(f"{name} = ")]
    return made[0] if name == "%r" else name


@pytest.mark.parametrize(
    ("line", "number", "expected"),
    [
        ("%r = add %x, %c : i32", "0", "%x"),
        ("%r = add %c, %x : i32", "0", "%x"),
        ("%r = sub %x, %c : i32", "0", "%x"),
        ("%r = mul %x, %c : i32", "1", "%x"),
        ("%r = mul %c, %x : i32", "0", "const 0 : i32"),
        ("%r = floordiv %x, %c : i32", "1", "%x"),
        ("%r = truncdiv %x, %c : i32", "1", "%x"),
        ("%r = mod %x, %c : i32", "1", "const 0 : i32"),
        ("%r = truncmod %x, %c : i32", "1", "const 0 : i32"),
        ("%r = and %x, %c : i32", "0", "const 0 : i32"),
        ("%r = and %x, %c : i32", "-1", "%x"),
        ("%r = or %x, %c : i32", "0", "%x"),
        ("%r = or %x, %c : i32", "-1", "const -1 : i32"),
        ("%r = xor %x, %c : i32", "0", "%x"),
        ("%r = shl %x, %c : i32", "0", "%x"),
        ("%r = shr %x, %c : i32", "0", "%x"),
        ("%r = sub %x, %x : i32", "0", "const 0 : i32"),
        ("%r = xor %x, %x : i32", "0", "const 0 : i32"),
        ("%r = and %x, %x : i32", "0", "%x"),
        ("%r = or %x, %x : i32", "0", "%x"),
        ("%r = min %x, %x : i32", "0", "%x"),
        ("%r = max %x, %x : i32", "0", "%x"),
        ("%r = eq %x, %x : bool", "0", "const true : bool"),
        ("%r = le %x, %x : bool", "0", "const true : bool"),
        ("%r = ne %x, %x : bool", "0", "const false : bool"),
        ("%r = lt %x, %x : bool", "0", "const false : bool"),
    ],
)
def test_integer_laws(line, number, expected):
    assert result("%x: i32", const(number, "i32") + line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "%r = sub %c, %x : i32",
        "%r = floordiv %c, %x : i32",
        "%r = mul %x, %c : i32",
        "%r = floordiv %x, %c : i32",
        "%r = mod %x, %c : i32",
        "%r = shl %c, %x : i32",
    ],
)
def test_other_integers_stay(line):
    assert result("%x: i32", const("8", "i32") + line) == line[5:]


@pytest.mark.parametrize(
    ("name", "c", "d", "type", "both"),
    [
        ("add", "3", "4", "i32", "7"),
        ("add", "2147483647", "1", "i32", "-2147483648"),
        ("mul", "3", "4", "i32", "12"),
        ("and", "12", "10", "u8", "8"),
        ("max", "3", "4", "i64", "4"),
    ],
)
def test_constants_of_nested_integer_ops_meet(name, c, d, type, both):
    check(
        simplify_algebra, f"%x: {type}",
        f"""
        %c = const {c} : {type}
        %d = const {d} : {type}
        %y = {name} %x, %c : {type}
        %r = {name} %d, %y : {type}
        """,
        f"""
        %c = const {c} : {type}
        %d = const {d} : {type}
        %y = {name} %x, %c : {type}
        %0 = const {both} : {type}
        %r = {name} %x, %0 : {type}
        """,
    )  # fmt: skip


def test_double_negation_cancels():
    assert result("%x: i32", "%y = neg %x : i32\n%r = neg %y : i32") == "%x"
    assert result("%x: f32", "%y = neg %x : f32\n%r = neg %y : f32") == "%x"
    assert result("%x: u8", "%y = not %x : u8\n%r = not %y : u8") == "%x"
    assert result("%x: i32", "%y = not %x : i32\n%r = neg %y : i32") == "neg %y : i32"


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("%r = mul %x, %c : f32", "1.0"),
        ("%r = mul %c, %x : f32", "1.0"),
        ("%r = div %x, %c : f32", "1.0"),
        ("%r = sub %x, %c : f32", "0.0"),
        ("%r = add %x, %c : f32", "-0.0"),
        ("%r = min %x, %x : f32", "0.0"),
        ("%r = fmax %x, %x : f32", "0.0"),
    ],
)
def test_float_laws_that_hold_bit_for_bit(line, number):
    assert result("%x: f32", const(number, "f32") + line) == "%x"


FLOAT_LAWS_THAT_DO_NOT_HOLD = [
    ("%r = add %x, %c : f32", "0.0"),  # -0.0 + 0.0 is 0.0
    ("%r = sub %x, %c : f32", "-0.0"),  # -0.0 - -0.0 is 0.0
    ("%r = mul %x, %c : f32", "0.0"),  # NaN, inf, -1.0
    ("%r = sub %x, %x : f32", "0.0"),  # NaN, inf
    ("%r = eq %x, %x : bool", "0.0"),  # NaN
    ("%r = div %c, %x : f32", "1.0"),
    ("%r = floordiv %x, %c : f32", "1.0"),
]


@pytest.mark.parametrize(("line", "number"), FLOAT_LAWS_THAT_DO_NOT_HOLD)
def test_float_laws_that_do_not_hold_stay(line, number):
    check_same(simplify_algebra, "%x: f32", const(number, "f32") + line)


def test_float_sums_are_not_reassociated():
    check_same(simplify_algebra, "%x: f32", const("1.5", "f32") + "%y = add %x, %c : f32\n%r = add %y, %c : f32")


def test_relaxed_math_forgets_the_sign_of_zero():
    add, mul = const("0.0", "f32") + "%r = add %c, %x : f32", const("0.0", "f32") + "%r = mul %x, %c : f32"
    assert result("%x: f32", add, ' {math="relaxed"}') == "%x"
    assert result("%x: f32", mul, ' {math="relaxed"}') == "mul %x, %c : f32"
    assert result("%x: f32", mul, ' {math="fast"}') == "const 0.0 : f32"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (TRUE + "%r = and %p, %c : bool", "%p"),
        (FALSE + "%r = and %c, %p : bool", "const false : bool"),
        (TRUE + "%r = or %p, %c : bool", "const true : bool"),
        (FALSE + "%r = or %p, %c : bool", "%p"),
        (TRUE + "%r = xor %p, %c : bool", "not %p : bool"),
        (FALSE + "%r = xor %p, %c : bool", "%p"),
        ("%r = xor %p, %p : bool", "const false : bool"),
        (TRUE + "%r = eq %p, %c : bool", "%p"),
        (FALSE + "%r = eq %p, %c : bool", "not %p : bool"),
        (TRUE + "%r = ne %p, %c : bool", "not %p : bool"),
        (FALSE + "%r = ne %p, %c : bool", "%p"),
        ("%y = not %p : bool\n%r = not %y : bool", "%p"),
        ("%y = lt %a, %b : bool\n%r = not %y : bool", "ge %a, %b : bool"),
        ("%y = ge %a, %b : bool\n%r = not %y : bool", "lt %a, %b : bool"),
        ("%y = eq %f, %g : bool\n%r = not %y : bool", "ne %f, %g : bool"),
        ("%y = lt %f, %g : bool\n%r = not %y : bool", "not %y : bool"),  # NaN
        ("%r = select %p, %a, %a : i32", "%a"),
        (TRUE + "%d = const false : bool\n%r = select %p, %c, %d : bool", "%p"),
        (TRUE + "%d = const false : bool\n%r = select %p, %d, %c : bool", "not %p : bool"),
        ("%y = not %p : bool\n%r = select %y, %a, %b : i32", "select %p, %b, %a : i32"),
    ],
)
def test_bool_laws(line, expected):
    assert result("%p: bool, %a: i32, %b: i32, %f: f32, %g: f32", line) == expected


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ("f16 f32 f16", "%x"),
        ("f16 f32 f64", "cast %x : f64"),
        ("bf16 f32 bf16", "%x"),
        ("i8 i32 i16", "cast %x : i16"),
        ("i8 i32 u8", "cast %x : u8"),
        ("u8 f32 i32", "cast %x : i32"),
        ("bool i32 f32", "cast %x : f32"),
        ("f32 f32 f64", "cast %x : f64"),
        ("i32 f64 f32", "cast %x : f32"),
        ("f32 f16 f32", None),  # rounds
        ("f16 bf16 f16", None),
        ("i32 f32 i32", None),
        ("i8 f32 u8", None),  # the float saturates, the integer wraps
        ("i32 i8 i32", None),
        ("i32 bool i32", None),
        ("u16 f16 f32", None),  # overflows
    ],
)
def test_casts_of_casts(types, expected):
    a, b, c = types.split()
    line = f"%y = cast %x : {b}\n%r = cast %y : {c}"
    assert result(f"%x: {a}", line) == (f"cast %y : {c}" if expected is None else expected)


def test_bitcast_there_and_back_is_nothing():
    assert result("%x: f32", "%y = bitcast %x : i32\n%r = bitcast %y : f32") == "%x"
    assert result("%x: f32", "%y = bitcast %x : i32\n%r = bitcast %y : u32") == "bitcast %x : u32"


BLOCK = "%x = load %q : f32[2,3,4]\n"
BLOCK_ARGS = "%s: f32, %p: ptr<f32>"
BLOCK_TEXT = "%q = broadcast %p {shape=(2, 3, 4,)} : ptr<f32>[2,3,4]\n" + BLOCK


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%r = reshape %x {shape=(2, 3, 4,)} : f32[2,3,4]", "%x"),
        ("%y = reshape %x {shape=(6, 4,)} : f32[6,4]\n%r = reshape %y {shape=(24,)} : f32[24]", "reshape %x {shape=(24,)} : f32[24]"),
        ("%y = expand_dims %x {axis=1} : f32[2,1,3,4]\n%r = reshape %y {shape=(24,)} : f32[24]", "reshape %x {shape=(24,)} : f32[24]"),
        ("%r = permute %x {order=(0, 1, 2,)} : f32[2,3,4]", "%x"),
        ("%y = permute %x {order=(1, 2, 0,)} : f32[3,4,2]\n%r = permute %y {order=(2, 1, 0,)} : f32[2,4,3]", "permute %x {order=(0,2,1,)} : f32[2,4,3]"),
        ("%y = flip %x {axis=1} : f32[2,3,4]\n%r = flip %y {axis=-2} : f32[2,3,4]", "%x"),
        ("%y = flip %x {axis=1} : f32[2,3,4]\n%r = flip %y {axis=2} : f32[2,3,4]", "flip %y {axis=2} : f32[2,3,4]"),
        ("%r = broadcast %x {shape=(2, 3, 4,)} : f32[2,3,4]", "%x"),
        ("%y = broadcast %s {shape=(4,)} : f32[4]\n%r = broadcast %y {shape=(2, 4,)} : f32[2,4]", "broadcast %s {shape=(2,4,)} : f32[2,4]"),
        ("%y = broadcast %s {shape=(2, 4,)} : f32[2,4]\n%r = permute %y {order=(1, 0,)} : f32[4,2]", "broadcast %s {shape=(4,2,)} : f32[4,2]"),
        ("%y = expand_dims %x {axis=0} : f32[1,2,3,4]\n%r = broadcast %y {shape=(5, 2, 3, 4,)} : f32[5,2,3,4]", "broadcast %y {shape=(5,2,3,4,)} : f32[5,2,3,4]"),
    ],
)
def test_shape_laws(line, expected):
    assert result(BLOCK_ARGS, BLOCK_TEXT + line) == expected


def test_equal_lanes_are_computed_once():
    check(
        simplify_algebra, "%a: i32, %b: i32",
        """
        %x = broadcast %a {shape=(8,)} : i32[8]
        %y = broadcast %b {shape=(8,)} : i32[8]
        %two = const 2 : i32[8]
        %z = mul %x, %two : i32[8]
        %r = lt %z, %y : bool[8]
        %f = cast %y : f32[8]
        """,
        """
        %x = broadcast %a {shape=(8,)} : i32[8]
        %y = broadcast %b {shape=(8,)} : i32[8]
        %two = const 2 : i32[8]
        %0 = const 2 : i32
        %1 = mul %a, %0 : i32
        %z = broadcast %1 {shape=(8,)} : i32[8]
        %2 = lt %1, %b : bool
        %r = broadcast %2 {shape=(8,)} : bool[8]
        %3 = cast %b : f32
        %f = broadcast %3 {shape=(8,)} : f32[8]
        """,
    )  # fmt: skip


def test_broadcasts_from_different_shapes_stay():
    check_same(
        simplify_algebra, "",
        """
        %i = arange {end=4, start=0} : i32[4]
        %row = expand_dims %i {axis=0} : i32[1,4]
        %col = expand_dims %i {axis=1} : i32[4,1]
        %x = broadcast %row {shape=(4, 4,)} : i32[4,4]
        %y = broadcast %col {shape=(4, 4,)} : i32[4,4]
        %r = add %x, %y : i32[4,4]
        """,
    )  # fmt: skip


def test_pointer_laws():
    args = "%p: ptr<f32>, %a: i64, %b: i64, %i: i32, %j: i32"
    check(
        simplify_algebra, args,
        """
        %zero = const 0 : i32
        %q = addptr %p, %a : ptr<f32>
        %q2 = addptr %q, %b : ptr<f32>
        %q3 = addptr %q2, %zero : ptr<f32>
        %x = load %q3 : f32
        """,
        """
        %zero = const 0 : i32
        %q = addptr %p, %a : ptr<f32>
        %0 = add %a, %b : i64
        %q2 = addptr %p, %0 : ptr<f32>
        %x = load %q2 : f32
        """,
    )  # fmt: skip
    # The sum of two 32-bit offsets may wrap where the address does not.
    check_same(simplify_algebra, args, "%q = addptr %p, %i : ptr<f32>\n%r = addptr %q, %j : ptr<f32>")
    check_same(simplify_algebra, args, "%q = addptr %p, %i : ptr<f32>\n%r = addptr %q, %a : ptr<f32>")


def test_small_constant_offsets_add_up():
    lines = "%c = const 3 : i32\n%q = addptr %p, %c : ptr<f32>\n%r = addptr %q, %c : ptr<f32>\n%s = load %r : f32"
    text = body_text(simplify_algebra(kernel("%p: ptr<f32>", lines)))
    assert "%0 = add %c, %c : i32\n%r = addptr %p, %0 : ptr<f32>" in text


def test_masks_that_are_known():
    check(
        simplify_algebra, "%p: ptr<f32>, %q: ptr<i32>, %x: f32, %i: i32",
        """
        %t = const true : bool
        %f = const false : bool
        %a = load %p, %t, %x : f32
        %b = load %p, %f, %x : f32
        %c = load %p, %f : f32
        store %p, %a, %t
        store %p, %b, %f
        store %p, %b
        store %p, %c
        %d = atomic_add %q, %i, %t : i32
        %e = atomic_cas %q, %i, %d, %f : i32
        store %q, %e
        """,
        """
        %t = const true : bool
        %f = const false : bool
        %a = load %p : f32
        %c = const 0.0 : f32
        store %p, %a
        store %p, %x
        store %p, %c
        %d = atomic_add %q, %i : i32
        %e = const 0 : i32
        store %q, %e
        """,
    )  # fmt: skip


def test_checks_that_always_hold_are_none():
    check(
        simplify_algebra, "%p: bool",
        """
        %t = const true : bool
        %f = const false : bool
        device_assert %t {message="a"}
        device_assert %p, %f {message="b"}
        device_assert %p, %t {message="c"}
        device_assert %f {message="d"}
        assume %t
        assume %p
        """,
        """
        %t = const true : bool
        %f = const false : bool
        device_assert %p {message="c"}
        device_assert %f {message="d"}
        assume %p
        """,
    )  # fmt: skip
