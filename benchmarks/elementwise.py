"""Rows: add, GELU of an affine map."""

from __future__ import annotations

import numpy as np

from benchmarks.registry import Bar, Workload, output_like

A, B = 0.9, 0.1


def workloads() -> list[Workload]:
    return [add(24), gelu(22, "none"), gelu(22, "tanh")]


def add(log_n: int) -> Workload:
    n = 1 << log_n
    w = Workload(
        "add", f"2^{log_n}", Bar(ratio=1.10), nbytes=12 * n, flops=n, tolerance=0,
        make=lambda rng: tuple(rng.standard_normal((2, n), dtype=np.float32)),
        reference=lambda x, y: x + y,
    )  # fmt: skip

    @w.entry("eas")
    def _(x, y):
        from eas import lib

        out = output_like(x)
        return lambda: lib.add(x, y, out)

    @w.entry("numpy")
    def _(x, y):
        out = output_like(x)
        return lambda: np.add(x, y, out=out)

    @w.entry("c")
    def _(x, y):
        from benchmarks.baselines import bind

        out = output_like(x)
        return bind("add", x, y, out, n, answer=out)

    @w.entry("numba")
    def _(x, y):
        from benchmarks import numba_peer

        out = output_like(x)
        return lambda: (numba_peer.add(x, y, out), out)[1]

    @w.entry("torch")
    def _(x, y):
        from benchmarks.torch_peer import tensors, torch

        tx, ty, out = tensors(x, y, output_like(x))
        return lambda: torch.add(tx, ty, out=out)

    @w.entry("torch.compile", allocates=True)
    def _(x, y):
        from benchmarks.torch_peer import compiled

        return compiled(lambda a, b: a + b, x, y)

    @w.entry("jax", allocates=True)
    def _(x, y):
        from benchmarks.jax_peer import jitted

        return jitted(lambda a, b: a + b, x, y)

    @w.entry("halide")
    def _(x, y):
        from benchmarks import halide_peer

        return halide_peer.add(x, y, output_like(x))

    return w


def gelu_reference(x, approximate):
    v = A * x.astype(np.float64) + B
    if approximate == "tanh":
        return 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))
    from math import erf

    # 2^22 calls of libm take a second: the function of a fine grid, linearly between its points.
    grid = np.linspace(v.min(), v.max(), 200_001)
    return np.interp(v, grid, [0.5 * t * (1 + erf(t / 2**0.5)) for t in grid])


def gelu(log_n: int, approximate: str) -> Workload:
    n = 1 << log_n
    name = "gelu" if approximate == "none" else "gelu_tanh"
    w = Workload(
        name, f"a*x+b 2^{log_n}", Bar(ratio=1.0), nbytes=8 * n,
        make=lambda rng: (rng.standard_normal(n, dtype=np.float32),),
        reference=lambda x: gelu_reference(x, approximate),
    )  # fmt: skip
    a, b = np.float32(A), np.float32(B)

    @w.entry("eas")
    def _(x):
        from eas import lib

        out = output_like(x)
        return lambda: lib.gelu(x, A, B, out, approximate=approximate)

    @w.entry("c")
    def _(x):
        from benchmarks.baselines import bind

        out = output_like(x)
        return bind(name, x, A, B, out, n, answer=out)

    @w.entry("numba")
    def _(x):
        from benchmarks import numba_peer

        out, run = output_like(x), getattr(numba_peer, name)
        return lambda: (run(x, a, b, out), out)[1]

    @w.entry("torch", allocates=True)
    def _(x):
        from benchmarks.torch_peer import tensors, torch

        t, inner = tensors(x, output_like(x))
        return lambda: torch.nn.functional.gelu(torch.mul(t, A, out=inner).add_(B), approximate=approximate)

    @w.entry("torch.compile", allocates=True)
    def _(x):
        from benchmarks.torch_peer import compiled, torch

        return compiled(lambda t: torch.nn.functional.gelu(A * t + B, approximate=approximate), x)

    @w.entry("jax", allocates=True)
    def _(x):
        from benchmarks.jax_peer import jax, jitted

        return jitted(lambda t: jax.nn.gelu(A * t + B, approximate=approximate == "tanh"), x)

    @w.entry("halide")
    def _(x):
        from benchmarks import halide_peer

        return getattr(halide_peer, name)(x, A, B, output_like(x))

    @w.entry("mojo")
    def _(x):
        from benchmarks.mojo_peer import over_rows

        return over_rows(name, x, 1024, A, B)

    return w
