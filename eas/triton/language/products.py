"""Matrix products."""

from __future__ import annotations

from typing import Any

from eas.base import dtypes
from eas.frontend import values
from eas.frontend.block import Block
from eas.frontend.lang.dot_scaled import dot_scaled as eas_dot_scaled
from eas.frontend.lang.shape import reshape
from eas.frontend.values import cast_to, emit
from eas.triton.language.meaning import eas_dtype, refuse, to_tensor
from eas.triton.language.types import unwrapped

_PRECISIONS = (None, "tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


def dot(input: Any, other: Any, acc: Any = None, input_precision: Any = None, allow_tf32: Any = None, max_num_imprecise_acc: Any = None, out_dtype: Any = None) -> Block:
    """acc + input @ other of matrices or stacks of them, summed in f32 (f64, i32); allowances to be less precise are not used."""
    if unwrapped(input_precision) not in _PRECISIONS:
        refuse(f"input_precision must be one of {_PRECISIONS[1:]}, got {input_precision!r}", "leave it out")
    left, right = to_tensor(input), to_tensor(other)
    if len(left.shape) != len(right.shape) or len(left.shape) < 2 or left.shape[:-2] != right.shape[:-2]:
        refuse(f"Both inputs must be either 2D or 3D; (lhs: {list(left.shape)} vs rhs: {list(right.shape)})", "x[None, :] makes a matrix of a vector")
    if left.shape[-1] != right.shape[-2]:
        refuse(f"First input shape ({list(left.shape)}) and second input shape {list(right.shape)} are not compatible for matmul (second index of first shape ({left.shape[-1]}) must be equal to first index of second shape ({right.shape[-2]})", "tl.trans(b)")
    left, right = _of_one_type(left, right)
    if len(left.shape) > 3:
        batch = left.shape[:-2]
        rows, columns = (reshape(x, [-1, *x.shape[-2:]]) for x in (left, right))
        total = None if acc is None or not isinstance(acc, Block) else reshape(acc, [-1, *acc.shape[-2:]])
        return reshape(dot(rows, columns, total, out_dtype=out_dtype), [*batch, left.shape[-2], right.shape[-1]])
    found = _sum_type(left.dtype)
    result = found if out_dtype is None or not found.is_float else eas_dtype(out_dtype)
    if found is dtypes.f64:
        result = found
    if acc is not None and isinstance(acc, Block):
        result = acc.dtype
    shape = (*left.shape[:-1], right.shape[-1])
    start = values.constant(0, found, shape) if acc is None or not isinstance(acc, Block) else values.broadcast_to(cast_to(acc, found), shape)
    return cast_to(emit("dot", left, right, start), result)


def _of_one_type(left: Block, right: Block) -> tuple[Block, Block]:
    """fp8 in f16 (all of it is there), others as they are."""
    if left.dtype.is_float != right.dtype.is_float:
        refuse(f"Both operands must be same dtype. Got {left.dtype} and {right.dtype}", "cast one of them")
    if left.dtype.is_storage_only or right.dtype.is_storage_only:
        exact = dtypes.f32 if any(x.dtype not in (dtypes.f8e4m3, dtypes.f8e5m2) for x in (left, right)) else dtypes.f16
        return cast_to(left, exact), cast_to(right, exact)
    if left.dtype is not right.dtype:
        refuse(f"Both operands must be same dtype. Got {left.dtype} and {right.dtype}", "cast one of them")
    return left, right


def _sum_type(t: dtypes.DType) -> dtypes.DType:
    if t.is_float:
        return dtypes.f64 if t is dtypes.f64 else dtypes.f32
    if t.is_bool:
        refuse("dot of int1", "x.to(tl.int8)")
    return dtypes.i64 if t.bits == 64 else dtypes.i32


def dot_scaled(lhs: Any, lhs_scale: Any, lhs_format: Any, rhs: Any, rhs_scale: Any, rhs_format: Any, acc: Any = None, fast_math: Any = False, lhs_k_pack: Any = True, rhs_k_pack: Any = True, out_dtype: Any = None) -> Block:
    """acc + lhs @ rhs in f32 of operands in microscaling formats, exactly decoded."""
    total = None if acc is None or not isinstance(acc, Block) else acc
    found = eas_dot_scaled(lhs, unwrapped(lhs_scale), lhs_format, rhs, unwrapped(rhs_scale), rhs_format, total, bool(fast_math), bool(lhs_k_pack), bool(rhs_k_pack))
    return found if out_dtype is None else cast_to(found, eas_dtype(out_dtype))
