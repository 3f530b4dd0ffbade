"""The row of the matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.base.types import Type
from eas.ops.rules import FLOATS, INTS, need_dtype
from eas.ops.table import Accuracy, Attrs, Call, Op, RegionSig, Trait, register


def accumulator(dtype: DType) -> DType:
    """What products of `dtype` are summed in: f32 (f64 for f64), i32 (i64 for 64-bit integers)."""
    if dtype.is_float:
        return dtypes.f64 if dtype is dtypes.f64 else dtypes.f32
    wide = dtype.bits == 64
    if dtype.is_signed:
        return dtypes.i64 if wide else dtypes.i32
    return dtypes.u64 if wide else dtypes.u32 if dtype.bits == 32 else dtypes.i32


def _dot_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    a, b, acc = types
    for t in (a, b):
        need_dtype("dot", t, FLOATS + INTS)
    if a.rank not in (2, 3) or b.rank != a.rank:
        raise ShapeMismatch(f"dot needs two matrices (or two stacks of matrices), got {a} and {b}", hint="use x[:, None] to make a column, mk.sum(a * b) for vectors")
    if a.dtype is not b.dtype:
        raise TypeMismatch(f"dot of {a.dtype} with {b.dtype}", hint="cast one of the operands so that both have one dtype")
    if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise ShapeMismatch(f"dot of shapes {list(a.shape)} and {list(b.shape)}", hint="the last axis of a must equal the last but one of b")
    out = Type(accumulator(a.dtype), (*a.shape[:-1], b.shape[-1]))
    if acc != out:
        raise TypeMismatch(f"dot: the accumulator is {acc}, it must be {out}", hint=f"mk.zeros({list(out.shape)}, mk.{out.dtype})")
    return (out,)


def _dot(call: Call, a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> Any:
    # Integers wrap exactly in the accumulator's width; floats are summed wide and rounded once.
    wide = call.out.dtype.np_compute if not call.out.dtype.is_float else np.dtype(np.float64)
    return np.matmul(a.astype(wide), b.astype(wide)) + acc.astype(wide)


register(Op("dot", "dot", "a, b, acc", _dot_rule, "acc + a @ b, of matrices or stacks of matrices; integers exactly, floats summed in f32 (f64 for f64) in any order.", Trait.PURE | Trait.CUT | Trait.PRODUCT, _dot, accuracy=Accuracy({"f32": 4, "f64": 4}, note="per sqrt(K) of the largest |a|·|b|"), dtypes=FLOATS + INTS))
