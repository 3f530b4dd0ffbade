"""Softmax of the rows of a matrix: one program per row, the row in one block."""

import numpy as np

import eas
from eas import mk

from .command_line import parse, report


@eas.kernel
def softmax_kernel(x, y, stride, n_cols, BLOCK: eas.constexpr):
    row = mk.program_id(0)
    cols = mk.arange(0, BLOCK)
    mask = cols < n_cols
    values = mk.load(x, row * stride + cols, mask, other=-float("inf"))
    exps = mk.exp(values - mk.max(values))
    mk.store(y, row * stride + cols, exps / mk.sum(exps), mask)


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax along the last axis of a matrix."""
    rows, cols = x.shape
    y = np.empty_like(x)
    softmax_kernel[rows](x, y, cols, cols, BLOCK=mk.next_power_of_2(cols))
    return y


def reference(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def main() -> None:
    options = parse(__doc__, rows=67, cols=781)
    x = np.random.default_rng(0).standard_normal((options.rows, options.cols), dtype=np.float32)
    error = np.abs(softmax(x) - reference(x)).max()
    report(f"softmax of {options.rows}x{options.cols}", error, lambda: error < 1e-6)


if __name__ == "__main__":
    main()
