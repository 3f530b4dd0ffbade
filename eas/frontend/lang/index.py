"""Where a program or thread is, and blocks that come from nothing: ranges and filled blocks."""

from __future__ import annotations

from typing import Any

from eas.base import dtypes
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.frontend import values
from eas.frontend.block import Block, Operand
from eas.frontend.builder import current
from eas.frontend.hints import checked
from eas.frontend.lang.cast import implicit
from eas.frontend.lang.shape import need_blocks
from eas.frontend.values import (
    as_block,
    emit,
    is_number,
    lanewise,
    plain,
    static_dtype,
    static_int,
    static_shape,
)


def grid_axis(word: str, axis: Any) -> int:
    """A trace-time axis of the grid: 0, 1 or 2."""
    number = static_int(axis, f"the axis of {word}")
    if not 0 <= number <= 2:
        raise ShapeMismatch(
            f"{word}: the grid has no axis {number}",
            hint="use axis 0, 1 or 2",
            loc=current().here(),
        )
    return number


def program_id(axis: int = 0) -> Block:
    """This program's (or threadgroup's) position in the grid along axis 0, 1 or 2; i32."""
    return emit("program_id", axis=grid_axis("program_id", axis))


def num_programs(axis: int = 0) -> Block:
    """The number of programs (or threadgroups) along axis 0, 1 or 2; i32."""
    return emit("num_programs", axis=grid_axis("num_programs", axis))


def bounds(word: str, start: Any, end: Any) -> tuple[int, int]:
    """(start, end) of f(n) or f(start, end), as i32 integers known when tracing."""
    first, last = (0, start) if end is None else (start, end)
    lo, hi = static_int(first, f"the start of {word}"), static_int(last, f"the end of {word}")
    if lo < dtypes.i32.min or hi - 1 > dtypes.i32.max:
        raise TypeMismatch(
            f"{word}({lo}, {hi}) does not fit i32",
            hint="add a 64-bit scalar to a smaller range",
            loc=current().here(),
        )
    return lo, hi


def arange(start: int, end: int | None = None) -> Block:
    """The integers start .. end-1 (0 .. start-1 with one argument) as an i32 block."""
    current("mk.arange").need_mode("spmd", "mk.arange")
    lo, hi = bounds("arange", start, end)
    return emit("arange", start=lo, end=hi)


def zeros(shape: Any, dtype: Any = dtypes.f32) -> Block:
    """A block of zeros; f32 unless told. The shape () gives a scalar."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = dtypes.f32) -> Block:
    """A block of ones; f32 unless told. The shape () gives a scalar."""
    return full(shape, 1, dtype)


def full(shape: Any, value: Operand, dtype: Any = None) -> Block:
    """A block filled with a number or scalar; without `dtype` ints are i32 (i64 if needed) and floats f32."""
    extents = static_shape(shape)
    need_blocks("mk.full", extents)
    if dtype is None:
        kind = (
            checked(dtypes.weak_default, plain(value))
            if is_number(value)
            else as_block(value).dtype
        )
    else:
        kind = static_dtype(dtype)
    return values.broadcast_to(implicit(value, kind, "the value of full", extents), extents)


def zeros_like(x: Operand, dtype: Any = None) -> Block:
    """Zeros of the shape of x, and of its dtype unless told."""
    return full_like(x, 0, dtype)


def full_like(x: Operand, value: Operand, dtype: Any = None) -> Block:
    """A block filled with `value`, of the shape of x, and of its dtype unless told."""
    like = as_block(x)
    return full(like.shape, value, like.dtype if dtype is None else dtype)


def cdiv(a: Operand, b: Operand) -> Any:
    """`mk.cdiv` of anything but two positive Python ints."""
    if is_number(a) and is_number(b):
        size, piece = static_int(a, "cdiv"), static_int(b, "cdiv")
        if piece < 1:
            raise TypeMismatch(
                f"cdiv by {piece}",
                hint="the size of a piece must be positive",
                loc=current().here(),
            )
        return -(-size // piece)
    above = plain(b) - 1 if is_number(b) else lanewise("sub", b, 1)
    return lanewise("floordiv", lanewise("add", a, above), b)


def next_power_of_2(n: int) -> int:
    """`mk.next_power_of_2` of anything but a Python int."""
    number = static_int(n, "next_power_of_2")
    return 1 << max(0, number - 1).bit_length()
