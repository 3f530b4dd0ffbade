"""What the kernel files of eas.lib share: the decorator, and the types that they compute in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from eas import mk
from eas.kernel import Kernel, kernel

if TYPE_CHECKING:
    constexpr: TypeAlias = Any  # the parameter is the value itself, of whatever type it has
else:
    from eas.frontend.constexpr import constexpr

__all__ = ["Launch", "constexpr", "kernel", "wide", "wide_dtype"]

Launch: TypeAlias = tuple[Kernel, Any, tuple[Any, ...]]
"""A kernel, its grid, and the arguments that follow the arrays, all by position."""


def wide(value: Any) -> Any:
    """A traced value as sums and functions are computed: 16-bit floats are storage, not arithmetic."""
    return value.to(wide_dtype(value.dtype))


def wide_dtype(dtype: Any) -> Any:
    """f32 for narrower floats, else the dtype itself."""
    return mk.f32 if dtype.is_float and dtype.bits < 32 else dtype
