"""Reductions and scans, named ones and those of the kernel's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.frontend.block import Block
from eas.frontend.lang import fold as eas_fold
from eas.frontend.lang.fold import fold, keep, prepare
from eas.frontend.lang.reduce import positions
from eas.frontend.lang.shape import reshape, static_axis
from eas.frontend.values import cast_to, emit
from eas.triton.language.math import floating
from eas.triton.language.meaning import binary, eas_dtype, refuse, to_tensor
from eas.triton.language.types import unwrapped

Combine = Callable[..., Any]


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:
    """Combine all elements along an axis by an associative function."""
    return eas_fold.reduce(input, unwrapped(axis), combine_fn, bool(keep_dims))


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:
    """Inclusive prefixes along an axis under an associative function."""
    return eas_fold.associative_scan(input, unwrapped(axis), combine_fn, bool(reverse))


def _fold_by(name: str, rows: Callable[[DType], str], x: Block, axis: Any, keep_dims: Any) -> Block:
    block, at = prepare(name, x, unwrapped(axis))
    row = rows(block.dtype)
    (out,) = fold("reduce", name, [block], lambda a, b: emit(row, a, b), axis=at)
    return keep(out, x, unwrapped(axis), bool(keep_dims))


def _sum_type(x: Block, dtype: Any) -> DType:
    """Triton adds narrow integers in 32 bits of their signedness."""
    if dtype is not None:
        return eas_dtype(dtype)
    if x.dtype.is_float or (x.dtype.is_int and x.dtype.bits >= 32):
        return x.dtype
    return dtypes.i32 if x.dtype.is_int and x.dtype.is_signed else dtypes.u32


def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> Block:
    """Sum along an axis, or of all; f16 and bf16 add in f32 and round once."""
    block, result = _added_up(input, dtype)
    return cast_to(_fold_by("sum", lambda t: "add" if not t.is_bool else "xor", block, axis, keep_dims), result)


def _added_up(input: Any, dtype: Any) -> tuple[Block, DType]:
    """The input in what it is added up in, and the dtype of the result."""
    block = to_tensor(input)
    result = _sum_type(block, dtype)
    block = cast_to(block, result)
    return (cast_to(block, dtypes.f32) if result.is_float and result.bits < 32 else block), result


def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> Block:
    """Exclusive or of the integers along an axis."""
    return _of_bits("xor", "xor_sum", input, axis, keep_dims)


def reduce_or(input: Any, axis: Any = None, keep_dims: Any = False) -> Block:
    """Or of the integers along an axis."""
    return _of_bits("or", "reduce_or", input, axis, keep_dims)


def _of_bits(row: str, name: str, input: Any, axis: Any, keep_dims: Any) -> Block:
    if input.dtype.is_float:
        refuse(f"{name} only supported for integers, got {input.dtype}", "x.to(tl.int32, bitcast=True) has the bits")
    return _fold_by(name, lambda _: row, input, axis, keep_dims)


# --- extremes -------------------------------------------------------------------------------------


def max(input: Any, axis: Any = None, return_indices: Any = False, return_indices_tie_break_left: Any = True, keep_dims: Any = False) -> Any:
    """The largest along an axis, NaN ignored; of narrow types as f32 or i32."""
    return _extreme("max", input, axis, return_indices, keep_dims)


def min(input: Any, axis: Any = None, return_indices: Any = False, return_indices_tie_break_left: Any = True, keep_dims: Any = False) -> Any:
    """The smallest along an axis, NaN ignored; of narrow types as f32 or i32."""
    return _extreme("min", input, axis, return_indices, keep_dims)


def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Block:
    """The index of the largest, NaN ignored; the lowest of equal ones."""
    found: Block = _extreme("max", input, axis, True, keep_dims)[1]
    return found


def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Block:
    """The index of the smallest, NaN ignored; the lowest of equal ones."""
    found: Block = _extreme("min", input, axis, True, keep_dims)[1]
    return found


def _extreme(kind: str, input: Any, axis: Any, return_indices: Any, keep_dims: Any) -> Any:
    block = to_tensor(input)
    if return_indices:
        return _with_index(kind, cast_to(block, dtypes.f32) if block.dtype is dtypes.bf16 else block, axis, bool(keep_dims))
    if block.dtype.is_bool or block.dtype.bits < 32:
        block = cast_to(block, dtypes.f32 if block.dtype.is_float else dtypes.i32)
    return _fold_by(kind, lambda t: f"f{kind}" if t.is_float else kind, block, axis, keep_dims)


def _with_index(kind: str, x: Block, axis: Any, keep_dims: bool) -> tuple[Block, Block]:
    block, at = prepare(kind, x, unwrapped(axis))
    better, is_float = ("gt" if kind == "max" else "lt"), block.dtype.is_float

    def combine(a: Block, i: Block, b: Block, j: Block) -> tuple[Block, Block]:
        first = emit("or", emit(better, a, b), emit("and", emit("eq", a, b), emit("lt", i, j)))
        if is_float:  # a number wins over NaN, and of two NaN the lower index
            nan, other = emit("isnan", a), emit("isnan", b)
            first = emit("or", first, emit("and", other, emit("or", emit("not", nan), emit("lt", i, j))))
        return emit("select", first, a, b), emit("select", first, i, j)

    value, index = fold("reduce", kind, [block, positions(block, at)], combine, axis=at)
    return keep(value, x, unwrapped(axis), keep_dims), keep(index, x, unwrapped(axis), keep_dims)


# --- scans ----------------------------------------------------------------------------------------


def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Block:
    """Inclusive prefix sums along an axis; those of bf16 are f32."""
    block, result = _added_up(_wide(input), dtype)
    return cast_to(_scan("add", block, axis, reverse), result)


def cumprod(input: Any, axis: Any = 0, reverse: Any = False) -> Block:
    """Inclusive prefix products along an axis; those of bf16 are f32."""
    block = _wide(input)
    narrow = block.dtype.is_float and block.dtype.bits < 32
    return cast_to(_scan("mul", cast_to(block, dtypes.f32) if narrow else block, axis, reverse), block.dtype)


def _wide(x: Any) -> Block:
    block = to_tensor(x)
    return cast_to(block, dtypes.f32) if block.dtype is dtypes.bf16 else block


def _scan(row: str, block: Block, axis: Any, reverse: Any) -> Block:
    at = static_axis("scan", unwrapped(axis), block.ndim)
    (out,) = fold("scan", "scan", [block], lambda a, b: emit(row, a, b), axis=at, reverse=bool(reverse))
    return out


def softmax(x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> Block:
    """exp(x - max) / sum along an axis, the first unless told."""
    axis = 0 if dim is None else unwrapped(dim)
    block = to_tensor(x)
    at = static_axis("softmax", axis, block.ndim)
    kept = tuple(1 if i == at else n for i, n in enumerate(block.shape))
    top = reshape(max(block, axis), kept)
    powers = emit("exp", floating("softmax", binary("sub", block, top)))
    total = reshape(sum(powers, axis), kept)
    return binary("div", powers, total)  # type: ignore[no-any-return]
