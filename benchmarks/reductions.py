"""Rows: the sum of an array, a histogram of 256 bins."""

from __future__ import annotations

import os

import numpy as np

from benchmarks.registry import Bar, Workload


def workloads() -> list[Workload]:
    return [array_sum(24), histogram(24, 256)]


def array_sum(log_n: int) -> Workload:
    n = 1 << log_n
    w = Workload(
        "sum", f"2^{log_n}", Bar(ratio=1.05), nbytes=4 * n, flops=n, tolerance=1e-4,
        make=lambda rng: (rng.random(n, dtype=np.float32),),  # of one sign: no cancellation to forgive
        reference=lambda x: x.sum(dtype=np.float64),
    )  # fmt: skip

    @w.entry("eas")
    def _(x):
        from eas import lib

        return lambda: lib.sum(x)

    @w.entry("numpy")
    def _(x):
        return lambda: x.sum()

    @w.entry("c")
    def _(x):
        from benchmarks.baselines import bind

        return bind("sum", x, n)

    @w.entry("numba")
    def _(x):
        from benchmarks import numba_peer

        return lambda: numba_peer.sum(x)

    @w.entry("torch")
    def _(x):
        from benchmarks.torch_peer import tensors, torch

        (t,) = tensors(x)
        return lambda: torch.sum(t)

    @w.entry("jax")
    def _(x):
        from benchmarks.jax_peer import jitted

        return jitted(lambda t: t.sum(), x)

    @w.entry("halide")
    def _(x):
        from benchmarks import halide_peer

        return halide_peer.sum(x)

    return w


def histogram(log_n: int, bins: int) -> Workload:
    n = 1 << log_n
    w = Workload(
        "histogram", f"i32 2^{log_n} -> {bins}", Bar(ratio=1.2), nbytes=4 * n, tolerance=0,
        make=lambda rng: (rng.integers(0, bins, n, dtype=np.int32),),
        reference=lambda x: np.bincount(x, minlength=bins),
    )  # fmt: skip

    @w.entry("eas")
    def _(x):
        from eas import lib

        out = np.empty(bins, np.int32)
        return lambda: lib.histogram(x, bins, out)

    @w.entry("numpy", allocates=True)
    def _(x):
        return lambda: np.bincount(x, minlength=bins)

    @w.entry("c")
    def _(x):
        from benchmarks.baselines import bind

        out = np.empty(bins, np.int32)
        return bind("histogram", x, out, n, bins, answer=out)

    @w.entry("numba")
    def _(x):
        from benchmarks import numba_peer

        out, threads = np.empty(bins, np.int32), int(os.environ["NUMBA_NUM_THREADS"])
        return lambda: (numba_peer.histogram(x, out, threads), out)[1]

    @w.entry("torch", allocates=True)
    def _(x):
        from benchmarks.torch_peer import tensors, torch

        (t,) = tensors(x)
        return lambda: torch.bincount(t, minlength=bins)

    return w
