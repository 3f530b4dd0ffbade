"""Triton's language and host side on the targets of eas: unmodified Triton kernels on any CPU, and on a Mac.

`import eas.triton as triton` for one file; `eas.triton.install()` for libraries that import `triton`.
"""

from __future__ import annotations

from eas.triton import compiler, errors, knobs, language, runtime, testing, tools
from eas.triton.compiler import CompilationError, compile
from eas.triton.errors import TritonError
from eas.triton.installing import install, is_installed, uninstall
from eas.triton.runtime import Config, InterpreterError, OutOfResources, autotune, heuristics
from eas.triton.runtime._allocation import set_allocator
from eas.triton.runtime.jit import (
    JITFunction,
    KernelInterface,
    MockTensor,
    TensorWrapper,
    constexpr_function,
    jit,
    reinterpret,
)

__version__ = "3.6.0"
"""The version of Triton whose names and meaning these are."""


def cdiv(x: int, y: int) -> int:
    """x / y of integers, rounded up."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not less than n."""
    return 1 << max(0, n - 1).bit_length()


__all__ = [
    "CompilationError", "Config", "InterpreterError", "JITFunction", "KernelInterface", "MockTensor", "OutOfResources", "TensorWrapper", "TritonError", "autotune", "cdiv",
    "compile", "compiler", "constexpr_function", "errors", "heuristics", "install", "is_installed", "jit", "knobs", "language", "next_power_of_2", "reinterpret", "runtime",
    "set_allocator", "testing", "tools", "uninstall",
]  # fmt: skip
