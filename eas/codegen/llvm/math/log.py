"""log, log2, log10, log1p, asinh, acosh, atanh and pow as LLVM text, in f32 and f64."""

from __future__ import annotations

import math
import struct

from eas.codegen.llvm.math.exp import EXP2, LN2, exponent_field
from eas.codegen.llvm.ssa_text import Ssa, Value

# (log(1 + f) - f) / f**2 for 1 + f between sqrt(1/2) and sqrt(2).
LOG_F32 = (
    -0.49999988,
    0.33333325,
    -0.250016,
    0.20001958,
    -0.16608705,
    0.1418234,
    -0.13246624,
    0.1290111,
    -0.0760801,
)
# (2 atanh(s) / s - 2) / s**2 in s**2, where 1 + f = (1 + s) / (1 - s).
LOG_F64 = (
    0.6666666666666735,
    0.39999999999412655,
    0.28571428742917937,
    0.22222198510934982,
    0.18183567949321014,
    0.15313948362682694,
    0.1479706325873988,
)
LOG2_E = {"float": (1.442695, 1.925963e-08), "double": (1.4426950408889634, 2.0355273740931033e-17)}
LOG10_E = {
    "float": (0.4342945, -1.010305e-08),
    "double": (0.4342944819032518, 1.098319650216765e-17),
}
LOG10_2 = {
    "float": (0.30103, -1.4320989e-08),
    "double": (0.3010299956639812, -2.8037281277851704e-18),
}
# (log2(1 + f) - (f - f**2 / 2 + f**3 / 3) / ln 2) / f**4.
POW_TAIL = (
    -0.360674,
    0.28855312,
    -0.24045305,
    0.20542061,
    -0.17937458,
    0.1700726,
    -0.16569708,
    0.09704062,
)
LOG1P_TINY = {"float": 2.0**-25, "double": 2.0**-54}  # |x| below which log(1 + x) rounds to x
ASINH_LARGE = {"float": 2.0**13, "double": 2.0**28}  # sqrt(x*x + 1) rounds to x


def _sqrt_half_bits(b: Ssa) -> int:
    return int(
        struct.unpack("I", struct.pack("f", math.sqrt(0.5)))[0]
        if b.is_f32
        else struct.unpack("Q", struct.pack("d", math.sqrt(0.5)))[0]
    )


def _above_sqrt_half(b: Ssa, x: Value) -> Value:
    """Bits of x moved so that the exponent field is that of the power of two nearest to x."""
    return b.bits(x) + ((b.bias << b.fraction_bits) - _sqrt_half_bits(b))


def _exponent(b: Ssa, moved: Value, offset: Value | float) -> Value:
    """The exponent field as a float, less the bias, plus `offset`."""
    field = moved >> b.fraction_bits
    if b.is_f32:
        return b.convert("sitofp", field, "float") + offset
    # 2**52 + field has the field in its lowest bits; AVX2 cannot convert 64-bit integers.
    return b.floats(field | (1075 << 52)) + offset


def _exponent_offset(b: Ssa, extra: float = 0.0) -> float:
    return extra - b.bias - (0.0 if b.is_f32 else 2.0**52)


def _split(b: Ssa, x: Value) -> tuple[Value, Value]:
    """(e, f) with x = 2**e * (1 + f) and 1 + f about 1, for a finite x above 0."""
    small = x < 2.0 ** (1 - b.bias)
    x = b.select(small, x * 2.0**b.fraction_bits, x)
    moved = _above_sqrt_half(b, x)
    offset = b.select(
        small, b.constant(_exponent_offset(b, -b.fraction_bits), b.elem), _exponent_offset(b)
    )
    f = b.floats((moved & ((1 << b.fraction_bits) - 1)) + _sqrt_half_bits(b)) - 1.0
    return _exponent(b, moved, offset), f


def _log_f32(b: Ssa, f: Value) -> Value:
    """log(1 + f)."""
    return b.fma(f * f, b.horner(f, LOG_F32), f)


def _log_deficit_f64(b: Ssa, f: Value) -> Value:
    """f - log(1 + f), which is small beside f; so its rounding is small beside the result's."""
    s = f / (f + 2.0)
    z = s * s
    half_square = f * 0.5 * f
    return half_square - s * b.fma(z, b.estrin(z, LOG_F64), half_square)


def _natural(b: Ssa, e: Value, f: Value) -> Value:
    high, low = LN2[b.elem]
    if b.is_f32:
        return b.fma(e, high, _log_f32(b, f))  # e * low is below a tenth of the last place
    return b.fma(e, high, f - b.fma(e, -low, _log_deficit_f64(b, f)))


def _scaled_f64(
    b: Ssa, e: Value, f: Value, unit: tuple[float, float], per_e: tuple[float, float]
) -> Value:
    """e * per_e + log(1 + f) * unit, its two large products kept with their rounding errors."""
    main = f * unit[0]
    rest = b.fma(f, unit[1], b.fma(f, unit[0], -main))
    rest = b.fma(e, per_e[1], b.fma(_log_deficit_f64(b, f), -unit[0], rest))
    whole = e * per_e[0]
    total = whole + main
    return total + (((whole - total) + main) + (rest + b.fma(e, per_e[0], -whole)))


def _mend(b: Ssa, x: Value, result: Value, pole: float) -> Value:
    """-inf at the pole, NaN below it, inf at inf."""
    result = b.select(x > pole, result, math.nan)
    result = b.select(x.equals(pole), -math.inf, result)
    return b.select(x.equals(math.inf), x, result)


def log(b: Ssa, x: Value) -> Value:
    return _mend(b, x, _natural(b, *_split(b, x)), 0.0)


def log2(b: Ssa, x: Value) -> Value:
    e, f = _split(b, x)
    unit = LOG2_E[b.elem]
    result = (
        b.fma(_log_f32(b, f), unit[0], e) if b.is_f32 else _scaled_f64(b, e, f, unit, (1.0, 0.0))
    )
    return _mend(b, x, result, 0.0)


def log10(b: Ssa, x: Value) -> Value:
    e, f = _split(b, x)
    unit, per_e = LOG10_E[b.elem], LOG10_2[b.elem]
    if b.is_f32:
        result = b.fma(e, per_e[0], b.fma(e, per_e[1], _log_f32(b, f) * unit[0]))
    else:
        result = _scaled_f64(b, e, f, unit, per_e)
    return _mend(b, x, result, 0.0)


def _log1p(b: Ssa, x: Value, extra: Value | None = None) -> Value:
    """log(1 + x) + extra * ln 2 for finite x > -1, `extra` whole."""
    moved = _above_sqrt_half(b, x + 1.0)
    exponent_mask = (2 * b.bias + 1) << b.fraction_bits
    # 4 * 2**-e, and not 2**-e, which is subnormal for the largest x.
    scale = b.floats(
        b.constant((2 * b.bias + 2) << b.fraction_bits, b.int_elem) - (moved & exponent_mask)
    )
    f = b.fma(x * 0.25, scale, b.fma(scale, 0.25, -1.0))
    e = _exponent(b, moved, _exponent_offset(b))
    return _natural(b, e if extra is None else e + extra, f)


def log1p(b: Ssa, x: Value) -> Value:
    result = _mend(b, x, _log1p(b, x), -1.0)
    return b.select(b.abs(x) < LOG1P_TINY[b.elem], x, result)


def asinh(b: Ssa, x: Value) -> Value:
    """log1p(a + a*a / (1 + sqrt(a*a + 1))), or log(2a) when a is large."""
    a = b.abs(x)
    large = a > ASINH_LARGE[b.elem]
    square = a * a
    z = b.select(large, a - 1.0, a + square / (b.sqrt(square + 1.0) + 1.0))
    result = _log1p(b, z, b.select(large, b.constant(1.0, b.elem), 0.0))
    result = b.select(a < math.inf, b.select(z < LOG1P_TINY[b.elem], a, result), a)
    return b.with_sign(result, b.sign(x))


def acosh(b: Ssa, x: Value) -> Value:
    """log1p(t + sqrt(t*t + 2t)) with t = x - 1, or log(2x) when x is large."""
    large = x > ASINH_LARGE[b.elem]
    t = x - 1.0
    z = b.select(large, t, t + b.sqrt(b.fma(t, t, t + t)))
    result = _log1p(b, z, b.select(large, b.constant(1.0, b.elem), 0.0))
    return b.select(x < math.inf, b.select(x >= 1.0, result, math.nan), x)


def atanh(b: Ssa, x: Value) -> Value:
    """log1p(2a / (1 - a)) / 2."""
    a = b.abs(x)
    z = (a + a) / (1.0 - a)
    result = b.select(
        a < 1.0, _log1p(b, z), b.select(a.equals(1.0), b.constant(math.inf, b.elem), math.nan)
    )
    return b.with_sign(b.select(a < LOG1P_TINY[b.elem] / 2, z, result) * 0.5, b.sign(x))


def _wide_log2(b: Ssa, a: Value) -> Value:
    """log2(a) in f64, good to about 2**-31: the tail of the series is summed in f32."""
    e, f = _split(b, a)
    e = b.select(a < math.inf, b.select(a.equals(0.0), -math.inf, e), a)
    tail = b.convert("fpext", b.horner(f, POW_TAIL), "double")
    e, f = b.convert("fpext", e, "double"), b.convert("fpext", f, "double")
    unit = LOG2_E["double"][0]
    lead = b.horner(f, (-unit / 2, unit / 3))
    return b.fma(f, b.fma(f, b.fma(f * f, tail, lead), unit), e)


def _exp2_of_wide(b: Ssa, t: Value) -> Value:
    """exp2 of an f64 as f32, subnormal results included."""
    t = b.at_least(b.at_most(t, 160.0), -160.0)
    magic = 1.5 * 2.0**52
    k = b.fma(t, 0.5, magic) - magic
    r = b.convert("fptrunc", b.fma(k, -2.0, t), "float")
    half = exponent_field(b, b.convert("fptrunc", k, "float"))
    return b.horner(r, EXP2["float"].coefficients) * half * half


def pow_f32(b: Ssa, x: Value, y: Value) -> Value:
    """exp2(y * log2|x|) with the product in f64, then the sign and the special cases of C."""
    a = b.abs(x)
    # A finite y instead of an infinite one: then 1 ** inf is 1 and not exp2(inf * 0).
    bounded = b.at_least(b.at_most(y, 2.0**127), -(2.0**127))
    result = _exp2_of_wide(b, b.convert("fpext", bounded, "double") * _wide_log2(b, a))
    half = bounded * 0.5
    whole = b.intrinsic("trunc", bounded).equals(bounded)
    even = b.intrinsic("trunc", half).equals(half)
    result = b.flip_sign(result, b.select(whole & ~even, b.sign(x), 0))
    result = b.select((x < 0.0) & (a < math.inf) & ~whole, math.nan, result)
    return b.select(y.equals(0.0) | x.equals(1.0), 1.0, result)
