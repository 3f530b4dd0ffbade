"""`triton.runtime.cache`: the key of the compiler; compiled kernels are in eas' own cache (EAS_CACHE_DIR)."""

from __future__ import annotations

from eas.triton import knobs
from eas.triton.compiler.compiler import triton_key

__all__ = ["knobs", "triton_key"]
