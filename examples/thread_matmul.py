"""Matrix product in thread mode: each simdgroup owns 8x8 tiles and multiplies simdgroup matrices."""

import numpy as np

import eas
from eas import mk

from .command_line import parse, report


@eas.kernel
def mma_kernel(a, b, c, N, K, BLOCK: eas.constexpr):
    mk.tid(0, BLOCK)
    simdgroups = BLOCK // 32
    row = mk.program_id(1) * 8
    col = (mk.program_id(0) * simdgroups + mk.sg_id()) * 8
    if col < N:
        acc = mk.mma_zero()
        for k in range(0, K, 8):
            acc = mk.mma(a, row * K + k, K, b, k * N + col, N, acc)
        mk.mma_store(c, row * N + col, N, acc)


def matmul(a: np.ndarray, b: np.ndarray, BLOCK: int = 64) -> np.ndarray:
    """a @ b; matrices are padded to multiples of 8, because a simdgroup matrix has no mask."""
    (m, k), n = a.shape, b.shape[1]
    a = np.pad(a, ((0, -m % 8), (0, -k % 8)))
    b = np.pad(b, ((0, -k % 8), (0, -n % 8)))
    c = np.empty((a.shape[0], b.shape[1]), np.float32)
    columns_per_group = BLOCK // 32 * 8
    grid = (mk.cdiv(b.shape[1], columns_per_group), a.shape[0] // 8)
    mma_kernel[grid](a, b, c, b.shape[1], a.shape[1], BLOCK=BLOCK)
    return c[:m, :n]


def main() -> None:
    options = parse(__doc__, m=35, n=41, k=29)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((options.m, options.k), dtype=np.float32)
    b = rng.standard_normal((options.k, options.n), dtype=np.float32)
    error = np.abs(matmul(a, b) - a @ b).max()
    report(f"thread-mode matmul {options.m}x{options.k}x{options.n}", error, lambda: error < 1e-4)


if __name__ == "__main__":
    main()
