"""torch tensors as the arrays that eas.lib takes, and back; on mps with the words of a NumPy array."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from eas.base.dtypes import DType
from eas.interop.arg_view import ArgView, is_torch_tensor
from eas.interop.targets import as_dtype
from eas.interop.torch import torch_dtype
from eas.interop.views import view
from eas.tensor import Tensor, from_torch


class TorchArray:
    """A torch tensor that a kernel of eas.lib takes; new arrays that it asks for are torch tensors, too."""

    __slots__ = ("dtype", "tensor")
    device = "mps"

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.dtype: DType = as_dtype(tensor.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return int(self.tensor.dim())

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def reshape(self, *shape: Any) -> TorchArray:
        return TorchArray(self.tensor.reshape(*shape))

    def swapaxes(self, first: int, second: int) -> TorchArray:
        return TorchArray(self.tensor.transpose(first, second))

    def __getitem__(self, index: Any) -> TorchArray:
        return TorchArray(self.tensor[index])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.tensor.detach().cpu().numpy(), dtype=dtype)

    def __eas_view__(self) -> ArgView:
        return view(self.tensor, "tensor")

    def new(self, shape: tuple[int, ...], dtype: DType) -> TorchArray:
        """A new array on the same device."""
        torch = sys.modules["torch"]
        return TorchArray(torch.empty(shape, dtype=torch_dtype(torch, dtype), device=self.tensor.device))

    def shares_memory(self, other: TorchArray) -> bool:
        return bool(self.tensor.untyped_storage()._cdata == other.tensor.untyped_storage()._cdata)

    def spread(self, shape: tuple[int, ...]) -> TorchArray:
        """The same elements, repeated along new axes and axes of one; raises ValueError where that is impossible."""
        try:
            return TorchArray(self.tensor.expand(shape))
        except RuntimeError as error:
            raise ValueError(str(error)) from None


def as_array(value: Any) -> Any:
    """The memory of a torch tensor as a NumPy array, as an eas.Tensor where NumPy lacks the dtype, or itself where torch's stream has it."""
    if not is_torch_tensor(value):
        return value
    if value.device.type == "mps":
        return TorchArray(value)
    shared = from_torch(value)
    return shared.numpy() if shared.dtype.np_storage == shared.dtype.np_compute else shared


def as_torch(made: Any, device: Any = "cpu") -> Any:
    """A result as a torch tensor on that device: on the same memory, if it lives there."""
    torch = sys.modules["torch"]
    if isinstance(made, tuple):
        return tuple(as_torch(part, device) for part in made)
    if isinstance(made, TorchArray):
        return made.tensor
    if isinstance(made, Tensor):
        return made.to_torch()
    return torch.from_numpy(np.asarray(made)).to(device)
