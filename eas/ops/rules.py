"""Result-type rules shared by op rows; they speak to the kernel's author when types do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import ShapeMismatch, TypeMismatch
from eas.base.types import Type
from eas.ops.table import Attrs, RegionSig, Rule

FLOATS = tuple(d for d in dtypes.ALL if d.is_float and not d.is_storage_only)
INTS = tuple(d for d in dtypes.ALL if d.is_int)
BOOL = (dtypes.bool_,)
NUMERIC = INTS + FLOATS
ARITHMETIC = BOOL + NUMERIC
ANY = tuple(dtypes.ALL)

_CLASS_NAMES = {FLOATS: "a float", INTS: "an integer", BOOL: "a bool", NUMERIC: "a numeric", ARITHMETIC: "a bool or numeric", INTS + BOOL: "an integer or bool"}


def class_name(allowed: tuple[DType, ...]) -> str:
    return _CLASS_NAMES.get(allowed) or "one of " + ", ".join(d.name for d in allowed) + " as"


def need_value(name: str, t: Type) -> None:
    """Refuse pointers and fragments where numbers are needed."""
    if t.is_pointer:
        raise TypeMismatch(f"{name} needs a value, got the pointer {t}", hint="load from it first: mk.load({0}, offsets)")
    if not t.is_value:
        raise TypeMismatch(f"{name} needs a value, got the simdgroup matrix {t}", hint="store it with mk.mma_store first")


def need_dtype(name: str, t: Type, allowed: tuple[DType, ...]) -> None:
    """Refuse operands whose dtype the op is not defined for."""
    need_value(name, t)
    if t.dtype in allowed:
        return
    if t.dtype.is_storage_only:
        raise TypeMismatch(f"{name} needs {class_name(allowed)} operand, got {t}: fp8 is a storage type", hint="mk.cast({0}, mk.f32)")
    target = "mk.f32" if dtypes.f32 in allowed else "mk.bool" if allowed == BOOL else "mk.i32"
    raise TypeMismatch(f"{name} needs {class_name(allowed)} operand, got {t}", hint=f"mk.cast({{0}}, {target})")


def need_same(name: str, types: Sequence[Type]) -> Type:
    """All operands must have one type; the front end promotes and broadcasts before this."""
    first = types[0]
    for t in types[1:]:
        if t.shape != first.shape:
            raise ShapeMismatch(f"{name} got blocks of shapes {list(first.shape)} and {list(t.shape)}", hint="shapes must be equal or broadcast: use x[:, None] or mk.broadcast_to")
        if t != first:
            raise TypeMismatch(f"{name} got {first} and {t}", hint="cast one of them with mk.cast")
    return first


def need_scalar(name: str, what: str, t: Type, allowed: tuple[DType, ...] = INTS) -> None:
    """Refuse blocks where one number per program is needed."""
    if not t.is_scalar:
        raise ShapeMismatch(f"{name}: {what} must be a scalar, got the block {t}", hint="reduce it to a scalar first")
    need_dtype(name, t, allowed)


def axis_of(name: str, axis: int, rank: int) -> int:
    """Normalise a possibly negative axis."""
    if not -rank <= axis < rank:
        raise ShapeMismatch(f"{name}: axis {axis} does not exist in a block of rank {rank}", hint=f"use an axis from {-rank} to {rank - 1}" if rank else "scalars have no axes")
    return axis % rank


def same(name: str, allowed: tuple[DType, ...]) -> Rule:
    """All operands and the result have one type, drawn from `allowed`."""

    def rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
        for t in types:
            need_dtype(name, t, allowed)
        return (need_same(name, types),)

    return rule


def predicate(name: str, allowed: tuple[DType, ...]) -> Rule:
    """Operands of one type give a bool block of the same shape."""

    def rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
        for t in types:
            need_dtype(name, t, allowed)
        return (need_same(name, types).with_dtype(dtypes.bool_),)

    return rule


def fixed(dtype: DType) -> Rule:
    """A scalar of a known dtype, whatever the operands."""

    def rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
        return (Type(dtype),)

    return rule


def nothing(check: Callable[[Sequence[Type], Attrs], None] | None = None) -> Rule:
    """No result; `check` may refuse operands."""

    def rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
        if check is not None:
            check(types, attrs)
        return ()

    return rule
