"""What can go wrong, as one exception hierarchy whose texts name a kernel line and one next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class SourcePlace(Protocol):
    """Where in the user's source something happened; `eas.ir.Loc` is the implementation."""

    def describe(self) -> Sequence[str]:
        """Lines that show the place: `at file:line`, the source line, the caret."""
        ...


def printable(text: str, keep: str = "") -> str:
    """Text whose control characters are escapes, so that a name stays within its line and off the terminal's controls."""
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def source_lines(filename: str, module_globals: dict[str, Any] | None = None) -> list[str]:
    """The lines of a source file; none for a name that no file can have, which a code object may give."""
    import linecache  # only errors and tracing ask

    try:
        return linecache.getlines(filename, module_globals)
    except ValueError:  # a NUL character, a lone surrogate
        return []


def source_line(filename: str, line: int) -> str:
    """One line of a source file, counted from 1, or nothing."""
    lines = source_lines(filename)
    return lines[line - 1] if 1 <= line <= len(lines) else ""


class EasError(Exception):
    """Base of every error that eas raises on purpose."""

    def __init__(self, message: str, *, hint: str = "", loc: SourcePlace | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.loc = loc

    def at(self, loc: SourcePlace | None) -> EasError:
        """Remember the kernel line, unless a more precise one is already known."""
        if self.loc is None:
            self.loc = loc
        return self

    def __str__(self) -> str:
        lines = [self.message]
        if self.loc is not None:
            lines += [f"  {line}" for line in self.loc.describe()]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Locations hold code objects, which do not pickle: the text of the place travels instead.
        return (_rebuild, (type(self), self.message, self.hint, self.loc and list(self.loc.describe())))


class _KnownPlace:
    """A place of which only the text is left."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def describe(self) -> Sequence[str]:
        return self.lines


def _rebuild(cls: type[EasError], message: str, hint: str, lines: Sequence[str] | None) -> EasError:
    return cls(message, hint=hint, loc=_KnownPlace(lines) if lines else None)


# --- while a kernel is traced and compiled -----------------------------------------------------


class CompileError(EasError):
    """The kernel itself is wrong, or asks for something that eas cannot do."""


class TypeMismatch(CompileError, TypeError):
    """An operand has a dtype that the operation does not take."""


class ShapeMismatch(CompileError, ValueError):
    """Two block shapes do not fit together."""


class ModeMismatch(CompileError, ValueError):
    """A kernel mixes the spmd and the thread launch mode, or uses an op of the other one."""


class UnsupportedPython(CompileError):
    """A Python statement that has no meaning inside a kernel."""


class Unsupported(CompileError):
    """A legal kernel that this target cannot express; refused before any code is emitted."""


class UndefinedName(CompileError, NameError):
    """A variable is used that some path through the kernel never assigned."""


class EscapedValue(CompileError):
    """A value made inside a loop or branch is used outside of it."""


class StaticAssertion(CompileError, AssertionError):
    """`mk.static_assert`, or an `assert` on trace-time values, failed."""


class OutsideKernel(EasError, RuntimeError):
    """A `mk` function was called while no kernel is being traced."""


class InvalidIR(EasError):
    """The verifier or the parser found IR that breaks a rule; a bug of eas unless you wrote the IR."""


# --- while a kernel is launched ---------------------------------------------------------------


class LaunchError(EasError):
    """A launch that cannot be made as it was asked for."""


class ArgumentError(LaunchError, TypeError):
    """An argument is missing, superfluous, or of a kind or dtype that a kernel cannot take."""


class GridError(LaunchError, ValueError):
    """The grid, shape or threads of a launch are missing or contradict the kernel."""


class LostWrite(LaunchError, ValueError):
    """The kernel writes an argument that cannot be written back faithfully."""


class BackendUnavailable(EasError, RuntimeError):
    """The chosen backend does not exist on this machine."""


class InvalidSetting(EasError, ValueError):
    """An environment variable holds a value that its row in `eas.base.config` does not allow."""


# --- while a kernel runs ----------------------------------------------------------------------


class KernelError(EasError, RuntimeError):
    """A kernel failed while running."""


class DeviceAssertion(KernelError, AssertionError):
    """`mk.device_assert` failed."""


class OutOfBounds(KernelError, IndexError):
    """A kernel touched memory outside of a buffer."""


class FailedDependency(KernelError):
    """A launch was not run, because one before it failed that should have written its memory."""


class SanitizerError(KernelError):
    """The software Metal saw a kernel do what Metal leaves undefined; `findings` has the facts, one each."""

    def __init__(
        self, message: str, *, hint: str = "", loc: SourcePlace | None = None, findings: Sequence[object] = ()
    ) -> None:
        super().__init__(message, hint=hint, loc=loc)
        self.findings = tuple(findings)


class KernelWarning(UserWarning):
    """A kernel that compiles and probably does not mean what it says."""


# A list that type checkers can read, in the order of the file.
__all__ = [  # noqa: RUF022
    "EasError",
    "CompileError",
    "TypeMismatch",
    "ShapeMismatch",
    "ModeMismatch",
    "UnsupportedPython",
    "Unsupported",
    "UndefinedName",
    "EscapedValue",
    "StaticAssertion",
    "OutsideKernel",
    "InvalidIR",
    "LaunchError",
    "ArgumentError",
    "GridError",
    "LostWrite",
    "BackendUnavailable",
    "InvalidSetting",
    "KernelError",
    "DeviceAssertion",
    "OutOfBounds",
    "FailedDependency",
    "SanitizerError",
    "KernelWarning",
]
for _name in __all__:
    globals()[_name].__module__ = "eas"  # tracebacks show the public name, eas.TypeMismatch
