"""DLPack capsules of Metal memory: `data` is the MTLBuffer, `byte_offset` where the elements begin in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eas.base.dtypes import DType
from eas.base.errors import ArgumentError
from eas.interop.capsules import DLTensor
from eas.runtime import get_runtime

Array = NDArray[Any]
METAL = 8  # kDLMetal


def why_not_here() -> str | None:
    """What keeps this process from taking MTLBuffers of others, or None."""
    return get_runtime("mps").why_unavailable()


def relabel(content: DLTensor, array: Array) -> None:
    """Make a capsule of the CPU memory of `array` one of the MTLBuffer that it lies in."""
    from eas.runtime.metal import MetalRuntime

    runtime = get_runtime("mps")
    assert isinstance(runtime, MetalRuntime)
    first = content.data or 0
    place = runtime.memory.place_of(first, 1) if array.size else None
    buffer, offset = (runtime.memory.nothing, 0) if place is None else (place.buffer, place.offset)
    content.data, content.byte_offset = buffer.handle, offset


def adopted(content: DLTensor, dtype: DType, keeper: list[Array]) -> tuple[Array, bool]:
    """The elements of an MTLBuffer of somebody else, and whether only the GPU sees them; `keeper` will hold what its owner hears of the end from."""
    from eas.runtime.metal import MetalRuntime

    runtime = get_runtime("mps")
    assert isinstance(runtime, MetalRuntime)
    buffer = runtime.extension().adopt(content.data, keeper)
    shape = tuple(content.shape[axis] for axis in range(content.ndim))
    steps = tuple(content.strides[axis] * dtype.nbytes for axis in range(content.ndim)) if content.strides else None
    try:
        return np.ndarray(shape, dtype.np_storage, runtime.memory.adopt(buffer), content.byte_offset, steps), bool(buffer.is_private)
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"the capsule's shape {shape} does not fit its MTLBuffer of {buffer.nbytes} bytes: {error}") from None
