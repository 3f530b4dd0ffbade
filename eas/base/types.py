"""The type of an IR value: a dtype, a static block shape, and the memory space of a pointer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from eas.base.dtypes import DType


class Space(Enum):
    """What a value is: plain numbers, a pointer into a memory space, or a simdgroup fragment."""

    VALUE = "value"
    DEVICE = "ptr"
    THREADGROUP = "tg_ptr"
    SIMDGROUP = "frag"
    SCRATCH = "scratch_ptr"

    __hash__ = object.__hash__  # that of Enum is slow, and types are keys all the time


_VALUE = Space.VALUE  # looking up a member of an Enum is slow, and types are asked all the time
_POINTERS = (Space.DEVICE, Space.THREADGROUP, Space.SCRATCH)
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Type:
    """`f32[16,16]`, `ptr<f32>[256]`, `frag<f32>[8,8]`; the empty shape is a scalar."""

    dtype: DType
    shape: Shape = ()
    space: Space = Space.VALUE

    @property
    def is_pointer(self) -> bool:
        return self.space in _POINTERS

    @property
    def is_value(self) -> bool:
        return self.space is _VALUE

    @property
    def is_scalar(self) -> bool:
        return not self.shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    def with_shape(self, shape: Shape) -> Type:
        return replace(self, shape=shape)

    def with_dtype(self, dtype: DType) -> Type:
        return replace(self, dtype=dtype)

    def __str__(self) -> str:
        element = self.dtype.name if self.is_value else f"{self.space.value}<{self.dtype.name}>"
        return f"{element}[{','.join(map(str, self.shape))}]" if self.shape else element
