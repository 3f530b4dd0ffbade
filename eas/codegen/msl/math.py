"""Functions of floats: Metal's own by math mode, and those that it lacks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.codegen.llvm.math.special import ERFC_ZERO, ERFCX
from eas.codegen.msl.emitter import MslEmitter
from eas.codegen.msl.helpers import Helper, maker
from eas.codegen.msl.text import Expr, call
from eas.codegen.msl.types import literal, type_name
from eas.ir import Inst

# log(erfc(a)) / a for 0 <= a <= 3.93, where f32 has reached erf = 1.
LOG_ERFC = (-1.1283792, -0.63661575, -0.10282019, 0.019339178, -0.00023081987, -0.0012334959, 0.00037455975, -3.983624e-05)
ERF_ONE = 3.93

NATIVE = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "rsqrt", "pow", "atan2",
)  # fmt: skip
OWN = ("expm1", "log1p", "erf", "erfc", "lgamma", "cbrt", "hypot", "sigmoid")
FUNCTIONS = NATIVE + OWN
_NAMESPACES = {"safe": "precise::", "relaxed": "", "fast": "fast::"}


def namespace(math: str) -> str:
    """`precise::` or `fast::`; relaxed leaves the choice to the compiler's own mode."""
    return _NAMESPACES[math]


def spelling(name: str) -> Callable[[MslEmitter, Inst, list[Expr]], Expr]:
    """Computed in f32 and rounded once: half has one variant only, bfloat none."""

    def spell(m: MslEmitter, inst: Inst, xs: list[Expr]) -> Expr:
        dtype = inst.out.dtype
        if dtype is not dtypes.f32:
            xs = [call(type_name(dtypes.f32, x.lanes), x) for x in xs]
        if name in NATIVE:
            result = call(f"{namespace(m.math)}{name}", *xs)
        else:
            result = m.helper(name, dtypes.f32, *xs)
        return result if dtype is dtypes.f32 else call(type_name(dtype, result.lanes), result)

    return spell


def _number(value: float) -> str:
    return literal(value, dtypes.f32).text


def _horner(variable: str, coefficients: tuple[float, ...]) -> str:
    """c0 + v * (c1 + v * ...), fused."""
    result = _number(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = f"fma({result}, {variable}, {_number(c)})"
    return result


_X = (("float", "x"),)


@maker("sigmoid")
def _sigmoid(t: str, dtype: DType) -> Helper:
    body = "float e = precise::exp(-fabs(x));\nreturn (x < 0.0f ? e : 1.0f) / (1.0f + e);"
    return Helper(t, "sigmoid", _X, body)


# --- what Metal lacks -----------------------------------------------------------------------------

# lgamma(1 + t) / t and lgamma(2 + t) / t for |t| <= 1/2.
_LGAMMA_1 = (
    -0.5772156715393066, 0.822467029094696, -0.4006856679916382, 0.27057945728302, -0.20738229155540466, 0.16961446404457092,
    -0.1441514790058136, 0.12445605546236038, -0.10979578644037247, 0.10988377034664154, -0.10338830202817917,
    0.036274682730436325, -0.023161957040429115, 0.17742837965488434, -0.17739738523960114,
)  # fmt: skip
_LGAMMA_2 = (
    0.42278432846069336, 0.32246702909469604, -0.0673522800207138, 0.02058078907430172, -0.0073861777782440186,
    0.002890956122428179, -0.0011858376674354076, 0.0005056574009358883, -0.00025386185734532773, 0.00011500356049509719,
)  # fmt: skip


@maker("expm1")
def _expm1(t: str, dtype: DType) -> Helper:
    """2^n * (e^r - 1) + (2^n - 1), |r| <= log(2) / 2; half of it, so that 2^n is finite."""
    series = _horner("r", tuple(1 / math.factorial(k) for k in range(2, 9)))
    body = f"""
if (x == 0.0f || isnan(x)) return x;
if (x > 88.8f) return INFINITY;
if (x < -17.4f) return -1.0f;
float n = rint(x * 1.442695f);
float r = fma(n, {_number(-(math.log(2) - 0.693359375))}, fma(n, -0.693359375f, x));  // log(2) in two parts
float small = fma(r * r, {series}, r);
float scale = ldexp(0.5f, int(n));
return 2.0f * fma(scale, small, scale - 0.5f);"""
    return Helper(t, "expm1", _X, body)


@maker("log1p")
def _log1p(t: str, dtype: DType) -> Helper:
    """Near 0 by the series of atanh(x / (2 + x)); elsewhere log(u) of the rounded u = 1 + x, plus what was lost."""
    series = _horner("square", (2 / 3, 2 / 5, 2 / 7, 2 / 9, 2 / 11))
    body = f"""
if (fabs(x) < 0.35f) {{
    float s = x / (2.0f + x), square = s * s, half_square = 0.5f * x * x;
    float rest = square * {series};
    return x - (half_square - s * (half_square + rest));
}}
float u = 1.0f + x;
if (u <= 0.0f || isinf(u)) return precise::log(u);
float lost = u > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
return precise::log(u) + lost / u;"""
    return Helper(t, "log1p", _X, body)


@maker("erf")
def _erf(t: str, dtype: DType) -> Helper:
    """1 - erfc(|x|) from the logarithm of erfc: as good near 0 as near 1."""
    body = f"""
if (isnan(x)) return x;
float a = min(fabs(x), {ERF_ONE}f);
return copysign(expm1(a * {_horner("a", LOG_ERFC)}), x);"""
    return Helper(t, "erf", _X, body, ("expm1",))


@maker("erfc")
def _erfc(t: str, dtype: DType) -> Helper:
    body = f"""
if (isnan(x)) return x;
float a = min(fabs(x), {ERFC_ZERO}f);
float v = 1.0f / fma(a, 0.5f, 1.0f);
float square = a * a;
float lost = fma(a, a, -square);
float scaled = v * {_horner("v", ERFCX)};
float tail = precise::exp(-square) * fma(scaled, -lost, scaled);
return x < 0.0f ? 2.0f - tail : tail;"""
    return Helper(t, "erfc", _X, body)


@maker("cbrt")
def _cbrt(t: str, dtype: DType) -> Helper:
    """a * y * y with y = a^(-1/3): a guess from the bits, one step of fourth order, one on the root itself."""
    center = (4 / 3 * 127 - 0.05) * 2.0**23
    body = f"""
float a = fabs(x);
if (a == 0.0f || isinf(a) || isnan(a)) return x;
bool is_small = a < {_number(2.0**-126)};
float b = is_small ? a * {_number(2.0**54)} : a;
float y = as_type<float>(int(fma(float(as_type<int>(b)), {_number(-1 / 3)}, {_number(center)})));
float h = fma(b * y * y, -y, 1.0f);
y = fma(y * h, {_horner("h", (1 / 3, 2 / 9, 14 / 81))}, y);
float square = y * y;
float root = b * square;
root = fma(fma(root * root, -root, b) * square, {_number(1 / 3)}, root);
return copysign(is_small ? root * {_number(2.0**-18)} : root, x);"""
    return Helper(t, "cbrt", _X, body)


@maker("hypot")
def _hypot(t: str, dtype: DType) -> Helper:
    """Scaled by the power of two that brings the larger one near 1."""
    body = """
if (isinf(x) || isinf(y)) return INFINITY;
if (isnan(x) || isnan(y)) return NAN;
float larger = max(fabs(x), fabs(y));
if (larger == 0.0f) return 0.0f;
uint exponent = clamp(as_type<uint>(larger) & 0x7F800000u, 0x00800000u, 0x7E000000u);
float scale = as_type<float>(0x7F000000u - exponent);
float a = x * scale, b = y * scale;
return precise::sqrt(fma(a, a, b * b)) * as_type<float>(exponent);"""
    return Helper(t, "hypot", (("float", "x"), ("float", "y")), body)


@maker("lgamma")
def _lgamma(t: str, dtype: DType) -> Helper:
    """Polynomials around the zeros 1 and 2, the recurrence up to 8, Stirling above, reflection below."""
    body = f"""
if (isnan(x)) return x;
if (isinf(x)) return INFINITY;
if (x < -0.5f && x == floor(x)) return INFINITY;
if (x < -0.5f && x > -24.0f) return lgamma_below(x);
float a = x < -0.5f ? -x : x, result;
if (a < 0.5f) {{
    result = fma(a, {_horner("a", _LGAMMA_1)}, -precise::log(fabs(a)));
}} else if (a < 1.5f) {{
    float v = a - 1.0f;
    result = v * {_horner("v", _LGAMMA_1)};
}} else if (a < 8.0f) {{
    float product = 1.0f, v = a;
    while (v >= 2.5f) {{
        v -= 1.0f;
        product *= v;
    }}
    v -= 2.0f;
    result = fma(v, {_horner("v", _LGAMMA_2)}, precise::log(product));
}} else {{
    float inverse = 1.0f / a, square = inverse * inverse;
    float series = inverse * {_horner("square", (1 / 12, -1 / 360, 1 / 1260))};
    float logarithm = precise::log(a);
    result = fma(a, logarithm - 1.0f, fma(-0.5f, logarithm, {_number(0.5 * math.log(2 * math.pi))} + series));
}}
if (x >= -0.5f) return result;
float sine = precise::sin({_number(math.pi)} * (a - rint(a)));
return precise::log({_number(math.pi)} / fabs(a * sine)) - result;"""
    return Helper(t, "lgamma", _X, body, ("lgamma_below",))


def _parts(value: float) -> tuple[str, str]:
    """A number as two floats: the nearest one, and what it lacks."""
    high = float(np.float32(value))
    return _number(high), _number(value - high)


@maker("lgamma_below")
def _lgamma_below(t: str, dtype: DType) -> Helper:
    """lgamma(x + n) - log|x (x + 1) ... (x + n - 1)| in pairs of floats: below 0 it has zeros, where the two cancel."""
    # lgamma(2 + v) / v = (1 - euler) + (zeta(2) - 1) / 2 * v + ...; the first two terms need both parts.
    (c0, d0), (c1, d1) = _parts(1 - 0.5772156649015329), _parts((math.pi**2 / 6 - 1) / 2)
    series = _horner("square", tuple(2 / k for k in range(3, 21, 2)))
    zeros, rests = zip(*map(_parts, LGAMMA_ZEROS), strict=True)
    near = f"""
const float zeros[] = {{{", ".join(zeros)}}};
const float rests[] = {{{", ".join(rests)}}};
for (int i = 0; i < {len(zeros)}; ++i) {{
    float away = x - zeros[i], pole = fabs(zeros[i] - rint(zeros[i]));
    if (fabs(away) < min(0.02f, 0.25f * pole)) return lgamma_from_zero(zeros[i], rests[i], away - rests[i]);
}}"""
    body = f"""
float high = 1.0f, low = 0.0f, v = x;
while (v < 1.5f) {{
    float product = high * v;
    low = fma(low, v, fma(high, v, -product));
    high = product;
    v += 1.0f;
}}
if (high < 0.0f) high = -high, low = -low;
v -= 2.0f;
// v * (c0 + v * (c1 + rest))
float rest = v * {_horner("v", _LGAMMA_2[2:])};
float u = {c1} + rest, u_low = ({c1} - u) + rest + {d1};
float w = v * u, w_low = fma(v, u, -w) + v * u_low;
float y = {c0} + w, y_low = ({c0} - y) + w + w_low + {d0};
float gamma = v * y, gamma_low = fma(v, y, -gamma) + v * y_low;
if (high < 0.5f || high > 2.0f) return gamma - precise::log(high) + (gamma_low - low / high);
// log(p) = 2 atanh((p - 1) / (p + 1))
float top = high - 1.0f, bottom = high + 1.0f;
float bottom_low = (high - (bottom - 1.0f)) + low;
float s = top / bottom;
float s_low = (fma(-s, bottom, top) + low - s * bottom_low) / bottom;
float square = s * s;
float logarithm = 2.0f * s, logarithm_low = fma(s * square, {series}, 2.0f * s_low);
float result = gamma - logarithm;
float lost = (gamma - result) - logarithm;
return result + (lost + gamma_low - logarithm_low);"""
    return Helper(t, "lgamma_below", _X, near + body, ("lgamma_from_zero",))


# Where lgamma is 0 below 0, as far as f32 has numbers on both sides of it before the next pole.
LGAMMA_ZEROS = (
    -2.4570247382208006, -2.7476826467274127, -3.14358088834998, -3.955294284858598, -4.039361839740537, -4.991544640560048,
    -5.0082181683225935, -5.998607480080875, -6.001385294453155, -6.999801507890638, -7.000198333407325, -7.999975197095821,
    -8.000024800270682, -8.999997244250977, -9.000002755714823,
)  # fmt: skip


@maker("lgamma_from_zero")
def _lgamma_from_zero(t: str, dtype: DType) -> Helper:
    """lgamma(z + d) - lgamma(z) for a zero z = zero + rest: every term has the factor d, so nothing cancels to noise.

    log|gamma| falls by log|1 + d / (z + k)| for each step of the recurrence; the polynomial by its divided difference.
    """
    steps = "\n".join(f"slope = fma(slope, v + d, level);\nlevel = fma(level, v, {_number(c)});" for c in reversed(_LGAMMA_2))
    body = f"""
float v = zero, sum = 0.0f;
while (v < 1.5f) {{
    sum += log1p(d / (v + rest));
    v += 1.0f;
}}
v -= 2.0f;
float slope = 0.0f, level = 0.0f;
{steps}
slope = fma(slope, v + d, level);
return fma(d, slope, -sum);"""
    return Helper(t, "lgamma_from_zero", (("float", "zero"), ("float", "rest"), ("float", "d")), body, ("log1p",))
