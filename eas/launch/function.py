"""The Python function behind a kernel: whether it can be one, its parameters, where it stands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from eas.base.errors import ArgumentError, UnsupportedPython
from eas.base.loading import load
from eas.frontend.constexpr import is_constexpr

if TYPE_CHECKING:
    from eas.frontend.syntax.source import SourceSpot

OPTIONS = ("_grid", "_shape", "_nthreads", "_tptg", "_sync", "_stream")
TARGET_HINTS = ("num_warps", "num_stages")  # what Triton users say of a target; num_stages changes nothing here
_WARPS = (1, 2, 4, 8, 16, 32)


def check_num_warps(who: str, warps: Any) -> None:
    """Raise for a number of simdgroups that no program can have; None: the schedule chooses."""
    if warps is not None and (type(warps) is not int or warps not in _WARPS):
        raise ArgumentError(f"{who} was given num_warps={warps!r}", hint="a program has 1, 2, 4, 8, 16 or 32 simdgroups of 32 threads")


def check_function(fn: Any) -> None:
    """Raise unless `fn` is a function that a kernel can be made of."""
    if isinstance(fn, (staticmethod, classmethod)):
        raise ArgumentError(f"eas.kernel got a {type(fn).__name__}", hint=f"write @{type(fn).__name__} above @eas.kernel, or leave it out")
    if hasattr(fn, "__eas_kernel_function__"):
        raise ArgumentError(f"{fn.__name__} is a kernel already", hint="decorate it once")
    if not isinstance(fn, (FunctionType, MethodType)):
        raise ArgumentError(f"eas.kernel decorates a Python function, got {fn!r}", hint='write @eas.kernel, or @eas.kernel(math_mode="fast"), above a def')
    word = "async" if inspect.iscoroutinefunction(fn) else "a generator" if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn) else ""
    if word:
        raise UnsupportedPython(f"kernel {fn.__name__} is {word}", hint="a kernel is a plain function that writes its results with mk.store", loc=head_of_function(fn))


def head_of_function(fn: Any) -> SourceSpot:
    """The line of a function's `def`."""
    load("eas.frontend.syntax.source")
    from eas.frontend.syntax.source import head_of

    return head_of(fn)


def parameters_of(fn: Callable[..., Any]) -> dict[str, bool]:
    """The parameters in order, and whether each is a trace-time one."""
    params = {}
    for p in inspect.signature(fn).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise ArgumentError(f"kernel {fn.__name__} takes {p}", hint="kernels have a fixed list of parameters")
        if p.name in OPTIONS:
            raise ArgumentError(f"kernel {fn.__name__} has a parameter named {p.name}, which is a launch option", hint="rename it")
        params[p.name] = is_constexpr(p.annotation)
    return params
