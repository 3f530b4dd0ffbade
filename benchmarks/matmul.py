"""Rows: matrix product of two square sizes and one that fits no tile; of small ones; of a vector and a matrix."""

from __future__ import annotations

import numpy as np

from benchmarks.registry import Bar, Workload, output


def workloads() -> list[Workload]:
    large = [matmul(1024, 1024, 1024), matmul(512, 512, 512), matmul(1000, 777, 513)]
    small = [matmul(n, n, n, "small matmul") for n in (64, 128, 256)]
    return [*large, *small, matmul(1, 4096, 4096, "matvec"), matmul(4096, 4096, 1, "matvec")]


def matmul(m: int, k: int, n: int, name: str = "matmul") -> Workload:
    w = Workload(
        name, f"{m}x{k}x{n}", Bar(ratio=1.15), flops=2 * m * k * n, nbytes=4 * (m * k + k * n + m * n),
        make=lambda rng: (rng.standard_normal((m, k), dtype=np.float32), rng.standard_normal((k, n), dtype=np.float32)),
        reference=lambda a, b: a.astype(np.float64) @ b,
    )  # fmt: skip

    @w.entry("eas")
    def _(a, b):
        from eas import lib

        out = output((m, n), np.float32)
        return lambda: lib.matmul(a, b, out)

    @w.entry("numpy")
    def _(a, b):
        out = output((m, n), np.float32)
        return lambda: np.matmul(a, b, out=out)

    @w.entry("torch")
    def _(a, b):
        from benchmarks.torch_peer import tensors, torch

        ta, tb, out = tensors(a, b, output((m, n), np.float32))
        return lambda: torch.mm(ta, tb, out=out)

    if n == 1:

        @w.entry("numba")
        def _(a, b):
            from benchmarks import numba_peer

            vector, out = b.reshape(k), output(m, np.float32)
            return lambda: (numba_peer.matvec(a, vector, out), out[:, None])[1]

    @w.entry("jax", allocates=True)
    def _(a, b):
        from benchmarks.jax_peer import jitted

        return jitted(lambda x, y: x @ y, a, b)

    return w
