"""exp, exp2, exp10, expm1, sigmoid, sinh, cosh and tanh as LLVM text, in f32 and f64."""

from __future__ import annotations

import math
from dataclasses import dataclass

from eas.codegen.llvm.ssa_text import Ssa, Value


@dataclass(frozen=True)
class Base:
    """base**x = (2**k)**2 * p(r), where k = round(x * inverse) and r = x - k * step."""

    low: float  # at and below: 0
    high: float  # at and above: inf
    inverse: float  # log2(base) / 2
    step: tuple[float, ...]  # 2 * log_base(2) as a sum, largest first
    coefficients: tuple[float, ...]


# An even power of two costs two more coefficients but makes 2**k a normal number for every
# result, subnormal ones included: one shift builds it and the last product rounds once.
EXP = {
    "float": Base(
        -104.5,
        89.0,
        0.5 * math.log2(math.e),
        (1.3862944, -3.8093084e-09),
        (1.0, 1.0, 0.50000036, 0.16666616, 0.0416612, 0.008335968, 0.0014105447, 0.00019629998),
    ),
    "double": Base(
        -746.0,
        710.0,
        0.5 * math.log2(math.e),
        (1.3862943611198906, 4.638093627692599e-17),
        (
            1.0,
            1.0,
            0.4999999999999993,
            0.16666666666666938,
            0.041666666666702205,
            0.00833333333326972,
            0.0013888888883562673,
            0.00019841269892902834,
            2.4801590837147442e-05,
            2.755730061806581e-06,
            2.7556156459239877e-07,
            2.5055036810332432e-08,
            2.1062458104894093e-09,
            1.5935516364358114e-10,
        ),
    ),
}
EXP2 = {
    "float": Base(
        -151.0,
        129.0,
        0.5,
        (2.0,),
        (
            1.0,
            0.69314724,
            0.24022678,
            0.055503767,
            0.00961659,
            0.0013339508,
            0.00015664846,
            1.505432e-05,
        ),
    ),
    "double": Base(
        -1077.0,
        1025.0,
        0.5,
        (2.0,),
        (
            1.0,
            0.6931471805599453,
            0.2402265069591002,
            0.055504108664823304,
            0.009618129107639052,
            0.0013333558146284776,
            0.00015403530386423058,
            1.5252733853013096e-05,
            1.321548888362728e-06,
            1.0178078184635171e-07,
            7.0545946932396075e-09,
            4.4460979641989636e-10,
            2.5913483280244677e-11,
            1.3582932396533615e-12,
        ),
    ),
}
EXP10 = {
    "float": Base(
        -46.0,
        39.0,
        0.5 * math.log2(10),
        (0.60206, -2.8641978e-08),
        (1.0, 2.3025851, 2.6509511, 2.0346713, 1.1710951, 0.5395636, 0.21027064, 0.06735384),
    ),
    "double": Base(
        -325.0,
        309.0,
        0.5 * math.log2(10),
        (0.6020599913279624, -5.607456255570341e-18),
        (
            1.0,
            2.3025850929940455,
            2.6509490552391934,
            2.034678592293537,
            1.1712551489134795,
            0.5393829291899866,
            0.206995848607774,
            0.06808936528780711,
            0.01959769761965518,
            0.005013925012993562,
            0.001154449168756421,
            0.00024169741645246315,
            4.679079487426018e-05,
            8.145435871316585e-06,
        ),
    ),
}
# (exp(r) - 1 - r) / r**2 for |r| <= ln 2.
EXPM1 = {
    "float": (
        0.5,
        0.16666672,
        0.041666646,
        0.008332661,
        0.0013889752,
        0.00020091228,
        2.4839872e-05,
    ),
    "double": (
        0.5,
        0.1666666666666666,
        0.041666666666666755,
        0.008333333333336163,
        0.0013888888888869298,
        0.00019841269837290413,
        2.4801587316656326e-05,
        2.755732175674078e-06,
        2.7557314221553806e-07,
        2.50513004241755e-08,
        2.087740429743496e-09,
        1.6185114145749415e-10,
        1.147317220615034e-11,
    ),
}
# (cosh(r) - 1) / r**2 and (sinh(r) / r - 1) / r**2 in r**2, for |r| <= ln(2) / 2.
COSH = {
    "float": (0.5, 0.04166646, 0.0013935427),
    "double": (
        0.5,
        0.041666666666666685,
        0.0013888888888873567,
        2.480158734858687e-05,
        2.755725237444177e-07,
        2.092159187273641e-09,
    ),
}
SINH = {
    "float": (0.16666667, 0.008333175, 0.0001997406),
    "double": (
        0.16666666666666666,
        0.008333333333333337,
        0.00019841269841253177,
        2.755731926524343e-06,
        2.5052056744796103e-08,
        1.6090834424398503e-10,
    ),
}
LN2 = {"float": (0.6931472, -1.9046542e-09), "double": (0.6931471805599453, 2.3190468138462996e-17)}
NEGATIVE_LOW = -104.0  # exp of it is below half of the smallest number, and 2**(k + 24) still normal
# exp(r) for |r| <= ln(2) / 2.
NEGATIVE = (1.0, 1.0, 0.49999994, 0.16666521, 0.04166839, 0.008368745, 0.001381454)
NEGATIVE2_LOW = -150.25  # exp2 of it is 0, and 2**(k + 24) still normal
# exp2(r) for |r| <= 1 / 2.
NEGATIVE2 = (1.0, 0.6931472, 0.24022648, 0.0555036, 0.009618506, 0.0013390806, 0.00015326471)
EXPM1_LOW = {"float": -18.0, "double": -38.0}
EXPM1_TINY = {"float": 2.0**-25, "double": 2.0**-54}  # x below which exp(x) - 1 rounds to x
HYPERBOLIC_HIGH = {"float": 89.6, "double": 710.6}  # sinh and cosh have overflowed


def _nearest(b: Ssa, x: Value, scale: float, exponent_bias: int) -> tuple[Value, Value]:
    """k = round(x * scale) and 2**(k + exponent_bias), which must be a normal number.

    Adding 1.5 * 2**fraction_bits leaves the integer in the lowest bits of the sum; a shift makes
    it the exponent field.
    """
    magic = 1.5 * 2.0**b.fraction_bits + b.bias + exponent_bias
    shifted = b.fma(x, scale, magic)
    return shifted - magic, b.floats(b.bits(shifted) << b.fraction_bits)


def exponent_field(b: Ssa, k: Value) -> Value:
    """2**k for a whole k, which must be a normal number."""
    return b.floats(b.bits(k + (1.5 * 2.0**b.fraction_bits + b.bias)) << b.fraction_bits)


def _reduce(b: Ssa, x: Value, k: Value, step: tuple[float, ...]) -> Value:
    for part in step:
        x = b.fma(k, -part, x)
    return x


def _power(b: Ssa, x: Value, base: Base) -> Value:
    k, half = _nearest(b, x, base.inverse, 0)
    return _near_one(b, _reduce(b, x, k, base.step), base.coefficients, half) * half


def _near_one(b: Ssa, r: Value, coefficients: tuple[float, ...], scale: Value) -> Value:
    """A polynomial that starts with 1, times a power of two: as many products as Horner's, in a chain half as long."""
    square, (_, slope, *rest) = r * r, coefficients
    above = b.horner_of_pairs(r, square, rest)
    if slope == 1.0:  # the 1 last: what was rounded before is small
        return b.fma(b.fma(square, above, r), scale, scale)
    return b.fma(square, above, b.fma(r, slope, 1.0)) * scale


def _clamped_power(b: Ssa, x: Value, base: Base) -> Value:
    return _power(b, b.at_least(b.at_most(x, base.high), base.low), base)


def exp(b: Ssa, x: Value) -> Value:
    return _clamped_power(b, x, EXP[b.elem])


def exp2(b: Ssa, x: Value) -> Value:
    return _clamped_power(b, x, EXP2[b.elem])


def exp10(b: Ssa, x: Value) -> Value:
    return _clamped_power(b, x, EXP10[b.elem])


def exp_of_negative(b: Ssa, x: Value) -> Value:
    """exp(x) for x <= 0 or NaN."""
    if not b.is_f32:
        return _power(b, b.at_least(x, EXP[b.elem].low), EXP[b.elem])
    # No result is above 1: 2**(k + 24) is a normal number, and the last product rounds once.
    x = b.at_least(x, NEGATIVE_LOW)
    k, scale = _nearest(b, x, math.log2(math.e), 24)
    return _near_one(b, _reduce(b, x, k, LN2[b.elem]), NEGATIVE, scale) * 2.0**-24


def exp2_of_negative(b: Ssa, x: Value) -> Value:
    """exp2(x) for x <= 0 or NaN."""
    if not b.is_f32:
        return _power(b, b.at_least(x, EXP2[b.elem].low), EXP2[b.elem])
    x = b.at_least(x, NEGATIVE2_LOW)
    k, scale = _nearest(b, x, 1.0, 24)
    return _near_one(b, x - k, NEGATIVE2, scale) * 2.0**-24


def sigmoid(b: Ssa, x: Value) -> Value:
    """e / (1 + e) or 1 / (1 + e) with e = exp(-|x|): never an overflow, and small results keep their bits."""
    e = exp_of_negative(b, b.floats(b.bits(x) | b.sign_mask))
    return b.select(x < 0.0, e, 1.0) / (e + 1.0)


def _expm1_halves(b: Ssa, x: Value) -> Value:
    """(exp(x) - 1) / 2, for x between EXPM1_LOW and the overflow of exp."""
    k, half = _nearest(b, x, EXP[b.elem].inverse, 0)
    r = _reduce(b, x, k, EXP[b.elem].step)
    q = b.fma(r * r, b.horner(r, EXPM1[b.elem]), r)
    scale = (half * 0.5) * half
    return b.fma(scale, q, scale - 0.5)


def expm1(b: Ssa, x: Value) -> Value:
    clamped = b.at_least(b.at_most(x, EXP[b.elem].high), EXPM1_LOW[b.elem])
    result = _expm1_halves(b, clamped) * 2.0
    return b.select(b.abs(x) < EXPM1_TINY[b.elem], x, result)


def _exp_parts(b: Ssa, a: Value) -> tuple[Value, Value, Value, Value]:
    """2 cosh(r) - 2, 2 sinh(r), 2**(n-2) and 2**(-n-2) with a = n ln 2 + r, for 0 <= a or NaN.

    Doubled, so that 2**(n-2) stays finite and a subnormal r keeps its last bit.
    """
    a = b.at_most(a, HYPERBOLIC_HIGH[b.elem])
    n, up = _nearest(b, a, math.log2(math.e), -2)
    r = _reduce(b, a, n, LN2[b.elem])
    z = r * r
    even = z * b.horner(z, tuple(2 * c for c in COSH[b.elem]))
    odd = b.fma(r * z, b.horner(z, tuple(2 * c for c in SINH[b.elem])), r + r)
    down = b.constant(2 * (b.bias - 2) << b.fraction_bits, b.int_elem) - b.bits(up)
    down = b.select(down > 0, down, 0)  # 2**(-n-2) below the normal numbers: too small to matter
    return even, odd, up, b.floats(down)


def sinh(b: Ssa, x: Value) -> Value:
    even, odd, up, down = _exp_parts(b, b.abs(x))
    weight = up - down  # the exact 2 * weight is added last, so that the rest rounds in finer steps
    result = b.fma(weight, 2.0, b.fma(weight, even, (up + down) * odd))
    return b.with_sign(result, b.sign(x))


def cosh(b: Ssa, x: Value) -> Value:
    even, odd, up, down = _exp_parts(b, b.abs(x))
    weight = up + down
    return b.fma(weight, 2.0, b.fma(weight, even, (up - down) * odd))


@dataclass(frozen=True)
class Saturating:
    """An odd function that reaches 1 at `end`: x * (1 / end + p(x*x) / q(x*x)), where p vanishes at the end.

    Where the function is near 1, the quotient is small and so are its errors; it never exceeds 1. The
    last coefficient of q is 1 and the slope is added, not multiplied: the multipliers are what is scarce.
    The numbers are from `tools/fit_saturating.py`.
    """

    end: float
    slope: float  # 1 / end
    p: tuple[float, ...]
    q: tuple[float, ...]


TANH = Saturating(
    8.684941,
    0.11514182,
    (1101236.8, 99845.84, 661.5058, -21.513893, -0.09773067),
    (1244534.8, 581664.56, 32335.031, 414.5136, 1.0),
)


def saturating(b: Ssa, x: Value, f: Saturating) -> Value:
    """f(x) in f32."""
    x = b.at_least(b.at_most(x, f.end), -f.end)
    t = x * x
    return x * (b.horner(t, f.p) / b.horner(t, f.q) + f.slope)


def tanh(b: Ssa, x: Value) -> Value:
    """In f64 m / (m + 2) with m = exp(2|x|) - 1: no error of m matters where m is large."""
    if b.is_f32:
        return saturating(b, x, TANH)
    a = b.abs(x)
    half = _expm1_halves(b, b.at_most(a + a, 40.0))
    return b.with_sign(half / (half + 1.0), b.sign(x))
