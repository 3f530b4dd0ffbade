"""New CPU memory: aligned arrays in storage form, and the Python numbers that go into them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.errors import ArgumentError
from eas.interop.devices import CPU, Device
from eas.interop.targets import DTypeLike, as_dtype
from eas.runtime.copies import told

Array = NDArray[Any]
PYTHON = "python"
"""Where numbers and lists are from."""


def allocate(shape: tuple[int, ...], dtype: DType, device: Device = CPU) -> Array:
    """An aligned array with arbitrary contents."""
    if shape and min(shape) < 0:
        raise ArgumentError(f"a tensor cannot have shape {shape}", hint="use sizes of 0 and more")
    nbytes = math.prod(shape) * dtype.nbytes
    return np.ndarray(shape, dtype.np_storage, device.allocate(nbytes))


def stored(storage: Array, dtype: DType, device: Device = CPU, source: str = "cpu") -> Array:
    """A contiguous, aligned copy of an array in storage form; `source` is where the values are from."""

    def copy() -> Array:
        made = allocate(storage.shape, dtype, device)
        device.fill(made, storage)
        return made

    return told(device.name, source, storage.nbytes, copy)


def converted(values: Array, source: DType, wanted: DType, device: Device = CPU, home: str = "cpu") -> Array:
    """New memory with the values of a compute array that is from `home`, cast to another type and rounded once."""
    storage = numerics.encode(numerics.cast(values, source, wanted), wanted)
    return stored(np.asarray(storage), wanted, device, home)


def readable(data: object) -> object:
    """`data` itself if it may have memory to share, else a NumPy copy of it."""
    if isinstance(data, np.ndarray) and not data.dtype.isnative:
        return data.astype(data.dtype.newbyteorder("="))
    has_memory = isinstance(data, np.ndarray) or hasattr(data, "__array_interface__")
    if hasattr(data, "__array__") and not has_memory and not hasattr(data, "__eas_view__"):
        return np.asarray(data)
    return data


def of_numbers(data: object, dtype: DTypeLike = None) -> tuple[Array, DType]:
    """Memory for a number or nested lists of them; Python numbers choose a dtype by value."""
    try:
        values = np.array(data)
    except ValueError as error:
        raise ArgumentError(
            f"cannot make a tensor of this {type(data).__name__}: {error}",
            hint="give every row the same length",
        ) from None
    if not _is_weak(data):
        return _of_values(values, values.dtype if dtype is None else dtype)
    if values.dtype == np.float64 and np.any(np.abs(values) >= 2.0**63):
        values = _exact_ints(data, values)
    return of_weak(values, dtype)


def of_weak(values: Array, dtype: DTypeLike = None) -> tuple[Array, DType]:
    """Memory for Python numbers in a NumPy array: bool, f32, and i32, i64 or u64 by value."""
    if values.dtype.kind not in "iu":
        default = dtypes.f32 if values.dtype.kind == "f" else values.dtype
        return _of_values(values, default if dtype is None else dtype)
    hi, lo = (int(values.max()), int(values.min())) if values.size else (0, 0)
    # Only `hi` can need u64, and then it stands before an `lo` of as many bits.
    by_value = max(dtypes.weak_default(hi), dtypes.weak_default(lo), key=lambda d: d.bits)
    wanted = by_value if dtype is None else as_dtype(dtype)
    if wanted.is_int and not (wanted.min <= lo and hi <= wanted.max):
        raise ArgumentError(
            f"{hi if hi > wanted.max else lo} does not fit {wanted.name}",
            hint=f"use a wider dtype, or numbers in [{wanted.min}, {wanted.max}]",
        )
    return _of_values(values, wanted)


def _of_values(values: Array, dtype: DTypeLike) -> tuple[Array, DType]:
    source, wanted = dtypes.from_numpy(values.dtype), as_dtype(dtype)
    return converted(values.astype(source.np_compute, copy=False), source, wanted, home=PYTHON), wanted


def _is_weak(data: object) -> bool:
    """True for Python numbers, which have no dtype of their own."""
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return not isinstance(data, np.generic) and isinstance(
        data, bool | int | float | list | tuple | range
    )


def _exact_ints(data: object, floats: Array) -> Array:
    """Undo NumPy's floats for a list that holds ints both below and above 2**63."""
    exact = np.array(data, dtype=object)
    if not all(isinstance(value, int) for value in exact.flat):
        return floats
    if exact.min() < 0 or exact.max() >= 2**64:
        raise ArgumentError(
            f"no integer dtype holds both {exact.min()} and {exact.max()}", hint="use floats"
        )
    return exact.astype(np.uint64)
