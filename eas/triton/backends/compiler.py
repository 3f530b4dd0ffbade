"""`triton.backends.compiler`: the device that is compiled for."""

from __future__ import annotations

from typing import Any

from eas._version import __version__
from eas.triton.runtime.driver import GPUTarget

__all__ = ["BaseBackend", "GPUTarget"]


class BaseBackend:
    """The compiler of eas in upstream's form."""

    def __init__(self, target: Any) -> None:
        self.target = target

    @staticmethod
    def supports_target(target: Any) -> bool:
        return str(getattr(target, "backend", target)) in ("cpu", "metal")

    def hash(self) -> str:
        """A text that changes with the compiler."""
        return f"eas-{__version__}"
