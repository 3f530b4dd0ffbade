"""The named reductions and scans: sums, extremes, truth, softmax."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.frontend import values
from eas.frontend.block import Block, Operand
from eas.frontend.builder import current
from eas.frontend.hints import first_argument
from eas.frontend.lang.fold import fold, keep, need_block, prepare
from eas.frontend.lang.math import exp, fdiv, isfinite, log, maximum, minimum, sqrt, where
from eas.frontend.lang.shape import reshape, static_axis
from eas.frontend.values import (
    as_block,
    cast_to,
    emit,
    fit,
    lanewise,
    static_dtype,
    static_int,
    to_bool,
)


def _fold_one(name: str, row: str, x: Any, axis: Any, keep_dims: bool) -> Block:
    if isinstance(axis, tuple | list):
        return _fold_several(name, row, need_block(name, x), _axes(name, x, axis), keep_dims)
    block, at = prepare(name, x, axis)
    (out,) = fold("reduce", name, [block], lambda a, b: lanewise(row, a, b), axis=at)
    return keep(out, x, axis, keep_dims)


def _fold_several(name: str, row: str, block: Block, axes: list[int], keep_dims: bool) -> Block:
    """The last axis first, so that the others keep their numbers; all of them at once."""
    if len(axes) == block.ndim:
        return _fold_one(name, row, block, None, keep_dims)
    shape = [1 if i in axes else n for i, n in enumerate(block.shape)]
    for axis in reversed(axes):
        block = _fold_one(name, row, block, axis, False)
    return reshape(block, *shape) if keep_dims else block


def _axes(name: str, x: Any, axis: Any) -> list[int]:
    """The axes that are reduced, ascending."""
    rank = need_block(name, x).ndim
    given = range(rank) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    found = sorted({static_axis(name, each, rank) for each in given})
    if len(found) != len(given) or not found:
        raise ShapeMismatch(f"{name} got the axes {axis!r}", hint="name each axis once", loc=current().here())
    return found


def _count(name: str, block: Block, axis: Any) -> int:
    """How many elements become one."""
    return math.prod(block.shape[each] for each in _axes(name, block, axis)) if axis is not None else int(block.numel)


# --- sums and products ------------------------------------------------------------------------


def accumulation(name: str, dtype: DType) -> DType:
    """What many values of `dtype` are added in: f32 for narrow floats, i32 or u32 for narrow ints."""
    if dtype.is_storage_only:
        raise TypeMismatch(
            f"{name} needs a numeric operand, got {dtype}: fp8 is a storage type",
            hint="mk.cast(x, mk.f32)",
            loc=current().here(),
        )
    if dtype.bits >= 32:
        return dtype
    if dtype.is_float:
        return dtypes.f32
    return dtypes.i32 if dtype.is_signed or dtype.is_bool else dtypes.u32


def _widened(name: str, x: Any, dtype: Any) -> tuple[Block, DType]:
    """x in the dtype to add in, and the dtype of the result: floats are rounded back once."""
    block = need_block(name, x)
    wanted = block.dtype if dtype is None else static_dtype(dtype)
    wide = accumulation(name, wanted)
    return cast_to(block, wide), wanted if wanted.is_float or dtype is not None else wide


def sum(x: Operand, axis: int | tuple[int, ...] | None = None, keep_dims: bool = False, dtype: Any = None) -> Block:
    """Sum over an axis, or all; f16 and bf16 add in f32 and round once, ints below 32 bits and bools give i32 or u32."""
    block, result = _widened("sum", x, dtype)
    return cast_to(_fold_one("sum", "add", block, axis, keep_dims), result)


def prod(x: Operand, axis: int | tuple[int, ...] | None = None, keep_dims: bool = False, dtype: Any = None) -> Block:
    """Product over an axis, or all; widened as `sum`."""
    block, result = _widened("prod", x, dtype)
    return cast_to(_fold_one("prod", "mul", block, axis, keep_dims), result)


def mean(x: Operand, axis: int | tuple[int, ...] | None = None, keep_dims: bool = False) -> Block:
    """Sum divided by the number of elements, in f32 (f64 for f64) and rounded once; f32 of integers."""
    block = need_block("mean", x)
    result = (
        dtypes.div_type(block.dtype)
        if not block.dtype.is_storage_only
        else accumulation("mean", block.dtype)
    )
    wide = cast_to(block, accumulation("mean", result))
    total = _fold_one("mean", "add", wide, axis, keep_dims)
    count = _count("mean", block, axis)
    return cast_to(emit("div", *fit("mean", [total, float(count)])), result)


def var(x: Operand, axis: int | tuple[int, ...] | None = None, keep_dims: bool = False, correction: int = 0) -> Block:
    """Mean of squared distances from the mean, over n - correction elements, in f32 (f64 for f64) and rounded once."""
    block = need_block("var", x)
    return cast_to(_variance("var", block, axis, keep_dims, correction), dtypes.div_type(block.dtype))


def std(x: Operand, axis: int | tuple[int, ...] | None = None, keep_dims: bool = False, correction: int = 0) -> Block:
    """The square root of `var`, rounded once."""
    block = need_block("std", x)
    return cast_to(sqrt(_variance("std", block, axis, keep_dims, correction)), dtypes.div_type(block.dtype))


def _variance(name: str, block: Block, axis: Any, keep_dims: bool, correction: Any) -> Block:
    wide = _computed(name, block)
    apart = lanewise("sub", wide, mean(wide, axis, keep_dims=True))
    count = _count(name, block, axis)
    left = count - static_int(correction, f"the correction of {name}")
    if left < 1:
        raise ShapeMismatch(f"{name} of {count} elements with a correction of {correction}", hint="leave the correction out", loc=current().here())
    return fdiv(_fold_one(name, "add", lanewise("mul", apart, apart), axis, keep_dims), float(left))


def _computed(name: str, block: Block) -> Block:
    """A block in the float type that sums of it are computed in: f64 of f64, else f32."""
    wide = cast_to(block, accumulation(name, block.dtype))
    return wide if wide.dtype.is_float else cast_to(block, dtypes.f32)


def cumsum(x: Operand, axis: int = 0, reverse: bool = False, dtype: Any = None) -> Block:
    """Inclusive prefix sums along an axis, from the end if `reverse`; widened as `sum`."""
    return _running("cumsum", "add", x, axis, reverse, dtype)


def cumprod(x: Operand, axis: int = 0, reverse: bool = False, dtype: Any = None) -> Block:
    """Inclusive prefix products along an axis, from the end if `reverse`; widened as `sum`."""
    return _running("cumprod", "mul", x, axis, reverse, dtype)


def _running(name: str, row: str, x: Any, axis: Any, reverse: bool, dtype: Any) -> Block:
    block, result = _widened(name, x, dtype)
    (out,) = fold(
        "scan",
        name,
        [block],
        lambda a, b: lanewise(row, a, b),
        axis=static_axis(name, axis, block.ndim),
        reverse=bool(reverse),
    )
    return cast_to(out, result)


# --- extremes and truth -----------------------------------------------------------------------


def max(x: Operand, *rest: Any, axis: int | tuple[int, ...] | None = None, return_indices: bool = False, keep_dims: bool = False) -> Any:
    """max(x, axis=None) is the largest along an axis, or of all, NaN if one is NaN; max(a, b, ...) the largest per element. max(x, 0) of a block could mean both and is refused."""
    return _extreme("max", x, rest, axis, return_indices, keep_dims)


def min(x: Operand, *rest: Any, axis: int | tuple[int, ...] | None = None, return_indices: bool = False, keep_dims: bool = False) -> Any:
    """min(x, axis=None) is the smallest along an axis, or of all, NaN if one is NaN; min(a, b, ...) the smallest per element. min(x, 0) of a block could mean both and is refused."""
    return _extreme("min", x, rest, axis, return_indices, keep_dims)


def max_along(x: Operand, axis: int | tuple[int, ...] | None = None, return_indices: bool = False, keep_dims: bool = False) -> Any:
    """The largest along an axis, or of all: what x.max(axis) is."""
    return _extreme("max", x, (), axis, return_indices, keep_dims)


def min_along(x: Operand, axis: int | tuple[int, ...] | None = None, return_indices: bool = False, keep_dims: bool = False) -> Any:
    """The smallest along an axis, or of all: what x.min(axis) is."""
    return _extreme("min", x, (), axis, return_indices, keep_dims)


def _extreme(name: str, x: Any, rest: tuple[Any, ...], axis: Any, return_indices: bool, keep_dims: bool) -> Any:
    if rest and axis is None and _may_be_axis(x, rest):
        axis, *flags = rest
        if axis is not None and not (flags or return_indices or keep_dims):
            raise _ambiguous(name, axis)
        return_indices, keep_dims = return_indices or builtins.any(flags[:1]), keep_dims or builtins.any(flags[1:])
    elif rest and axis is None and not (return_indices or keep_dims):
        return (maximum if name == "max" else minimum)(x, *rest)
    elif rest:
        raise TypeMismatch(f"{name} got both an axis and further values", hint=f"mk.{name}(x, axis=0) reduces, mk.{name}imum(a, b) compares", loc=current().here())
    if return_indices:
        return _arg_extreme(name, name, x, axis, keep_dims)
    rows = {"max": "or", "min": "and"} if as_block(x).dtype.is_bool else {}
    return _fold_one(name, rows.get(name, name), x, axis, keep_dims)


def _may_be_axis(x: Any, rest: tuple[Any, ...]) -> bool:
    """Whether max(x, *rest) can be read as max(x, axis, return_indices, keep_dims)."""
    axis, *flags = rest
    is_axis = axis is None or (isinstance(axis, (int, np.integer)) and not isinstance(axis, bool))
    has_axes = isinstance(x, Block) and bool(x.shape)
    return has_axes and is_axis and len(flags) <= 2 and builtins.all(isinstance(f, bool) for f in flags)


def _ambiguous(name: str, number: int) -> TypeMismatch:
    place = current().here()
    block = first_argument(place)
    return TypeMismatch(f"mk.{name}({block}, {number}) could reduce along axis {number}, or compare each element with {number}", hint=f"write mk.{name}({block}, axis={number}) to reduce, mk.{name}imum({block}, {number}) to compare", loc=place)


def argmax(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Block:
    """Index (i32) of the largest along an axis, or in row-major order of all; a NaN wins, then the lowest index."""
    return _arg_extreme("argmax", "max", x, axis, keep_dims)[1]


def argmin(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Block:
    """Index (i32) of the smallest along an axis, or in row-major order of all; a NaN wins, then the lowest index."""
    return _arg_extreme("argmin", "min", x, axis, keep_dims)[1]


def _arg_extreme(word: str, kind: str, x: Any, axis: Any, keep_dims: bool) -> tuple[Block, Block]:
    block, at = prepare(word, x, axis)
    better = "gt" if kind == "max" else "lt"

    def combine(a: Block, i: Block, b: Block, j: Block) -> tuple[Block, Block]:
        first = lanewise("and", lanewise("eq", a, b), lanewise("lt", i, j))
        first = lanewise("or", lanewise(better, a, b), first)
        if block.dtype.is_float:
            nan, other = emit("isnan", a), emit("isnan", b)
            wins = lanewise("or", emit("not", other), lanewise("lt", i, j))
            first = lanewise("or", first, lanewise("and", nan, wins))
        return emit("select", first, a, b), emit("select", first, i, j)

    value, index = fold("reduce", word, [block, positions(block, at)], combine, axis=at)
    return keep(value, x, axis, keep_dims), keep(index, x, axis, keep_dims)


def positions(x: Block, axis: int) -> Block:
    """The index of every element of x along an axis; i32."""
    line = emit("arange", start=0, end=x.shape[axis])
    line = reshape(line, [n if i == axis else 1 for i, n in enumerate(x.shape)])
    return values.broadcast_to(line, x.shape)


def any(x: Operand, axis: int | tuple[int, ...] | None = None, keep_dims: bool = False) -> Block:
    """Whether some element along an axis, or of all, is not zero."""
    return _fold_one("any", "or", to_bool(x), axis, keep_dims)


def all(x: Operand, axis: int | tuple[int, ...] | None = None, keep_dims: bool = False) -> Block:
    """Whether every element along an axis, or of all, is not zero."""
    return _fold_one("all", "and", to_bool(x), axis, keep_dims)


def xor_sum(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Block:
    """Exclusive or of the integers along an axis, or of all; keeps the dtype."""
    return _fold_one("xor_sum", "xor", x, axis, keep_dims)


def softmax(x: Operand, axis: int = -1) -> Block:
    """exp(x - max) / sum along an axis, in f32 (f64 for f64) and rounded once; f32 of integers."""
    block = need_block("softmax", x)
    wide = _computed("softmax", block)
    powers = exp(lanewise("sub", wide, max_along(wide, axis, keep_dims=True)))
    shares = fdiv(powers, sum(powers, axis, keep_dims=True))
    return cast_to(shares, dtypes.div_type(block.dtype))


def log_softmax(x: Operand, axis: int = -1) -> Block:
    """The logarithm of `softmax`, which does not lose small shares."""
    block = need_block("log_softmax", x)
    wide = _computed("log_softmax", block)
    apart = lanewise("sub", wide, max_along(wide, axis, keep_dims=True))
    return cast_to(lanewise("sub", apart, log(sum(exp(apart), axis, keep_dims=True))), dtypes.div_type(block.dtype))


def logsumexp(x: Operand, axis: int | None = None, keep_dims: bool = False) -> Block:
    """log(sum(exp(x))) along an axis, or of all, which does not overflow; -inf of nothing but -inf."""
    block = need_block("logsumexp", x)
    wide = _computed("logsumexp", block)
    top = max_along(wide, axis, keep_dims=True)
    finite = where(isfinite(top), top, 0.0)
    total = log(sum(exp(lanewise("sub", wide, finite)), axis, keep_dims=True)) + finite
    shown = total if keep_dims else reshape(total, _without(block.shape, axis))
    return cast_to(shown, dtypes.div_type(block.dtype))


def _without(shape: tuple[int, ...], axis: Any) -> tuple[int, ...]:
    if axis is None:
        return ()
    at = static_axis("logsumexp", axis, len(shape))
    return shape[:at] + shape[at + 1 :]
