"""How Metal spells element types and constants."""

from __future__ import annotations

import math

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.types import Space
from eas.codegen.msl.text import ATOM, UNARY, Expr

NAMES: dict[DType, str] = {
    dtypes.bool_: "bool", dtypes.i8: "char", dtypes.i16: "short", dtypes.i32: "int", dtypes.i64: "long",
    dtypes.u8: "uchar", dtypes.u16: "ushort", dtypes.u32: "uint", dtypes.u64: "ulong",
    dtypes.f16: "half", dtypes.bf16: "bfloat", dtypes.f32: "float",
    dtypes.f8e4m3: "uchar", dtypes.f8e5m2: "uchar",  # their codes; only casts look inside
}  # fmt: skip
SPACES = {Space.DEVICE: "device", Space.THREADGROUP: "threadgroup", Space.SCRATCH: "thread"}
_UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
_SUFFIX = {dtypes.u32: "u", dtypes.i64: "L", dtypes.u64: "UL"}


def type_name(dtype: DType, lanes: int = 1) -> str:
    """`float`, or `float4` for four lanes."""
    return NAMES[dtype] if lanes == 1 else f"{NAMES[dtype]}{lanes}"


def unsigned_name(dtype: DType) -> str:
    """The unsigned type of the same width."""
    return _UNSIGNED[dtype.bits]


def literal(value: bool | int | float, dtype: DType) -> Expr:
    """A constant of the type, exactly."""
    if dtype.is_bool:
        return Expr("true" if value else "false")
    if dtype.is_float:
        return _float(float(value), dtype)
    number = int(value)
    if dtype.bits < 32:
        return Expr(f"{NAMES[dtype]}({number})")
    suffix = _SUFFIX.get(dtype, "")
    if dtype.is_signed and number == dtype.min:  # the positive number would not fit
        return Expr(f"(-{dtype.max}{suffix} - 1)")
    return Expr(f"{number}{suffix}", UNARY if number < 0 else ATOM)


def _float(value: float, dtype: DType) -> Expr:
    rounded = numerics.round_to(np.asarray(value, np.float64), dtype)
    if dtype.is_storage_only:
        return Expr(f"uchar({int(numerics.encode(rounded, dtype))})")
    text = _f32(float(rounded))
    if dtype is dtypes.f32:
        return text
    if dtype is dtypes.f16 and math.isfinite(rounded):
        return _decimal(str(np.float16(rounded)), "h")
    return Expr(f"{NAMES[dtype]}({text.text})")


def _f32(value: float) -> Expr:
    if math.isnan(value):
        return Expr("NAN")
    if math.isinf(value):
        return Expr("-INFINITY", UNARY) if value < 0 else Expr("INFINITY")
    return _decimal(str(np.float32(value)), "f")


def _decimal(text: str, suffix: str) -> Expr:
    if "." not in text and "e" not in text:
        text += ".0"
    return Expr(f"{text}{suffix}", UNARY if text.startswith("-") else ATOM)
