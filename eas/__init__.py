"""easy_as: compute kernels in Python that run on any CPU and on Apple GPUs."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from eas._version import __version__
from eas.base import errors
from eas.base.errors import *  # noqa: F403  # the hierarchy is public: tracebacks show eas.TypeMismatch
from eas.base.loading import load

if "t" in getattr(sys, "abiflags", "") or not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError("eas needs a Python with a global interpreter lock: this one is free-threaded, and eas' launchers and caches rely on the lock; use the ordinary build (python3.14, not python3.14t)")

if TYPE_CHECKING:
    from eas import lib, mk, runtime
    from eas.base import dtypes
    from eas.compiler import CompiledKernel
    from eas.explain import explain
    from eas.frontend.constexpr import constexpr
    from eas.kernel import Kernel, kernel
    from eas.launch.capture import Graph, capture
    from eas.runtime import synchronize
    from eas.runtime.profiling import Profile, profile
    from eas.runtime.streams import Event, Stream, current_stream
    from eas.tensor import (
        MemoryStats,
        Tensor,
        arange,
        empty,
        empty_cache,
        empty_like,
        from_dlpack,
        from_numpy,
        from_torch,
        full,
        memory_stats,
        ones,
        ones_like,
        rand,
        randn,
        release_memory,
        tensor,
        to_dlpack,
        to_torch,
        zeros,
        zeros_like,
    )
    from eas.tools.autotune import Config, autotune
    from eas.torch.op import torch_op

# Where a public name comes from; it is imported when somebody first asks for it.
_HOMES = {
    "CompiledKernel": "eas.compiler",
    "Config": "eas.tools.autotune",
    "Event": "eas.runtime.streams",
    "Graph": "eas.launch.capture",
    "Profile": "eas.runtime.profiling",
    "Kernel": "eas.kernel",
    "Stream": "eas.runtime.streams",
    "autotune": "eas.tools.autotune",
    "capture": "eas.launch.capture",
    "constexpr": "eas.frontend.constexpr",
    "current_stream": "eas.runtime.streams",
    "explain": "eas.explain",
    "kernel": "eas.kernel",
    "profile": "eas.runtime.profiling",
    "synchronize": "eas.runtime",
    "torch_op": "eas.torch.op",
} | dict.fromkeys(
    [
        "MemoryStats", "Tensor", "arange", "empty", "empty_cache", "empty_like", "from_dlpack", "from_numpy",
        "from_torch", "full", "memory_stats", "ones", "ones_like", "rand", "randn",
        "release_memory", "tensor", "to_dlpack", "to_torch", "zeros", "zeros_like",
    ],
    "eas.tensor",
)  # fmt: skip
_MODULES = ("dtypes", "lib", "mk", "runtime", "triton")

__all__ = [
    "CompiledKernel",
    "Config",
    "Event",
    "Graph",
    "Kernel",
    "MemoryStats",
    "Profile",
    "Stream",
    "Tensor",
    "__version__",
    "arange",
    "autotune",
    "capture",
    "constexpr",
    "current_stream",
    "dtypes",
    "empty",
    "empty_cache",
    "empty_like",
    "errors",
    "explain",
    "from_dlpack",
    "from_numpy",
    "from_torch",
    "full",
    "kernel",
    "lib",
    "memory_stats",
    "mk",
    "ones",
    "ones_like",
    "profile",
    "rand",
    "randn",
    "release_memory",
    "runtime",
    "synchronize",
    "tensor",
    "to_dlpack",
    "to_torch",
    "torch_op",
    "zeros",
    "zeros_like",
    *errors.__all__,
]


class _Package(ModuleType):
    """The package: loads public names on demand, and keeps them.

    `eas.kernel` is the decorator although there is a module of that name: importing a submodule
    sets it as an attribute of its package, and that must not replace the function.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in _MODULES and name not in _HOMES:
            raise AttributeError(f"module 'eas' has no attribute {name!r}", name=name, obj=self)
        if sys.is_finalizing():
            raise errors.EasError(f"eas.{name} cannot be loaded while Python ends", hint=f"use eas.{name} once before")
        if name in _MODULES:
            load(f"eas.{name}")
            return import_module(f"eas.{name}")
        load(_HOMES[name])
        value = getattr(import_module(_HOMES[name]), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
