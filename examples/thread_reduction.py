"""Sum of an array in thread mode: a tree over threadgroup memory, a barrier between its levels."""

import numpy as np

import eas
from eas import mk

from .command_line import parse, report


@eas.kernel
def tree_sum_kernel(x, sums, N, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    group = mk.program_id(0)
    i = group * BLOCK + t
    tile = mk.alloc_tg(BLOCK, mk.f32)
    mk.store(tile, t, mk.load(x, i, i < N))
    mk.barrier()
    half = BLOCK // 2
    while half > 0:
        if t < half:
            mk.store(tile, t, mk.load(tile, t) + mk.load(tile, t + half))
        mk.barrier()
        half = half // 2
    if t == 0:
        mk.store(sums, group, mk.load(tile, 0))


def tree_sum(x: np.ndarray, BLOCK: int = 128) -> float:
    """The sum of an f32 array: one partial sum per threadgroup, the rest by NumPy."""
    sums = np.zeros(mk.cdiv(x.size, BLOCK), np.float32)
    tree_sum_kernel(x, sums, x.size, BLOCK=BLOCK)
    return float(sums.sum())


def main() -> None:
    options = parse(__doc__, n=1000)
    x = np.random.default_rng(0).standard_normal(options.n, dtype=np.float32)
    error = abs(tree_sum(x) - x.sum(dtype=np.float64))
    report(f"thread-mode sum of {options.n}", error, lambda: error < 1e-3)


if __name__ == "__main__":
    main()
