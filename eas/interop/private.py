"""Arguments in memory that only the GPU sees: `array` is their layout, and copies of them are made by the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base.dtypes import DType
from eas.interop.arg_view import ArgView
from eas.interop.devices import Device

Array = NDArray[Any]


class PrivateView(ArgView):
    """Private memory of a device as an argument."""

    __slots__ = ("home_device",)
    is_private = True

    def __init__(self, name: str, dtype: DType, array: Array, owner: object, home: Device, *, readonly: bool = False, requires_grad_leaf: bool = False) -> None:
        super().__init__(name, dtype, array, owner, readonly=readonly, device=home.name, requires_grad_leaf=requires_grad_leaf)
        self.home_device = home

    def copied(self) -> Array:
        return self.home_device.cloned(self.array).reshape(-1)

    def blank(self) -> Array:
        return self.home_device.new_array((self.array.size,), self.array.dtype)

    def write_back(self, copy: Any) -> None:
        if not isinstance(copy, np.ndarray):
            self.home_device.fill(self.array, np.asarray(copy, self.array.dtype))
            return
        assert self.home_device.copy is not None
        self.home_device.copy(self.array, copy.reshape(self.shape))

    def named(self, name: str) -> PrivateView:
        return type(self)(name, self.dtype, self.array, self.owner, self.home_device, readonly=self.readonly, requires_grad_leaf=self.requires_grad_leaf)


class SharedPrivateView(PrivateView):
    """Private memory that torch's stream uses, too: our launches on it end before torch goes on."""

    __slots__ = ()
    must_finish = True
