"""What the functions of eas.lib ask of their arrays, refused in words of the caller."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import ArgumentError
from eas.interop.devices import CPU, Device
from eas.lib.faces.torch_arrays import TorchArray
from eas.tensor import Tensor, empty, new

# NumPy arrays here; an eas.Tensor has what is asked of them, and may stand in their place.
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_SMALL_NBYTES = 1 << 14


def need(ok: bool, message: str | Callable[[], str]) -> None:
    """Refuse arguments that do not fit together; a message that shows dtypes takes longer to write than a small launch."""
    if not ok:
        raise ArgumentError(message if isinstance(message, str) else message())


def dtype_of(x: Any) -> DType:
    """The element type of a NumPy array or an eas.Tensor."""
    return as_dtype(x.dtype)


@functools.cache
def as_dtype(dtype: Any) -> DType:
    """The element type that NumPy or eas calls so."""
    return dtype if isinstance(dtype, DType) else dtypes.from_numpy(np.dtype(dtype))


@functools.cache
def lowest(dtype: Any) -> float | int:
    """What no element of a dtype is below."""
    kind = as_dtype(dtype)
    return -math.inf if kind.is_float else int(kind.min)


def is_float(x: Array) -> bool:
    return dtype_of(x).is_float


def need_float(x: Array, name: str) -> None:
    if not as_dtype(x.dtype).is_float:
        raise ArgumentError(f"{name} needs floats, got {x.dtype}")


def check_small(*arrays: Array) -> None:
    """Offsets of these kernels are i32."""
    for a in arrays:
        if a.size >= 2**31:
            check_count(a.size)


def check_count(elements: int) -> None:
    if elements >= 2**31:
        raise ArgumentError(f"an array of {elements} elements is too large: offsets are 32 bits")


def check_rows(x: Array) -> tuple[int, int]:
    """(rows, columns) of an array of any leading shape, seen as rows along its last axis."""
    shape, size = x.shape, x.size
    if not shape or shape[-1] <= 0:
        raise ArgumentError(f"expected rows along the last axis, got shape {shape}")
    check_count(size)
    return size // shape[-1], shape[-1]


def check_vector(v: Array, length: int, name: str) -> None:
    if v.shape != (length,):
        raise ArgumentError(f"{name} has shape {v.shape}, expected ({length},)")


def result(out: Array | None, shape: tuple[int, ...], dtype: Any, like: Any = None) -> Array:
    """`out` if it fits, or a new array: NumPy's, or an eas.Tensor on the device of `like`."""
    if out is None:
        made: Array = _new(shape, dtype, like)
        return made
    if out.shape != tuple(shape) or (out.dtype is not dtype and dtype_of(out) is not as_dtype(dtype)):
        raise ArgumentError(_misfit(out, shape, dtype))
    return out


def _misfit(out: Array, shape: tuple[int, ...], dtype: Any) -> str:
    shown = dtype if isinstance(dtype, DType) else np.dtype(dtype)
    return f"out is {out.dtype}{list(out.shape)}, expected {shown}{list(shape)}"


def _new(shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    if type(like) is np.ndarray and not isinstance(dtype, DType):
        return np.empty(shape, dtype)
    if isinstance(like, TorchArray):
        return like.new(shape, as_dtype(dtype))
    if isinstance(like, Tensor):
        return _new_tensor(shape, as_dtype(dtype), like._device)
    return empty(shape, dtype=dtype) if isinstance(dtype, DType) else np.empty(shape, dtype)


def _new_tensor(shape: tuple[int, ...], dtype: DType, device: Device) -> Tensor:
    if device is CPU and math.prod(shape) * dtype.nbytes <= _SMALL_NBYTES:  # the pool takes longer than a small kernel
        return Tensor._made(np.empty(shape, dtype.np_storage), dtype)
    return new(shape, dtype, device)


def fill(x: Any, value: Any) -> None:
    """Overwrite every element with a number, or with those of an array, unless that is `x` itself."""
    if isinstance(x, TorchArray):
        _fill_torch(x, value)
        return
    memory = x._stored if isinstance(x, Tensor) else x
    given = value._stored if isinstance(value, Tensor) else value
    if isinstance(given, np.ndarray) and np.may_share_memory(memory, given):
        return
    if isinstance(x, Tensor):
        x.copy_(value)
    else:
        x[...] = value


def _fill_torch(x: TorchArray, value: Any) -> None:
    if not isinstance(value, TorchArray):
        x.tensor.fill_(value)
    elif not x.shares_memory(value):
        x.tensor.copy_(value.tensor)


def flat(x: Any, *shape: int) -> Array | None:
    """The same memory in another shape, or None for a strided array, of which only a copy has it."""
    made = x.reshape(shape)
    if isinstance(x, TorchArray):
        return made if x.shares_memory(made) else None
    memory, given = (a._stored if isinstance(a, Tensor) else a for a in (made, x))
    return made if np.may_share_memory(memory, given) else None


def leading(shape: tuple[int, ...]) -> int:
    """How many there are of what the axes after these describe."""
    return math.prod(shape)
