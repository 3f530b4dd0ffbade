"""Tensor descriptors: blocks of a tensor at offsets, always bounded."""

from __future__ import annotations

from typing import Any, NamedTuple

from eas.frontend import values
from eas.frontend.block import Block
from eas.frontend.lang.shape import reshape
from eas.frontend.values import emit
from eas.triton.language import meaning
from eas.triton.language.boxes import Box, make_box, make_box_at, scalars
from eas.triton.language.meaning import refuse
from eas.triton.language.memory import box_atomic, load_box, store_box
from eas.triton.language.types import block_type, of_eas, unwrapped
from eas.triton.language.types import dtype as Dtype


class tensor_descriptor(NamedTuple):  # lower case: it is Triton's name
    """A tensor in memory and the shape of the blocks that are read and written; what lies outside is 0 (or NaN), and not written."""

    base: Block
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    block_shape: tuple[int, ...]
    padding: str

    @property
    def dtype(self) -> Dtype:
        return of_eas(self.base.dtype)

    @property
    def type(self) -> Dtype:
        return block_type(of_eas(self.base.dtype), self.block_shape)

    def __getattr__(self, name: str) -> Any:
        if name == "block_type":
            return self.type
        raise AttributeError(name)

    def _box(self, offsets: Any) -> Box:
        places = scalars("offsets", offsets)
        if len(places) != len(self.block_shape):
            refuse(f"expected {len(self.block_shape)} offsets, but got {len(places)}", "give one offset per axis")
        return make_box(self.base, self.shape, self.strides, places, self.block_shape, set(range(len(places))))

    def load(self, offsets: Any, cache_modifier: Any = "", eviction_policy: Any = "") -> Block:
        """The block at some offsets."""
        return load_box(self._box(offsets), self.padding)

    def store(self, offsets: Any, value: Any) -> None:
        """Write the block at some offsets."""
        store_box(self._box(offsets), value)

    def atomic_add(self, offsets: Any, value: Any) -> None:
        """memory += value inside of the tensor."""
        box_atomic("atomic_add", self._box(offsets), value)

    def atomic_min(self, offsets: Any, value: Any) -> None:
        """memory = min(memory, value) inside of the tensor."""
        box_atomic("atomic_min", self._box(offsets), value)

    def atomic_max(self, offsets: Any, value: Any) -> None:
        """memory = max(memory, value) inside of the tensor."""
        box_atomic("atomic_max", self._box(offsets), value)

    def atomic_and(self, offsets: Any, value: Any) -> None:
        """memory &= value inside of the tensor."""
        box_atomic("atomic_and", self._box(offsets), value)

    def atomic_or(self, offsets: Any, value: Any) -> None:
        """memory |= value inside of the tensor."""
        box_atomic("atomic_or", self._box(offsets), value)

    def atomic_xor(self, offsets: Any, value: Any) -> None:
        """memory ^= value inside of the tensor."""
        box_atomic("atomic_xor", self._box(offsets), value)

    def _rows(self, rows: Block, column: Any) -> Box:
        """The box of some rows, from a column on."""
        if len(self.block_shape) != 2 or self.block_shape[0] != 1:
            refuse(f"descriptor block must have 1 row, and two axes, but got {list(self.block_shape)}", "block_shape=[1, n]")
        shape = (rows.shape[0], self.block_shape[1])
        column = meaning.binary("add", emit("arange", start=0, end=shape[1]), column)
        places = (reshape(rows, [shape[0], 1]), reshape(column, [1, shape[1]]))
        return make_box_at(self.base, self.shape, self.strides, places, shape, {0, 1})

    def gather(self, x_offsets: Any, y_offset: Any) -> Block:
        """Rows of the tensor, from a column on."""
        return load_box(self._rows(x_offsets, y_offset), self.padding)

    def scatter(self, value: Any, x_offsets: Any, y_offset: Any) -> None:
        """Write rows of the tensor, from a column on."""
        store_box(self._rows(x_offsets, y_offset), value)


def make_tensor_descriptor(base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero") -> tensor_descriptor:
    """A descriptor of a tensor in memory."""
    if not isinstance(base, Block) or not base.type.is_pointer or base.shape:
        refuse(f"the base of make_tensor_descriptor is a pointer, got {base!r}", "pass a kernel's tensor argument, plus a scalar offset")
    sizes, steps = scalars("shape", shape), scalars("strides", strides)
    block = tuple(values.static_int(n, "a block shape") for n in block_shape)
    if not 1 <= len(sizes) <= 5 or not len(sizes) == len(steps) == len(block):
        refuse(f"Expected {len(sizes)} strides and block extents, got {len(steps)} and {len(block)}", "give one number per axis, of at most 5")
    return tensor_descriptor(base, sizes, steps, block, str(unwrapped(padding_option)))
