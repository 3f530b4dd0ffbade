"""`triton.language.core`: the same names under the module where upstream defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from eas.frontend.block import Block as tensor  # noqa: F401
from eas.frontend.lang.map import map_elementwise  # noqa: F401
from eas.triton.language.boxes import advance, make_block_ptr  # noqa: F401
from eas.triton.language.creation import *  # noqa: F403
from eas.triton.language.descriptors import make_tensor_descriptor, tensor_descriptor  # noqa: F401
from eas.triton.language.folding import associative_scan, reduce  # noqa: F401
from eas.triton.language.math import add, clamp, maximum, minimum, mul, sub  # noqa: F401
from eas.triton.language.meaning import to_tensor  # noqa: F401
from eas.triton.language.memory import *  # noqa: F403
from eas.triton.language.products import dot, dot_scaled  # noqa: F401
from eas.triton.language.refused import inline_asm_elementwise  # noqa: F401
from eas.triton.language.types import *  # noqa: F403
from eas.triton.language.types import constexpr, dtype, unwrapped

CONSTEXPR_0 = constexpr(0)
F = TypeVar("F", bound=Callable[..., Any])


def builtin(fn: F) -> F:
    """A function of the language, written in Python: it is called while a kernel is traced."""
    return fn


def extern(fn: F) -> F:
    """The same, of a library for a device."""
    return fn


def _tensor_member_fn(fn: F) -> F:
    """Upstream's mark of functions that are methods, too; here methods are a table."""
    return fn


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of so many bits."""
    return dtype("int1" if bitwidth == 1 else f"{'' if signed else 'u'}int{bitwidth}")


def _unwrap_if_constexpr(x: Any) -> Any:
    return unwrapped(x)
