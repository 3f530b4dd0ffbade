"""`triton.language.extra.libdevice`: functions of C's math library and of bits."""

from __future__ import annotations

from eas.triton.language.math import (  # noqa: F401
    abs,
    ceil,
    cos,
    erf,
    exp,
    exp2,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
)
