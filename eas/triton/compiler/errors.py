"""`triton.compiler.errors`: refusals of the compiler; each names the kernel's line and one next step."""

from __future__ import annotations

from eas.base.errors import CompileError, StaticAssertion, UnsupportedPython

CompilationError = CompileError
CompileTimeAssertionFailure = StaticAssertion
UnsupportedLanguageConstruct = UnsupportedPython
