"""What the functions of eas.lib ask of their arrays, refused in words of the caller."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from eas import dtypes
from eas.dtypes import DType
from eas.errors import ArgumentError
from eas.lib.torch_arrays import TorchArray
from eas.tensor import Tensor, empty

# NumPy arrays here; an eas.Tensor has what is asked of them, and may stand in their place.
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def need(ok: bool, message: str | Callable[[], str]) -> None:
    """Refuse arguments that do not fit together; a message that shows dtypes takes longer to write than a small launch."""
    if not ok:
        raise ArgumentError(message if isinstance(message, str) else message())


def dtype_of(x: Any) -> DType:
    """The element type of a NumPy array or an eas.Tensor."""
    return as_dtype(x.dtype)


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
    need(is_float(x), lambda: f"{name} needs floats, got {x.dtype}")


def check_small(*arrays: Array) -> None:
    """Offsets of these kernels are i32."""
    check_count(max(a.size for a in arrays))


def check_count(elements: int) -> None:
    need(elements < 2**31, lambda: f"an array of {elements} elements is too large: offsets are 32 bits")


def check_rows(x: Array) -> tuple[int, int]:
    """(rows, columns) of an array of any leading shape, seen as rows along its last axis."""
    need(x.ndim >= 1 and x.shape[-1] > 0, lambda: f"expected rows along the last axis, got shape {x.shape}")
    check_small(x)
    return x.size // x.shape[-1], x.shape[-1]


def check_vector(v: Array, length: int, name: str) -> None:
    need(v.shape == (length,), lambda: f"{name} has shape {v.shape}, expected ({length},)")


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
    if isinstance(like, TorchArray):
        return like.new(shape, as_dtype(dtype))
    if isinstance(like, Tensor):
        return empty(shape, dtype=as_dtype(dtype), device=like.device)
    return empty(shape, dtype=dtype) if isinstance(dtype, DType) else np.empty(shape, dtype)


def fill(x: Any, value: Any) -> None:
    """Overwrite every element with a number, or with those of an array, unless that is `x` itself."""
    if isinstance(x, TorchArray):
        _fill_torch(x, value)
        return
    memory = x._array if isinstance(x, Tensor) else x
    given = value._array if isinstance(value, Tensor) else value
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
    memory, given = (a._array if isinstance(a, Tensor) else a for a in (made, x))
    return made if np.may_share_memory(memory, given) else None


def leading(shape: tuple[int, ...]) -> int:
    """How many there are of what the axes after these describe."""
    return math.prod(shape)
