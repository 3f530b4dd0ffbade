"""Launches on their way to a runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from eas.compiler import CompiledKernel, Variant
from eas.interop.arguments import Staging
from eas.runtime import Grid, Runtime

Array = np.ndarray[Any, np.dtype[Any]]


class Staged(NamedTuple):
    """The arguments of one launch as the kernel gets them."""

    runtime: Runtime
    values: list[Any]
    """Of all parameters, in order: flat arrays and Python numbers."""
    arrays: dict[str, Array]
    staging: Staging
    is_plain: bool
    """The arguments are NumPy arrays and Python numbers, and run as they are."""
    has_copies: bool


class Launch(NamedTuple):
    """One launch, ready to run; `staging.finish` then brings the results to strided arguments."""

    runtime: Runtime
    variant: Variant
    args: list[Any]
    grid: Grid
    staging: Staging


class Explained(NamedTuple):
    """One launch with what it was made of, for a page about it."""

    fn: Callable[..., Any]
    values: dict[str, Any]
    """Of all parameters, as the caller gave them."""
    math_mode: str
    compiled: CompiledKernel
    launch: Launch
