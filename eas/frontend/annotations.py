"""What the annotations of a kernel's parameters say: `x: mk.ptr(mk.f16)`, `alpha: mk.f64`, `n: int`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import ArgumentError
from eas.base.types import Space, Type
from eas.frontend.constexpr import is_constexpr

Declared = DType | Type | type
"""A dtype: a number of it. A pointer type: a buffer. float, int or bool: such a number of Python's."""

if TYPE_CHECKING:
    from eas.frontend.block import Block

    class Buffer(Block):
        """The annotation of a buffer parameter of any dtype, which type checkers know: `x: mk.Buffer`."""

else:

    class Buffer:
        """The annotation of a buffer parameter of any dtype, which type checkers know: `x: mk.Buffer`."""


_NUMBERS = {float: "a number", int: "an integer", bool: "a bool"}


def ptr(dtype: object) -> Type:
    """The annotation of a buffer parameter: `x: mk.ptr(mk.f16)` takes arrays of f16 only."""
    named = dtype if isinstance(dtype, DType) else dtypes.of_foreign(dtype)
    if named is None:
        raise ArgumentError(f"mk.ptr takes a dtype, got {dtype!r}", hint="mk.ptr(mk.f32)")
    return Type(named, (), Space.DEVICE)


def declared(fn: Callable[..., Any]) -> dict[str, Declared]:
    """What is said of the parameters; annotations that mean nothing to a kernel are left out."""
    found = {name: _meaning(fn, name, p.annotation) for name, p in inspect.signature(fn).parameters.items()}
    return {name: said for name, said in found.items() if said is not None}


def _meaning(fn: Callable[..., Any], name: str, annotation: object) -> Declared | None:
    if is_constexpr(annotation):
        return None
    if isinstance(annotation, str):
        annotation = _evaluated(fn, name, annotation)
    if isinstance(annotation, DType) or (isinstance(annotation, Type) and annotation.is_pointer):
        return annotation
    if isinstance(annotation, type) and (annotation in _NUMBERS or annotation is Buffer):
        return annotation
    return dtypes.of_foreign(annotation)


def _evaluated(fn: Callable[..., Any], name: str, text: str) -> object:
    """The value of an annotation that `from __future__ import annotations` made a text; None if it has none here."""
    inner = inspect.unwrap(getattr(fn, "__func__", fn))
    names = {**inner.__globals__, **inspect.getclosurevars(inner).nonlocals}
    try:
        return eval(text, names)
    except Exception as error:
        if text.startswith(("mk.", "eas.")):
            raise ArgumentError(f"parameter `{name}` of kernel {inner.__name__} is annotated with {text}: {error}", hint="annotate with eas.constexpr, a dtype such as mk.f32, mk.ptr(mk.f32), int or float") from None
        return None  # such as a name that only type checkers import


def scalar_type(name: str, given: object, said: Declared | None, is_double: bool) -> DType:
    """The dtype of a number that is passed for a parameter; floats without a declared width are f64 beside f64 buffers."""
    if isinstance(said, DType):
        if isinstance(given, float | np.floating) and not said.is_float:
            raise ArgumentError(f"argument `{name}` is annotated {said}, got the float {given!r}", hint=f"pass int({name})")
        return said
    if isinstance(said, Type) or said is Buffer:
        raise ArgumentError(f"argument `{name}` is annotated {_text(said)}, got {given!r}", hint="pass an array")
    natural = dtypes.of_scalar(given)
    if said is float:
        natural = dtypes.f32
    elif (said is not None and natural.is_bool != (said is bool)) or (said is int and natural.is_float):
        raise ArgumentError(f"argument `{name}` is annotated {said.__name__}, got {given!r}", hint=f"pass {_NUMBERS[said]}")
    return dtypes.f64 if natural.is_float and is_double else natural


def check_buffer(name: str, dtype: DType, said: Declared | None) -> None:
    """Raise for a buffer that is not what the parameter is annotated with."""
    if said is None or said is Buffer or (isinstance(said, Type) and said.dtype is dtype):
        return
    wanted = _text(said)
    hint = f"pass an array of {said.dtype}" if isinstance(said, Type) else f"pass a number, or annotate it mk.ptr(mk.{dtype})"
    raise ArgumentError(f"argument `{name}` is annotated {wanted}, got a buffer of {dtype}", hint=hint)


def is_double(buffers: Mapping[str, DType]) -> bool:
    """Whether the floats of a kernel are f64: it has buffers of floats, and all of them are."""
    floats = [dtype for dtype in buffers.values() if dtype.is_float]
    return bool(floats) and all(dtype is dtypes.f64 for dtype in floats)


def _text(said: Declared) -> str:
    if isinstance(said, Type):
        return f"mk.ptr(mk.{said.dtype})"
    return f"mk.{said}" if isinstance(said, DType) else "mk.Buffer" if said is Buffer else said.__name__
