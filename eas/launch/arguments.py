"""What a launch looks at in its arguments: their types, and whether they are plain memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eas.base import dtypes
from eas.compiler import CompiledKernel
from eas.interop.arguments import is_scalar, view

if TYPE_CHECKING:
    pass

_SCALARS = (int, float, bool)
Array = np.ndarray[Any, np.dtype[Any]]


def type_key(value: Any, name: str) -> Any:
    """Equal for arguments for which the same kernel is compiled."""
    if value is None:
        return "none"
    if is_scalar(value):
        return dtypes.of_scalar(value).name
    dtype = getattr(value, "dtype", None)
    # Arrays of equal dtype share a kernel whatever library they come from; NumPy's own are looked at most often.
    return dtype if isinstance(dtype, np.dtype) else _in_numpy(view(value, name).dtype)


def _in_numpy(dtype: dtypes.DType) -> Any:
    """The dtype of equal arrays of NumPy, which has no bf16 and fp8: those stay what they are."""
    return dtype.np_storage if dtype.np_storage == dtype.np_compute and not dtype.is_storage_only else dtype


def plain_arrays(compiled: CompiledKernel, given: Mapping[str, Any]) -> dict[str, Array] | None:
    """The memory of the buffers, flat, if all are NumPy arrays that a kernel can use as they are."""
    arrays: dict[str, Array] = {}
    for name, value in given.items():
        if type(value) is not np.ndarray:
            if type(value) in _SCALARS:
                continue
            return None
        flags = value.flags
        is_usable = flags.c_contiguous and flags.aligned and (flags.writeable or name not in compiled.writes)
        if not is_usable or value.dtype is not compiled._storage[name]:
            return None
        arrays[name] = value if value.ndim == 1 else value.reshape(-1)
    return arrays
