"""Row: transpose of a square matrix into memory of its own."""

from __future__ import annotations

import numpy as np

from benchmarks.registry import Bar, Workload, output_like


def workloads() -> list[Workload]:
    return [transpose(4096)]


def transpose(n: int) -> Workload:
    w = Workload(
        "transpose", f"{n}x{n}", Bar(ratio=1.1), nbytes=8 * n * n, tolerance=0,
        make=lambda rng: (rng.standard_normal((n, n), dtype=np.float32),),
        reference=lambda x: x.T,
    )  # fmt: skip

    @w.entry("eas")
    def _(x):
        from eas import lib

        out = output_like(x)
        return lambda: lib.transpose(x, out)

    @w.entry("numpy")
    def _(x):
        out = output_like(x)
        return lambda: (np.copyto(out, x.T), out)[1]

    @w.entry("c")
    def _(x):
        from benchmarks.baselines import bind

        out = output_like(x)
        return bind("transpose", x, out, n, n, answer=out)

    @w.entry("numba")
    def _(x):
        from benchmarks import numba_peer

        out = output_like(x)
        return lambda: (numba_peer.transpose(x, out, 32), out)[1]

    @w.entry("torch")
    def _(x):
        from benchmarks.torch_peer import tensors

        t, out = tensors(x, output_like(x))
        return lambda: out.copy_(t.t())

    @w.entry("jax", allocates=True)
    def _(x):
        from benchmarks.jax_peer import jitted

        return jitted(lambda t: t.T.copy(), x)

    @w.entry("halide")
    def _(x):
        from benchmarks import halide_peer

        return halide_peer.transpose(x, output_like(x))

    return w
