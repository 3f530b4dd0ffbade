"""`triton.language.extra`: functions of a device's library; under every device's name it is the same one."""

from __future__ import annotations

from eas.triton.language.extra import cuda, hip, libdevice

__all__ = ["cuda", "hip", "libdevice"]
