"""Prefix sum of the rows of a matrix; the carry goes from block to block of a row."""

import numpy as np

import eas
from eas import mk

from .command_line import parse, report


@eas.kernel
def cumsum_kernel(x, y, n_cols, BLOCK: eas.constexpr):
    start = mk.program_id(0) * n_cols
    carry = 0.0
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        part = mk.load(x, start + cols, mask)
        mk.store(y, start + cols, mk.cumsum(part) + carry, mask)
        carry += mk.sum(part)


def cumsum(x: np.ndarray, BLOCK: int = 256) -> np.ndarray:
    """Inclusive prefix sum along the last axis of a matrix."""
    y = np.empty_like(x)
    cumsum_kernel[x.shape[0]](x, y, x.shape[1], BLOCK=BLOCK)
    return y


def main() -> None:
    options = parse(__doc__, rows=5, cols=1000)
    x = np.random.default_rng(0).standard_normal((options.rows, options.cols), dtype=np.float32)
    error = np.abs(cumsum(x) - np.cumsum(x.astype(np.float64), axis=1)).max()
    report(f"prefix sum of {options.rows}x{options.cols}", error, lambda: error < 1e-3)


if __name__ == "__main__":
    main()
