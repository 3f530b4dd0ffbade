"""Lazy tensors: a feed-forward block in NumPy's words, computed in two kernels; `EAS_DEBUG=3` tells which, and `page` shows them."""

import numpy as np

import eas
from examples.command_line import parse, report


def norm(x, mean):
    """Rows with mean 0 and variance 1; `mean` is the mean along rows, of tensors or of arrays."""
    centred = x - mean(x)
    return centred / (mean(centred * centred) + 1e-5) ** 0.5


def block(x, w1, b1, w2, b2):
    """The tensor to be: nothing is computed here."""
    hidden = (norm(x, lambda v: v.mean(1, keepdims=True)) @ w1 + b1).relu()
    return x + (hidden @ w2 + b2)


def reference(x, w1, b1, w2, b2):
    """The same by NumPy, in f64."""
    x, w1, b1, w2, b2 = (a.astype(np.float64) for a in (x, w1, b1, w2, b2))
    hidden = np.maximum(norm(x, lambda v: v.mean(1, keepdims=True)) @ w1 + b1, 0)
    return x + (hidden @ w2 + b2)


def arrays(rows: int, width: int) -> list[np.ndarray]:
    """The input and the weights."""
    rng = np.random.default_rng(0)
    shapes = [(rows, width), (width, 4 * width), (4 * width,), (4 * width, width), (width,)]
    return [(rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32) for shape in shapes]


def page(path: str, rows: int = 256, width: int = 256) -> None:
    """Write the page about it: graph, kernels, memory, why edges were cut."""
    block(*map(eas.tensor, arrays(rows, width))).explain().save(path)


def main() -> None:
    options = parse(__doc__, rows=33, width=48)
    given = arrays(options.rows, options.width)
    result = block(*map(eas.tensor, given))
    error = np.abs(result.numpy() - reference(*given)).max()
    report(f"feed-forward block of {options.rows}x{options.width}", error, lambda: error < 1e-5)


if __name__ == "__main__":
    main()
