"""What a schedule and the code generator need to know of an Apple GPU; explicit values, never the machine we run on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

FragmentMap = Literal["standard"]
NEEDED_MACOS = {"3.1": 14, "3.2": 15, "4.0": 26}
"""Language levels, and the system that each came with; the first is the least that generated text needs."""


def newest_language(macos: str) -> str | None:
    """The language level of a system such as "14.5": the newest that it has, or None if that is too old for our text."""
    major = int(macos.partition(".")[0] or 0)
    return next((language for language, needed in reversed(NEEDED_MACOS.items()) if major >= needed), None)


@dataclass(frozen=True, slots=True)
class MetalTarget:
    """A family of Apple GPUs and the language level that its text may use."""

    name: str
    language: str = "3.1"
    max_threads: int = 1024
    threadgroup_nbytes: int = 32768
    max_buffers: int = 31
    simd_width: int = 32
    has_ulong_min_max: bool = False  # atomic_ulong: min and max on device memory
    has_ulong_atomics: bool = False  # atomic_ulong: load, store, exchange, compare, add, ... as well
    fragment_map: FragmentMap | None = "standard"
    """Which lane holds which element of an 8x8 simdgroup matrix; None: unknown, go through memory."""
    usual_threads: int = 256
    """Of a threadgroup whose blocks are large enough."""
    elements_per_thread: int = 4
    """Of a block that threads share; of f32, one vector load of 16 bytes."""


APPLE7 = MetalTarget("apple7")
APPLE8 = replace(APPLE7, name="apple8", has_ulong_min_max=True)
APPLE9 = replace(APPLE8, name="apple9", has_ulong_atomics=True)
DEFAULT = APPLE7
