"""Rows that move elements without looking at them; blocks of pointers move like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.errors import ShapeMismatch, Unsupported
from eas.base.types import Type
from eas.ops.machine import Pointer
from eas.ops.rules import axis_of, need_same
from eas.ops.table import Attrs, Call, Op, RegionSig, Rule, Trait, register


def _move(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Apply a NumPy movement to a block of numbers or of pointers."""

    def reference(call: Call, *xs: Any) -> Any:
        if isinstance(xs[0], Pointer):
            if any(x.buffer is not xs[0].buffer for x in xs):
                raise Unsupported("a block of pointers into two buffers", hint="load from each buffer, then put the values together")
            moved = fn(call, *(x.offsets for x in xs))
            return tuple(Pointer(xs[0].buffer, m) for m in moved) if isinstance(moved, tuple) else Pointer(xs[0].buffer, moved)
        return fn(call, *xs)

    return reference


def _broadcast_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    t, shape = types[0], attrs["shape"]
    aligned = (1,) * (len(shape) - t.rank) + t.shape
    if len(aligned) != len(shape) or any(a not in (1, b) for a, b in zip(aligned, shape, strict=True)):
        raise ShapeMismatch(f"a block of shape {list(t.shape)} does not broadcast to {list(shape)}", hint="extents must be equal or 1, aligned at the last axis")
    return (t.with_shape(shape),)


def _reshape_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    out = types[0].with_shape(attrs["shape"])
    if out.size != types[0].size:
        raise ShapeMismatch(f"reshape of {list(types[0].shape)} to {list(out.shape)} changes the number of elements", hint=f"{types[0].size} elements are needed, {out.size} given")
    return (out,)


def _permute_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    order, shape = attrs["order"], types[0].shape
    if sorted(order) != list(range(len(shape))):
        raise ShapeMismatch(f"permute order {list(order)} does not name each axis of {list(shape)} once")
    return (types[0].with_shape(tuple(shape[i] for i in order)),)


def _expand_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    axis = axis_of("expand_dims", attrs["axis"], types[0].rank + 1)
    shape = types[0].shape
    return (types[0].with_shape((*shape[:axis], 1, *shape[axis:])),)


def _join_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    t = need_same("join", types)
    return (t.with_shape((*t.shape, 2)),)


def _split_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    shape = types[0].shape
    if not shape or shape[-1] != 2:
        raise ShapeMismatch(f"split needs a last axis of 2 elements, got {list(shape)}", hint="reshape to [..., 2] first")
    return (types[0].with_shape(shape[:-1]),) * 2


def _cat_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    a, b = types
    axis = axis_of("cat", attrs["axis"], a.rank)
    if a.rank != b.rank or a.with_shape(()) != b.with_shape(()) or any(i != axis and a.shape[i] != b.shape[i] for i in range(a.rank)):
        raise ShapeMismatch(f"cat of {a} and {b} along axis {axis}", hint="shapes may differ only along the axis, dtypes not at all")
    return (a.with_shape((*a.shape[:axis], a.shape[axis] + b.shape[axis], *a.shape[axis + 1:])),)


def _flip_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    axis_of("flip", attrs["axis"], types[0].rank)
    return (types[0],)


def _row(name: str, operands: str, rule: Rule, fn: Callable[..., Any], doc: str, attrs: str = "") -> Op:
    return register(Op(name, "shape", operands, rule, doc, Trait.PURE | Trait.SHAPE, _move(fn), attrs=attrs, dtypes=tuple(dtypes.ALL)))


_row("broadcast", "x", _broadcast_rule, lambda call, x: np.broadcast_to(x, call.attrs["shape"]), "Repeat along new axes and axes of extent 1, aligned at the last axis.", "shape: ints")
_row("reshape", "x", _reshape_rule, lambda call, x: np.reshape(x, call.attrs["shape"]), "The same elements in row-major order under another shape.", "shape: ints")
_row("permute", "x", _permute_rule, lambda call, x: np.transpose(x, call.attrs["order"]), "Axis i of the result is axis order[i] of x.", "order: ints")
_row("expand_dims", "x", _expand_rule, lambda call, x: np.expand_dims(x, call.attrs["axis"]), "A new axis of extent 1.", "axis: int")
_row("join", "a, b", _join_rule, lambda call, a, b: np.stack([a, b], axis=-1), "A new last axis of extent 2 that holds a and b.")
_row("split", "x", _split_rule, lambda call, x: (x[..., 0], x[..., 1]), "The two halves of a last axis of extent 2.")
_row("cat", "a, b", _cat_rule, lambda call, a, b: np.concatenate([a, b], call.attrs["axis"]), "b after a along an axis.", "axis: int")
_row("flip", "x", _flip_rule, lambda call, x: np.flip(x, call.attrs["axis"]), "The elements along an axis in opposite order.", "axis: int")
