"""`triton.tools.tensor_descriptor`: a tensor and the shape of its blocks, as an argument of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eas.base.errors import ArgumentError


@dataclass
class TensorDescriptor:
    """A tensor in memory, which a kernel reads and writes block by block."""

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        if not len(self.shape) == len(self.strides) == len(self.block_shape) > 0:
            raise ArgumentError(f"a descriptor with {len(self.shape)} extents, {len(self.strides)} strides and a block of {len(self.block_shape)} axes", hint="give one number per axis")
        if self.strides[-1] != 1:
            raise ArgumentError(f"Last dimension must be contiguous, got a stride of {self.strides[-1]}", hint="pass a contiguous tensor")
        if self.padding not in ("zero", "nan"):
            raise ArgumentError(f"padding {self.padding!r}", hint="it is zero or nan")

    @staticmethod
    def from_tensor(tensor: Any, block_shape: Sequence[int], padding: str = "zero", round_f32_to_tf32: bool = False) -> TensorDescriptor:
        """The descriptor of a whole tensor."""
        return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block_shape, padding, round_f32_to_tf32)
