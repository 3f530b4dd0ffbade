"""Conversions between element types: one rounding, saturating to integers, fp8 codes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.codegen.msl.emitter import MslEmitter
from eas.codegen.msl.helpers import Helper, maker
from eas.codegen.msl.text import Expr, call, infix
from eas.codegen.msl.types import literal, type_name


def cast(m: MslEmitter, x: Expr, source: DType, target: DType) -> Expr:
    """The value as another type, as `numerics.cast` defines it."""
    if source is target:
        return x
    if source.is_storage_only:
        return cast(m, m.helper(f"from_{source.name}", source, x), dtypes.f32, target)
    if target.is_bool:
        zero = literal(0, source)
        if source is dtypes.bf16:
            x, zero = call(type_name(dtypes.f32, x.lanes), x), literal(0, dtypes.f32)
        return infix("!=", x, zero)
    if target.is_storage_only:
        return m.helper(f"to_{target.name}", target, cast(m, x, source, dtypes.f32))
    if not target.is_float:
        return _to_integer(m, x, source, target)
    if source.is_float:
        return _between_floats(x, source, target)
    # A wide integer in bf16: f32 first would round twice. f16 overflows before that can happen.
    if target is dtypes.bf16 and source.bits >= 32:
        return call(type_name(target, x.lanes), m.helper("odd_float", source, x))
    if target is not dtypes.f32:
        x = call(type_name(dtypes.f32, x.lanes), x)
    return call(type_name(target, x.lanes), x)


def _to_integer(m: MslEmitter, x: Expr, source: DType, target: DType) -> Expr:
    if not source.is_float:
        return call(type_name(target, x.lanes), x)
    if source is not dtypes.f32:
        x = call(type_name(dtypes.f32, x.lanes), x)
    return m.helper("saturated", target, x)


def _between_floats(x: Expr, source: DType, target: DType) -> Expr:
    if dtypes.f32 not in (source, target):
        x = call(type_name(dtypes.f32, x.lanes), x)
    return call(type_name(target, x.lanes), x)


@maker("saturated")
def _saturated(t: str, dtype: DType) -> Helper:
    """float to integer: toward zero, the nearest that fits, 0 for NaN."""
    limit = float(2 ** dtype.max.bit_length())
    low = literal(dtype.min, dtype).text
    below = f"x < {float(dtype.min)!r}f" if dtype.is_signed else "x <= -1.0f"
    body = f"""
if (isnan(x)) return 0;
if (x >= {limit!r}f) return {literal(dtype.max, dtype).text};
if ({below}) return {low};
return {t}(x);"""
    return Helper(t, f"saturated_{t}", (("float", "x"),), body)


@maker("odd_float")
def _odd_float(t: str, dtype: DType) -> Helper:
    """An integer as a float whose last bit collects the bits that do not fit; a narrower type then rounds once."""
    u = {32: "uint", 64: "ulong"}[dtype.bits]
    size = f"{u}(a < 0 ? {u}(0) - {u}(a) : {u}(a))" if dtype.is_signed else "a"
    body = f"""
{u} size = {size};
int lost = max(0, {dtype.bits - 24} - int(clz(size)));
{u} kept = size >> lost;
if ((kept << lost) != size) kept |= 1;
float magnitude = ldexp(float(kept), lost);
return {"a < 0 ? -magnitude : magnitude" if dtype.is_signed else "magnitude"};"""
    return Helper("float", "odd_float", ((t, "a"),), body)


def _fp8_reader(name: str, dtype: DType) -> None:
    mantissa, bias = dtype.mantissa_bits, dtype.bias
    special = "magnitude == 0x7F" if dtype is dtypes.f8e4m3 else f"magnitude >= {0x1F << mantissa:#x}"

    @maker(f"from_{name}")
    def make(t: str, _: DType) -> Helper:
        body = f"""
uint magnitude = code & 0x7F;
uint sign = uint(code & 0x80) << 24;
if ({special}) return as_type<float>(sign | 0x7F800000u | ((magnitude & {(1 << mantissa) - 1}u) << {23 - mantissa}));
if (magnitude < {1 << mantissa}) return as_type<float>(as_type<uint>(float(magnitude) * {2.0 ** (1 - bias - mantissa)!r}f) | sign);
return as_type<float>(sign | ((magnitude << {23 - mantissa}) + {(127 - bias) << 23:#x}u));"""
        return Helper("float", f"from_{name}", (("uchar", "code"),), body)


def _fp8_writer(name: str, dtype: DType) -> None:
    mantissa, bias = dtype.mantissa_bits, dtype.bias
    largest = 0x7E if dtype is dtypes.f8e4m3 else 0x7C
    drop = 23 - mantissa

    @maker(f"to_{name}")
    def make(t: str, _: DType) -> Helper:
        body = f"""
uint bits = as_type<uint>(x);
uchar sign = uchar((bits >> 24) & 0x80);
uint magnitude = bits & 0x7FFFFFFFu;
if (magnitude > 0x7F800000u) return sign | 0x7F;
uint code;
if (magnitude < {(128 - bias) << 23:#x}u) {{
    // Below the normal numbers: adding this rounds to their last place.
    float aligned = as_type<float>(magnitude) + {2.0 ** (1 - bias - mantissa + 23)!r}f;
    code = as_type<uint>(aligned) & 0xFF;
}} else {{
    uint even = (magnitude >> {drop}) & 1;
    code = ((magnitude + {(1 << (drop - 1)) - 1:#x}u + even) >> {drop}) - {(127 - bias) << mantissa}u;
}}
return sign | uchar(min(code, {largest}u));"""
        return Helper("uchar", f"to_{name}", (("float", "x"),), body)


for _dtype in (dtypes.f8e4m3, dtypes.f8e5m2):
    _fp8_reader(_dtype.name, _dtype)
    _fp8_writer(_dtype.name, _dtype)


def substitute(text: str, xs: Sequence[Expr]) -> str:
    """The user's text with the operands in place of a0, a1, ..."""
    return re.sub(r"\ba(\d+)\b", lambda found: f"({xs[int(found[1])].text})" if int(found[1]) < len(xs) else found[0], text)


