"""What the functions of eas.lib ask of their arrays, refused in words of the caller."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from eas.errors import ArgumentError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def need(ok: bool, message: str) -> None:
    """Refuse arguments that do not fit together."""
    if not ok:
        raise ArgumentError(message)


def check_small(*arrays: Array) -> None:
    """Offsets of these kernels are i32."""
    for a in arrays:
        need(a.size < 2**31, f"an array of {a.size} elements is too large: offsets are 32 bits")


def check_matrix(x: Array) -> tuple[int, int]:
    """(rows, columns) of a matrix that has columns."""
    need(x.ndim == 2 and x.shape[1] > 0, f"expected a matrix with columns, got shape {x.shape}")
    check_small(x)
    return x.shape[0], x.shape[1]


def check_vector(v: Array, length: int, name: str) -> None:
    need(v.shape == (length,), f"{name} has shape {v.shape}, expected ({length},)")


def result(out: Array | None, shape: tuple[int, ...], dtype: Any) -> Array:
    """`out` if it fits, or a new array."""
    if out is None:
        return np.empty(shape, dtype)
    need(out.shape == shape and out.dtype == dtype, f"out is {out.dtype}{list(out.shape)}, expected {np.dtype(dtype)}{list(shape)}")
    return out
