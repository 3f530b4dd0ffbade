"""Rows of the 32 lanes of a simdgroup: reductions, shuffles, votes, 8x8 matrices.

In thread mode their operands are scalars. `spread_threads` makes them blocks over the T threads of
the threadgroup, and that form is what the references run: lane l of simdgroup s is element 32*s + l.
A fragment spreads to one 8x8 matrix per simdgroup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.base.types import Space, Type
from eas.ops.machine import Pointer
from eas.ops.memory import need_pointer
from eas.ops.rules import BOOL, INTS, NUMERIC, need_dtype, need_value, same
from eas.ops.table import Accuracy, Attrs, Call, Op, Reference, RegionSig, Rule, Trait, register

LANES = 32
_TRAITS = Trait.PURE | Trait.CONVERGENT | Trait.THREAD


def lanes(x: np.ndarray, fill: Any) -> np.ndarray:
    """[T] as [simdgroups, 32]; lanes past T hold `fill`."""
    x = np.asarray(x)
    groups = -(-x.shape[0] // LANES)
    padded = np.full(groups * LANES, fill, x.dtype)
    padded[: x.shape[0]] = x
    return padded.reshape(groups, LANES)


def _per_group(fold: Callable[[np.ndarray], Any], fill: Callable[[DType], Any]) -> Reference:
    """One result per simdgroup, given to all of its lanes."""

    def reference(call: Call, x: np.ndarray) -> np.ndarray:
        folded = np.asarray(fold(lanes(x, fill(call.dtype))))
        return np.repeat(folded, LANES)[: x.shape[0]]

    return reference


def _prefix(scan: Callable[..., Any], identity: Any, inclusive: bool) -> Reference:
    def reference(call: Call, x: np.ndarray) -> np.ndarray:
        rows = lanes(x, identity)
        if not inclusive:
            rows = np.concatenate([np.full((rows.shape[0], 1), identity, rows.dtype), rows[:, :-1]], axis=1)
        wide = np.float32 if rows.dtype == np.float16 else rows.dtype  # f16 is rounded once, at the end
        return np.asarray(scan(rows, axis=1, dtype=wide)).reshape(-1)[: x.shape[0]]

    return reference


def _shuffle(source: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Reference:
    """Read the lane that `source(lane, operand)` names; outside of the simdgroup: its own."""

    def reference(call: Call, x: np.ndarray, operand: np.ndarray) -> np.ndarray:
        index = np.arange(x.shape[0])
        lane = index % LANES
        wanted = source(lane, np.broadcast_to(operand, x.shape).astype(np.int64))
        target = index - lane + wanted
        inside = (wanted >= 0) & (wanted < LANES) & (target < x.shape[0])
        return x[np.where(inside, target, index)]

    return reference


def _lowest(dtype: DType) -> Any:
    return -np.inf if dtype.is_float else dtype.min


def _highest(dtype: DType) -> Any:
    return np.inf if dtype.is_float else dtype.max


def _zero(dtype: DType) -> Any:
    return 0


def _one(dtype: DType) -> Any:
    return 1


def _always(value: Any) -> Callable[[DType], Any]:
    return lambda dtype: value


def _ones(dtype: DType) -> Any:
    return -1 if dtype.is_signed else dtype.max


def _row(name: str, operands: str, rule: Rule, reference: Reference, doc: str, allowed: tuple[DType, ...], accuracy: Accuracy, traits: Trait = Trait.NONE) -> Op:
    return register(Op(name, "simd", operands, rule, doc, _TRAITS | traits, reference, accuracy=accuracy, dtypes=allowed))


_SUMS = Accuracy({"f16": 1, "bf16": 1, "f32": 8, "f64": 8}, note="order of summation")
_SAME = Accuracy()


def _sum(rows: np.ndarray) -> Any:
    return rows.astype(np.float32).sum(axis=1) if rows.dtype == np.float16 else rows.sum(axis=1, dtype=rows.dtype)


def _product(rows: np.ndarray) -> Any:
    return rows.astype(np.float32).prod(axis=1) if rows.dtype == np.float16 else rows.prod(axis=1, dtype=rows.dtype)


for _name, _fold, _fill, _allowed, _accuracy, _again in (
    ("sum", _sum, _zero, NUMERIC, _SUMS, Trait.NONE),
    ("product", _product, _one, NUMERIC, _SUMS, Trait.NONE),
    ("max", lambda rows: rows.max(axis=1), _lowest, NUMERIC, _SAME, Trait.IDEMPOTENT),
    ("min", lambda rows: rows.min(axis=1), _highest, NUMERIC, _SAME, Trait.IDEMPOTENT),
    ("and", lambda rows: np.bitwise_and.reduce(rows, axis=1), _ones, INTS, _SAME, Trait.IDEMPOTENT),
    ("or", lambda rows: np.bitwise_or.reduce(rows, axis=1), _zero, INTS, _SAME, Trait.IDEMPOTENT),
    ("xor", lambda rows: np.bitwise_xor.reduce(rows, axis=1), _zero, INTS, _SAME, Trait.NONE),
):
    _row(f"simd_{_name}", "x", same(f"simd_{_name}", _allowed), _per_group(_fold, _fill), f"The {_name} over the lanes of the simdgroup, in every lane.", _allowed, _accuracy, _again)
for _kind in ("inclusive", "exclusive"):
    for _name, _scan, _identity in (("sum", np.cumsum, 0), ("product", np.cumprod, 1)):
        _row(f"simd_prefix_{_kind}_{_name}", "x", same(f"simd_prefix_{_kind}_{_name}", NUMERIC), _prefix(_scan, _identity, _kind == "inclusive"), f"The {_name} over the lanes before this one{' and itself' if _kind == 'inclusive' else ''}.", NUMERIC, _SUMS)


def _shuffle_rule(name: str) -> Rule:
    def rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
        need_value(name, types[0])
        need_dtype(f"{name} lane", types[1], INTS)
        if types[1].shape not in ((), types[0].shape):
            raise ShapeMismatch(f"{name}: value {types[0]}, lane {types[1]}")
        return (types[0],)

    return rule


for _name, _source, _doc in (
    ("simd_shuffle", lambda lane, n: n, "The value of lane n."),
    ("simd_broadcast", lambda lane, n: n, "The value of lane n, which is the same in all lanes."),
    ("simd_shuffle_xor", lambda lane, n: lane ^ n, "The value of lane (own lane ^ n)."),
    ("simd_shuffle_up", lambda lane, n: lane - n, "The value of lane (own lane - n); its own below lane n."),
    ("simd_shuffle_down", lambda lane, n: lane + n, "The value of lane (own lane + n); its own past the last lane."),
):
    _row(_name, "x, n", _shuffle_rule(_name), _shuffle(_source), _doc, tuple(dtypes.ALL), _SAME)


def _vote_rule(name: str, out: DType) -> Rule:
    def rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
        need_dtype(name, types[0], BOOL)
        return (types[0].with_dtype(out),)

    return rule


def _ballot(rows: np.ndarray) -> Any:
    return (rows.astype(np.uint32) << np.arange(LANES, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)


for _name, _fold, _empty, _out, _doc in (
    ("simd_all", lambda rows: rows.all(axis=1), True, dtypes.bool_, "Whether x holds in every lane."),
    ("simd_any", lambda rows: rows.any(axis=1), False, dtypes.bool_, "Whether x holds in some lane."),
    ("simd_ballot", _ballot, False, dtypes.u32, "Bit l tells whether x holds in lane l."),
):
    _row(_name, "x", _vote_rule(_name, _out), _per_group(_fold, _always(_empty)), _doc, BOOL, _SAME, Trait.NONE if _name == "simd_ballot" else Trait.IDEMPOTENT)

MMA_DTYPES = (dtypes.f16, dtypes.bf16, dtypes.f32)


def _need_fragment(name: str, t: Type) -> None:
    if t.space is not Space.SIMDGROUP or t.shape[-2:] != (8, 8):
        raise TypeMismatch(f"{name} needs a simdgroup matrix, got {t}", hint="start from mk.mma_zero()")


def _mma_zero_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    if attrs["type"].dtype not in MMA_DTYPES:
        raise TypeMismatch(f"there are no simdgroup matrices of {attrs['type'].dtype}", hint="use mk.f32, mk.f16 or mk.bf16")
    return (attrs["type"],)


def _check_matrix(name: str, pointer: Type, stride: Type, allowed: tuple[DType, ...]) -> None:
    need_pointer(name, pointer)
    need_dtype(name, Type(pointer.dtype), allowed)
    need_dtype(f"{name} stride", stride, INTS)


def _mma_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    a, a_stride, b, b_stride, acc = types[:5]
    _check_matrix("mma", a, a_stride, MMA_DTYPES)
    _check_matrix("mma", b, b_stride, MMA_DTYPES)
    if a.dtype is not b.dtype:
        raise TypeMismatch(f"mma of {a.dtype} with {b.dtype}", hint="both matrices need one dtype")
    _need_fragment("mma", acc)
    return (acc,)


def _mma_store_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    _check_matrix("mma_store", types[0], types[1], MMA_DTYPES)
    _need_fragment("mma_store", types[2])
    return ()


def _mma_select_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    cond, a, b = types
    need_dtype("mma_select", cond, BOOL)
    _need_fragment("mma_select", a)
    if a != b:
        raise TypeMismatch(f"mma_select got {a} and {b}")
    return (a,)


def _mma_select(call: Call, cond: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    first = np.ravel(cond)[::LANES]  # the lanes of a simdgroup agree
    return np.where(first[:, None, None], a, b)


def _tile(pointer: Pointer, stride: np.ndarray, group: int) -> Pointer:
    """The 8x8 addresses of one simdgroup: row r starts at base + r * stride."""
    base = np.ravel(pointer.offsets)
    first = min(group * LANES, base.size - 1)
    step = np.ravel(stride)[min(first, np.size(stride) - 1)]
    rows, columns = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
    return Pointer(pointer.buffer, base[first] + rows * np.int64(step) + columns)


def _active(mask: Any, group: int) -> bool:
    flat = np.ravel(True if mask is None else mask)
    return bool(flat[min(group * LANES, flat.size - 1)])


def _mma(call: Call, a: Pointer, a_stride: np.ndarray, b: Pointer, b_stride: np.ndarray, acc: np.ndarray, mask: Any = None) -> np.ndarray:
    world, out = call.world, np.array(acc)
    for g in range(out.shape[0]):
        if _active(mask, g):
            left = world.load(_tile(a, a_stride, g), None, None).astype(np.float64)
            right = world.load(_tile(b, b_stride, g), None, None).astype(np.float64)
            out[g] = (left @ right + acc[g]).astype(out.dtype)
    return out


def _mma_store(call: Call, pointer: Pointer, stride: np.ndarray, fragment: np.ndarray, mask: Any = None) -> None:
    for g in range(fragment.shape[0]):
        if _active(mask, g):
            call.world.store(_tile(pointer, stride, g), numerics.cast(fragment[g], call.operands[2].dtype, call.dtype), None)


_MMA = Trait.CONVERGENT | Trait.THREAD | Trait.CUT
register(Op("mma_zero", "simd", "", _mma_zero_rule, "An 8x8 simdgroup matrix of zeros.", Trait.PURE | Trait.CUT | Trait.THREAD, lambda call: np.zeros(call.out.shape, call.out.dtype.np_compute), attrs="type: type"))
register(Op("mma_select", "simd", "cond, a, b", _mma_select_rule, "The 8x8 matrix a in simdgroups where cond holds, else b; only `spread_threads` makes it.", Trait.PURE | Trait.CUT | Trait.THREAD, _mma_select))
register(Op("mma", "simd", "a, a_stride, b, b_stride, acc, mask?", _mma_rule, "acc + A @ B of two 8x8 matrices in memory whose rows are `stride` elements apart.", Trait.READS | _MMA, _mma, accuracy=Accuracy({"f32": 4}), dtypes=MMA_DTYPES))
register(Op("mma_store", "simd", "ptr, stride, fragment, mask?", _mma_store_rule, "Write an 8x8 matrix with rows `stride` elements apart.", Trait.WRITES | _MMA, _mma_store, dtypes=MMA_DTYPES))
