"""What may stand in the brackets of a tensor, and what an assignment to it does."""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import Any

import numpy as np

from eas.base.errors import ArgumentError, EasError
from eas.lazy.build import refuse
from eas.lazy.handle import LazyTensor


def index_part(part: object) -> int | slice | EllipsisType | None:
    """A part of an index that is read."""
    if part is None or part is ... or isinstance(part, slice):
        return part
    # A bool is an int to Python and a mask to NumPy; arrays of one element have __index__ too.
    if isinstance(part, int | np.integer) and not isinstance(part, bool):
        return operator.index(part)
    raise refuse(ArgumentError(
        f"a tensor is indexed with integers, slices, None, ... and arrays of integers or bools, got {type(part).__name__}",
        hint="x.where(a, b) selects by one bool" if isinstance(part, bool | np.bool_) else "x[0], x[1:], x[[2, 0]], x[x > 0]",
    ))  # fmt: skip


def _stored_part(part: object) -> Any:
    """A part of an index that is assigned to: also masks and arrays of integers."""
    if isinstance(part, LazyTensor):
        return part._device.seen(part._stored)
    return part if isinstance(part, (np.ndarray, list)) else index_part(part)


def assign(tensor: Any, index: object, value: object) -> None:
    """Overwrite elements; graphs that were built before keep what they saw."""
    array = tensor._array
    if not array.flags.writeable:
        raise refuse(ArgumentError("a read-only tensor cannot be assigned to", hint="write to x.clone() instead"))
    parts = tuple([_stored_part(part) for part in (index if isinstance(index, tuple) else (index,))])
    try:
        given = tensor._wrapped(value, tensor.dtype)
    except EasError as error:
        raise refuse(error) from None
    source = given._device.seen(given._stored)
    tensor._device.synchronize()
    if np.may_share_memory(source, array):
        source = source.copy()
    tensor._keep_for_readers()
    try:
        array[parts] = source
    except (ValueError, IndexError) as error:
        raise refuse(ArgumentError(f"cannot assign shape {given.shape} to elements of a tensor of shape {tensor.shape}: {error}", hint="the value broadcasts to the elements that the index names")) from None
