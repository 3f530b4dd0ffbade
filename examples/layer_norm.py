"""Layer norm of the rows of a matrix, with weight and bias; a row may be longer than a block."""

import numpy as np

import eas
from eas import mk

from .command_line import parse, report


@eas.kernel
def layer_norm_kernel(x, y, weight, bias, n_cols, eps, BLOCK: eas.constexpr):
    start = mk.program_id(0) * n_cols
    total = mk.zeros([BLOCK], mk.f32)
    squares = mk.zeros([BLOCK], mk.f32)
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        part = mk.load(x, start + cols, cols < n_cols)
        total += part
        squares += part * part
    mean = mk.sum(total) / n_cols
    rstd = mk.rsqrt(mk.sum(squares) / n_cols - mean * mean + eps)
    for first in range(0, n_cols, BLOCK):
        cols = first + mk.arange(0, BLOCK)
        mask = cols < n_cols
        normal = (mk.load(x, start + cols, mask) - mean) * rstd
        scaled = normal * mk.load(weight, cols, mask) + mk.load(bias, cols, mask)
        mk.store(y, start + cols, scaled, mask)


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Layer norm along the last axis of a matrix."""
    rows, cols = x.shape
    y = np.empty_like(x)
    layer_norm_kernel[rows](x, y, weight, bias, cols, eps, BLOCK=256)
    return y


def reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt(x.var(axis=1, keepdims=True) + eps) * weight + bias


def main() -> None:
    options = parse(__doc__, rows=33, cols=1000)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((options.rows, options.cols), dtype=np.float32)
    weight, bias = rng.standard_normal((2, options.cols), dtype=np.float32)
    error = np.abs(layer_norm(x, weight, bias) - reference(x, weight, bias)).max()
    report(f"layer norm of {options.rows}x{options.cols}", error, lambda: error < 1e-4)


if __name__ == "__main__":
    main()
