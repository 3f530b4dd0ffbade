"""The language's shape functions: they move elements, or pointers, without looking at them."""

from __future__ import annotations

from typing import Any

from eas.base.errors import ModeMismatch, ShapeMismatch
from eas.base.types import Shape
from eas.frontend import values
from eas.frontend.block import Block, Operand
from eas.frontend.builder import current
from eas.frontend.hints import checked
from eas.frontend.values import (
    as_block,
    cast_to,
    common_shape,
    emit,
    emit_inst,
    fit,
    static_int,
    static_shape,
)
from eas.ops.rules import axis_of


def need_blocks(word: str, shape: Shape) -> None:
    """A block of this shape is about to be made, which thread kernels cannot hold."""
    builder = current(word)
    if not shape:
        return
    if builder.mode == "thread":
        first = (
            f"{builder.mode_word} at {builder.mode_loc}" if builder.mode_loc else builder.mode_word
        )
        raise ModeMismatch(
            f"{word} makes a block of shape {list(shape)}, and thread kernels work on scalars (this one uses {first})",
            hint="keep one value per thread, or share values through mk.alloc_tg",
            loc=builder.here(),
        )
    builder.need_mode("spmd", word)


def static_axis(name: str, axis: Any, rank: int) -> int:
    """A trace-time axis, counted from the front."""
    return checked(axis_of, name, static_int(axis, f"the axis of {name}"), rank)


def integers(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """f(x, 2, 3) and f(x, (2, 3)) mean the same."""
    return tuple(items[0]) if len(items) == 1 and isinstance(items[0], (tuple, list)) else items


def reshape(x: Operand, *shape: Any) -> Block:
    """The same elements in row-major order under another shape, of which one extent may be -1."""
    block, wanted = as_block(x), list(integers(shape))
    sizes = [static_int(n, "a shape") for n in wanted]
    if sizes.count(-1) == 1:
        known = 1
        for n in sizes:
            known *= n if n != -1 else 1
        if known < 1 or block.numel % known:
            raise ShapeMismatch(
                f"reshape of {list(block.shape)} to {sizes}: {block.numel} elements are no multiple of {known}",
                hint="choose extents whose product divides the number of elements",
                loc=current().here(),
            )
        sizes[sizes.index(-1)] = block.numel // known
    target = static_shape(sizes)
    need_blocks("mk.reshape", target)
    return block if target == block.shape else emit("reshape", block, shape=target)


def view(x: Operand, *shape: Any) -> Block:
    """The same as `reshape`."""
    return reshape(x, *shape)


def ravel(x: Operand) -> Block:
    """All elements as one axis, in row-major order."""
    return reshape(x, -1)


def permute(x: Operand, *order: Any) -> Block:
    """Axis i of the result is axis order[i] of x."""
    block = as_block(x)
    axes = tuple(static_axis("permute", axis, block.ndim) for axis in integers(order))
    if axes == tuple(range(block.ndim)):
        return block
    return emit("permute", block, order=axes)


def trans(x: Operand, *order: Any) -> Block:
    """x with its last two axes swapped, or permuted by `order`."""
    block = as_block(x)
    if order:
        return permute(block, *order)
    if block.ndim < 2:
        raise ShapeMismatch(
            f"trans needs at least two axes, got {block.type}",
            hint="x[:, None] makes a column of a vector",
            loc=current().here(),
        )
    return permute(block, *range(block.ndim - 2), -1, -2)


def broadcast_to(x: Operand, *shape: Any) -> Block:
    """x repeated along new leading axes and axes of extent 1."""
    target = static_shape(integers(shape))
    need_blocks("mk.broadcast_to", target)
    return values.broadcast_to(as_block(x), target)


def broadcast(a: Operand, b: Operand) -> tuple[Block, Block]:
    """Both operands in their common shape; dtypes stay."""
    left, right = as_block(a), as_block(b)
    shape = common_shape("broadcast", [left.shape, right.shape])
    return values.broadcast_to(left, shape), values.broadcast_to(right, shape)


def expand_dims(x: Operand, axis: Any) -> Block:
    """x with a new axis of extent 1 at `axis` (one or several positions in the result)."""
    block = as_block(x)
    positions = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = block.ndim + len(positions)
    for position in sorted(static_axis("expand_dims", p, rank) for p in positions):
        need_blocks("mk.expand_dims", (*block.shape, 1))
        block = emit("expand_dims", block, axis=position)
    return block


def unsqueeze(x: Operand, axis: Any) -> Block:
    """The same as `expand_dims`."""
    return expand_dims(x, axis)


def squeeze(x: Operand, axis: Any = None) -> Block:
    """x without its axes of extent 1, or without one of them."""
    block = as_block(x)
    gone = (
        [i for i, n in enumerate(block.shape) if n == 1]
        if axis is None
        else [static_axis("squeeze", axis, block.ndim)]
    )
    if any(block.shape[i] != 1 for i in gone):
        raise ShapeMismatch(
            f"squeeze of axis {gone[0]} of {block.type}, which has {block.shape[gone[0]]} elements",
            hint="only axes of extent 1 can go",
            loc=current().here(),
        )
    return reshape(block, tuple(n for i, n in enumerate(block.shape) if i not in gone))


def join(a: Operand, b: Operand) -> Block:
    """A new last axis of extent 2 that holds a and b, promoted and broadcast to each other."""
    left, right = fit("join", [a, b])
    need_blocks("mk.join", (*left.shape, 2))
    return emit("join", left, right)


def split(x: Operand) -> tuple[Block, Block]:
    """The two halves of a last axis of extent 2."""
    first, second = emit_inst("split", as_block(x)).outs
    return Block(first), Block(second)


def cat(a: Operand, b: Operand, axis: int = 0) -> Block:
    """b after a along an axis; dtypes are promoted."""
    values.check_operands("cat", (a, b))
    dtype = values.common_dtype([a, b])
    left, right = cast_to(as_block(a), dtype), cast_to(as_block(b), dtype)
    return emit("cat", left, right, axis=static_axis("cat", axis, left.ndim))


def interleave(a: Operand, b: Operand) -> Block:
    """a[0], b[0], a[1], b[1], ... along the last axis, which doubles."""
    joined = join(a, b)
    if joined.ndim == 1:
        return joined
    return reshape(joined, *joined.shape[:-2], 2 * joined.shape[-2])


def flip(x: Operand, axis: int = -1) -> Block:
    """The elements along an axis in opposite order."""
    block = as_block(x)
    return emit("flip", block, axis=static_axis("flip", axis, block.ndim))


def gather(src: Operand, index: Operand, axis: int) -> Block:
    """src taken at integer `index` along an axis; an index outside of the axis is an error."""
    source, where = as_block(src), as_block(index)
    return emit("gather", source, where, axis=static_axis("gather", axis, source.ndim))
