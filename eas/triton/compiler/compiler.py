"""`triton.compiler.compiler`: what inductor asks of Triton's compiler, answered by that of eas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eas._version import __version__
from eas.base.errors import Unsupported
from eas.triton.backends.compiler import BaseBackend, GPUTarget
from eas.triton.runtime.jit import Compiled as CompiledKernel

__all__ = ["ASTSource", "CompiledKernel", "GPUTarget", "compile", "make_backend", "triton_key"]


class ASTSource:
    """A kernel, the types of its arguments and the values of its meta-parameters."""

    ext = "ttir"

    def __init__(self, fn: Any, signature: Mapping[str, Any], constexprs: Mapping[Any, Any] | None = None, attrs: Any = None) -> None:
        self.fn, self.signature, self.name = fn, signature, fn.__name__
        self.constants = {(fn.arg_names[k[0]] if isinstance(k, tuple) else k): v for k, v in (constexprs or {}).items()}
        self.attrs = attrs or {}

    def hash(self) -> str:
        return f"{self.fn.cache_key}-{sorted(self.signature.items())}-{sorted(map(str, self.constants.items()))}"


def compile(src: Any, target: Any = None, options: Any = None, _env_vars: Any = None) -> Any:
    """Refused: kernels are compiled by their first launch, or by `kernel.warmup(...)`."""
    raise Unsupported("triton.compile is not supported", hint="kernel.warmup(*arguments, grid=...) compiles without a launch")


def make_backend(target: Any) -> BaseBackend:
    """The backend of eas."""
    return BaseBackend(target)


def triton_key() -> str:
    """A text that changes with the compiler."""
    return f"eas-{__version__}"
