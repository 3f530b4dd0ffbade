"""Counts of byte values: each program counts its block, then adds it to memory atomically."""

import numpy as np

import eas
from eas import mk

from .command_line import parse, report


@eas.kernel
def histogram_kernel(x, counts, N, BINS: eas.constexpr, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    local = mk.histogram(mk.load(x, offs, mask), BINS, mask=mask)
    mk.atomic_add(counts, mk.arange(0, BINS), local)


@eas.kernel
def scatter_histogram_kernel(x, counts, N, BLOCK: eas.constexpr):
    """The simplest form: every element is an atomic of its own."""
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    mk.atomic_add(counts, mk.load(x, offs, mask), 1, mask=mask)


def histogram(x: np.ndarray, bins: int, BLOCK: int = 512) -> np.ndarray:
    """How often 0 .. bins-1 occur in an array of integers."""
    counts = np.zeros(bins, np.int32)
    histogram_kernel[mk.cdiv(x.size, BLOCK)](x, counts, x.size, BINS=bins, BLOCK=BLOCK)
    return counts


def main() -> None:
    options = parse(__doc__, n=5000, bins=256)
    x = np.random.default_rng(0).integers(0, options.bins, options.n, dtype=np.int32)
    want = np.bincount(x, minlength=options.bins)
    error = np.abs(histogram(x, options.bins) - want).max()
    report(f"histogram of {options.n}", error, lambda: error == 0)
    counts = np.zeros(options.bins, np.int32)
    scatter_histogram_kernel(x, counts, options.n, BLOCK=256)
    error = np.abs(counts - want).max()
    report("histogram by atomics", error, lambda: error == 0)


if __name__ == "__main__":
    main()
