"""Products of matrices in microscaling formats: small numbers, a power of two for each group along k."""

from __future__ import annotations

from typing import Any

from eas.base import dtypes
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.frontend.block import Block
from eas.frontend.builder import current
from eas.frontend.hints import need_choice
from eas.frontend.lang.cast import cast
from eas.frontend.lang.dot import dot
from eas.frontend.lang.math import where
from eas.frontend.lang.shape import expand_dims, join, permute, reshape, trans
from eas.frontend.values import as_block, constant, lanewise

_FORMATS = {"e4m3": dtypes.f8e4m3, "e5m2": dtypes.f8e5m2, "bf16": dtypes.bf16, "fp16": dtypes.f16}
_HALVES = 0xC8643210  # twice the number that three bits of e2m1 stand for, in four bits each


def dot_scaled(
    lhs: Block, lhs_scale: Block | None, lhs_format: str, rhs: Block, rhs_scale: Block | None, rhs_format: str, acc: Block | None = None,
    fast_math: bool = False, lhs_k_pack: bool = True, rhs_k_pack: bool = True, out_dtype: Any = dtypes.f32,
) -> Block:  # fmt: skip
    """acc + lhs @ rhs in f32 of matrices of "e2m1" (two in a u8, the first in its low bits), "e4m3", "e5m2", "bf16" or "fp16" (or integers with their bits). A scale of shape [M, K // 32] for lhs, [N, K // 32] for rhs, holds e8m0 exponents as u8, or factors as floats. Pairs are packed along k unless `lhs_k_pack` or `rhs_k_pack` says along the other axis."""
    need_choice("dot_scaled", "out_dtype", out_dtype, (dtypes.f32,))
    left = _numbers(as_block(lhs, "the left side of dot_scaled"), "lhs_format", lhs_format, -1 if lhs_k_pack else -2, lhs_k_pack)
    right = _numbers(as_block(rhs, "the right side of dot_scaled"), "rhs_format", rhs_format, -2 if rhs_k_pack else -1, rhs_k_pack)
    if left.ndim != right.ndim or left.ndim not in (2, 3) or left.shape[-1] != right.shape[-2]:
        raise ShapeMismatch(f"dot_scaled of {list(left.shape)} and {list(right.shape)}", hint="pass matrices of [M, K] and [K, N], or stacks of them", loc=current().here())
    left = _scaled(left, lhs_scale, "lhs_scale")
    right = trans(_scaled(trans(right), rhs_scale, "rhs_scale")) if rhs_scale is not None else right
    return dot(left, right, acc)


def _numbers(x: Block, option: str, form: str, axis: int, along_k: bool) -> Block:
    """The f32 values of a matrix in one of the formats."""
    need_choice("dot_scaled", option, form, ("e2m1", *_FORMATS))
    if form == "e2m1":
        if x.dtype not in (dtypes.u8, dtypes.i8):
            raise TypeMismatch(f"dot_scaled got {x.type} for e2m1", hint="pack two numbers into each u8", loc=current().here())
        return _pairs(x, axis % x.ndim)
    if not along_k:
        raise TypeMismatch(f"dot_scaled packs only e2m1 along another axis than k, not {form}", hint="leave out lhs_k_pack and rhs_k_pack", loc=current().here())
    dtype = _FORMATS[form]
    if x.dtype is not dtype and (x.dtype.is_float or x.dtype.bits != dtype.bits):
        raise TypeMismatch(f"dot_scaled got {x.type} for {form}", hint=f"pass {dtype}, or integers of {dtype.bits} bits that hold such numbers", loc=current().here())
    return cast(cast(x, dtype, bitcast=True), dtypes.f32)


def _pairs(x: Block, axis: int) -> Block:
    """The two e2m1 numbers of each byte, side by side along an axis."""
    bits = cast(cast(x, dtypes.u8), dtypes.u32)
    both = join(_e2m1(bits), _e2m1(lanewise("shr", bits, 4)))
    order = [*range(axis + 1), x.ndim, *range(axis + 1, x.ndim)]
    return reshape(permute(both, order), [n * (1 + (k == axis)) for k, n in enumerate(x.shape)])


def _e2m1(bits: Block) -> Block:
    place = lanewise("mul", lanewise("and", bits, 7), 4)
    size = lanewise("mul", cast(lanewise("and", lanewise("shr", constant(_HALVES, dtypes.u32), place), 15), dtypes.f32), 0.5)
    return where(lanewise("ne", lanewise("and", bits, 8), 0), lanewise("neg", size), size)


def _scaled(x: Block, scale: Any, option: str) -> Block:
    """Each group along the last axis times its scale, which is rounded if the product is."""
    if scale is None:
        return x
    factor = as_block(scale, f"the {option} of dot_scaled")
    wanted = (*x.shape[:-1], x.shape[-1] // max(1, factor.shape[-1] if factor.shape else 1))
    if factor.shape[:-1] != x.shape[:-1] or x.shape[-1] % factor.shape[-1]:
        raise ShapeMismatch(f"{option} of dot_scaled has shape {list(factor.shape)}", hint=f"pass [{', '.join(map(str, wanted[:-1]))}, {x.shape[-1]} // 32]", loc=current().here())
    values = cast(factor, dtypes.f32) if factor.dtype.is_float else _e8m0(factor)
    grouped = reshape(x, (*factor.shape, wanted[-1]))
    return reshape(lanewise("mul", grouped, expand_dims(values, -1)), x.shape)


def _e8m0(scale: Block) -> Block:
    """2 ** (code - 127), NaN of the last code; the first one is below the normal numbers."""
    if scale.dtype not in (dtypes.u8, dtypes.i8):
        raise TypeMismatch(f"dot_scaled got scales of {scale.dtype}", hint="pass e8m0 exponents as u8, or factors as floats", loc=current().here())
    code = cast(cast(scale, dtypes.u8), dtypes.u32)
    bits = lanewise("shl", code, 23)
    bits = where(lanewise("eq", code, 0), constant(0x00400000, dtypes.u32), bits)
    bits = where(lanewise("eq", code, 255), constant(0x7FC00000, dtypes.u32), bits)
    return cast(bits, dtypes.f32, bitcast=True)
