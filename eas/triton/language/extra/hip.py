"""`triton.language.extra.hip`: the library of functions under the name of another device."""

from __future__ import annotations

from eas.triton.language.extra import libdevice

__all__ = ["libdevice"]
