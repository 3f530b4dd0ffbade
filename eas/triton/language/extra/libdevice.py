"""`triton.language.extra.libdevice`: functions of C's math library and of bits, under NVIDIA's names."""

from __future__ import annotations

import math as pymath
from collections.abc import Callable
from typing import Any

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import Unsupported
from eas.frontend import values
from eas.frontend.block import Block
from eas.frontend.lang import floats, special
from eas.frontend.values import cast_to, emit, is_number
from eas.triton.language.math import floating
from eas.triton.language.math import fma as _fma
from eas.triton.language.meaning import binary, bitcast, operands, refuse, to_tensor

_F32, _F64 = dtypes.f32, dtypes.f64
Function = Callable[..., Block]


def _number(x: Block, like: Any) -> Block:
    """A constant in the dtype and shape of a block."""
    return values.constant(like, x.dtype, x.shape)


def _of_floats(name: str, row: str = "") -> Function:
    def function(arg0: Any) -> Block:
        return emit(row or name, floating(name, arg0, (_F32, _F64, dtypes.f16, dtypes.bf16)))

    return _named(name, function)


def _of_two(name: str, row: str = "") -> Function:
    def function(arg0: Any, arg1: Any) -> Block:
        return emit(row or name, *operands(name, *(cast_to(to_tensor(x), _F32) if not is_number(x) and not to_tensor(x).dtype.is_float else x for x in (arg0, arg1))))

    return _named(name, function)


def _named(name: str, function: Function) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name}, as in libdevice."
    return function


acos, acosh, asin, asinh, atan, atanh = (_of_floats(n) for n in ("acos", "acosh", "asin", "asinh", "atan", "atanh"))
cbrt, ceil, cos, cosh, erf, erfc = (_of_floats(n) for n in ("cbrt", "ceil", "cos", "cosh", "erf", "erfc"))
exp, exp10, exp2, expm1, floor = (_of_floats(n) for n in ("exp", "exp10", "exp2", "expm1", "floor"))
lgamma, log, log10, log1p, log2 = (_of_floats(n) for n in ("lgamma", "log", "log10", "log1p", "log2"))
rsqrt, sin, sinh, sqrt, tan, tanh, trunc = (_of_floats(n) for n in ("rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"))
rint, nearbyint, sqrt_rn, rsqrt_rn = _of_floats("rint", "round"), _of_floats("nearbyint", "round"), _of_floats("sqrt_rn", "sqrt"), _of_floats("rsqrt_rn", "rsqrt")
fast_sinf, fast_cosf, fast_tanf, fast_tanhf = _of_floats("fast_sinf", "sin"), _of_floats("fast_cosf", "cos"), _of_floats("fast_tanf", "tan"), _of_floats("fast_tanhf", "tanh")
fast_expf, fast_exp10f = _of_floats("fast_expf", "exp"), _of_floats("fast_exp10f", "exp10")
fast_logf, fast_log2f, fast_log10f = _of_floats("fast_logf", "log"), _of_floats("fast_log2f", "log2"), _of_floats("fast_log10f", "log10")
atan2, copysign, fmod, hypot, fast_powf = _of_two("atan2"), _of_two("copysign"), _of_two("fmod"), _of_two("hypot"), _of_two("fast_powf", "pow")
add_rn, sub_rn, mul_rn, div_rn = _of_two("add_rn", "add"), _of_two("sub_rn", "sub"), _of_two("mul_rn", "mul"), _of_two("div_rn", "div")
fast_dividef = _of_two("fast_dividef", "div")


def fma(arg0: Any, arg1: Any, arg2: Any) -> Block:
    """arg0 * arg1 + arg2 with one rounding."""
    return _fma(arg0, arg1, arg2)


fma_rn = fma


def pow(arg0: Any, arg1: Any) -> Block:
    """arg0 to the power arg1, which may be an integer."""
    base = to_tensor(arg0)
    exponent = arg1 if is_number(arg1) else cast_to(to_tensor(arg1), base.dtype)
    return emit("pow", *operands("pow", base, float(exponent) if is_number(exponent) else exponent))


def abs(arg0: Any) -> Block:
    """The magnitude."""
    return emit("abs", to_tensor(arg0))


# --- made of others ---------------------------------------------------------------------------------


def round(arg0: Any) -> Block:
    """To the nearest integer, halves away from zero."""
    x = to_tensor(arg0)
    whole = emit("trunc", x)
    apart = emit("abs", emit("sub", x, whole))
    further = emit("add", whole, emit("copysign", _number(x, 1.0), x))
    return emit("select", emit("ge", apart, _number(x, 0.5)), further, whole)


def sinpi(arg0: Any) -> Block:
    """sin(pi * arg0)."""
    return _of_turns("sin", to_tensor(arg0))


def cospi(arg0: Any) -> Block:
    """cos(pi * arg0)."""
    return _of_turns("cos", to_tensor(arg0))


def _of_turns(row: str, x: Block) -> Block:
    """The remainder of 2 is exact, so that large arguments are no less so."""
    rest = emit("sub", x, emit("mul", emit("round", emit("mul", x, _number(x, 0.5))), _number(x, 2.0)))
    return emit(row, emit("mul", rest, _number(x, pymath.pi)))


def rcbrt(arg0: Any) -> Block:
    """1 / cbrt(arg0)."""
    x = to_tensor(arg0)
    return emit("div", _number(x, 1.0), emit("cbrt", x))


def rhypot(arg0: Any, arg1: Any) -> Block:
    """1 / hypot."""
    far = hypot(arg0, arg1)
    return emit("div", _number(far, 1.0), far)


def norm3d(arg0: Any, arg1: Any, arg2: Any) -> Block:
    """The length of a vector of three."""
    return hypot(hypot(arg0, arg1), arg2)


def norm4d(arg0: Any, arg1: Any, arg2: Any, arg3: Any) -> Block:
    """The length of a vector of four."""
    return hypot(norm3d(arg0, arg1, arg2), arg3)


def rnorm3d(arg0: Any, arg1: Any, arg2: Any) -> Block:
    """1 / norm3d."""
    far = norm3d(arg0, arg1, arg2)
    return emit("div", _number(far, 1.0), far)


def rnorm4d(arg0: Any, arg1: Any, arg2: Any, arg3: Any) -> Block:
    """1 / norm4d."""
    far = norm4d(arg0, arg1, arg2, arg3)
    return emit("div", _number(far, 1.0), far)


def fdim(arg0: Any, arg1: Any) -> Block:
    """arg0 - arg1 where that is positive, else 0."""
    a, b = operands("fdim", arg0, arg1)
    apart = emit("sub", a, b)
    return emit("select", emit("le", a, b), _number(apart, 0.0), apart)


def saturatef(arg0: Any) -> Block:
    """arg0 within 0 and 1; NaN gives 0."""
    x = to_tensor(arg0)
    return emit("fmin", emit("fmax", x, _number(x, 0.0)), _number(x, 1.0))


def normcdf(arg0: Any) -> Block:
    """The distribution function of the standard normal distribution."""
    x = to_tensor(arg0)
    return emit("mul", emit("erfc", emit("mul", x, _number(x, -pymath.sqrt(0.5)))), _number(x, 0.5))


def ldexp(arg0: Any, arg1: Any) -> Block:
    """arg0 * 2**arg1, in two steps so that neither power overflows alone."""
    x = to_tensor(arg0)
    power = values.broadcast_to(cast_to(to_tensor(arg1), dtypes.i32), x.shape)
    half = emit("shr", power, _number(power, 1))
    first = emit("exp2", cast_to(half, x.dtype))
    return emit("mul", emit("mul", x, first), emit("exp2", cast_to(emit("sub", power, half), x.dtype)))


scalbn = ldexp


# --- as mk has them -----------------------------------------------------------------------------------


def _of_mk(name: str, function: Function) -> Function:
    def called(*args: Any) -> Block:
        return function(*(to_tensor(x) for x in args))

    return _named(name, called)


erfinv, erfcinv, normcdfinv = _of_mk("erfinv", special.erfinv), _of_mk("erfcinv", special.erfcinv), _of_mk("normcdfinv", special.normcdfinv)
j0, j1, cyl_bessel_i0 = _of_mk("j0", special.bessel_j0), _of_mk("j1", special.bessel_j1), _of_mk("cyl_bessel_i0", special.bessel_i0)
y0, y1, cyl_bessel_i1 = _of_mk("y0", special.bessel_y0), _of_mk("y1", special.bessel_y1), _of_mk("cyl_bessel_i1", special.bessel_i1)
nextafter, remainder = _of_mk("nextafter", floats.nextafter), _of_mk("remainder", floats.remainder)
logb, ilogb = _of_mk("logb", floats.logb), _of_mk("ilogb", floats.ilogb)


# --- questions --------------------------------------------------------------------------------------


def _question(name: str, row: str) -> Function:
    def function(arg0: Any) -> Block:
        return cast_to(emit(row, floating(name, arg0, (_F32, _F64, dtypes.f16, dtypes.bf16))), dtypes.i32)

    return _named(name, function)


isnan, isinf, signbit = _question("isnan", "isnan"), _question("isinf", "isinf"), _question("signbit", "signbit")
finitef, isfinited = _question("finitef", "isfinite"), _question("isfinited", "isfinite")


# --- bits -------------------------------------------------------------------------------------------


def _of_bits(name: str, row: str) -> Function:
    def function(arg0: Any) -> Block:
        found = emit(row, to_tensor(arg0))
        return cast_to(found, dtypes.i32) if row in ("clz", "popcount") else found

    return _named(name, function)


clz, popc, brev = _of_bits("clz", "clz"), _of_bits("popc", "popcount"), _of_bits("brev", "bit_reverse")


def ffs(arg0: Any) -> Block:
    """The place of the lowest bit, counted from 1; 0 of 0."""
    x = to_tensor(arg0)
    found = emit("add", emit("ctz", x), _number(x, 1))
    return cast_to(emit("select", emit("eq", x, _number(x, 0)), _number(x, 0), found), dtypes.i32)


def mulhi(arg0: Any, arg1: Any) -> Block:
    """The high half of a product."""
    return emit("mulhi", *operands("mulhi", arg0, arg1))


def mul24(arg0: Any, arg1: Any) -> Block:
    """The low 32 bits of the product of the low 24 bits."""
    a, b = operands("mul24", arg0, arg1)
    eight = _number(a, 8)
    return emit("mul", *(emit("shr", emit("shl", x, eight), eight) for x in (a, b)))


def hadd(arg0: Any, arg1: Any) -> Block:
    """The mean of two integers, rounded down, without overflow."""
    a, b = operands("hadd", arg0, arg1)
    return emit("add", emit("and", a, b), emit("shr", emit("xor", a, b), _number(a, 1)))


def rhadd(arg0: Any, arg1: Any) -> Block:
    """The mean of two integers, rounded up, without overflow."""
    a, b = operands("rhadd", arg0, arg1)
    return emit("sub", emit("or", a, b), emit("shr", emit("xor", a, b), _number(a, 1)))


def sad(arg0: Any, arg1: Any, arg2: Any) -> Block:
    """abs(arg0 - arg1) + arg2."""
    a, b = operands("sad", arg0, arg1)
    apart = emit("sub", emit("max", a, b), emit("min", a, b))
    return binary("add", cast_to(apart, dtypes.u32), arg2)  # type: ignore[no-any-return]


def byte_perm(arg0: Any, arg1: Any, arg2: Any) -> Block:
    """Four bytes of eight, chosen by the digits of arg2 in base 16."""
    low, high = (cast_to(cast_to(to_tensor(x), dtypes.u32), dtypes.u64) for x in (arg0, arg1))
    both = binary("or", low, binary("shl", high, 32))
    chosen: Any = None
    for place in range(4):
        digit = binary("and", binary("shr", to_tensor(arg2), 4 * place), 7)
        byte = binary("and", binary("shr", both, cast_to(binary("mul", digit, 8), dtypes.u64)), 255)
        moved = binary("shl", byte, 8 * place)
        chosen = moved if chosen is None else binary("or", chosen, moved)
    return bitcast(cast_to(chosen, dtypes.u32), dtypes.i32)


# --- conversions ------------------------------------------------------------------------------------

_ROUNDED = {"rn": "round", "rz": "trunc", "rd": "floor", "ru": "ceil"}


def _to_integer(name: str, target: DType, mode: str) -> Function:
    def function(arg0: Any) -> Block:
        return cast_to(emit(_ROUNDED[mode], to_tensor(arg0)), target)

    return _named(name, function)


def _to_float(name: str, target: DType) -> Function:
    def function(arg0: Any) -> Block:
        return cast_to(to_tensor(arg0), target)

    return _named(name, function)


def _taken_for(name: str, target: DType) -> Function:
    def function(arg0: Any) -> Block:
        return bitcast(to_tensor(arg0), target)

    return _named(name, function)


for _mode in _ROUNDED:
    for _source in ("float", "double"):
        for _word, _target in (("int", dtypes.i32), ("uint", dtypes.u32), ("ll", dtypes.i64), ("ull", dtypes.u64)):
            _name = f"{_source}2{_word}_{_mode}"
            globals()[_name] = _to_integer(_name, _target, _mode)
for _word in ("double2float", "int2float", "uint2float", "ll2float", "ull2float"):
    globals()[f"{_word}_rn"] = _to_float(f"{_word}_rn", _F32)
for _word in ("int2double", "uint2double", "ll2double", "ull2double"):
    globals()[f"{_word}_rn"] = _to_float(f"{_word}_rn", _F64)
int_as_float, uint_as_float, longlong_as_double = _taken_for("int_as_float", _F32), _taken_for("uint_as_float", _F32), _taken_for("longlong_as_double", _F64)
float_as_int, float_as_uint, double_as_longlong = _taken_for("float_as_int", dtypes.i32), _taken_for("float_as_uint", dtypes.u32), _taken_for("double_as_longlong", dtypes.i64)


def llrint(arg0: Any) -> Block:
    """The nearest integer, halves to even; i64."""
    return cast_to(emit("round", to_tensor(arg0)), dtypes.i64)


def llround(arg0: Any) -> Block:
    """The nearest integer, halves away from zero; i64."""
    return cast_to(round(arg0), dtypes.i64)


def double2loint(arg0: Any) -> Block:
    """The low 32 bits of a double."""
    return cast_to(bitcast(to_tensor(arg0), dtypes.i64), dtypes.i32)


def double2hiint(arg0: Any) -> Block:
    """The high 32 bits of a double."""
    return cast_to(binary("shr", bitcast(to_tensor(arg0), dtypes.i64), 32), dtypes.i32)


def hiloint2double(arg0: Any, arg1: Any) -> Block:
    """The double of two halves."""
    high, low = cast_to(to_tensor(arg0), dtypes.i64), cast_to(cast_to(to_tensor(arg1), dtypes.u32), dtypes.i64)
    return bitcast(binary("or", binary("shl", high, 32), low), _F64)


# --- what is refused, by name -------------------------------------------------------------------------


def _refused(name: str, why: str, hint: str) -> Function:
    def function(*args: Any) -> Block:
        refuse(f"libdevice.{name} is not supported: {why}", hint, Unsupported)

    return _named(name, function)


for _op in ("add", "sub", "mul", "div", "fma", "rcp", "sqrt"):
    for _mode in ("rz", "rd", "ru"):
        globals()[f"{_op}_{_mode}"] = _refused(f"{_op}_{_mode}", "arithmetic rounds to nearest", f"{_op}_rn")
for _word in ("double2float", "int2float", "uint2float", "ll2float", "ull2float", "ll2double", "ull2double"):
    for _mode in ("rz", "rd", "ru"):
        globals()[f"{_word}_{_mode}"] = _refused(f"{_word}_{_mode}", "conversions to floats round to nearest", f"{_word}_rn")
for _name in ("erfcx", "tgamma", "rcp64h", "jn", "yn"):
    globals()[_name] = _refused(_name, "no target has it", "tl.math has the usual functions")


def rcp_rn(arg0: Any) -> Block:
    """1 / arg0, correctly rounded."""
    x = to_tensor(arg0)
    return emit("div", _number(x, 1.0), x)


