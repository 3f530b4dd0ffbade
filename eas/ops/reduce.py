"""Rows where lanes of one block meet: reductions, scans, sorting, histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.errors import InvalidIR, ShapeMismatch
from eas.base.types import Type
from eas.ops.rules import ARITHMETIC, BOOL, INTS, axis_of, need_dtype, need_value
from eas.ops.table import Attrs, Call, Op, RegionSig, Trait, register


def _check_combine(name: str, types: Sequence[Type], regions: Sequence[RegionSig]) -> None:
    for t in types:
        need_value(name, t)
        if t.shape != types[0].shape:
            raise ShapeMismatch(f"{name} got blocks of shapes {list(types[0].shape)} and {list(t.shape)}", hint="all inputs of one reduction have one shape")
    scalars = tuple(Type(t.dtype) for t in types)
    (combine,) = regions
    if combine.params != scalars + scalars or combine.yields != scalars:
        raise InvalidIR(f"{name}: the combine region takes {[str(t) for t in combine.params]} and yields {[str(t) for t in combine.yields]}")


def _reduce_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    axis = axis_of("reduce", attrs["axis"], types[0].rank)
    _check_combine("reduce", types, regions)
    return tuple(t.with_shape(t.shape[:axis] + t.shape[axis + 1 :]) for t in types)


def _scan_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    axis_of("scan", attrs["axis"], types[0].rank)
    _check_combine("scan", types, regions)
    return tuple(types)


def _reduce(call: Call, *blocks: np.ndarray) -> tuple[np.ndarray, ...]:
    """Combine neighbours pairwise, so that order is kept and rounding errors stay small."""
    assert call.combine is not None
    rows = [np.moveaxis(b, call.attrs["axis"], 0) for b in blocks]
    while (n := rows[0].shape[0]) > 1:
        even = n // 2 * 2
        paired = call.combine(*(r[0:even:2] for r in rows), *(r[1:even:2] for r in rows))
        rows = [np.concatenate([p, r[even:]]) for p, r in zip(paired, rows, strict=True)]
    return tuple(r[0] for r in rows)


def _scan(call: Call, *blocks: np.ndarray) -> tuple[np.ndarray, ...]:
    assert call.combine is not None
    axis, reverse = call.attrs["axis"], call.attrs["reverse"]
    rows = [np.moveaxis(np.array(b), axis, 0) for b in blocks]
    if reverse:
        rows = [r[::-1] for r in rows]
    for i in range(1, rows[0].shape[0]):
        for r, new in zip(rows, call.combine(*(r[i - 1] for r in rows), *(r[i] for r in rows)), strict=True):
            r[i] = new
    if reverse:
        rows = [r[::-1] for r in rows]
    return tuple(np.moveaxis(r, 0, axis) for r in rows)


def _sort_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_dtype("sort", types[0], ARITHMETIC)
    axis_of("sort", attrs["axis"], types[0].rank)
    for t in types[1:]:
        need_value("sort", t)
        if t.shape != types[0].shape:
            raise ShapeMismatch(f"sort got keys of shape {list(types[0].shape)} and a payload of shape {list(t.shape)}")
    return tuple(types)


def order(keys: np.ndarray, axis: int, descending: bool) -> Any:
    """A stable order; NaN counts as the largest."""
    if not descending:
        return np.argsort(keys, axis=axis, kind="stable")
    # A stable descending order: reverse, sort ascending, reverse; ties keep their first index first.
    flipped = np.argsort(np.flip(keys, axis), axis=axis, kind="stable")
    return keys.shape[axis] - 1 - np.flip(flipped, axis)


def _sort(call: Call, *blocks: np.ndarray) -> tuple[np.ndarray, ...]:
    axis = call.attrs["axis"]
    index = order(blocks[0], axis, call.attrs["descending"])
    return tuple(np.take_along_axis(b, index, axis) for b in blocks)


def _topk_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_dtype("topk", types[0], ARITHMETIC)
    axis = axis_of("topk", attrs["axis"], types[0].rank)
    shape = types[0].shape
    if not 1 <= attrs["k"] <= shape[axis]:
        raise ShapeMismatch(f"topk of {attrs['k']} from an axis of {shape[axis]} elements", hint=f"k must be from 1 to {shape[axis]}")
    out = types[0].with_shape((*shape[:axis], attrs["k"], *shape[axis + 1:]))
    return (out, out.with_dtype(dtypes.i32))


def _topk(call: Call, block: np.ndarray) -> tuple[np.ndarray, ...]:
    axis = call.attrs["axis"]
    index = np.take(order(block, axis, call.attrs["largest"]), range(call.attrs["k"]), axis)
    return np.take_along_axis(block, index, axis), index


def _histogram_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_dtype("histogram", types[0], INTS)
    if len(types) > 1:
        need_dtype("histogram mask", types[1], BOOL)
        if types[1].shape != types[0].shape:
            raise ShapeMismatch(f"histogram: the mask has shape {list(types[1].shape)}, the values {list(types[0].shape)}")
    if attrs["bins"] < 1:
        raise ShapeMismatch(f"histogram with {attrs['bins']} bins", hint="the number of bins must be positive")
    return (Type(dtypes.i32, (attrs["bins"],)),)


def _histogram(call: Call, block: np.ndarray, mask: Any = True) -> np.ndarray:
    bins = call.attrs["bins"]
    inside = (block >= 0) & (block < bins) & mask
    return np.bincount(block[inside].astype(np.int64), minlength=bins).astype(np.int32)


def _gather_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    source, index = types
    need_value("gather", source)
    need_dtype("gather index", index, INTS)
    axis = axis_of("gather", attrs["axis"], source.rank)
    if index.rank != source.rank or any(i != axis and index.shape[i] != source.shape[i] for i in range(source.rank)):
        raise ShapeMismatch(f"gather along axis {axis}: source {source}, index {index}", hint="the shapes may differ only along the gathered axis")
    return (source.with_shape(index.shape),)


def _gather(call: Call, source: np.ndarray, index: np.ndarray) -> np.ndarray:
    axis = call.attrs["axis"]
    if np.any((index < 0) | (index >= source.shape[axis])) and call.machine is not None:
        bad = int(index[(index < 0) | (index >= source.shape[axis])].flat[0])
        call.machine.fail(f"gather index {bad} is outside of an axis of {source.shape[axis]} elements")
    return np.take_along_axis(source, index.astype(np.int64), axis)


register(Op("reduce", "reduce", "*blocks", _reduce_rule, "Combine all elements along an axis; the region is associative, the order unspecified but fixed.", Trait.PURE | Trait.FOLD, _reduce, attrs="axis: int", regions=1))
register(Op("scan", "reduce", "*blocks", _scan_rule, "Inclusive prefix combination along an axis, from the end when `reverse`.", Trait.PURE | Trait.CUT, _scan, attrs="axis: int, reverse: bool", regions=1))
register(Op("sort", "reduce", "keys, *payloads", _sort_rule, "Stable sort along an axis, payloads move with their keys; NaN is the largest.", Trait.PURE | Trait.CUT, _sort, attrs="axis: int, descending: bool", dtypes=ARITHMETIC))
register(Op("topk", "reduce", "x", _topk_rule, "The k largest (or smallest) elements along an axis, in order, with their indices; ties: lowest index first.", Trait.PURE | Trait.CUT, _topk, attrs="k: int, axis: int, largest: bool", dtypes=ARITHMETIC))
register(Op("histogram", "reduce", "x, mask?", _histogram_rule, "How often 0 .. bins-1 occur; other values and masked-off lanes are not counted.", Trait.PURE | Trait.CUT | Trait.FOLD, _histogram, attrs="bins: int", dtypes=INTS))
register(Op("gather", "reduce", "source, index", _gather_rule, "source taken at index along an axis.", Trait.PURE | Trait.PARTIAL, _gather, attrs="axis: int", dtypes=tuple(dtypes.ALL)))
