"""What the software Metal refuses, with the line of the Metal text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eas.base.errors import CompileError, SourcePlace

Places = Mapping[int, SourcePlace]
"""Line of the Metal text -> the kernel line in Python that it was made from."""


class MetalPlace:
    """A line of a Metal text, shown as kernel lines are."""

    def __init__(self, file: str, line: int, text: str = "", column: int = 0) -> None:
        self.file, self.line, self.text, self.column = file, line, text, column

    def describe(self) -> Sequence[str]:
        shown = [f"at {self.file or '<metal>'}:{self.line}"]
        if self.text.strip():
            body = self.text.expandtabs(1)
            indent = len(body) - len(body.lstrip())
            shown.append(f"  {body.strip()}")
            if self.column > indent:
                shown.append(f"  {' ' * (self.column - 1 - indent)}^")
        return shown


class MetalSourceError(CompileError):
    """The Metal text is one that Metal, or the software Metal, does not take."""

    def __init__(self, message: str, *, line: int = 0, file: str = "", text: str = "", column: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint, loc=MetalPlace(file, line, text, column) if line else None)
        self.line = line

    def __reduce__(self) -> tuple[object, ...]:
        lines = self.loc.describe() if self.loc is not None else None
        return (_rebuild, (self.message, self.hint, self.line, lines))


class _ToldPlace:
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def describe(self) -> Sequence[str]:
        return self.lines


def _rebuild(message: str, hint: str, line: int, lines: Sequence[str] | None) -> MetalSourceError:
    made = MetalSourceError(message, hint=hint)
    made.line = line
    made.loc = _ToldPlace(lines) if lines else None
    return made
