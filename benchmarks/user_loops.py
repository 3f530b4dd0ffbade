"""Rows of loops and atomics as users write them: blocks that a loop carries, `while mk.any`, a bin per element."""

from __future__ import annotations

import numpy as np

from benchmarks.held import cdiv, numba_entry, random, row
from benchmarks.registry import Workload, output

WIDE = 8192  # a block much longer than the rows it adds up
STEP = 256


def workloads() -> list[Workload]:
    return [carried_sums(), newton(), atomic_histogram(24, 256)]


def carried_sums() -> Workload:
    m, n = 4096, 1024
    w = row("carried block", f"{WIDE} for {m}x{n}", [random(m, n)], lambda x: x.sum(1), 4 * m * n, 1e-5)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = output(m, np.float32)
        return lambda: (k.carried_sums[m,](x, out, n, BLOCK=WIDE), out)[1]

    @w.entry("numpy")
    def _(x):
        out = output(m, np.float32)
        return lambda: x.sum(1, out=out)

    numba_entry(w, "row_sums", lambda x: output(m, np.float32))
    return w


def newton() -> Workload:
    n = 1 << 20
    w = row("while any", "square roots of 2^20", [lambda rng: 0.1 + 100 * rng.random(n, dtype=np.float32)], np.sqrt, 8 * n, 1e-4)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = output(n, np.float32)
        return lambda: (k.newton[cdiv(n, STEP),](x, out, n, BLOCK=STEP), out)[1]

    numba_entry(w, "newton", lambda x: output(n, np.float32))
    return w


def atomic_histogram(log_n: int, bins: int) -> Workload:
    """By one `mk.atomic_add` per element; peers have bins per thread."""
    n = 1 << log_n
    make = [lambda rng: rng.integers(0, bins, n, dtype=np.int32)]
    w = row("atomic histogram", f"i32 2^{log_n} -> {bins}", make, lambda x: np.bincount(x, minlength=bins), 4 * n)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = output(bins, np.int32)

        def call():
            out.fill(0)
            k.atomic_histogram[cdiv(n, 1024),](x, out, n, BLOCK=1024)
            return out

        return call

    @w.entry("c")
    def _(x):
        from benchmarks.baselines import bind

        out = output(bins, np.int32)
        return bind("histogram", x, out, n, bins, answer=out)

    return w
