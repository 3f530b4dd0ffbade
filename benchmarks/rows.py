"""Rows: softmax, layer norm, RMS norm, prefix sum, each along the rows of a matrix."""

from __future__ import annotations

import numpy as np

from benchmarks.registry import Bar, Workload, output_like

EPS = 1e-5


def workloads() -> list[Workload]:
    return [softmax(4096, 1024), softmax(256, 32768), layer_norm(4096, 1024), rms_norm(4096, 1024), cumsum(4096, 1024)]


def rows_of(name: str, rows: int, cols: int, bar: Bar, reference, vectors: int = 0) -> Workload:
    """A row kernel over a matrix and some vectors as long as its rows."""

    def make(rng):
        x = rng.standard_normal((rows, cols), dtype=np.float32)
        return (x, *rng.standard_normal((vectors, cols), dtype=np.float32))

    return Workload(name, f"{rows}x{cols}", bar, make, reference, nbytes=8 * rows * cols)


def softmax_reference(x):
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmax(rows: int, cols: int) -> Workload:
    w = rows_of("softmax", rows, cols, Bar(ratio=1.0), softmax_reference)

    @w.entry("eas")
    def _(x):
        from eas import lib

        out = output_like(x)
        return lambda: lib.softmax(x, out)

    @w.entry("c")
    def _(x):
        from benchmarks.baselines import bind

        out = output_like(x)
        return bind("softmax", x, out, rows, cols, answer=out)

    @w.entry("numba")
    def _(x):
        from benchmarks import numba_peer

        out = output_like(x)
        return lambda: (numba_peer.softmax(x, out), out)[1]

    @w.entry("torch")
    def _(x):
        from benchmarks.torch_peer import tensors, torch

        t, out = tensors(x, output_like(x))
        return lambda: torch.softmax(t, 1, out=out)

    @w.entry("torch.compile", allocates=True)
    def _(x):
        from benchmarks.torch_peer import compiled, torch

        return compiled(lambda t: torch.softmax(t, 1), x)

    @w.entry("jax", allocates=True)
    def _(x):
        from benchmarks.jax_peer import jax, jitted

        return jitted(lambda t: jax.nn.softmax(t, axis=1), x)

    @w.entry("halide")
    def _(x):
        from benchmarks import halide_peer

        return halide_peer.softmax(x, output_like(x))

    @w.entry("mojo")
    def _(x):
        from benchmarks.mojo_peer import over_rows

        return over_rows("softmax", x, rows)

    @w.entry("pocl")
    def _(x):
        from benchmarks.opencl_peer import over_rows

        return over_rows("softmax", x)

    return w


def layer_norm_reference(x, weight, bias):
    x = x.astype(np.float64)
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + EPS) * weight + bias


def layer_norm(rows: int, cols: int) -> Workload:
    w = rows_of("layer_norm", rows, cols, Bar(ratio=1.0), layer_norm_reference, vectors=2)

    @w.entry("eas")
    def _(x, weight, bias):
        from eas import lib

        out = output_like(x)
        return lambda: lib.layer_norm(x, weight, bias, EPS, out)

    @w.entry("c")
    def _(x, weight, bias):
        from benchmarks.baselines import bind

        out = output_like(x)
        return bind("layer_norm", x, weight, bias, out, rows, cols, EPS, answer=out)

    @w.entry("numba")
    def _(x, weight, bias):
        from benchmarks import numba_peer

        out = output_like(x)
        return lambda: (numba_peer.layer_norm(x, weight, bias, out, np.float32(EPS)), out)[1]

    @w.entry("torch", allocates=True)
    def _(x, weight, bias):
        from benchmarks.torch_peer import tensors, torch

        t, tw, tb = tensors(x, weight, bias)
        return lambda: torch.nn.functional.layer_norm(t, (cols,), tw, tb, EPS)

    @w.entry("torch.compile", allocates=True)
    def _(x, weight, bias):
        from benchmarks.torch_peer import compiled, torch

        return compiled(lambda t, tw, tb: torch.nn.functional.layer_norm(t, (cols,), tw, tb, EPS), x, weight, bias)

    @w.entry("jax", allocates=True)
    def _(x, weight, bias):
        from benchmarks.jax_peer import jax, jitted

        def run(t, tw, tb):
            centred = t - t.mean(axis=1, keepdims=True)
            return centred * jax.lax.rsqrt((centred * centred).mean(axis=1, keepdims=True) + EPS) * tw + tb

        return jitted(run, x, weight, bias)

    @w.entry("halide")
    def _(x, weight, bias):
        from benchmarks import halide_peer

        return halide_peer.layer_norm(x, weight, bias, output_like(x), EPS)

    @w.entry("pocl")
    def _(x, weight, bias):
        from benchmarks.opencl_peer import over_rows

        return over_rows("layer_norm", x, weight, bias, np.float32(EPS))

    return w


def rms_norm_reference(x, weight):
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + EPS) * weight


def rms_norm(rows: int, cols: int) -> Workload:
    w = rows_of("rms_norm", rows, cols, Bar(ratio=1.0), rms_norm_reference, vectors=1)

    @w.entry("eas")
    def _(x, weight):
        from eas import lib

        out = output_like(x)
        return lambda: lib.rms_norm(x, weight, EPS, out)

    @w.entry("c")
    def _(x, weight):
        from benchmarks.baselines import bind

        out = output_like(x)
        return bind("rms_norm", x, weight, out, rows, cols, EPS, answer=out)

    @w.entry("numba")
    def _(x, weight):
        from benchmarks import numba_peer

        out = output_like(x)
        return lambda: (numba_peer.rms_norm(x, weight, out, np.float32(EPS)), out)[1]

    @w.entry("torch", allocates=True)
    def _(x, weight):
        from benchmarks.torch_peer import tensors, torch

        t, tw = tensors(x, weight)
        return lambda: torch.nn.functional.rms_norm(t, (cols,), tw, EPS)

    @w.entry("torch.compile", allocates=True)
    def _(x, weight):
        from benchmarks.torch_peer import compiled, torch

        return compiled(lambda t, tw: torch.nn.functional.rms_norm(t, (cols,), tw, EPS), x, weight)

    @w.entry("jax", allocates=True)
    def _(x, weight):
        from benchmarks.jax_peer import jax, jitted

        return jitted(lambda t, tw: t * jax.lax.rsqrt((t * t).mean(axis=1, keepdims=True) + EPS) * tw, x, weight)

    @w.entry("halide")
    def _(x, weight):
        from benchmarks import halide_peer

        return halide_peer.layer_norm(x, weight, None, output_like(x), EPS, centre=False)

    @w.entry("pocl")
    def _(x, weight):
        from benchmarks.opencl_peer import over_rows

        return over_rows("rms_norm", x, weight, np.float32(EPS))

    return w


def cumsum(rows: int, cols: int) -> Workload:
    w = rows_of("cumsum", rows, cols, Bar(ratio=1.2), lambda x: np.cumsum(x.astype(np.float64), axis=1))

    @w.entry("eas")
    def _(x):
        from eas import lib

        out = output_like(x)
        return lambda: lib.cumsum(x, out)

    @w.entry("numpy")
    def _(x):
        out = output_like(x)
        return lambda: np.cumsum(x, axis=1, out=out)

    @w.entry("c")
    def _(x):
        from benchmarks.baselines import bind

        out = output_like(x)
        return bind("cumsum", x, out, rows, cols, answer=out)

    @w.entry("numba")
    def _(x):
        from benchmarks import numba_peer

        out = output_like(x)
        return lambda: (numba_peer.cumsum(x, out), out)[1]

    @w.entry("torch")
    def _(x):
        from benchmarks.torch_peer import tensors, torch

        t, out = tensors(x, output_like(x))
        return lambda: torch.cumsum(t, 1, out=out)

    @w.entry("jax", allocates=True)
    def _(x):
        from benchmarks.jax_peer import jax, jitted

        return jitted(lambda t: jax.numpy.cumsum(t, axis=1), x)

    return w
