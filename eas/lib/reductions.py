"""Results that every element of an array takes part in: its sum, its histogram."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from typing import Any

import numpy as np

from eas import mk
from eas.base.dtypes import DType, Kind
from eas.lib.arrays import Array, check_small, dtype_of, fill, need, result
from eas.lib.faces.torch_arrays import TorchArray
from eas.lib.kernels import constexpr, kernel
from eas.lib.sizes import METAL_NBYTES, flat_block, on_metal, sum_block

HISTOGRAM_KEYS = 1 << 17  # fewest that one program of many counts before it touches shared memory
HISTOGRAM_BLOCK = 8192  # keys between two additions of the bins: on Metal, or of a small array


@kernel
def partial_sums_kernel(x, sums, N, BLOCK: constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    values = mk.load(x, offs, offs < N)
    mk.store(sums, mk.program_id(0), mk.sum(values, dtype=sums.dtype))


@kernel
def histogram_kernel(x, counts, N, BINS: constexpr, STEPS: constexpr, BLOCK: constexpr):
    first = mk.program_id(0) * (STEPS * BLOCK)
    mine = mk.zeros([BINS], mk.i32)
    for start in range(first, min(first + STEPS * BLOCK, N), BLOCK):
        offs = start + mk.arange(0, BLOCK)
        mask = offs < N
        mine += mk.histogram(mk.load(x, offs, mask), BINS, mask=mask)
    mk.atomic_add(counts, mk.arange(0, BINS), mine)


@kernel
def many_bins_kernel(x, counts, N, BINS, BLOCK: constexpr):
    """Every key is counted in shared memory at once, for bins that no threadgroup has room for."""
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    keys = mk.load(x, offs, offs < N, other=-1 if x.dtype.is_signed else 0)
    mk.atomic_add(counts, keys.to(mk.i32), mk.full([BLOCK], 1, mk.i32), (offs < N) & (keys >= 0) & (keys < BINS))


def sum(x: Any, *, block: int | None = None) -> Any:
    """The sum of all elements as a NumPy scalar: integers in i64 or u64, 16-bit floats in f32.

    The partial sums have fixed places, so the result does not depend on the number of threads.
    """
    check_small(x)
    dtype = _sum_dtype(dtype_of(x))
    sums: Any = x
    while sums is x or sums.size > 1:
        size = min(block or sum_block(x, sums.size), mk.next_power_of_2(sums.size))
        x, sums = sums, result(None, (mk.cdiv(sums.size, size),), dtype, x)
        partial_sums_kernel[sums.size](x, sums, x.size, BLOCK=size)
    if not sums.size:
        return dtype.type(0)
    return sums[0] if isinstance(sums, TorchArray) else np.asarray(sums)[0]


def histogram(x: Array, bins: int, out: Array | None = None, *, block: int | None = None) -> Array:
    """How often (i32) each of 0 .. bins-1 occurs in an array of integers; other values do not count."""
    need(dtype_of(x).is_int, lambda: f"histogram needs integers, got {x.dtype}")
    check_small(x)
    counts = result(out, (bins,), np.int32, x)
    fill(counts, 0)
    if bins > METAL_NBYTES // 4 and on_metal(x):
        many_bins_kernel(x, counts, x.size, bins, BLOCK=flat_block(x.size))
        return counts
    keys = max(HISTOGRAM_KEYS, mk.next_power_of_2(16 * bins))
    block = block or (HISTOGRAM_BLOCK if x.size <= HISTOGRAM_BLOCK or on_metal(x) else keys)
    steps = mk.cdiv(keys, block)
    histogram_kernel[mk.cdiv(x.size, steps * block)](x, counts, x.size, BINS=bins, STEPS=steps, BLOCK=block)
    return counts


def _sum_dtype(dtype: DType) -> np.dtype[Any]:
    if dtype.is_float:
        return np.dtype(np.float32) if dtype.bits < 32 else dtype.np_compute
    return np.dtype(np.uint64 if dtype.kind is Kind.UNSIGNED else np.int64)
