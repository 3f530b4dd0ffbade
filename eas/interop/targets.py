"""Dtypes and devices as users name them."""

from __future__ import annotations

from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import EasError, TypeMismatch

DTypeLike = Any  # a DType, its name, or a NumPy or torch dtype


class UnknownDevice(EasError, ValueError):
    """A device of that name does not exist."""


def as_dtype(dtype: DTypeLike) -> DType:
    """The element type that a DType, a name, or a NumPy or torch dtype stands for."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, np.dtype | type):
        return dtypes.from_numpy(np.dtype(dtype))
    return dtypes.parse(str(dtype).removeprefix("torch."))


def names_dtype(target: object) -> bool:
    """Tell a dtype from a device, for `x.to(target)`."""
    if isinstance(target, DType | np.dtype | type) or str(target).startswith("torch."):
        return True
    if str(target).partition(":")[0] in ("cpu", "mps", "metal"):
        return False
    try:
        dtypes.parse(str(target))
    except TypeMismatch:
        raise UnknownDevice(
            f"there is no device or dtype named {str(target)!r}",
            hint='x.to("cpu"), x.to("f32") or x.to(eas.dtypes.f32)',
        ) from None
    return True
