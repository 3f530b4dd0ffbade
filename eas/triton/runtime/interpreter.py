"""`triton.runtime.interpreter`: names that libraries look for; EAS_BACKEND=interp interprets kernels here."""

from __future__ import annotations


class InterpretedFunction:
    """What upstream's interpreter makes of a kernel; nothing here is one."""
