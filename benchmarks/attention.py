"""Rows: attention of 8 heads, causal or not."""

from __future__ import annotations

import numpy as np

from benchmarks.registry import Bar, Workload


def workloads() -> list[Workload]:
    return [attention(8, 1024, 64, causal) for causal in (False, True)]


def reference(q, k, v, causal):
    scores = q.astype(np.float64) @ k.transpose(0, 2, 1) * q.shape[-1] ** -0.5
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def attention(heads: int, n: int, d: int, causal: bool) -> Workload:
    pairs = n * (n + 1) / 2 if causal else n * n
    w = Workload(
        "attention", f"h{heads} N{n} D{d}{' causal' if causal else ''}", Bar(ratio=1.0),
        flops=4 * heads * d * pairs, nbytes=16 * heads * n * d,
        make=lambda rng: tuple(rng.standard_normal((3, heads, n, d), dtype=np.float32)),
        reference=lambda q, k, v: reference(q, k, v, causal),
    )  # fmt: skip

    @w.entry("eas")
    def _(q, k, v):
        from eas import lib

        out = np.empty_like(q)
        return lambda: lib.attention(q, k, v, out, causal=causal)

    @w.entry("torch", allocates=True)
    def _(q, k, v):
        from benchmarks.torch_peer import tensors, torch

        batch = [t[None] for t in tensors(q, k, v)]
        return lambda: torch.nn.functional.scaled_dot_product_attention(*batch, is_causal=causal)[0]

    @w.entry("jax", allocates=True)
    def _(q, k, v):
        from benchmarks.jax_peer import jax, jitted

        def run(tq, tk, tv):  # its layout is [batch, n, heads, d]
            moved = [t.transpose(1, 0, 2)[None] for t in (tq, tk, tv)]
            return jax.nn.dot_product_attention(*moved, is_causal=causal)[0].transpose(1, 0, 2)

        return jitted(run, q, k, v)

    return w
