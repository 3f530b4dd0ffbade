"""Arguments of a launch as memory: a tensor is the address of its first element, and the kernel counts its own strides."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from eas.base.errors import ArgumentError
from eas.interop.arg_view import reach_of

PLAIN = frozenset({int, float, bool, type(None)})


class TensorWrapper:
    """A tensor whose elements are taken for those of another dtype of as many bytes."""

    def __init__(self, base: Any, dtype: Any) -> None:
        self.base, self.dtype, self.device, self.shape = base, dtype, base.device, base.shape
        self.memory = _taken_for(base, dtype)

    def data_ptr(self) -> int:
        return int(self.base.data_ptr())

    def stride(self, *axes: int) -> Any:
        return self.base.stride(*axes)

    def element_size(self) -> int:
        return int(self.base.element_size())

    def cpu(self) -> TensorWrapper:
        return TensorWrapper(self.base.cpu(), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        self.base.copy_(other.base)

    def clone(self) -> TensorWrapper:
        return TensorWrapper(self.base.clone(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __repr__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


_TORCH_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2", "int1": "bool"}


def _taken_for(base: Any, dtype: Any) -> Any:
    import torch

    name = _TORCH_NAMES.get(dtype.name, dtype.name)
    wanted = getattr(torch, name, None)
    if wanted is None:
        raise ArgumentError(f"a tensor cannot be taken for elements of {dtype}", hint="torch has no such dtype")
    return base if base.dtype is wanted else base.view(wanted)


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """The same memory as elements of another dtype of as many bytes."""
    if isinstance(tensor, TensorWrapper):
        return tensor.base if dtype == tensor.base.dtype else TensorWrapper(tensor.base, dtype)
    if hasattr(tensor, "data_ptr"):
        return TensorWrapper(tensor, dtype)
    raise TypeError(f"Cannot reinterpret a {type(tensor)}.")


def _of_torch(tensor: Any) -> Any:
    """All memory from the first element to the end of its storage, as one axis."""
    if tensor.requires_grad:
        tensor = tensor.data  # a launch is no operation that autograd sees, whatever it writes
    if tensor._base is None and tensor.is_contiguous():
        return tensor
    rest = tensor.untyped_storage().nbytes() // tensor.itemsize - tensor.storage_offset()
    if not tensor.numel() or (rest == tensor.numel() and tensor.is_contiguous()):
        return tensor
    return tensor.as_strided((rest,), (1,))


def _of_numpy(array: Any) -> Any:
    """The memory from the first element to the last, as one axis."""
    if array.flags.c_contiguous:
        return array
    strides = tuple(step // array.itemsize for step in array.strides)
    if any(step < 0 and n > 1 for n, step in zip(array.shape, strides, strict=True)):
        raise ArgumentError(f"an array with negative strides {strides}: the kernel would read in front of its first element", hint="pass np.ascontiguousarray(x)")
    return np.lib.stride_tricks.as_strided(array, (reach_of(array.shape, strides),), (array.itemsize,))


KNOWN: dict[type, Callable[[Any], Any]] = {np.ndarray: _of_numpy, TensorWrapper: lambda x: _of_torch(x.memory)}


def memory(value: Any) -> Any:
    """An argument as what the kernel's launcher takes."""
    made = KNOWN.get(type(value)) or _way(value)
    return made(value)


def is_memory(value: Any) -> bool:
    """Whether an argument is a tensor or array."""
    return type(value) in KNOWN or hasattr(value, "__array_interface__") or hasattr(value, "data_ptr") or hasattr(value, "__dlpack__")


def _way(value: Any) -> Callable[[Any], Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        KNOWN[type(value)] = _of_torch
        return _of_torch
    return lambda x: x
