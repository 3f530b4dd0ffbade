"""How much memory tensors use: each kind of memory adds itself, and `EAS_DEBUG` asks."""

from __future__ import annotations

from collections.abc import Callable

used_nbytes: list[Callable[[], int]] = []
"""One function per kind of memory: the bytes of it that tensors use."""
