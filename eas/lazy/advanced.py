"""Advanced indexing: elements that arrays of integers, and masks, name, with NumPy's rules for where their axes go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from eas.base import config, dtypes
from eas.base.errors import ArgumentError, EasError
from eas.base.loading import load
from eas.lazy.build import (
    OutOfBounds,
    binary,
    broadcast_shape,
    cast,
    expand,
    permute,
    refuse,
    reshape,
    select,
)
from eas.lazy.functions import indexed, take
from eas.lazy.handle import LazyTensor
from eas.lazy.node import Node
from eas.lazy.ops import MAP
from eas.runtime.launch_settings import setting_now


class Places(NamedTuple):
    """Integers along one axis: a NumPy array, or the node of a tensor that is not computed yet."""

    at: Any
    length: int | None = None
    """Of the axis of the mask that they come from."""


def is_array(part: object) -> bool:
    """Whether a part of an index is an array, or a list as one."""
    return isinstance(part, (LazyTensor, np.ndarray, list)) or (hasattr(part, "__array__") and not isinstance(part, np.generic))


def read(tensor: Any, index: Sequence[Any]) -> Node:
    """The elements that an index with arrays names: a copy, as in NumPy."""
    parts = [place for part in index for place in (_places(tensor, part) if is_array(part) else [part])]
    shape = tensor.shape
    named = sum([part is not None and part is not ... for part in parts])
    if named > len(shape):
        raise refuse(OutOfBounds(f"{named} indices for a tensor of shape {list(shape)}", hint="index each axis once; a mask names as many axes as it has"))
    parts += [] if any(part is ... for part in parts) else [...]
    arrays: list[tuple[int, Any]] = []
    """(axis once the slices are taken, places along it)"""
    basic: list[Any] = []
    axis = along = runs = 0
    was_array = False
    for part in parts:
        has_array = isinstance(part, (Places, int))  # beside arrays an integer is an array, too
        if has_array:
            arrays.append((along, _inside(part if isinstance(part, Places) else Places(np.asarray(part)), shape[axis], axis)))
            runs += not was_array
        was_array = has_array
        basic.append(slice(None) if has_array else part)
        taken = len(shape) - named if part is ... else int(part is not None)
        axis, along = axis + taken, along + (1 if part is None else taken)
    return _gathered(tensor, indexed(tensor._lazy(), tuple(basic)), arrays, is_together=runs == 1)


def _places(tensor: Any, part: Any) -> list[Places]:
    """What an array stands for: places along one axis, or for a mask along as many as it has."""
    if not isinstance(part, LazyTensor):
        array = np.array(part)  # as it is now
        array = array.astype(np.int64) if isinstance(part, list) and not array.size else array
        if array.dtype.kind == "b":
            return _where(array)
        if array.dtype.kind not in "iu":
            raise _no_index(array.dtype)
        return [Places(array)]
    if part.dtype.is_bool:
        return _where(_computed(part))
    if not part.dtype.is_int:
        raise _no_index(part.dtype)
    return [Places(part._lazy() if part._is_lazy else np.array(part._device.seen(part._stored)))]


def _no_index(dtype: object) -> EasError:
    return refuse(ArgumentError(f"a tensor is indexed with integers, slices, None, ... and arrays of integers or bools, got an array of {dtype}", hint='x[index.to("i32")]'))


def _computed(mask: Any) -> Any:
    """The elements of a mask: how many it selects is only known when they are."""
    if mask._is_lazy and setting_now(config.debug) >= 2:
        load("eas.runtime.debug")
        from eas.runtime import debug

        debug.note(2, f"*** the mask bool{list(mask.shape)} of an index is computed now: the shape of the result depends on it")
    return mask._device.seen(mask._stored)


def _where(mask: Any) -> list[Places]:
    if not mask.shape:
        raise refuse(ArgumentError("a mask of no axes as an index", hint="x.where(...) selects by one bool"))
    return [Places(at, length) for at, length in zip(np.nonzero(mask), mask.shape, strict=True)]


def _inside(places: Places, size: int, axis: int) -> Any:
    """Places along an axis of this size, none of them negative; what memory holds is checked."""
    at, length = places
    if type(at) is Node:
        return select(binary(MAP["lt"], at, 0), binary(MAP["add"], at, size), at)
    if length not in (None, size):
        raise refuse(OutOfBounds(f"a mask of {length} along axis {axis} of size {size}", hint="a mask is as long as the axes that it names"))
    wrong = (at < -size) | (at >= size)
    if wrong.any():
        raise refuse(OutOfBounds(f"index {at[wrong].flat[0]} is out of bounds for axis {axis} of size {size}", hint="indices go from -size to size - 1"))
    return np.where(at < 0, at + size, at)


def _gathered(tensor: Any, table: Node, arrays: list[tuple[int, Any]], is_together: bool) -> Node:
    """The elements of a table at places along several of its axes, which become those of the places."""
    axes, sizes = [axis for axis, _ in arrays], [table.shape[axis] for axis, _ in arrays]
    index = _flat(tensor, [places for _, places in arrays], sizes)
    first = axes[0] if is_together else 0
    rest = [axis for axis in range(len(table.shape)) if axis not in axes]
    table = permute(table, [*rest[:first], *axes, *rest[first:]])
    table = reshape(table, (*table.shape[:first], math.prod(sizes), *table.shape[first + len(axes) :]))
    return take(table, index, first)


def _flat(tensor: Any, places: list[Any], sizes: list[int]) -> Node:
    """Places along several axes as those along one axis of all their elements; those that name none are past its end."""
    dtype = dtypes.i32 if math.prod(sizes) <= 0x7FFFFFFF else dtypes.i64
    shape = broadcast_shape("an index", *[at.shape for at in places])
    if not any(type(at) is Node for at in places):
        flat = sum(at.astype(np.int64) * math.prod(sizes[i + 1 :]) for i, at in enumerate(places))
        known: Node = tensor._wrapped(np.broadcast_to(flat, shape).astype(dtype.np_storage))._lazy()
        return known
    total: Any = 0
    exists: Any = True
    for i, (at, size) in enumerate(zip(places, sizes, strict=True)):
        node = at if type(at) is Node else tensor._wrapped(at)._lazy()
        inside = binary(MAP["and"], binary(MAP["ge"], node, 0), binary(MAP["lt"], node, size))
        part = binary(MAP["mul"], cast(node, dtype), math.prod(sizes[i + 1 :]))
        total, exists = (binary(MAP["add"], part, total), binary(MAP["and"], inside, exists)) if i else (part, inside)
    return expand(select(exists, total, math.prod(sizes)), shape)
