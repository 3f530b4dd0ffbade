"""Variables that cross a loop or branch: flattening, joining two paths, fitting to a joined type."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from eas.base import dtypes
from eas.base.errors import EasError, ShapeMismatch, TypeMismatch
from eas.base.types import Type
from eas.frontend.block import Block
from eas.frontend.builder import current
from eas.frontend.values import Undefined, broadcast_to, cast_to, constant, is_number, plain

NOT_THE_USERS = sys.stdlib_module_names | {"eas", "numpy", "torch"}  # their objects are no containers of a kernel's values
Rebuild = Callable[[Sequence[Any]], tuple[Any, ...]]


class Leaf:
    """One variable, or one element of a variable that is a container, with a name for errors and IR."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value


class Parts(NamedTuple):
    """A container as what it holds, and the way to one of the same kind that holds something else."""

    shape: Any  # equal for containers that can stand for each other
    names: Sequence[str]
    items: Sequence[Any]
    make: Callable[[list[Any]], Any]


def parts_of(value: Any) -> Parts | None:
    """The parts of a tuple, list, dict or dataclass of the user's; None of anything else."""
    kind = type(value)
    if isinstance(value, tuple):
        return Parts(tuple, [str(i) for i in range(len(value))], value, getattr(kind, "_make", tuple))
    if kind is list:
        return Parts(list, [str(i) for i in range(len(value))], value, list)
    if kind is dict:
        keys = tuple(value)
        return Parts((dict, keys), [str(k) for k in keys], list(value.values()), lambda items: dict(zip(keys, items, strict=True)))
    if is_dataclass(value) and not isinstance(value, type) and kind.__module__.partition(".")[0] not in NOT_THE_USERS:
        names = [f.name for f in fields(value) if hasattr(value, f.name)]
        return Parts(kind, names, [getattr(value, name) for name in names], partial(_replaced, value, names))
    return None


def _replaced(value: Any, names: Sequence[str], items: Sequence[Any]) -> Any:
    """A copy of a dataclass, which may be frozen, with other values in its fields."""
    made = copy(value)
    for name, item in zip(names, items, strict=True):
        object.__setattr__(made, name, item)
    return made


def fresh(value: Any) -> Any:
    """The same containers made anew, so that what changes them in place is seen by comparing."""
    parts = parts_of(value)
    return value if parts is None else parts.make([fresh(item) for item in parts.items])


def flatten(names: Sequence[str], state: Sequence[Any]) -> tuple[list[Leaf], Rebuild]:
    """The leaves of a state in which containers are structure, and the way back."""
    leaves: list[Leaf] = []
    makers = [_flatten(name, value, leaves) for name, value in zip(names, state, strict=True)]

    def rebuild(values: Sequence[Any]) -> tuple[Any, ...]:
        rest = iter(values)
        return tuple(make(rest) for make in makers)

    return leaves, rebuild


def _flatten(name: str, value: Any, leaves: list[Leaf]) -> Callable[[Any], Any]:
    parts = parts_of(value)
    if parts is None:
        leaves.append(Leaf(name, value))
        return next
    makers = [_flatten(f"{name}_{word}", item, leaves) for word, item in zip(parts.names, parts.items, strict=True)]
    return lambda rest: parts.make([make(rest) for make in makers])


def align(names: Sequence[str], before: Sequence[Any], after: Sequence[Any]) -> tuple[list[Leaf], list[Leaf], Rebuild]:
    """Flatten two states of one shape; a variable that changes its structure stays whole."""
    before = [_shaped_like(b, a, n) for n, a, b in zip(names, after, before, strict=True)]
    after = [_shaped_like(a, b, n) for n, a, b in zip(names, after, before, strict=True)]
    whole = [i for i in range(len(names)) if _structure(before[i]) != _structure(after[i])]
    wrapped_before = [Opaque(v) if i in whole else v for i, v in enumerate(before)]
    wrapped_after = [Opaque(v) if i in whole else v for i, v in enumerate(after)]
    first, rebuild = flatten(names, wrapped_before)
    second, _ = flatten(names, wrapped_after)
    for leaf in (*first, *second):
        if isinstance(leaf.value, Opaque):
            leaf.value = leaf.value.value
    return first, second, rebuild


def _shaped_like(x: Any, other: Any, name: str) -> Any:
    """A result that has not been returned yet takes the shape of the container that will be."""
    parts = parts_of(other)
    if parts is None or not _is_pending(name, x):
        return x
    return parts.make([_shaped_like(x, item, name) for item in parts.items])


class Opaque:
    """Hides a container from `flatten`."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _structure(value: Any) -> Any:
    parts = parts_of(value)
    return None if parts is None else (parts.shape, [_structure(item) for item in parts.items])


def is_same(a: Any, b: Any) -> bool:
    """Whether a variable is unchanged: the same object, the same traced value, or an equal number."""
    if a is b:
        return True
    if isinstance(a, Block) and isinstance(b, Block):
        return a.value is b.value
    if is_number(a) and is_number(b):
        return type(a) is type(b) and (a == b or (a != a and b != b)) and np.signbit(a) == np.signbit(b)
    return False


def is_runtime(x: Any) -> bool:
    """Whether a variable can be carried by the IR."""
    return isinstance(x, Block) or is_number(x)


def is_dont_care(leaf: Leaf, path: Sequence[Leaf] = ()) -> bool:
    """A variable without a value that nobody will read: the function's result before it returned,
    and anything on a `path` that has returned."""
    if _is_pending(leaf.name, leaf.value):
        return True
    return isinstance(leaf.value, Undefined) and any(x.value is True and x.name.startswith("__eas_ret") for x in path)


def _is_pending(name: str, value: Any) -> bool:
    return isinstance(value, Undefined) and not value.reason and name.startswith("__eas_value")


def shown_name(name: str) -> str:
    """A variable as its author knows it."""
    return "the result of this function" if name.startswith("__eas_value") else f"`{name}`"


def join(name: str, a: Any, b: Any) -> Type:
    """The type that holds both: numbers are weak, dtypes promote, shapes broadcast."""
    try:
        return _join(a, b)
    except (EasError, ValueError) as error:
        kind = ShapeMismatch if isinstance(error, ValueError) and not isinstance(error, EasError) else TypeMismatch
        raise kind(f"{shown_name(name)} is {_text(a)} on one path and {_text(b)} on the other", hint="make both paths give it one type, for example with mk.cast or mk.broadcast_to", loc=current().here()) from None


def _join(a: Any, b: Any) -> Type:
    if isinstance(a, Undefined) or isinstance(b, Undefined):
        known = b if isinstance(a, Undefined) else a
        return known.type if isinstance(known, Block) else Type(dtypes.weak_default(plain(known)))
    if isinstance(a, Block) and isinstance(b, Block):
        if not (a.type.is_value and b.type.is_value):
            if a.type.with_shape(()) != b.type.with_shape(()):
                raise TypeMismatch("pointers of different kinds")
            return a.type.with_shape(np.broadcast_shapes(a.shape, b.shape))
        return Type(dtypes.common(a.dtype, b.dtype), np.broadcast_shapes(a.shape, b.shape))
    if isinstance(a, Block):
        if not a.type.is_value:
            raise TypeMismatch("a pointer and a number")
        return Type(dtypes.promote_weak(a.dtype, plain(b)), a.shape)
    if isinstance(b, Block):
        return _join(b, a)
    return Type(dtypes.common(dtypes.weak_default(plain(a)), dtypes.weak_default(plain(b))))


def _text(x: Any) -> str:
    return str(x.type) if isinstance(x, Block) else repr(x)


def fit_to(x: Any, type: Type) -> Block:
    """A leaf as a value of exactly `type`."""
    if isinstance(x, Undefined):
        if not type.is_value:
            raise TypeMismatch(f"a {type} cannot be returned from inside a runtime loop", hint="return an offset, and add it to the pointer afterwards", loc=current().here())
        x = 0  # a don't-care
    if not isinstance(x, Block):
        return constant(plain(x), type.dtype, type.shape)
    if x.type.is_value:
        x = cast_to(x, type.dtype)
    return broadcast_to(x, type.shape)


def disagree(name: str, a: Any, b: Any, what: str) -> Undefined:
    """What a variable is after two paths that the IR cannot merge: an error at its next use."""
    for x in (a, b):
        if isinstance(x, Undefined) and x.name != name:  # the value of another variable: that one is to blame
            return x
    if isinstance(a, Undefined) or isinstance(b, Undefined):
        return Undefined(name, f"has no value on every path through the {what}")
    return Undefined(name, f"is {_kind(a)} on one path through the {what} and {_kind(b)} on the other")


def _kind(x: Any) -> str:
    return str(x.type) if isinstance(x, Block) else "nothing" if x is None else f"a {type(x).__name__}"
