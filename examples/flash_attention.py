"""Attention without the matrix of scores: a running softmax over blocks of keys, causal or not."""

import numpy as np

import eas
from eas import mk

from .command_line import parse, report


@eas.kernel
def attention_kernel(
    q, k, v, out, n, scale,
    D: eas.constexpr, BM: eas.constexpr, BN: eas.constexpr, CAUSAL: eas.constexpr,
):  # fmt: skip
    rows = mk.program_id(0) * BM + mk.arange(0, BM)
    head = mk.program_id(1) * n * D
    dims = mk.arange(0, D)
    queries = mk.load(q, head + rows[:, None] * D + dims[None, :], rows[:, None] < n)
    best = mk.full([BM], -float("inf"), mk.f32)
    total = mk.zeros([BM], mk.f32)
    acc = mk.zeros([BM, D], mk.f32)
    end = min((mk.program_id(0) + 1) * BM, n) if CAUSAL else n
    for start in range(0, end, BN):
        cols = start + mk.arange(0, BN)
        is_key = cols[:, None] < n
        keys = mk.load(k, head + cols[:, None] * D + dims[None, :], is_key)
        scores = mk.dot(queries, mk.trans(keys)) * scale
        visible = cols[None, :] < n
        if CAUSAL:
            visible = visible & (cols[None, :] <= rows[:, None])
        scores = mk.where(visible, scores, -float("inf"))
        new_best = mk.maximum(best, mk.max(scores, axis=1))
        # A row that sees no key yet keeps -inf; subtracting 0 instead avoids inf - inf.
        shift = mk.where(new_best == -float("inf"), 0.0, new_best)
        weights = mk.exp(scores - shift[:, None])
        alpha = mk.exp(best - shift)
        values = mk.load(v, head + cols[:, None] * D + dims[None, :], is_key)
        acc = mk.dot(weights.to(v.dtype), values, acc * alpha[:, None])
        total = total * alpha + mk.sum(weights, axis=1)
        best = new_best
    mk.store(out, head + rows[:, None] * D + dims[None, :], acc / total[:, None], rows[:, None] < n)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool, BM: int = 16, BN: int = 16) -> np.ndarray:
    """Attention of [heads, n, D] arrays."""
    heads, n, d = q.shape
    out = np.empty_like(q)
    attention_kernel[mk.cdiv(n, BM), heads](q, k, v, out, n, d**-0.5, D=d, BM=BM, BN=BN, CAUSAL=causal)
    return out


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    scores = q @ k.transpose(0, 2, 1) * q.shape[-1] ** -0.5
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def main() -> None:
    options = parse(__doc__, heads=2, n=53, d=32)
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, options.heads, options.n, options.d), dtype=np.float32)
    for causal in (False, True):
        error = np.abs(attention(q, k, v, causal) - reference(q, k, v, causal)).max()
        report(f"attention{' (causal)' if causal else ''}", error, lambda error=error: error < 1e-5)


if __name__ == "__main__":
    main()
