"""Softmax of the rows of a matrix; autotune finds how many rows a program should take."""

import numpy as np

import eas
from eas import mk

from .command_line import parse, report
from .softmax import reference


@eas.autotune(configs=[eas.Config({"ROWS": n}) for n in (1, 4, 16)], key=["n_rows", "n_cols"], warmup=1, repeat=5)
@eas.kernel
def softmax_kernel(x, y, n_rows, n_cols, BLOCK: eas.constexpr, ROWS: eas.constexpr):
    rows = mk.program_id(0) * ROWS + mk.arange(0, ROWS)[:, None]
    cols = mk.arange(0, BLOCK)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    values = mk.load(x, rows * n_cols + cols, mask, other=-float("inf"))
    # Rows past the end are all -inf; subtracting 0 instead avoids inf - inf.
    best = mk.max(values, axis=1)
    exps = mk.exp(values - mk.where(best == -float("inf"), 0.0, best)[:, None])
    total = mk.where(rows < n_rows, mk.sum(exps, axis=1)[:, None], 1.0)
    mk.store(y, rows * n_cols + cols, exps / total, mask)


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax along the last axis of a matrix."""
    rows, cols = x.shape
    y = np.empty_like(x)
    grid = lambda meta: mk.cdiv(rows, meta["ROWS"])  # noqa: E731  # as Triton users write it
    softmax_kernel[grid](x, y, rows, cols, BLOCK=mk.next_power_of_2(cols))
    return y


def main() -> None:
    options = parse(__doc__, rows=67, cols=781)
    x = np.random.default_rng(0).standard_normal((options.rows, options.cols), dtype=np.float32)
    error = np.abs(softmax(x) - reference(x)).max()
    report(f"softmax of {options.rows}x{options.cols} with {softmax_kernel.best_config}", error, lambda: error < 1e-6)


if __name__ == "__main__":
    main()
