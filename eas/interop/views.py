"""Foreign arrays seen as typed memory, without copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base.errors import ArgumentError
from eas.base.loading import load
from eas.interop.arg_view import (
    IMMUTABLE,
    ArgView,
    foreign_view,
    is_of_mlx,
    is_torch_tensor,
    numpy_view,
    refusal,
)
from eas.interop.torch_views import torch_view

Array = NDArray[Any]


def is_scalar(value: object) -> bool:
    """True for numbers that travel by value; a 0-d array is a buffer."""
    if isinstance(value, bool | int | float):
        return True
    return isinstance(value, np.generic) and value.dtype.kind in "biuf"


def view(value: object, name: str) -> ArgView:
    """The memory of `value`, without a copy; refuses what has no memory that a kernel can use."""
    if type(value) is np.ndarray:
        return numpy_view(value, value, name)
    own = getattr(value, "__eas_view__", None)
    if own is not None:
        found: ArgView = own()
        return found if found.name == name else found.named(name)
    if is_torch_tensor(value):
        return torch_view(value, name)
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise refusal(
                name,
                "is a masked array, whose mask a kernel cannot see",
                "pass a.filled(...) or a.data",
            )
        return numpy_view(np.asarray(value), value, name)
    convert = None if isinstance(value, np.generic) else _protocol_of(value)
    if convert is None:
        raise _no_memory(value, name)
    return convert(value, name)


# --- other libraries ----------------------------------------------------------------------------

_DLPACK_CPU = 1
_METAL = 8


def _protocol_of(value: object) -> Callable[[Any, str], ArgView] | None:
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack_view
    if hasattr(value, "__array_interface__"):
        return _interface_view
    try:
        memoryview(value)  # type: ignore[arg-type]  # the question is whether it is a buffer
    except (TypeError, BufferError):
        return None
    return _buffer_view


def _dlpack_view(value: Any, name: str) -> ArgView:
    kind = type(value)
    device = int(value.__dlpack_device__()[0])
    if device not in (_DLPACK_CPU, _METAL):
        raise refusal(
            name,
            f"has type {kind.__name__} and lives on DLPack device {device}, a kernel needs memory of the CPU or of Metal",
            "copy it to the CPU",
        )
    load("eas.interop.dlpack")
    from eas.interop import dlpack  # few arguments need it

    if device == _METAL or is_of_mlx(value):
        try:
            return dlpack.memory_of(value).named(name)
        except ArgumentError as error:
            raise ArgumentError(f"argument {name!r}: {error.message}", hint=error.hint) from None
    try:
        array = np.from_dlpack(dlpack.WithMemory(value))
    except dlpack.NoMemory as error:
        raise refusal(name, f"is a DLPack tensor of shape {error.args[0]} without memory", dlpack.NO_MEMORY_HINT) from None
    except (RuntimeError, TypeError, ValueError, BufferError) as error:
        raise refusal(
            name,
            f"has type {kind.__name__}, which NumPy cannot share through DLPack: {error}",
            "np.asarray(x)",
        ) from None
    return foreign_view(array, value, name, readonly=kind.__module__.split(".")[0] in IMMUTABLE)


def _interface_view(value: Any, name: str) -> ArgView:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise refusal(name, f"has type {type(value).__name__}, whose memory NumPy cannot read: {error}", "np.asarray(x)") from None
    return foreign_view(array, value, name)


def _buffer_view(value: Any, name: str) -> ArgView:
    memory = memoryview(value)
    try:
        array = np.asarray(memory)
    except ValueError as error:
        raise refusal(
            name,
            f"has type {type(value).__name__}, which NumPy cannot read: {error}",
            "np.asarray(x)",
        ) from None
    return foreign_view(array, value, name)


# --- refusals -----------------------------------------------------------------------------------


def _no_memory(value: object, name: str) -> ArgumentError:
    kind = type(value).__name__
    if is_scalar(value):
        return refusal(
            name, f"is the number {value}, where the kernel needs an array", "np.array([x])"
        )
    if isinstance(value, list | tuple):
        return refusal(
            name,
            f"is a {kind}, not an array",
            "make one with np.asarray, and read results from that array",
        )
    if isinstance(value, str) or value is None:
        return refusal(
            name,
            f"is {value!r}, which a kernel cannot take",
            "annotate the parameter as eas.constexpr",
        )
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        return refusal(
            name,
            f"has type {kind}, which gives NumPy copies only",
            "pass np.asarray(x), and read results from it",
        )
    return refusal(
        name, f"has type {kind}, which a kernel cannot take", "pass a NumPy array, a torch tensor or an eas.Tensor"
    )  # fmt: skip
