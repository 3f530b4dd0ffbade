"""Boxes of a tensor in memory: the pointers and masks behind block pointers and tensor descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from eas.base import dtypes
from eas.frontend import values
from eas.frontend.block import Block
from eas.frontend.lang.memory import shift
from eas.frontend.lang.shape import need_blocks, reshape
from eas.frontend.values import cast_to, emit, is_number, plain
from eas.triton.language import meaning
from eas.triton.language.meaning import refuse
from eas.triton.language.types import block_type, dtype, of_eas, pointer_type, unwrapped


class Box(NamedTuple):
    """The addresses of a block of a tensor, and which of them lie inside of it."""

    pointers: Block
    masks: list[Block]
    """One mask, or none if all do."""


class BlockPointer(NamedTuple):
    """A block of a tensor: where it starts, in elements along each axis. A loop carries it as the tuple that it is."""

    base: Block
    sizes: tuple[Any, ...]
    steps: tuple[Any, ...]
    offsets: tuple[Any, ...]
    block_shape: tuple[int, ...]

    def advance(self, offsets: Sequence[Any]) -> BlockPointer:
        """The block that many elements further."""
        return advance(self, offsets)

    @property
    def dtype(self) -> dtype:
        return pointer_type(of_eas(self.base.dtype))

    @property
    def type(self) -> pointer_type:
        return pointer_type(block_type(of_eas(self.base.dtype), self.block_shape))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.block_shape


def scalars(word: str, given: Any) -> tuple[Any, ...]:
    """Integers known while tracing, and integer scalars."""
    items = given if isinstance(given, (tuple, list)) else (given,)
    found = tuple(unwrapped(x) for x in items)
    for x in found:
        if isinstance(x, Block) and (x.shape or not x.type.is_value or x.dtype.is_float):
            refuse(f"the {word} are integer scalars, got {x!r}", "reduce the block to a scalar, or cast it")
    return found


def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> BlockPointer:
    """A pointer to a block of a tensor; the order is a hint and has no effect."""
    if not isinstance(base, Block) or not base.type.is_pointer or base.shape:
        refuse(f"the base of make_block_ptr is a pointer, got {base!r}", "pass a kernel's tensor argument, plus a scalar offset")
    sizes, steps, starts = scalars("shape", shape), scalars("strides", strides), scalars("offsets", offsets)
    block = tuple(values.static_int(n, "a block shape") for n in block_shape)
    if not len(sizes) == len(steps) == len(starts) == len(block):
        refuse("Expected shape/strides/offsets/block_shape to have the same length", "give one number per axis")
    return BlockPointer(base, sizes, steps, starts, block)


def advance(base: Any, offsets: Any) -> BlockPointer:
    """The block that many elements further along each axis."""
    moves = scalars("offsets", offsets)
    if not isinstance(base, BlockPointer) or len(moves) != len(base.offsets):
        refuse(f"advance takes a block pointer and an offset per axis, got {base!r}", "tl.make_block_ptr makes one")
    return base._replace(offsets=tuple(meaning.binary("add", a, b) for a, b in zip(base.offsets, moves, strict=True)))


def box_of(pointer: BlockPointer, boundary_check: Any) -> Box:
    """The box of a block pointer; only the checked axes are bounded."""
    checked = boundary_check if isinstance(boundary_check, (tuple, list)) else (boundary_check,)
    rank = len(pointer.block_shape)
    axes = {unwrapped(axis) % rank for axis in checked}
    return make_box(pointer.base, pointer.sizes, pointer.steps, pointer.offsets, pointer.block_shape, axes)


def make_box(base: Block, sizes: Sequence[Any], steps: Sequence[Any], offsets: Sequence[Any], block: Sequence[int], checked: set[int]) -> Box:
    """The box of a block at some offsets."""
    shape = tuple(block)
    need_blocks("a block pointer", shape)
    places = []
    for axis, offset in enumerate(offsets):
        lanes = emit("arange", start=0, end=shape[axis])
        places.append(reshape(meaning.binary("add", lanes, offset), [n if i == axis else 1 for i, n in enumerate(shape)]))
    return make_box_at(base, sizes, steps, places, shape, checked)


def make_box_at(base: Block, sizes: Sequence[Any], steps: Sequence[Any], places: Sequence[Block], shape: tuple[int, ...], checked: set[int]) -> Box:
    """The box of elements whose places along each axis are given; addresses have 64 bits where strides are not 1."""
    pointers, mask = base, None
    for axis, (size, step, place) in enumerate(zip(sizes, steps, places, strict=True)):
        if axis in checked:
            inside = _is_inside(place, size)
            mask = inside if mask is None else meaning.binary("and", mask, inside)
        far = place if is_number(step) and plain(step) == 1 else meaning.binary("mul", cast_to(place, dtypes.i64), step)
        common = values.common_shape("a block", [pointers.shape, far.shape])
        pointers = shift("a block", values.broadcast_to(pointers, common), values.broadcast_to(far, common))
    return Box(values.broadcast_to(pointers, shape), [] if mask is None else [values.broadcast_to(mask, shape)])


def _is_inside(place: Block, size: Any) -> Block:
    """0 <= place < size; sizes of another type are compared in 64 bits."""
    if not is_number(size) and size.dtype is not place.dtype:
        size, below = cast_to(size, dtypes.i64), cast_to(place, dtypes.i64)
    else:
        below = place
    return emit("and", meaning.binary("ge", place, 0), meaning.binary("lt", below, size))
