"""`triton.runtime.errors`: upstream's names; what goes wrong here are the errors of eas."""

from __future__ import annotations

from typing import Any

from eas.base.errors import EasError

TritonError = EasError


class InterpreterError(EasError):
    """Of upstream's interpreter, which does not exist here."""


class OutOfResources(Exception):
    """A kernel needs more of something than the device has."""

    def __init__(self, required: int, limit: int, name: str) -> None:
        super().__init__(f"out of resource: {name}, Required: {required}, Hardware limit: {limit}. Reducing block sizes or `num_stages` may help.")
        self.required, self.limit, self.name = required, limit, name

    def __reduce__(self) -> tuple[Any, ...]:
        return (OutOfResources, (self.required, self.limit, self.name))


class PTXASError(EasError):
    """Of NVIDIA's assembler, which is not used here."""


class AutotunerError(EasError):
    """No configuration of an autotuner works."""
