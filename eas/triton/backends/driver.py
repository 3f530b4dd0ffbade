"""`triton.backends.driver`: the driver of eas under upstream's names."""

from __future__ import annotations

from eas.triton.runtime.driver import Driver as DriverBase
from eas.triton.runtime.driver import Driver as GPUDriver

__all__ = ["DriverBase", "GPUDriver"]
