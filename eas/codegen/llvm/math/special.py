"""erf, erfc, cbrt, rsqrt, hypot and fmod as LLVM text, in f32 and, where not in libm's hands, f64."""

from __future__ import annotations

import math

from eas.codegen.llvm.math.exp import Saturating, exp_of_negative, saturating
from eas.codegen.llvm.ssa_text import Ssa, Value

ERF = Saturating(
    3.857519,
    0.25923398,
    (22467.768, 1503.2224, 598.2617, -4.242797, -0.2838649, -0.20478605),
    (25850.42, 12916.413, 2921.9692, 381.64038, 29.530125, 1.0),
)
# exp(a*a) erfc(a) / t in t = 1 / (1 + a / 2), for a <= 10.1.
ERFCX = (
    0.2820862,
    0.28237927,
    0.24307474,
    0.20280243,
    -0.026900375,
    0.27846786,
    -0.4875515,
    0.28474528,
    -0.05910394,
)
ERFC_ZERO = 10.1


def erf_f32(b: Ssa, x: Value) -> Value:
    return saturating(b, x, ERF)


def erfc_f32(b: Ssa, x: Value) -> Value:
    a = b.at_most(b.abs(x), ERFC_ZERO)
    t = 1.0 / b.fma(a, 0.5, 1.0)
    square = a * a
    lost = b.fma(a, a, -square)
    scaled = t * b.horner(t, ERFCX)
    tail = exp_of_negative(b, -square) * b.fma(scaled, -lost, scaled)
    return b.select(x < 0.0, 2.0 - tail, tail)


def rsqrt(b: Ssa, x: Value) -> Value:
    return 1.0 / b.sqrt(x)


def cbrt(b: Ssa, x: Value) -> Value:
    """a * y*y with y = a**(-1/3) by Newton's method of fourth order, then one step on the root itself."""
    a = b.abs(x)
    small = a < 2.0 ** (1 - b.bias)
    scaled = b.select(small, a * 2.0**54, a)
    y = _guess_inverse_cbrt(b, scaled)
    for _ in range(1 if b.is_f32 else 2):
        h = b.fma(scaled * y * y, -y, 1.0)
        y = b.fma(y * h, b.horner(h, (1 / 3, 2 / 9, 14 / 81)), y)
    square = y * y
    root = scaled * square
    root = b.fma(b.fma(root * root, -root, scaled) * square, 1 / 3, root)
    root = b.select(small, root * 2.0**-18, root)
    ordinary = (a < math.inf) & (a > 0.0)
    return b.select(ordinary, b.with_sign(root, b.sign(x)), x)


def _guess_inverse_cbrt(b: Ssa, a: Value) -> Value:
    """a**(-1/3) within 4 %: the upper bits of a float are nearly its logarithm."""
    upper = b.bits(a) if b.is_f32 else b.convert("trunc", b.bits(a) >> 32, "i32")
    # 4/3 of the bias, less what makes the greatest errors above and below equal.
    center = (4 / 3 * b.bias - 0.05) * 2.0 ** (23 if b.is_f32 else 20)
    guess = b.convert("fptosi", b.fma(b.convert("sitofp", upper, b.elem), -1 / 3, center), "i32")
    return b.floats(guess if b.is_f32 else b.convert("zext", guess, "i64") << 32)


def hypot(b: Ssa, x: Value, y: Value) -> Value:
    infinite = b.abs(x).equals(math.inf) | b.abs(y).equals(math.inf)  # also beside a NaN
    result = _hypot_wide(b, x, y) if b.is_f32 else _hypot_scaled(b, b.abs(x), b.abs(y))
    return b.select(infinite, math.inf, result)


def _hypot_wide(b: Ssa, x: Value, y: Value) -> Value:
    x, y = b.convert("fpext", x, "double"), b.convert("fpext", y, "double")
    return b.convert("fptrunc", b.sqrt(b.fma(x, x, y * y)), "float")


def _hypot_scaled(b: Ssa, x: Value, y: Value) -> Value:
    """Scale by a power of two that brings the larger one near 1."""
    field = b.bits(b.select(x > y, x, y)) & (0x7FF << 52)
    field = b.select(field > 2045 << 52, 2045 << 52, field)
    field = b.select(field > 1 << 52, field, 1 << 52)
    scale = b.floats(b.constant(2046 << 52, "i64") - field)
    x, y = x * scale, y * scale
    return b.sqrt(b.fma(x, x, y * y)) * b.floats(field)


def fmod_f32(b: Ssa, x: Value, y: Value) -> Value:
    """Exact: in f64 the truncated quotient below 2**28 and its product are."""
    wide_x, wide_y = b.convert("fpext", x, "double"), b.convert("fpext", y, "double")
    quotient = wide_x / wide_y
    rest = b.fma(b.intrinsic("trunc", quotient), -wide_y, wide_x)
    usual = b.convert("fptrunc", rest, "float")
    usual = b.select(b.abs(y).equals(math.inf) & (b.abs(x) < math.inf), x, usual)
    usual = b.floats((b.bits(usual) & (b.sign_mask - 1)) | b.sign(x))
    far = (b.abs(quotient) >= 2.0**28) & (b.abs(quotient) < math.inf)
    return b.replace_rarely(far, usual, lambda: b.libm("fmod", x, y))
