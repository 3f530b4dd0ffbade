"""Products that are summed: of blocks as matrices, and of two strided rows of memory."""

from __future__ import annotations

from typing import Any

from eas.base import dtypes
from eas.base.errors import TypeMismatch
from eas.base.types import Type
from eas.frontend import values
from eas.frontend.block import Block, Operand
from eas.frontend.builder import current
from eas.frontend.hints import checked, need_choice
from eas.frontend.lang.cast import cast, spread
from eas.frontend.lang.memory import address, shift
from eas.frontend.lang.shape import expand_dims, reshape
from eas.frontend.loops import RuntimeRange
from eas.frontend.values import (
    as_block,
    cast_to,
    check_operands,
    common_dtype,
    common_shape,
    constant,
    emit,
    emit_inst,
    is_number,
    lanewise,
    plain,
    with_blocks,
)
from eas.ops.dot import accumulator
from eas.ops.rules import FLOATS, INTS, need_dtype


def dot(
    a: Operand,
    b: Operand,
    acc: Operand | None = None,
    *strided: Operand,
    out_dtype: Any = None,
    allow_tf32: bool | None = None,
    input_precision: str | None = None,
) -> Block:
    """acc + a @ b of matrices or stacks of them, or of a matrix and a vector, summed in f32 (f64 for f64) or i32 (i64 for 64 bits); dot(a_buf, a_base, a_stride, b_buf, b_base, b_stride, K) sums a[base + k*stride] * b[...] over k < K instead. `out_dtype` rounds the result. Triton's allow_tf32 and input_precision allow less precision, which is never used."""
    need_choice("dot", "allow_tf32", allow_tf32, (None, True, False))
    need_choice("dot", "input_precision", input_precision, (None, "tf32", "tf32x3", "ieee"))
    if strided:
        result = _strided_dot(a, b, acc, *strided)
    else:
        a, b = with_blocks((a, b))
        check_operands("dot", (a, b))
        dtype = common_dtype([a, b])
        result = _product(cast_to(as_block(a), dtype), cast_to(as_block(b), dtype), acc)
    return result if out_dtype is None else cast(result, out_dtype)


def _product(left: Block, right: Block, acc: Any) -> Block:
    """left @ right; a vector on the left is a row, one on the right a column, and goes again afterwards."""
    is_row, is_column = left.ndim == 1, right.ndim == 1
    first = expand_dims(left, 0) if is_row else left
    second = expand_dims(right, 1) if is_column else right
    shape = (*first.shape[:-1], *second.shape[-1:])
    out = Type(accumulator(left.dtype), shape)
    if not (is_row or is_column):
        return emit("dot", left, right, _accumulator(acc, out))
    target = (*(() if is_row else shape[:-1]), *(() if is_column else shape[-1:]))
    start = constant(0, out.dtype, shape) if acc is None or is_number(acc) else reshape(spread(cast_to(as_block(acc), out.dtype), target), shape)
    found = reshape(emit("dot", first, second, start), target)
    return lanewise("add", found, acc) if acc is not None and is_number(acc) else found


def _accumulator(acc: Any, out: Type) -> Block:
    if acc is None or is_number(acc):
        return constant(plain(acc or 0), out.dtype, out.shape)
    check_operands("dot", (acc,))
    return spread(cast_to(acc, out.dtype), out.shape)


def _strided_dot(*given: Any) -> Block:
    if len(given) != 7:
        raise TypeMismatch(
            f"dot got {len(given)} positional arguments",
            hint="mk.dot(a, b, acc), or mk.dot(a_buf, a_base, a_stride, b_buf, b_base, b_stride, K)",
            loc=current().here(),
        )
    a_buf, a_base, a_stride, b_buf, b_base, b_stride, count = given
    a, b = address("dot", a_buf, a_base), address("dot", b_buf, b_base)
    shape = common_shape("dot", [a.shape, b.shape])
    a, b = values.broadcast_to(a, shape), values.broadcast_to(b, shape)
    dtype = checked(dtypes.common, a.dtype, b.dtype)
    checked(need_dtype, "dot", Type(dtype), FLOATS + INTS)
    return _summed(a, a_stride, b, b_stride, count, accumulator(dtype))


def _summed(
    a: Block, a_stride: Any, b: Block, b_stride: Any, count: Any, wide: dtypes.DType
) -> Block:
    """A runtime loop over k that adds a[k * a_stride] * b[k * b_stride]."""
    builder, bounds = current("mk.dot"), RuntimeRange(0, count).bounds()
    total = constant(0, wide, a.shape)
    with builder.scope("for loop", [bounds[0].type, total.type], ["k", "acc"]) as scope:
        k, partial = (Block(p) for p in scope.params)
        left = emit("load", shift("dot", a, lanewise("mul", k, a_stride)))
        right = emit("load", shift("dot", b, lanewise("mul", k, b_stride)))
        product = lanewise("mul", cast_to(left, wide), cast_to(right, wide))
        following = lanewise("add", partial, product)
    region = builder.close(scope, [following.value])
    return Block(emit_inst("for", *bounds, total, regions=[region]).out)
