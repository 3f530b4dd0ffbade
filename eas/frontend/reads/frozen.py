"""Pictures of values: two are equal while nothing that a kernel could have read of a value has changed."""

from __future__ import annotations

import sys
from array import array
from collections import deque
from contextvars import ContextVar
from ctypes import Array, Structure
from functools import partial
from os import _Environ
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import numpy as np

_DEPTH = 6
MAX_CONTENT_NBYTES = 1 << 20
"""Larger arrays are compared by identity: a launch must not read them."""

Frozen = object
MISSING = object()
_PLAIN = frozenset({int, str, bool, bytes, float, complex, type(None)})
_SEQUENCES = (tuple, list, deque)
_MAPPINGS = (dict, MappingProxyType)
_CHANGING = (list, set, deque, ContextVar, partial, *_MAPPINGS)
_SETTLED = _PLAIN | {FunctionType, ModuleType, type}
_BUFFERS = (np.ndarray, bytearray, memoryview, array, Array, Structure)


class _Same:
    """Equal to itself only; holds the object, so that its id is not reused."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def is_plain(value: object) -> bool:
    """Whether a value is a number, a string or None: nothing to look into."""
    return type(value) in _PLAIN


def parts_of(value: object) -> list[object] | None:
    """The elements of a container, or None; of a mapping the keys and the values."""
    if isinstance(value, _MAPPINGS) or type(value) is _Environ:
        return [part for item in value.items() for part in item]
    if isinstance(value, (*_SEQUENCES, set, frozenset)):
        return list(value)
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    return None


def freeze(value: object, depth: int = _DEPTH) -> Frozen:
    """A hashable picture of a value: plain data by type and content, anything else by identity."""
    kind = type(value)
    if kind in (int, str, bool, bytes):
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)  # tells -0.0 from 0.0 and finds nan equal to nan
    if depth == 0:
        return _Same(value)
    if isinstance(value, (set, frozenset)):
        return kind, frozenset(freeze(item, depth - 1) for item in value)
    if isinstance(value, _MAPPINGS) or type(value) is _Environ:
        return kind, tuple((freeze(k, depth - 1), freeze(v, depth - 1)) for k, v in value.items())
    if isinstance(value, (*_SEQUENCES, partial)):
        return kind, tuple(freeze(item, depth - 1) for item in parts_of(value) or ())
    if isinstance(value, np.generic):
        return kind, value.dtype.str, value.tobytes()
    if isinstance(value, ContextVar):
        return kind, _Same(value), freeze(value.get(MISSING), depth - 1)
    if isinstance(value, BuiltinFunctionType) and parts_of(value.__self__) is not None:  # a method of C: `table.get`
        return kind, value.__name__, freeze(value.__self__, depth - 1)
    return kind, _content(value) or _Same(value)


def changes_in_place(value: object, depth: int = _DEPTH) -> bool:
    """Whether the same object may come to have another picture."""
    if type(value) in _SETTLED:
        return False
    if isinstance(value, _CHANGING) or type(value) is _Environ:
        return True
    if isinstance(value, BuiltinFunctionType):
        return changes_in_place(value.__self__, depth - 1)
    if depth > 0 and isinstance(value, (tuple, frozenset)):
        return any(changes_in_place(item, depth - 1) for item in value)
    return _content(value) is not None


def _content(value: Any) -> object:
    """The bytes of an array or tensor and what they mean, if they are few; else None."""
    array = _torch_array(value) if type(value).__module__.partition(".")[0] == "torch" else value
    if not isinstance(array, _BUFFERS):
        return None
    if isinstance(array, np.ndarray):
        is_small = array.nbytes <= MAX_CONTENT_NBYTES and not array.dtype.hasobject
        return (array.dtype.str, array.shape, array.tobytes()) if is_small else None
    seen = memoryview(array)
    return (seen.format, seen.shape, seen.tobytes()) if seen.nbytes <= MAX_CONTENT_NBYTES else None


def _torch_array(value: Any) -> object:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or value.nbytes > MAX_CONTENT_NBYTES:
        return None
    try:
        return value.detach().contiguous().view(torch.uint8).numpy()
    except (RuntimeError, TypeError):  # not in memory of the host
        return None
