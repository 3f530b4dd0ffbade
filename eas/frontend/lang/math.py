"""The language's elementwise functions; what each computes, and how exactly, is its row in eas/ops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from eas.base import dtypes
from eas.base.dtypes import Kind
from eas.frontend import values
from eas.frontend.block import Block, Operand
from eas.frontend.lang.cast import cast
from eas.frontend.values import (
    as_block,
    cast_to,
    check_operands,
    common_dtype,
    common_shape,
    constant,
    emit,
    fit,
    is_number,
    lanewise,
    plain,
    to_bool,
)
from eas.ops import TABLE
from eas.ops.rules import FLOATS, INTS

Unary = Callable[[Operand], Block]
Binary = Callable[[Operand, Operand], Block]


def described(fn: Any, name: str, row: str) -> Any:
    """Give a made function the name and the words of its row."""
    op = TABLE[row]
    takes = {FLOATS: "Floats only", INTS: "Integers only"}.get(op.dtypes, "")
    accuracy = "" if op.accuracy.is_exact else f"within {op.accuracy.text(dtypes.f32)} in f32"
    notes = "; ".join(filter(None, (takes, accuracy))).capitalize()
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"{op.doc} {notes}." if notes else op.doc
    return fn


def _unary(name: str) -> Unary:
    wants_float = TABLE[name].dtypes == FLOATS

    def function(x: Operand) -> Block:
        if wants_float and is_number(x):
            return emit(name, constant(float(plain(x)), dtypes.f32))  # a Python number is weak
        return lanewise(name, x)

    made: Unary = described(function, name, name)
    return made


def _binary(name: str, row: str = "") -> Binary:
    def function(a: Operand, b: Operand) -> Block:
        return lanewise(row or name, a, b)

    made: Binary = described(function, name, row or name)
    return made


exp, exp2, exp10, expm1 = _unary("exp"), _unary("exp2"), _unary("exp10"), _unary("expm1")
log, log2, log10, log1p = _unary("log"), _unary("log2"), _unary("log10"), _unary("log1p")
sin, cos, tan = _unary("sin"), _unary("cos"), _unary("tan")
asin, acos, atan = _unary("asin"), _unary("acos"), _unary("atan")
sinh, cosh, tanh = _unary("sinh"), _unary("cosh"), _unary("tanh")
asinh, acosh, atanh = _unary("asinh"), _unary("acosh"), _unary("atanh")
erf, erfc, lgamma = _unary("erf"), _unary("erfc"), _unary("lgamma")
sqrt, rsqrt, cbrt, sigmoid = _unary("sqrt"), _unary("rsqrt"), _unary("cbrt"), _unary("sigmoid")
floor, ceil, trunc, round = _unary("floor"), _unary("ceil"), _unary("trunc"), _unary("round")
sign = _unary("sign")


def abs(x: Operand) -> Block:
    """|x|; of the least integer, and NaN, itself. Storage formats (fp8) lose their sign bit."""
    return with_sign_bit("and", 0x7F, x) if isinstance(x, Block) and x.dtype.is_storage_only else lanewise("abs", x)


def with_sign_bit(row: str, bits: int, x: Block) -> Block:
    """An fp8 number with its sign bit changed by a bit operation."""
    changed = lanewise(row, cast(x, dtypes.u8, bitcast=True), constant(bits, dtypes.u8))
    return cast(changed, x.dtype, bitcast=True)
isnan, isinf, isfinite = _unary("isnan"), _unary("isinf"), _unary("isfinite")
signbit = _unary("signbit")
popcount, clz, ctz, bit_reverse = (
    _unary("popcount"),
    _unary("clz"),
    _unary("ctz"),
    _unary("bit_reverse"),
)
pow, atan2, hypot = _binary("pow"), _binary("atan2"), _binary("hypot")
fmod, copysign = _binary("fmod"), _binary("copysign")
div_trunc, rem, mulhi = (
    _binary("div_trunc", "truncdiv"),
    _binary("rem", "truncmod"),
    _binary("mulhi"),
)


def fdiv(a: Operand, b: Operand) -> Block:
    """a / b, correctly rounded; integers are divided as f32."""
    check_operands("div", (a, b))
    return emit("div", *fit("div", [a, b], dtypes.div_type(common_dtype([a, b]))))


def umulhi(a: Operand, b: Operand) -> Block:
    """High half of the double-width product of two integers taken as unsigned."""
    left, right = fit("umulhi", [a, b])
    unsigned = {8: dtypes.u8, 16: dtypes.u16, 32: dtypes.u32, 64: dtypes.u64}.get(left.dtype.bits)
    if left.dtype.kind is Kind.SIGNED and unsigned is not None:
        left, right = cast(left, unsigned), cast(right, unsigned)
    return emit("mulhi", left, right)


def fma(a: Operand, b: Operand, c: Operand) -> Block:
    """a * b + c of floats with one rounding."""
    return lanewise("fma", a, b, c)


def _extreme(name: str, xs: tuple[Any, ...], propagate_nan: bool) -> Any:
    if all(is_number(x) and not isinstance(plain(x), float) for x in xs):
        return (max if name == "max" else min)(plain(x) for x in xs)
    floats = common_dtype(xs).is_float
    return functools.reduce(
        lambda a, b: lanewise(name if propagate_nan or not floats else f"f{name}", a, b), xs
    )


def maximum(a: Operand, b: Operand, *more: Operand, propagate_nan: bool = True) -> Any:
    """The largest per element; NaN if one is NaN, unless told to ignore NaN; a Python int of Python ints."""
    check_operands("maximum", (a, b, *more))
    return _extreme("max", (a, b, *more), propagate_nan)


def minimum(a: Operand, b: Operand, *more: Operand, propagate_nan: bool = True) -> Any:
    """The smallest per element; NaN if one is NaN, unless told to ignore NaN; a Python int of Python ints."""
    check_operands("minimum", (a, b, *more))
    return _extreme("min", (a, b, *more), propagate_nan)


def clamp(x: Operand, lo: Operand, hi: Operand) -> Any:
    """min(max(x, lo), hi) per element; NaN stays NaN."""
    return minimum(maximum(x, lo), hi)


def where(cond: Operand, a: Operand, b: Operand) -> Block:
    """a where cond is not zero, else b, per element; both sides are evaluated, promoted and broadcast."""
    check_operands("where", (cond, a, b))
    dtype = common_dtype([a, b])
    shape = common_shape("where", [x.shape for x in (cond, a, b) if isinstance(x, Block)])
    if is_number(cond):
        return _filled(a if plain(cond) else b, dtype, shape)
    chosen = values.broadcast_to(to_bool(cond), shape)
    return emit("select", chosen, _filled(a, dtype, shape), _filled(b, dtype, shape))


def _filled(x: Any, dtype: dtypes.DType, shape: tuple[int, ...]) -> Block:
    if is_number(x):
        return constant(plain(x), dtype, shape)
    return values.broadcast_to(cast_to(x, dtype), shape)


def _logical(name: str, a: Any, b: Any) -> Any:
    if is_number(a) and is_number(b):
        return bool(a) and bool(b) if name == "and" else bool(a) or bool(b)
    return lanewise(name, to_bool(a), to_bool(b))


def logical_and(a: Operand, b: Operand) -> Any:
    """Whether both are not zero, per element."""
    return _logical("and", a, b)


def logical_or(a: Operand, b: Operand) -> Any:
    """Whether one of them is not zero, per element."""
    return _logical("or", a, b)


def logical_not(x: Operand) -> Any:
    """Whether x is zero, per element."""
    return not plain(x) if is_number(x) else emit("not", to_bool(x))


def power(base: Operand, exponent: Operand) -> Block:
    """base ** exponent: products for an integer to a static power and for x**2, x**3; else C's pow of floats."""
    if not is_number(exponent) or isinstance(plain(exponent), float) or is_number(base):
        return lanewise("pow", base, exponent)
    count, block = int(plain(exponent)), as_block(base)
    check_operands("pow", (block,))
    # Up to 3 the products stay within one ulp; beyond it pow is nearer to the truth.
    if count < 0 or (block.dtype.is_float and not 1 <= count <= 3):
        return lanewise("pow", block, exponent)
    return _repeated_product(block, count)


def _repeated_product(x: Block, count: int) -> Block:
    if x.dtype.is_bool:
        x = cast_to(x, dtypes.i32)
    result: Block | None = None
    while count:
        if count & 1:
            result = x if result is None else lanewise("mul", result, x)
        count >>= 1
        if count:
            x = lanewise("mul", x, x)
    return result if result is not None else constant(1, x.dtype, x.shape)
