"""Matrix product with a runtime K loop, grouped program ids and any strides, as Triton users write it."""

import numpy as np

import eas
from eas import mk

from .command_line import parse, report


@eas.kernel
def matmul_kernel(
    a, b, c, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr, GROUP: eas.constexpr,
):  # fmt: skip
    # Neighbouring programs share rows of b: GROUP rows of tiles are walked column by column.
    pid = mk.program_id(0)
    tiles_m = mk.cdiv(M, BM)
    tiles_n = mk.cdiv(N, BN)
    in_group = GROUP * tiles_n
    first_m = pid // in_group * GROUP
    rows_of_group = min(tiles_m - first_m, GROUP)
    pid_m = first_m + pid % in_group % rows_of_group
    pid_n = pid % in_group // rows_of_group

    offs_am = (pid_m * BM + mk.arange(0, BM)) % M
    offs_bn = (pid_n * BN + mk.arange(0, BN)) % N
    offs_k = mk.arange(0, BK)
    a_ptrs = a + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    acc = mk.zeros([BM, BN], mk.f32)
    for k in range(mk.cdiv(K, BK)):
        left = mk.load(a_ptrs, mask=offs_k[None, :] < K - k * BK)
        right = mk.load(b_ptrs, mask=offs_k[:, None] < K - k * BK)
        acc = mk.dot(left, right, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk

    offs_cm = pid_m * BM + mk.arange(0, BM)
    offs_cn = pid_n * BN + mk.arange(0, BN)
    c_ptrs = c + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    mk.store(c_ptrs, acc, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


def matmul(a: np.ndarray, b: np.ndarray, BM: int = 32, BN: int = 32, BK: int = 16) -> np.ndarray:
    """a @ b of two C-contiguous matrices; the result is f32."""
    (M, K), N = a.shape, b.shape[1]
    c = np.empty((M, N), np.float32)
    grid = mk.cdiv(M, BM) * mk.cdiv(N, BN)
    matmul_kernel[grid](a, b, c, M, N, K, K, 1, N, 1, N, 1, BM=BM, BN=BN, BK=BK, GROUP=8)
    return c


def main() -> None:
    options = parse(__doc__, m=67, n=45, k=83)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((options.m, options.k), dtype=np.float32)
    b = rng.standard_normal((options.k, options.n), dtype=np.float32)
    error = np.abs(matmul(a, b) - a @ b).max()
    report(f"matmul {options.m}x{options.k}x{options.n}", error, lambda: error < 1e-4)


if __name__ == "__main__":
    main()
