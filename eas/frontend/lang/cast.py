"""Conversions that the kernel's author writes, and the few that happen without being written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.errors import TypeMismatch
from eas.base.types import Shape, Type
from eas.frontend.block import Block, Number, Operand
from eas.frontend.builder import current
from eas.frontend.hints import checked
from eas.frontend.values import (
    as_block,
    broadcast_to,
    cast_to,
    constant,
    emit,
    is_number,
    plain,
    refuse_pointer,
    static_dtype,
)


def cast(x: Operand, dtype: Any, bitcast: bool = False) -> Block:
    """x as `dtype`: float to int truncates and saturates (NaN gives 0), int to int wraps, any to bool is != 0, all else rounds once to nearest even; `bitcast` keeps the bits."""
    target = static_dtype(dtype)
    if bitcast:
        block = as_block(x)
        return (
            block
            if block.dtype is target
            else emit("bitcast", block, type=Type(target, block.shape))
        )
    if is_number(x):
        return constant(_convert(plain(x), target), target)
    return cast_to(as_block(x), target)


def _convert(x: Number, target: DType) -> Number:
    """A Python number by the rules of `cast`, without a detour over f32."""
    source = dtypes.f64 if isinstance(x, float) else checked(dtypes.weak_default, x)
    number: Number = numerics.cast(np.asarray(x, source.np_compute), source, target).item()
    return number


def _caster(dtype: DType) -> Callable[[Operand], Block]:
    def to(x: Operand) -> Block:
        return cast(x, dtype)

    to.__name__ = to.__qualname__ = f"to_{dtype.name}"
    to.__doc__ = f"x as {dtype.name}, by the rules of `cast`."
    return to


to_bool = _caster(dtypes.bool_)
to_i8 = _caster(dtypes.i8)
to_i16 = _caster(dtypes.i16)
to_i32 = _caster(dtypes.i32)
to_i64 = _caster(dtypes.i64)
to_u8 = _caster(dtypes.u8)
to_u16 = _caster(dtypes.u16)
to_u32 = _caster(dtypes.u32)
to_u64 = _caster(dtypes.u64)
to_f16 = _caster(dtypes.f16)
to_bf16 = _caster(dtypes.bf16)
to_f32 = _caster(dtypes.f32)
to_f64 = _caster(dtypes.f64)


def implicit(x: Any, dtype: DType, what: str, shape: Shape = ()) -> Block:
    """x as `dtype` and, if it broadcasts, `shape`, where nobody wrote a cast: never float to integer."""
    if is_number(x):
        return constant(_fitting(plain(x), dtype, what), dtype, shape)
    block = as_block(x, what)
    if not block.type.is_value:
        refuse_pointer(what, block)
    if block.dtype.is_float and not dtype.is_float:
        remedy = (
            "compare it: x != 0"
            if dtype.is_bool
            else f"mk.cast(x, mk.{dtype}) truncates toward zero, mk.round(x) first rounds"
        )
        raise TypeMismatch(
            f"{what} is {block.dtype} and does not become {dtype} without a cast",
            hint=remedy,
            loc=current().here(),
        )
    return spread(cast_to(block, dtype), shape)


def spread(x: Block, shape: Shape) -> Block:
    """x in `shape` if it broadcasts to it, else as it is: the op's row refuses it by name."""
    aligned = (1,) * (len(shape) - x.ndim) + x.shape
    fits = len(aligned) == len(shape) and all(
        a in (1, b) for a, b in zip(aligned, shape, strict=True)
    )
    return broadcast_to(x, shape) if fits else x


def _fitting(x: Number, dtype: DType, what: str) -> Number:
    """A number that an integer type holds exactly; whether it is in range is asked later."""
    if not isinstance(x, float) or dtype.is_float:
        return x
    if not math.isfinite(x) or x != int(x):
        raise TypeMismatch(
            f"{what} is {x}, which {dtype} cannot hold",
            hint="use a whole number, or a float dtype",
            loc=current().here(),
        )
    return int(x)
