"""What a schedule needs to know of the CPU it is made for; an explicit value, not the machine we run on."""

from __future__ import annotations

from dataclasses import dataclass

SUMS = 8
"""Registers of sums that one loop keeps: so many do not wait for each other, and no loop has more lanes."""

NEAR_STEPS = (2, 3, 4)
"""Elements this far apart are shuffled out of whole registers."""

STREAM_NBYTES = 16
"""What a store past the cache is aligned to, as large NumPy arrays are; the write buffers join the pieces."""


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A CPU: its vector registers, and what LLVM calls it."""

    name: str
    vector_nbytes: int
    vector_registers: int
    triple: str = ""
    cpu: str = ""
    features: str = ""
    has_cheap_masks: bool = True  # masked 32-bit loads and stores are one instruction
    has_permutes: bool = True  # eight elements of 32 bits are permuted by a register

    @property
    def most_lanes(self) -> int:
        """Of any loop: lanes have at least 32 bits."""
        return SUMS * self.vector_nbytes // 4


AVX2 = CpuTarget("avx2", 32, 16, "x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma,+f16c,+bmi2")
AVX512 = CpuTarget("avx512", 64, 32, "x86_64-unknown-linux-gnu", "skylake-avx512", "")
NEON = CpuTarget("neon", 16, 32, "aarch64-unknown-linux-gnu", "apple-m1", "", has_cheap_masks=False, has_permutes=False)


def host_target(vector_nbytes: int) -> CpuTarget:
    """The machine that runs this process, of which only the width of its vectors matters here."""
    return {64: AVX512, 32: AVX2}.get(vector_nbytes, NEON)
