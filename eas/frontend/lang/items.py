"""What stands in brackets: elements of buffers, and axes, elements and parts of blocks."""

from __future__ import annotations

from typing import Any

from eas.base import dtypes
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.frontend.block import Block
from eas.frontend.builder import current
from eas.frontend.lang.extents import index_stride, stride
from eas.frontend.lang.memory import load, store
from eas.frontend.lang.shape import expand_dims, flip, gather, reshape
from eas.frontend.values import (
    broadcast_to,
    cast_to,
    constant,
    emit,
    is_number,
    lanewise,
    plain,
    static_int,
)

_WHOLE = slice(None)


def item(x: Block, index: Any) -> Block:
    """x[i] of a buffer reads memory; of a block it is an element, x[2:6] a part, x[:, None] has a new axis."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if x.type.is_pointer and not x.type.shape:
        return load(x, offset_of(x, parts))
    if x.type.is_pointer and not all(p is None or p is Ellipsis or _is_whole(p) for p in parts):
        raise TypeMismatch("a block of pointers can only be indexed with None, : and ...", hint="index the offsets, and add them to the buffer afterwards", loc=current().here())
    return _of_block(x, _completed(x, parts))


def set_item(x: Block, index: Any, value: Any) -> None:
    """x[i] = value of a buffer writes memory; blocks are values."""
    if not x.type.is_pointer or x.type.shape:
        raise TypeMismatch(f"{x!r} is a value: its elements cannot be assigned", hint="use mk.where(cond, new, old), or mk.store to write memory", loc=current().here())
    store(x, offset_of(x, list(index) if isinstance(index, tuple) else [index]), value)


def offset_of(x: Block, parts: list[Any]) -> Any:
    """Where x[i], or x[i, j] by the strides of the array, lies."""
    if not all(is_number(p) or isinstance(p, Block) for p in parts):
        raise TypeMismatch("a buffer is indexed with integers or blocks of them", hint="mk.load(buffer, offsets) reads many elements: buffer[mk.arange(0, n)] does, too", loc=current().here())
    if len(parts) == 1:
        return parts[0]
    # One wide index makes the sum wide, so no product may wrap before.
    is_wide = any(isinstance(p, Block) and p.dtype is dtypes.i64 for p in parts)
    sizes = x.row_sizes or [(stride if is_wide else index_stride)(x, axis) for axis in range(len(parts))]
    if len(sizes) != len(parts):
        raise ShapeMismatch(f"{len(parts)} indices of an array with {len(sizes)} axes", hint="write one index for each axis", loc=current().here())
    if is_wide:
        parts = [cast_to(p, dtypes.i64) if isinstance(p, Block) else p for p in parts]
        sizes = [cast_to(n, dtypes.i64) if isinstance(n, Block) else n for n in sizes]
    total: Any = None
    for part, step in zip(parts, sizes, strict=True):
        product = plain(part) * step if is_number(part) and is_number(step) else lanewise("mul", part, step)
        total = product if total is None else plain(total) + product if is_number(total) and is_number(product) else lanewise("add", total, product)
    return total


# --- blocks ---------------------------------------------------------------------------------------


def _is_whole(part: Any) -> bool:
    return isinstance(part, slice) and part == _WHOLE


def _completed(x: Block, parts: list[Any]) -> list[Any]:
    """One part for each axis, and None for each new one."""
    named = sum(p is not None and p is not Ellipsis for p in parts)
    dots = sum(p is Ellipsis for p in parts)
    if dots > 1 or named > x.ndim:
        raise ShapeMismatch(f"an index with {named} axes of a block with {x.ndim}: {x.type}", hint="write one : for each axis and None for each new one", loc=current().here())
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    return [*parts[:at], *[_WHOLE] * (x.ndim - named), *parts[at + 1 :]]


def _of_block(x: Block, parts: list[Any]) -> Block:
    new = [i for i, p in enumerate(parts) if p is None]
    if all(p is None or _is_whole(p) for p in parts):
        return expand_dims(x, new) if new else x
    shape: list[int] = []
    axis = 0
    for part in parts:
        if part is None:
            shape.append(1)
            continue
        if isinstance(part, slice):
            x = _part(x, axis, part)
            shape.append(x.shape[axis])
        elif isinstance(part, Block) and part.shape:
            if x.ndim != 1 or len(part.shape) != 1:
                raise ShapeMismatch(f"the block {part.type} as an index of {x.type}", hint="mk.gather(x, index, axis) takes elements along an axis", loc=current().here())
            return gather(x, part, 0)
        else:
            x = _element(x, axis, part)
        axis += 1
    return reshape(x, shape)


def _part(x: Block, axis: int, part: slice) -> Block:
    start, stop, step = (None if n is None else static_int(n, "the end of a slice") for n in (part.start, part.stop, part.step))
    if step == 0:
        raise ShapeMismatch("a slice with a step of 0", hint="use a step of 1, or of -1 to turn the axis round", loc=current().here())
    taken = range(*slice(start, stop, step).indices(x.shape[axis]))
    if not taken:
        raise ShapeMismatch(f"a slice of {x.type} without elements along axis {axis}", hint="blocks have at least one element", loc=current().here())
    if taken == range(x.shape[axis]):
        return x
    if taken == range(x.shape[axis])[::-1]:
        return flip(x, axis)
    places = emit("arange", start=0, end=len(taken), is_inner=True)  # tells nothing about the grid
    places = lanewise("add", lanewise("mul", places, taken.step), taken.start) if taken.step != 1 or taken.start else places
    return _taken(x, axis, places)


def _element(x: Block, axis: int, part: Any) -> Block:
    """x with an axis of one element: the one at `part`."""
    if not isinstance(part, Block):
        number, size = static_int(part, "an index"), x.shape[axis]
        if not -size <= number < size:
            raise ShapeMismatch(f"index {number} of an axis of {size} elements: {x.type}", hint=f"use 0 to {size - 1}", loc=current().here())
        if size == 1:
            return x
        part = constant(number % size, dtypes.i32)
    elif not part.type.is_value or not part.dtype.is_int:
        raise TypeMismatch(f"{part!r} as an index of {x!r}", hint="index with integers; mk.where(cond, a, b) chooses by truth values", loc=current().here())
    return _taken(x, axis, broadcast_to(part, (1,)))


def _taken(x: Block, axis: int, places: Block) -> Block:
    count = places.shape[0]
    shape = [count if i == axis else 1 for i in range(x.ndim)]
    target = tuple(count if i == axis else n for i, n in enumerate(x.shape))
    return gather(x, broadcast_to(reshape(places, shape), target), axis)

