"""Block sizes as rules of the extents, so that no kernel carries a constant of its own."""

from __future__ import annotations

import functools
import math
from typing import Any

from eas import mk
from eas.base import config
from eas.base.backends import runs_metal
from eas.runtime.launch_settings import setting_now
from eas.runtime.native.host_target import host_caches

_F32 = 4  # bytes


def power_of_2(most: int) -> int:
    """The largest one that is not above `most`."""
    return 1 << max(0, most.bit_length() - 1)


CACHES = host_caches()  # of the machine that runs this process; on Metal its own sizes count
FLAT_BLOCK = 4096  # elements of a program that streams through memory
ROW_BLOCK = power_of_2(CACHES.l2 // 8 // _F32)  # longest row kept in one block, beside what is made of it: 32768 of 1 MiB
LOOP_BLOCK = power_of_2(CACHES.l1 // 2 // _F32)  # step through rows that are longer: 4096 of 32 KiB
SUM_BLOCK = 1 << 14  # fewest elements that become one partial sum; at most 16 times as many do
PARTIAL_SUMS = 64  # of a large array: enough for many threads, few to add
TILE = power_of_2(math.isqrt(CACHES.l1 // 2 // _F32))  # edge of a square f32 tile that is half of L1: 64
DOT_TILE = (64, 64, 128)  # small, so that threads finish together
SCORES_TILE = 128  # edge of the block of scores that attention holds
SMALL = 64  # edge of a product that is one tile anywhere
MIN_TILE = 16
METAL_TILE = 32  # edge of any tile on Metal, where a threadgroup has 32 KiB for all of its blocks
METAL_DOT_TILE = (64, 64, 32)
METAL_ROW_BLOCK = 8192  # 8 registers of each of 1024 threads
METAL_NBYTES = 32768  # of a threadgroup, for all of its blocks
METAL_SCORES = ((32, 32), (32, 16), (16, 16), (16, 8), (8, 8), (8, 4), (4, 4))  # queries and keys, the largest first
PROGRAMS_PER_THREAD = 4  # so that one slow thread delays the others little


def on_metal(x: Any) -> bool:
    """Whether kernels on `x`, of NumPy, eas or torch, will run in the threadgroups of a Metal device, real or simulated."""
    # `auto` goes by the arguments; to read the setting takes a tenth of the time of asking for its runtime
    if runs_metal(setting_now(config.backend)):
        return True
    device = getattr(x, "device", None)
    return device == "mps" or getattr(device, "type", None) == "mps"


def flat_block(n: int) -> int:
    """For a kernel that visits n elements once."""
    return min(mk.next_power_of_2(n), FLAT_BLOCK)


def sum_block(x: Any, n: int) -> int:
    """For a kernel that adds up n elements of `x`, a partial sum per program; does not depend on threads."""
    if on_metal(x):
        return SUM_BLOCK
    share = mk.next_power_of_2(n) // PARTIAL_SUMS
    return int(max(SUM_BLOCK, min(share, 16 * SUM_BLOCK)))


def row_block(x: Any, cols: int) -> int:
    """The whole row of `x` if a block can hold it, else the step of a loop over it."""
    whole = mk.next_power_of_2(cols)
    if whole <= METAL_ROW_BLOCK:  # anywhere; which device it is takes longer to find out
        return whole
    return whole if whole <= (METAL_ROW_BLOCK if on_metal(x) else ROW_BLOCK) else LOOP_BLOCK


def tile(x: Any, extent: int, largest: int = TILE) -> int:
    """Edge of a tile of `x` of two or more axes: no longer than the axis needs."""
    largest = min(largest, METAL_TILE) if on_metal(x) else largest
    return max(MIN_TILE, min(mk.next_power_of_2(extent), largest))


def strip(extent: int, largest: int) -> int:
    """Length of a block of one axis: no longer than the axis needs."""
    return int(max(MIN_TILE, min(mk.next_power_of_2(extent), largest)))


def even_tile(extent: int, largest: int, step: int = MIN_TILE) -> int:
    """A multiple of `step` near `largest` that leaves little of the last tile empty."""
    extent = max(extent, 1)  # of an array without elements
    share = mk.cdiv(extent, mk.cdiv(extent, largest))
    return int(mk.cdiv(share, step) * step)


def dot_tiles(m: int, n: int, k: int, programs: int, metal: bool) -> tuple[int, int, int]:
    """(BM, BN, BK) of a matrix product, small enough that there is work for `programs`."""
    return _dot_tiles(m, n, k, programs, METAL_DOT_TILE if metal else DOT_TILE)


def element_nbytes(x: Any) -> int:
    """Bytes of an element of an array of NumPy, eas or torch."""
    return int(getattr(x.dtype, "itemsize", 0) or x.dtype.nbytes)


def metal_scores(x: Any, n: int, m: int, d: int) -> tuple[int, int]:
    """Queries and keys of a block of scores on Metal: rows of d elements of both, and their scores, fit into a threadgroup."""
    row_nbytes = (d + 8) * element_nbytes(x)
    for bm, bn in METAL_SCORES:
        rows = bm + bn if bn >= 8 else 2 * bm + bn  # results in blocks that are no 8x8 matrices are there, too
        if rows * row_nbytes + bm * bn * _F32 + 1024 <= METAL_NBYTES:
            break
    return min(tile(x, n), bm), min(tile(x, m), bn)


@functools.lru_cache(maxsize=1024)
def small_dot_tiles(m: int, n: int, k: int) -> tuple[int, int, int]:
    """(BM, BN, BK) of a product that is one tile, on any device: to find out which takes longer than the product."""
    return even_tile(m, SMALL, 4), even_tile(n, SMALL), even_tile(k, METAL_TILE)


@functools.lru_cache(maxsize=1024)
def _dot_tiles(m: int, n: int, k: int, programs: int, largest: tuple[int, int, int]) -> tuple[int, int, int]:
    bm, bn, bk = largest
    while bm > 2 * MIN_TILE and mk.cdiv(m, bm) * mk.cdiv(n, bn) < programs:
        bm, bn = (bm // 2, bn) if bm >= bn else (bm, bn // 2)
    return even_tile(m, bm, 4), even_tile(n, bn), even_tile(k, bk)
