"""torch tensors on mps with the words of a NumPy array, so that one function of eas.lib is enough for all."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from eas.base.dtypes import DType
from eas.interop.targets import as_dtype
from eas.interop.torch import torch_dtype
from eas.interop.views import ArgView, view


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
