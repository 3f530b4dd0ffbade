"""sin, cos, tan and their inverses as LLVM text, in f32 and f64."""

from __future__ import annotations

import math

from eas.codegen.llvm.ssa_text import Ssa, Value

PI = {
    "float": (3.1415927, -8.742278e-08, -3.430249e-15),
    "double": (math.pi, 1.2246467991473532e-16, -2.9947698097183397e-33),
}
# Beyond: round(x / pi) times the first part of pi no longer cancels x exactly.
REDUCE_LIMIT = {"float": 100000.0, "double": 2.0**22}
# (sin(r) / r - 1) / r**2 in r**2, for |r| <= pi / 2.
SIN_F32 = (-0.16666667, 0.0083333505, -0.00019843104, 2.762833e-06, -2.5539856e-08)
# The same and (cos(r) - 1) / r**2, for |r| <= pi / 4.
SIN_EIGHTH = {
    "float": (-0.16666667, 0.008333379, -0.00019853067, 2.8326044e-06),
    "double": (
        -0.16666666666666666,
        0.008333333333333323,
        -0.00019841269841254635,
        2.75573192139792e-06,
        -2.5052104859441872e-08,
        1.6058360290517692e-10,
        -7.578396645664827e-13,
    ),
}
COS_EIGHTH = {
    "float": (-0.5, 0.041666646, -0.001388731, 2.4432338e-05),
    "double": (
        -0.5,
        0.041666666666666595,
        -0.001388888888887289,
        2.4801587288745455e-05,
        -2.7557314147938125e-07,
        2.087569649040281e-09,
        -1.1358306692177778e-11,
    ),
}
# (asin(s) / s - 1) / s**2 in s**2, for s <= 1/2.
ASIN = {
    "float": (0.16666752, 0.07495307, 0.045469597, 0.024181956, 0.042163987),
    "double": (
        0.1666666666666676,
        0.07499999999970715,
        0.04464285717467309,
        0.0303819427053417,
        0.022372215050071226,
        0.017351610923797476,
        0.013980833881576673,
        0.011398797335532538,
        0.01078094315645716,
        0.0037035886701830977,
        0.021714888852598497,
        -0.021010478675414855,
        0.0326363447306891,
    ),
}
# (atan(t) / t - 1) / t**2 in t**2, for |t| <= tan(pi / 8).
ATAN = {
    "float": (-0.33333316, 0.19998527, -0.14244345, 0.10598727, -0.060887314),
    "double": (
        -0.33333333333333326,
        0.19999999999997622,
        -0.14285714285382461,
        0.11111111087855136,
        -0.09090908133602955,
        0.07692282525791828,
        -0.06666223503473767,
        0.058769915454967125,
        -0.052182189250630985,
        0.04502829220461968,
        -0.03345840351364916,
        0.015179506996000961,
    ),
}
TAN_PI_8, TAN_3PI_8 = math.sqrt(2) - 1, math.sqrt(2) + 1

# floor(2**240 / pi): enough bits for the largest f32.
INVERSE_PI_240 = 0x517CC1B727220A94FE13ABE8FA9A6EE06DB14ACC9E21C820FF28B1D5EF5D

# |x| = M 2**E. Keep 128 bits of 2**E / period around the point, two of them whole: the bits above
# add multiples of 4, those below less than 2**-100. Then round M times that to the nearest whole.
HUGE_REDUCTION = """\
define internal {{ <{lanes} x float>, <{lanes} x i32> }} @{name}(<{lanes} x float> %x) noinline cold {{
entry:
  br label %lane
lane:
  %i = phi i32 [ 0, %entry ], [ %next, %lane ]
  %rs = phi <{lanes} x float> [ poison, %entry ], [ %rs.next, %lane ]
  %ns = phi <{lanes} x i32> [ poison, %entry ], [ %ns.next, %lane ]
  %v = extractelement <{lanes} x float> %x, i32 %i
  %bits = bitcast float %v to i32
  %exponent = lshr i32 %bits, 23
  %field = and i32 %exponent, 255
  %count = sub i32 {bias}, %field
  %safe = and i32 %count, 255
  %wide = zext i32 %safe to i256
  %moved = lshr i256 {inverse}, %wide
  %window = trunc i256 %moved to i128
  %fraction = and i32 %bits, 8388607
  %mantissa = or i32 %fraction, 8388608
  %m = zext i32 %mantissa to i128
  %product = mul i128 %window, %m
  %turns = add i128 %product, {offset}
  %rounded = add i128 %turns, {half}
  %whole = lshr i128 %rounded, 126
  %off = shl i128 %whole, 126
  %rest = sub i128 %turns, %off
  %top = lshr i128 %rest, 64
  %high = trunc i128 %top to i64
  %as.double = sitofp i64 %high to double
  %angle = fmul double %as.double, {unit}
  %r = fptrunc double %angle to float
  %n = trunc i128 %whole to i32
  %rs.next = insertelement <{lanes} x float> %rs, float %r, i32 %i
  %ns.next = insertelement <{lanes} x i32> %ns, i32 %n, i32 %i
  %next = add i32 %i, 1
  %done = icmp eq i32 %next, {lanes}
  br i1 %done, label %out, label %lane
out:
  %pair = insertvalue {{ <{lanes} x float>, <{lanes} x i32> }} poison, <{lanes} x float> %rs.next, 0
  %both = insertvalue {{ <{lanes} x float>, <{lanes} x i32> }} %pair, <{lanes} x i32> %ns.next, 1
  ret {{ <{lanes} x float>, <{lanes} x i32> }} %both
}}
"""


def _reduce_by_pi(b: Ssa, x: Value, multiple: Value) -> Value:
    """x - multiple * pi; the first step is exact, the last one rounds the result once."""
    for part in PI[b.elem]:
        x = b.fma(multiple, -part, x)
    return x


def _nearest_whole(b: Ssa, x: Value) -> tuple[Value, Value]:
    """round(x) and an integer of the same parity."""
    magic = 1.5 * 2.0**b.fraction_bits
    shifted = x + magic
    return shifted - magic, b.bits(shifted)


def _sine(b: Ssa, r: Value, turns: Value) -> Value:
    """sin(r) for |r| <= pi / 2, negated if the integer `turns` is odd."""
    z = r * r
    result = b.fma(r, z * b.horner(z, SIN_F32), r)
    return b.flip_sign(result, turns << (b.width - 1))


def _sine_cosine(b: Ssa, r: Value, rest: Value | float) -> tuple[Value, Value]:
    """sin and cos of r + rest for |r| <= pi / 4."""
    z = r * r
    sine = b.fma(r * z, b.horner(z, SIN_EIGHTH[b.elem]), rest) + r
    return sine, b.fma(z, b.horner(z, COS_EIGHTH[b.elem]), 1.0)


def _quarters_f64(b: Ssa, x: Value) -> tuple[Value, Value, Value]:
    """r, what r was rounded by, and an integer n with x = n pi/2 + r, for |x| within the limit."""
    n, turns = _nearest_whole(b, x * (2 / math.pi))
    half = n * 0.5
    first, second, third = PI["double"]
    exact = b.fma(half, -first, x)
    product = half * second
    r = exact - product
    lost = ((exact - r) - product) - b.fma(half, second, -product)
    return r, b.fma(half, -third, lost), turns


def _sine_f64(b: Ssa, x: Value, quarters: int) -> Value:
    """sin(x + quarters * pi / 2), to less than one ulp."""
    r, rest, turns = _quarters_f64(b, x)
    turns = turns + quarters
    sine, cosine = _sine_cosine(b, r, rest)
    return b.flip_sign(b.select(_is_odd(turns), cosine, sine), (turns << 62) & b.sign_mask)


def _is_odd(n: Value) -> Value:
    return (n & 1).equals(1)


def _reduce_huge(
    b: Ssa, x: Value, symbol: str, period_shift: int, offset: float
) -> tuple[Value, Value]:
    """r and n with |x| = (n - offset) * period + r, period = pi / 2**period_shift, for huge finite x."""
    name = f"{symbol}.reduce"
    unit = b.constant(math.pi / 2.0 ** (62 + period_shift), "double")
    text = HUGE_REDUCTION.format(
        lanes=b.lanes,
        name=name,
        bias=240 + 150 - 126 - period_shift,
        inverse=INVERSE_PI_240,
        offset=int(offset * 2**126),
        half=2**125,
        unit=unit.text.removeprefix("splat (double ").removesuffix(")"),
    )
    b.companions.append(text)
    pair = f"{{ <{b.lanes} x float>, <{b.lanes} x i32> }}"
    argument = x.text
    if b.lanes == 1:
        argument = b.emit("float", f"insertelement <1 x float> poison, float {x.text}, i32 0").text
    both = b.emit("float", f"call {pair} @{name}(<{b.lanes} x float> {argument})").text
    r = b.emit("float", f"extractvalue {pair} {both}, 0")
    n = b.emit("i32", f"extractvalue {pair} {both}, 1")
    if b.lanes == 1:
        r = b.emit("float", f"extractelement <1 x float> {r.text}, i32 0")
        n = b.emit("i32", f"extractelement <1 x i32> {n.text}, i32 0")
    return r, n


def _is_huge(b: Ssa, a: Value) -> Value:
    return (a > REDUCE_LIMIT[b.elem]) & (a < math.inf)


def sin(b: Ssa, x: Value, symbol: str) -> Value:
    if b.is_f32:
        n, parity = _nearest_whole(b, x * (1 / math.pi))
        usual = _sine(b, _reduce_by_pi(b, x, n), parity)
    else:
        usual = _sine_f64(b, x, 0)
    usual = b.select(x.equals(0.0), x, usual)  # keeps -0

    def rare() -> Value:
        if not b.is_f32:
            return b.libm("sin", x)
        return b.flip_sign(_sine(b, *_reduce_huge(b, x, symbol, 0, 0.0)), b.sign(x))

    return b.replace_rarely(_is_huge(b, b.abs(x)), usual, rare)


def cos(b: Ssa, x: Value, symbol: str) -> Value:
    """sin(x + pi/2) = sin(r) where x = (n - 1/2) pi + r."""
    if b.is_f32:
        n, parity = _nearest_whole(b, b.fma(x, 1 / math.pi, 0.5))
        usual = _sine(b, _reduce_by_pi(b, x, n - 0.5), parity)
    else:
        usual = _sine_f64(b, x, 1)

    def rare() -> Value:
        return _sine(b, *_reduce_huge(b, x, symbol, 0, 0.5)) if b.is_f32 else b.libm("cos", x)

    return b.replace_rarely(_is_huge(b, b.abs(x)), usual, rare)


def _tangent(b: Ssa, r: Value, rest: Value | float, turns: Value) -> Value:
    """tan(r + rest) for |r| <= pi / 4, or -1 / tan(r + rest) if the integer `turns` is odd."""
    sine, cosine = _sine_cosine(b, r, rest)
    odd = _is_odd(turns)
    return b.select(odd, -cosine, sine) / b.select(odd, sine, cosine)


def tan(b: Ssa, x: Value, symbol: str) -> Value:
    if b.is_f32:
        n, parity = _nearest_whole(b, x * (2 / math.pi))
        usual = _tangent(b, _reduce_by_pi(b, x, n * 0.5), 0.0, parity)
    else:
        usual = _tangent(b, *_quarters_f64(b, x))
    usual = b.select(x.equals(0.0), x, usual)

    def rare() -> Value:
        if not b.is_f32:
            return b.libm("tan", x)
        r, turns = _reduce_huge(b, x, symbol, 1, 0.0)
        return b.flip_sign(_tangent(b, r, 0.0, turns), b.sign(x))

    return b.replace_rarely(_is_huge(b, b.abs(x)), usual, rare)


def _arcsine(b: Ssa, a: Value) -> tuple[Value, Value]:
    """Where a <= 1/2, and asin(a) there; else asin(sqrt((1 - a) / 2)), half of acos(a)."""
    inner = a <= 0.5
    z = b.select(inner, a * a, b.fma(a, -0.5, 0.5))
    root = b.sqrt(z)
    s = b.select(inner, a, root)
    tail = s * z * (b.horner(z, ASIN[b.elem]) if b.is_f32 else b.estrin(z, ASIN[b.elem]))
    if not b.is_f32:  # what the square root was rounded by
        lost = b.fma(root, -root, z) / b.at_least(root + root, 2.0**-500)
        tail = tail + b.select(inner, 0.0, lost)
    return inner, s + tail


def asin(b: Ssa, x: Value) -> Value:
    inner, angle = _arcsine(b, b.abs(x))
    high, low, _ = PI[b.elem]
    outer = b.fma(angle, -2.0, high / 2) + low / 2
    return b.with_sign(b.select(inner, angle, outer), b.sign(x))


def acos(b: Ssa, x: Value) -> Value:
    inner, angle = _arcsine(b, b.abs(x))
    high, low, _ = PI[b.elem]
    middle = high / 2 - (b.flip_sign(angle, b.sign(x)) - low / 2)
    left = b.fma(angle, -2.0, high) + low
    return b.select(inner, middle, b.select(x < 0.0, left, angle + angle))


def atan(b: Ssa, x: Value) -> Value:
    a = b.abs(x)
    low, high = a < TAN_PI_8, a > TAN_3PI_8
    t = b.select(
        low, a, b.select(high, b.constant(-1.0, b.elem), a - 1.0) / b.select(high, a, a + 1.0)
    )
    return b.with_sign(_turned(b, t, low, high), b.sign(x))


def _turned(b: Ssa, t: Value, low: Value, high: Value) -> Value:
    """atan(t) plus 0 where `low`, pi/2 where `high`, else pi/4."""
    pi, pi_rest, _ = PI[b.elem]
    turn = b.select(
        low, b.constant(0.0, b.elem), b.select(high, b.constant(pi / 2, b.elem), pi / 4)
    )
    rest = b.select(
        low, b.constant(0.0, b.elem), b.select(high, b.constant(pi_rest / 2, b.elem), pi_rest / 4)
    )
    z = t * t
    tail = b.fma(t * z, b.horner(z, ATAN[b.elem]) if b.is_f32 else b.estrin(z, ATAN[b.elem]), rest)
    return turn + (t + tail)


def atan2(b: Ssa, y: Value, x: Value) -> Value:
    up, across = b.abs(y), b.abs(x)
    overflows = (up > 2.0 ** (b.bias - 2)) | (across > 2.0 ** (b.bias - 2))
    up, across = (b.select(overflows, v * 0.25, v) for v in (up, across))
    low = (up < across * TAN_PI_8) | up.equals(0.0)
    high = up > across * TAN_3PI_8
    top = b.select(low, up, b.select(high, -across, up - across))
    t = top / b.select(low, across, b.select(high, up, up + across))
    angle = _turned(b, b.select(up.equals(across), 0.0, t), low, high)  # also inf, inf and 0, 0
    pi, pi_rest, _ = PI[b.elem]
    angle = b.select(b.bits(x) < 0, pi - (angle - pi_rest), angle)
    return b.with_sign(angle, b.sign(y))
