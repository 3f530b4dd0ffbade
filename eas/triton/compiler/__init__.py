"""`triton.compiler`: upstream's names for compiled kernels, as far as other libraries ask for them."""

from __future__ import annotations

from eas.triton.compiler.compiler import (
    ASTSource,
    CompiledKernel,
    compile,
    make_backend,
    triton_key,
)
from eas.triton.compiler.errors import CompilationError

__all__ = ["ASTSource", "CompilationError", "CompiledKernel", "compile", "make_backend", "triton_key"]
