"""What a schedule needs to know of the CPU it is made for; an explicit value, not the machine we run on.

Every number that describes a machine stands here, with its origin: what the system reports (`runtime/native/host_target.py`
reads it), or what follows from that. `AVX2` and the others are fixed, for texts that are the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SUMS = 8
"""Registers of sums that one loop keeps: so many do not wait for each other, and no loop has more lanes."""

NEAR_STEPS = (2, 3, 4)
"""Elements this far apart are shuffled out of whole registers."""

STREAM_NBYTES = 16
"""What a store past the cache is aligned to, as large NumPy arrays are; the write buffers join the pieces."""

MOST_UPDATES = 8
"""Elements that one body of a loop reads and writes one by one: a processor remembers for few such instructions which
others they had to wait for. Measured, Zen 4: 0.5 ns for each of 8, up to 30 ns for each of 16, 32 or 64."""

ALIASING_NBYTES = 1 << 12
"""Processors compare loads with stores under way by the low 12 bits of their addresses, whatever the size of a page."""

UNDER_WAY_NBYTES = 1 << 8
"""That stores past the cache have written at the time of a load; measured, Zen 3 and Zen 4."""

L1_WAY_NBYTES = 1 << 10
"""Lines this far apart, or a multiple of it, share few places of an L1 cache: a quarter of the 4 KiB of one way."""


@dataclass(frozen=True, slots=True)
class Caches:
    """What is between a core and memory, in bytes; the defaults stand for what a system does not tell."""

    l1: int = 32 << 10
    """Of data, of one core: 32 to 48 KiB on x86-64, 64 to 128 KiB on aarch64."""
    l2: int = 1 << 20
    """Of one core, or of the cores that share it, each its part."""
    last: int = 32 << 20
    """The largest one, which all cores of a group share."""
    line: int = 64
    """128 on Apple's processors."""


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A CPU: its vector registers, its caches, and what LLVM calls it."""

    name: str
    vector_nbytes: int
    vector_registers: int
    triple: str = ""
    cpu: str = ""  # empty: the machine that compiles, with all that it can do
    features: str = ""
    has_cheap_masks: bool = True  # masked 32-bit loads and stores are one instruction
    has_permutes: bool = True  # eight elements of 32 bits are permuted by a register
    has_mask_registers: bool = False  # masks of lanes have registers of their own
    has_narrow_masks: bool = False  # masked 8-bit and 16-bit loads and stores are one instruction (avx512bw)
    has_unsigned_compares: bool = True  # of lanes of 64 bits; of narrower ones all have minimum and maximum
    has_f16: bool = True  # f16 and f32 are converted by an instruction
    caches: Caches = field(default_factory=Caches)

    @property
    def most_lanes(self) -> int:
        """Of any loop: lanes have at least 32 bits."""
        return SUMS * self.vector_nbytes // 4

    @property
    def stream_nbytes(self) -> int:
        """Of a buffer that is written past the cache: with as much that is read it would fill the last one."""
        return self.caches.last // 2

    @property
    def panel_vectors(self) -> int:
        """Vectors of a row of a block of a product: with six rows the sums fill three quarters of the registers."""
        return self.vector_registers // 8

    def panel_steps(self, vectors: int) -> int:
        """Rows of a panel of the right side of a product: half of L1, and enough to be worth a trip to the sums."""
        steps = self.caches.l1 // 2 // (vectors * self.vector_nbytes)
        return max(128, steps // 8 * 8)

    @property
    def unpacked_nbytes(self) -> int:
        """Of a right side that stays in L1 beside the rest, whatever the distances of its rows: three quarters."""
        return self.caches.l1 // 4 * 3

    @property
    def memo_nbytes(self) -> int:
        """Of packed panels that a thread keeps from program to program: what L2 holds, or a part of the last cache."""
        return max(self.caches.l2, 1 << 20)

    @property
    def row_nbytes(self) -> int:
        """Of a row so short that it, the next one, and what is made of them are in L2 together."""
        return self.caches.l2 // 8

    @property
    def near_row_nbytes(self) -> int:
        """Of a row so short that L1 holds it, the next one, and what is made of them: longer ones push each other out."""
        return self.caches.l1 // 4

    @property
    def copy_nbytes(self) -> int:
        """Of a buffer that each thread has a copy of, for its atomics: L2 holds it beside what is read."""
        return self.caches.l2 // 4


_LINUX_X86, _LINUX_ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
SSE = CpuTarget("sse4.2", 16, 16, _LINUX_X86, "x86-64-v2", "", False, False, has_unsigned_compares=False, has_f16=False)
AVX2 = CpuTarget("avx2", 32, 16, _LINUX_X86, "x86-64-v3", has_unsigned_compares=False)
AVX512 = CpuTarget("avx512", 64, 32, _LINUX_X86, "x86-64-v4", has_mask_registers=True, has_narrow_masks=True)
NEON = CpuTarget("neon", 16, 32, _LINUX_ARM, "apple-m1", has_cheap_masks=False, has_permutes=False)

LEVELS = {target.cpu: target for target in (SSE, AVX2, AVX512)}
"""Of x86-64, by the names of its ABI, which LLVM, GCC and glibc use as well."""
