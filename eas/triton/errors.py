"""`triton.errors`: upstream's names of what goes wrong; the errors are those of eas."""

from __future__ import annotations

from eas.triton.runtime.errors import TritonError

__all__ = ["TritonError"]
