"""Rows of the ops whose lane i looks only at lane i: arithmetic, comparisons, math, casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.errors import TypeMismatch
from eas.base.types import Type
from eas.ops.rules import (
    ARITHMETIC,
    BOOL,
    FLOATS,
    INTS,
    NUMERIC,
    need_dtype,
    need_same,
    need_value,
    predicate,
    same,
)
from eas.ops.table import (
    EXACT,
    Accuracy,
    Attrs,
    Call,
    Op,
    Reference,
    RegionSig,
    Rule,
    Trait,
    register,
)

_LANEWISE = Trait.PURE | Trait.ELEMENTWISE


def ulp(f32: float, f64: float) -> Accuracy:
    """f16 and bf16 are computed in f32 and rounded once: one ulp of their own."""
    return Accuracy({"f16": 1, "bf16": 1, "f32": f32, "f64": f64})


def plain(fn: Callable[..., Any]) -> Reference:
    """A reference that needs nothing but its operands."""
    return lambda call, *xs: fn(*xs)


def _row(name: str, operands: str, rule: Rule, fn: Reference, doc: str, allowed: tuple[DType, ...], traits: Trait = Trait.NONE, accuracy: Accuracy = EXACT, attrs: str = "", cost: int = 1) -> Op:
    return register(Op(name, "elementwise", operands, rule, doc, _LANEWISE | traits, fn, attrs, accuracy, cost, dtypes=allowed))


def _uniform(name: str, operands: str, fn: Callable[..., Any], doc: str, allowed: tuple[DType, ...], traits: Trait = Trait.NONE, accuracy: Accuracy = EXACT, attrs: str = "", cost: int = 1) -> Op:
    return _row(name, operands, same(name, allowed), plain(fn), doc, allowed, traits, accuracy, attrs, cost)


def _compare(name: str, fn: Callable[..., Any], doc: str, traits: Trait = Trait.NONE) -> Op:
    return _row(name, "a, b", predicate(name, ARITHMETIC), plain(fn), doc, ARITHMETIC, traits | Trait.COMPARE)


def _floor_div(call: Call, a: np.ndarray, b: np.ndarray) -> Any:
    return np.floor_divide(a, b) if call.dtype.is_float else numerics.floor_div(a, b)


def _floor_mod(call: Call, a: np.ndarray, b: np.ndarray) -> Any:
    return np.remainder(a, b) if call.dtype.is_float else numerics.floor_mod(a, b)


def _invert(call: Call, a: np.ndarray) -> Any:
    return np.logical_not(a) if call.dtype.is_bool else np.invert(a)


def _abs(call: Call, a: np.ndarray) -> Any:
    return a if call.dtype.kind is dtypes.Kind.UNSIGNED else np.abs(a)


def sigmoid(x: np.ndarray) -> Any:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, np.ones_like(e)) / (1 + e)  # a NaN in e stays one


COMMUTES = Trait.COMMUTATIVE
_SAME, _ALONE, _MANY = COMMUTES | Trait.IDEMPOTENT, Trait.ONE_BY_ONE, Trait.REGISTERS
_uniform("add", "a, b", np.add, "a + b; integers wrap.", NUMERIC, COMMUTES)
_uniform("sub", "a, b", np.subtract, "a - b; integers wrap.", NUMERIC)
_uniform("mul", "a, b", np.multiply, "a * b; integers wrap.", NUMERIC, COMMUTES)
_uniform("div", "a, b", np.divide, "a / b of floats, correctly rounded.", FLOATS, cost=4)
_DIVISION = Trait.DIVISION | _ALONE
_QUOTIENT = "natural?: bool, by_positive?: bool, wraps?: bool"
_row("floordiv", "a, b", same("floordiv", NUMERIC), _floor_div, "a // b rounding down as Python; x // 0 is 0 and INT_MIN // -1 wraps for integers.", NUMERIC, _DIVISION, attrs=_QUOTIENT, cost=8)
_row("mod", "a, b", same("mod", NUMERIC), _floor_mod, "a % b with the sign of b, as Python; x % 0 is 0 for integers.", NUMERIC, _DIVISION, attrs=_QUOTIENT, cost=8)
_uniform("truncdiv", "a, b", numerics.trunc_div, "a / b of integers rounding toward zero, as C; x / 0 is 0.", INTS, _DIVISION, attrs=_QUOTIENT, cost=8)
_uniform("truncmod", "a, b", numerics.trunc_mod, "Remainder with the sign of a, as C; x % 0 is 0.", INTS, _DIVISION, attrs=_QUOTIENT, cost=8)
_uniform("fmod", "a, b", np.fmod, "Float remainder with the sign of a, exact.", FLOATS, _ALONE, cost=20)
_uniform("mulhi", "a, b", numerics.mulhi, "High half of the double-width integer product.", INTS, COMMUTES | _ALONE, cost=4)
_uniform("min", "a, b", np.minimum, "The smaller one; NaN if either is NaN; the sign of zero is unspecified.", NUMERIC, _SAME)
_uniform("max", "a, b", np.maximum, "The larger one; NaN if either is NaN; the sign of zero is unspecified.", NUMERIC, _SAME)
_uniform("fmin", "a, b", np.fmin, "The smaller one; a NaN operand is ignored.", FLOATS, _SAME | _ALONE)
_uniform("fmax", "a, b", np.fmax, "The larger one; a NaN operand is ignored.", FLOATS, _SAME | _ALONE)
_uniform("and", "a, b", np.bitwise_and, "Bitwise and; logical and of bools.", INTS + BOOL, _SAME)
_uniform("or", "a, b", np.bitwise_or, "Bitwise or; logical or of bools.", INTS + BOOL, _SAME)
_uniform("xor", "a, b", np.bitwise_xor, "Bitwise exclusive or.", INTS + BOOL, COMMUTES)
_uniform("shl", "a, n", numerics.shl, "a << n; counts of the width or more give 0.", INTS, _ALONE)
_uniform("shr", "a, n", numerics.shr, "a >> n, arithmetic for signed; counts of the width or more give 0 or the sign.", INTS, _ALONE)
_row("not", "a", same("not", INTS + BOOL), _invert, "Bitwise not; logical not of bools.", INTS + BOOL)
_uniform("neg", "a", np.negative, "-a; integers wrap.", NUMERIC, cost=0)
_row("abs", "a", same("abs", NUMERIC), _abs, "Absolute value; abs(INT_MIN) wraps.", NUMERIC, cost=0)
_uniform("sign", "a", np.sign, "-1, 0 or 1 of the same dtype; NaN stays NaN.", NUMERIC, _ALONE)

_compare("eq", np.equal, "a == b.", COMMUTES)
_compare("ne", np.not_equal, "a != b; true when either is NaN.", COMMUTES)
_compare("lt", np.less, "a < b.")
_compare("le", np.less_equal, "a <= b.")
_compare("gt", np.greater, "a > b.")
_compare("ge", np.greater_equal, "a >= b.")

_uniform("sqrt", "x", np.sqrt, "Square root, correctly rounded.", FLOATS, cost=4)
_uniform("floor", "x", np.floor, "Largest integer not above x.", FLOATS)
_uniform("ceil", "x", np.ceil, "Smallest integer not below x.", FLOATS)
_uniform("trunc", "x", np.trunc, "x without its fraction.", FLOATS, _ALONE)
_uniform("round", "x", np.rint, "Nearest integer, halves to even.", FLOATS, _ALONE)
_uniform("copysign", "x, y", np.copysign, "|x| with the sign of y.", FLOATS, _ALONE, cost=0)
_row("fma", "a, b, c", same("fma", FLOATS), plain(numerics.fma), "a * b + c with one rounding in f32 and f64; f16 and bf16 are computed in f32 and then rounded.", FLOATS, cost=2)

_MATH: tuple[tuple[str, Callable[..., Any], str, Accuracy, int, Trait], ...] = (
    ("exp", np.exp, "e to the power x.", ulp(3, 2), 10, Trait.NONE),
    ("exp2", np.exp2, "2 to the power x.", ulp(3, 2), 8, Trait.NONE),
    ("exp10", lambda x: np.power(10.0, x), "10 to the power x.", ulp(4, 3), 10, _ALONE),
    ("expm1", np.expm1, "exp(x) - 1, accurate near 0.", ulp(4, 2), 15, _ALONE | _MANY),
    ("log", np.log, "Natural logarithm; NaN below 0.", ulp(3, 2), 15, _MANY),
    ("log2", np.log2, "Logarithm to base 2.", ulp(3, 2), 15, _MANY),
    ("log10", np.log10, "Logarithm to base 10.", ulp(3, 2), 15, _ALONE | _MANY),
    ("log1p", np.log1p, "log(1 + x), accurate near 0.", ulp(4, 2), 20, _ALONE | _MANY),
    ("sin", np.sin, "Sine of radians.", ulp(4, 2), 20, _MANY),
    ("cos", np.cos, "Cosine of radians.", ulp(4, 2), 20, _MANY),
    ("tan", np.tan, "Tangent of radians.", ulp(6, 3), 30, _ALONE | _MANY),
    ("asin", np.arcsin, "Arc sine.", ulp(4, 2), 15, _ALONE),
    ("acos", np.arccos, "Arc cosine.", ulp(4, 2), 15, _ALONE),
    ("atan", np.arctan, "Arc tangent.", ulp(5, 2), 15, _ALONE),
    ("sinh", np.sinh, "Hyperbolic sine.", ulp(5, 3), 20, _ALONE),
    ("cosh", np.cosh, "Hyperbolic cosine.", ulp(5, 3), 15, _ALONE),
    ("tanh", np.tanh, "Hyperbolic tangent.", ulp(5, 3), 15, Trait.NONE),
    ("asinh", np.arcsinh, "Inverse hyperbolic sine.", ulp(5, 3), 25, _ALONE),
    ("acosh", np.arccosh, "Inverse hyperbolic cosine.", ulp(5, 3), 25, _ALONE),
    ("atanh", np.arctanh, "Inverse hyperbolic tangent.", ulp(5, 3), 25, _ALONE),
    ("erf", numerics.erf, "Error function.", ulp(4, 3), 15, _ALONE),
    ("erfc", numerics.erfc, "1 - erf(x), accurate for large x.", ulp(16, 8), 40, _ALONE | _MANY),
    ("lgamma", numerics.lgamma, "Logarithm of |gamma(x)|.", ulp(16, 8), 60, _ALONE),
    ("rsqrt", lambda x: 1 / np.sqrt(x), "1 / sqrt(x).", ulp(2, 2), 4, Trait.NONE),
    ("cbrt", np.cbrt, "Cube root.", ulp(3, 2), 20, _ALONE),
    ("sigmoid", sigmoid, "1 / (1 + exp(-x)).", ulp(5, 4), 15, _MANY),
)
for _name, _fn, _doc, _accuracy, _cost, _traits in _MATH:
    _uniform(_name, "x", numerics.wide(_fn), _doc, FLOATS, _traits, _accuracy, cost=_cost)
_uniform("exp_of_negative", "x", numerics.wide(np.exp), "e to the power x, which is at most 0 or NaN.", FLOATS, Trait.SCHEDULED, ulp(3, 2), cost=10)
_uniform("exp2_of_negative", "x", numerics.wide(np.exp2), "2 to the power x, which is at most 0 or NaN.", FLOATS, Trait.SCHEDULED, ulp(3, 2), cost=10)
_uniform("pow", "x, y", numerics.wide(np.power), "x to the power y as C's pow.", FLOATS, _ALONE | _MANY, ulp(16, 4), cost=40)
_uniform("atan2", "y, x", numerics.wide(np.arctan2), "Angle of the point (x, y).", FLOATS, _ALONE | _MANY, ulp(6, 3), cost=20)
_uniform("hypot", "x, y", numerics.wide(np.hypot), "sqrt(x*x + y*y) without overflow.", FLOATS, _ALONE, ulp(4, 2), cost=10)

for _name, _fn, _doc in (
    ("isnan", np.isnan, "Whether x is NaN."),
    ("isinf", np.isinf, "Whether x is an infinity."),
    ("isfinite", np.isfinite, "Whether x is neither NaN nor an infinity."),
    ("signbit", np.signbit, "Whether the sign bit of x is set (also of -0.0)."),
):
    _row(_name, "x", predicate(_name, FLOATS), plain(_fn), _doc, FLOATS, _ALONE)
for _name, _fn, _doc in (
    ("popcount", numerics.popcount, "Number of one bits."),
    ("clz", numerics.clz, "Number of leading zero bits; the width for 0."),
    ("ctz", numerics.ctz, "Number of trailing zero bits; the width for 0."),
    ("bit_reverse", numerics.bit_reverse, "The bits in opposite order."),
):
    _uniform(_name, "x", _fn, _doc, INTS, _ALONE, cost=4)


def _select_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    cond, a, b = types
    need_dtype("where", cond, BOOL)
    need_value("where", a)
    need_same("where", (a, b))
    need_same("where", (a.with_dtype(dtypes.bool_), cond))
    return (a,)


def _cast_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_value("cast", types[0])
    target: Type = attrs["type"]
    return (types[0].with_dtype(target.dtype),)


def _bitcast_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_value("bitcast", types[0])
    target: DType = attrs["type"].dtype
    if target.bits != types[0].dtype.bits or target.is_bool or types[0].dtype.is_bool:
        raise TypeMismatch(f"bitcast needs two types of one width, got {types[0].dtype} and {target}", hint="mk.cast converts the value instead")
    return (types[0].with_dtype(target),)


_row("select", "cond, a, b", _select_rule, plain(np.where), "a where cond holds, else b.", tuple(dtypes.ALL), cost=0)
register(Op("cast", "elementwise", "x", _cast_rule, "Convert the value: float to int truncates and saturates (NaN gives 0), int to int wraps, any to bool is != 0, all else rounds once to nearest even.", _LANEWISE, lambda call, x: numerics.cast(x, call.dtype, call.out.dtype), attrs="type: type", cost=0, dtypes=tuple(dtypes.ALL)))
register(Op("bitcast", "elementwise", "x", _bitcast_rule, "The same bits as another dtype of the same width.", _LANEWISE | Trait.ONE_BY_ONE, lambda call, x: numerics.bitcast(x, call.dtype, call.out.dtype), attrs="type: type", cost=0, dtypes=tuple(d for d in dtypes.ALL if not d.is_bool)))
