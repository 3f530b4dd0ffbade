"""Lazy tensors: whole expressions, realised into new memory, against hand-written library calls and other libraries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.registry import Bar, Workload

EPS = 1e-5


def workloads() -> list[Workload]:
    """Every row allocates its result; `lib` is the hand-written kernel that does."""
    return [chain(2048, 1024), softmax(2048, 1024), layer_norm(2048, 1024), linear_gelu(512, 512, 512), small_add(256)]


def row_of(name: str, size: str, bar: Bar, make: Any, reference: Any, expression: Callable[..., Any], by_numpy: Callable[..., Any], by_torch: Callable[..., Any], by_lib: Callable[..., Any] | None, by_jax: Callable[..., Any], by_tinygrad: Callable[..., Any], tolerance: float = 1e-5) -> Workload:
    """One expression in the words of each library."""
    w = Workload(f"lazy_{name}", size, bar, make, reference, tolerance=tolerance)

    @w.entry("eas", allocates=True)
    def _(*given: Any) -> Any:
        import eas

        tensors = [eas.tensor(x) for x in given]
        return lambda: expression(*tensors).realize()

    if by_lib is not None:

        @w.entry("lib", allocates=True)
        def _(*given: Any) -> Any:
            import eas

            tensors = [eas.tensor(x) for x in given]
            return lambda: by_lib(*tensors)

    @w.entry("numpy", allocates=True)
    def _(*given: Any) -> Any:
        return lambda: by_numpy(*given)

    @w.entry("torch", allocates=True)
    def _(*given: Any) -> Any:
        from benchmarks.torch_peer import tensors

        ready = tensors(*given)
        return lambda: by_torch(*ready)

    @w.entry("torch.compile", allocates=True)
    def _(*given: Any) -> Any:
        from benchmarks.torch_peer import compiled

        return compiled(by_torch, *given)

    @w.entry("jax", allocates=True)
    def _(*given: Any) -> Any:
        from benchmarks.jax_peer import jitted

        return jitted(by_jax, *given)

    @w.entry("tinygrad", allocates=True)
    def _(*given: Any) -> Any:
        from benchmarks.tinygrad_peer import jitted

        return jitted(by_tinygrad, *given)

    return w


def floats(*shapes: Any) -> Any:
    """A maker of normal random arrays."""
    return lambda rng: tuple(rng.standard_normal(s, dtype=np.float32) for s in shapes)


def chain(rows: int, cols: int) -> Workload:
    def by_numpy(a: Any, b: Any, c: Any) -> Any:
        return (np.maximum(a * 2 + b, 0) * c).sum(1)

    return row_of(
        "chain", f"{rows}x{cols}", Bar(ratio=1.0), floats(*[(rows, cols)] * 3),
        lambda a, b, c: by_numpy(*(x.astype(np.float64) for x in (a, b, c))),
        lambda a, b, c: ((a * 2 + b).relu() * c).sum(1), by_numpy, lambda a, b, c: ((a * 2 + b).relu() * c).sum(1), None,
        lambda a, b, c: ((a * 2 + b).clip(0) * c).sum(1), lambda a, b, c: ((a * 2 + b).relu() * c).sum(1), tolerance=1e-4,
    )  # fmt: skip


def softmax(rows: int, cols: int) -> Workload:
    from eas import lib

    def by_numpy(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def by_jax(x: Any) -> Any:
        from benchmarks.jax_peer import jax

        return jax.nn.softmax(x, axis=1)

    return row_of(
        "softmax", f"{rows}x{cols}", Bar(ratio=1.1), floats((rows, cols)), lambda x: by_numpy(x.astype(np.float64)),
        lambda x: x.softmax(), by_numpy, lambda x: x.softmax(1), lib.softmax, by_jax, lambda x: x.softmax(1),
    )  # fmt: skip


def layer_norm(rows: int, cols: int) -> Workload:
    from eas import lib

    def by_numpy(x: Any, w: Any, b: Any) -> Any:
        return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + EPS) * w + b

    def by_torch(x: Any, w: Any, b: Any) -> Any:
        from benchmarks.torch_peer import torch

        return torch.nn.functional.layer_norm(x, (cols,), w, b, EPS)

    def by_jax(x: Any, w: Any, b: Any) -> Any:
        from benchmarks.jax_peer import jax

        centred = x - x.mean(axis=1, keepdims=True)
        return centred * jax.lax.rsqrt((centred * centred).mean(axis=1, keepdims=True) + EPS) * w + b

    return row_of(
        "layer_norm", f"{rows}x{cols}", Bar(ratio=1.1), floats((rows, cols), (cols,), (cols,)), lambda *a: by_numpy(*(x.astype(np.float64) for x in a)),
        lambda x, w, b: x.layer_norm(w, b, eps=EPS), by_numpy, by_torch, lambda x, w, b: lib.layer_norm(x, w, b, EPS),
        by_jax, lambda x, w, b: x.layernorm(eps=EPS) * w + b, tolerance=1e-4,
    )  # fmt: skip


def linear_gelu(m: int, k: int, n: int) -> Workload:
    from eas import lib

    erf = np.vectorize(math.erf)

    def by_numpy(x: Any, w: Any, b: Any) -> Any:
        y = x @ w + b
        return 0.5 * y * (1 + erf(y * math.sqrt(0.5)))

    def by_torch(x: Any, w: Any, b: Any) -> Any:
        from benchmarks.torch_peer import torch

        return torch.nn.functional.gelu(x @ w + b)

    def by_jax(x: Any, w: Any, b: Any) -> Any:
        from benchmarks.jax_peer import jax

        return jax.nn.gelu(x @ w + b, approximate=False)

    def by_tinygrad(x: Any, w: Any, b: Any) -> Any:
        y = x @ w + b
        return y * 0.5 * ((y * math.sqrt(0.5)).erf() + 1)

    made = row_of(
        "linear_gelu", f"{m}x{k}x{n}", Bar(ratio=1.03), floats((m, k), (k, n), (n,)), by_numpy,
        lambda x, w, b: (x @ w + b).gelu(), by_numpy, by_torch, lambda x, w, b: lib.bias_gelu(lib.matmul(x, w), b),
        by_jax, by_tinygrad, tolerance=1e-4,
    )  # fmt: skip
    made.entries = [e for e in made.entries if e.peer != "numpy"]  # its erf is a Python loop
    made.flops = 2.0 * m * n * k
    return made


def small_add(n: int) -> Workload:
    from eas import lib

    def add(a: Any, b: Any) -> Any:
        return a + b

    return row_of("add", str(n), Bar(seconds=10e-6), floats((n,), (n,)), lambda a, b: a.astype(np.float64) + b, add, add, add, lib.add, add, add)
