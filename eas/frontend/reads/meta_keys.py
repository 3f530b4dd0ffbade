"""When two trace-time arguments mean the same kernel: by type and content, even of what changes in place."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

_DEPTH = 6  # of objects in objects; deeper ones are compared by identity


def meta_key(value: Any, depth: int = _DEPTH) -> Any:
    """A hashable picture of a value; 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    kind = type(value)
    if kind is int or kind is str or kind is bool:
        return (kind, value)
    if isinstance(value, (float, np.floating)):
        return (kind, float(value).hex())  # nan is nan
    if isinstance(value, np.ndarray):
        return (kind, value.dtype, value.shape, value.tobytes())
    if depth and kind is FunctionType:
        return _function_key(value, depth - 1)
    parts = _parts(value) if depth else None
    if parts is None:
        return (kind, _identity(value))
    pictures = (meta_key(part, depth - 1) for part in parts)
    if isinstance(value, (set, frozenset)):
        return (kind, frozenset(pictures))
    is_picture = isinstance(value, (tuple, list, dict)) or kind is functools.partial
    return (kind, tuple(pictures)) if is_picture else (kind, _identity(value), *pictures)


def _function_key(fn: FunctionType, depth: int) -> Any:
    """Functions that are made anew by each call, such as `f=lambda a: a * k`, are equal if all that they are made of is.

    The names that they read elsewhere are those of one namespace; whether these have changed is asked before each launch.
    """
    made_of: tuple[Any, ...] = (fn.__defaults__, fn.__kwdefaults__, fn.__dict__ or None)
    closure = [meta_key(_contents(cell), depth) for cell in fn.__closure__ or ()]
    of_code = (id(fn.__code__), id(fn.__globals__), _KeepAlive((fn.__code__, fn.__globals__)))
    return (FunctionType, of_code, meta_key(made_of, depth) if any(made_of) else None, tuple(closure))


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _KeepAlive  # no value yet


def _parts(value: Any) -> Iterable[Any] | None:
    """What can change in a value, or None if nothing can, or its class says by a hash what counts."""
    if isinstance(value, (tuple, list, set, frozenset)):
        return value
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, MethodType):
        return (value.__self__,)
    if type(value) is functools.partial:
        return (value.func, value.args, value.keywords, value.__dict__)
    is_code = isinstance(value, (type, ModuleType, FunctionType, BuiltinFunctionType))
    by_identity: Any = object.__hash__
    if is_code or type(value).__module__.partition(".")[0] == "eas" or type(value).__hash__ not in (by_identity, None):
        return None
    own = getattr(value, "__dict__", None)
    return None if own is None else (own,)


def _identity(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return (id(value), _KeepAlive(value))
    return value


class _KeepAlive:
    """Part of a key: equal to everything of its kind, but keeps an object whose id is in the key."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KeepAlive)

    def __hash__(self) -> int:
        return 0
