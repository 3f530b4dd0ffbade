"""What a launch looks at in its arguments: their types, and whether they are plain memory."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from eas.base import dtypes
from eas.compiler import CompiledKernel
from eas.interop.arguments import is_scalar, view

if TYPE_CHECKING:
    from eas.kernel import Kernel

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


def evaluated_grid(kernel: Kernel, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A grid given as a function of one mapping as the tuple that it gives; else the grid itkernel."""
    if type(grid) is FunctionType and not grid.__dict__ and grid.__code__.co_argcount == 1 and not grid.__code__.co_flags & inspect.CO_VARARGS:
        named = {**dict(zip(kernel._names, args, strict=False)), **kwargs}
        if len(named) < len(kernel._names):
            named = {**kernel._defaults_by_name, **named}
        is_stale = kernel.fn.__defaults__ is not kernel._defaults[1] or kernel.fn.__kwdefaults__ is not kernel._defaults[2]
        if is_stale or len(args) > len(kernel._names) or len(named) != len(kernel._names) or not kwargs.keys() <= kernel._index.keys():
            return grid  # such a call needs to be looked at first
        found = grid(named)
        return found if type(found) is tuple and all(type(n) is int for n in found) else (found,) if type(found) is int else grid
    return grid
