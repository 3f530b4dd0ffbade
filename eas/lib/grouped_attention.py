"""Attention with everything: strided heads, shared key heads, masks, and what its gradient needs."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eas import mk
from eas.lib.arrays import (
    Array,
    check_small,
    dtype_of,
    fill,
    flat,
    leading,
    need,
    need_float,
    result,
)
from eas.lib.attention import attention as plain_attention
from eas.lib.faces.torch_arrays import TorchArray
from eas.lib.kernels import Launch, constexpr, kernel, wide, wide_dtype
from eas.lib.sizes import metal_scores, on_metal, tile
from eas.tensor import Tensor

GROUPED_TILE = (32, 64)  # queries and keys of a block of scores
CAUSAL_EDGE = 64  # of a square block of scores: it computes less beyond the diagonal
BACKWARD_EDGES = ((32, 32), (64, 16), (128, 8), (192, 4), (256, 2))  # on Metal: largest size of a head, edge of a block of scores
FEW_KEYS = 128  # up to so many, the diagonal is a large part of the backward: its blocks are half as long
Shape = tuple[int, ...]
LOG2_E = math.log2(math.e)  # 2 ** (x * log2(e)) is exp(x), and cheaper


def at(x, batch, head, rows, dims):
    """Offsets of [rows, dims] of one head of [batch, heads, n, D], whatever its strides are."""
    return batch * x.stride(0) + head * x.stride(1) + rows[:, None] * x.stride(2) + dims[None, :] * x.stride(3)


def masked_scores(scores, mask, batch, head, rows, cols, n, n_keys, CAUSAL):
    """Scores (times log2(e)) with -inf where a query does not see a key."""
    inside = (rows[:, None] < n) & (cols[None, :] < n_keys)
    if mask is not None:
        given = mk.load(mask, at(mask, batch, head, rows, cols), inside)
        scores = mk.where(given, scores, -float("inf")) if mask.dtype.is_bool else scores + given.to(scores.dtype) * LOG2_E
    if CAUSAL:
        inside = inside & (cols[None, :] <= rows[:, None])
    return mk.where(inside, scores, -float("inf"))


@kernel
def grouped_attention_kernel(
    q, k, v, mask, out, norms, n, n_keys, heads, group, scale,
    D: constexpr, DV: constexpr, BM: constexpr, BN: constexpr, CAUSAL: constexpr,
):  # fmt: skip
    """A running softmax over blocks of keys; scale contains log2(e), so 2 ** x stands for exp."""
    batch, head = mk.program_id(1) // heads, mk.program_id(1) % heads
    rows = mk.program_id(0) * BM + mk.arange(0, BM)
    dims, value_dims = mk.arange(0, D), mk.arange(0, DV)
    queries = (mk.load(q, at(q, batch, head, rows, dims), rows[:, None] < n) * scale).to(q.dtype)
    best = mk.full([BM], -float("inf"), wide_dtype(q.dtype))
    total = mk.zeros([BM], wide_dtype(q.dtype))
    acc = mk.zeros([BM, DV], wide_dtype(q.dtype))
    end = min((mk.program_id(0) + 1) * BM, n_keys) if CAUSAL else n_keys
    for first in range(0, end, BN):
        cols = first + mk.arange(0, BN)
        keys = mk.load(k, at(k, batch, head // group, cols, dims), cols[:, None] < n_keys)
        scores = mk.dot(queries, mk.trans(keys), mk.zeros([BM, BN], total.dtype))
        scores = masked_scores(scores, mask, batch, head, rows, cols, n, n_keys, CAUSAL)
        new_best = mk.maximum(best, mk.max(scores, axis=1))
        # A query that has seen no key yet keeps 0 as its reference: -inf - -inf would be NaN.
        shift = mk.where(new_best == -float("inf"), 0.0, new_best)
        alpha = mk.exp2(best - shift)
        weights = mk.exp2(scores - shift[:, None])
        values = mk.load(v, at(v, batch, head // group, cols, value_dims), cols[:, None] < n_keys)
        acc = mk.dot(weights.to(v.dtype), values, acc * alpha[:, None])
        total = total * alpha + mk.sum(weights, axis=1)
        best = new_best
    # A query that sees no key at all gets zeros.
    share = mk.where(total > 0, 1.0 / total, 0.0)
    mk.store(out, at(out, batch, head, rows, value_dims), acc * share[:, None], rows[:, None] < n)
    if norms is not None:
        mk.store(norms, mk.program_id(1) * n + rows, mk.where(total > 0, best + mk.log2(total), 0.0), rows < n)


@kernel
def attention_backward_kernel(
    q, k, v, mask, out, norms, grad, dq, dk, dv, dmask, n, n_keys, heads, group, scale,
    D: constexpr, DV: constexpr, BM: constexpr, BN: constexpr, CAUSAL: constexpr,
):  # fmt: skip
    """One program per head of keys: it alone writes the gradients of those keys and of their queries."""
    key_heads = heads // group
    batch, key_head = mk.program_id(0) // key_heads, mk.program_id(0) % key_heads
    dims, value_dims = mk.arange(0, D), mk.arange(0, DV)
    for first_key in range(0, n_keys, BN):
        cols = first_key + mk.arange(0, BN)
        keys = mk.load(k, at(k, batch, key_head, cols, dims), cols[:, None] < n_keys)
        values = mk.load(v, at(v, batch, key_head, cols, value_dims), cols[:, None] < n_keys)
        key_grads = mk.zeros([BN, D], wide_dtype(q.dtype))
        value_grads = mk.zeros([BN, DV], wide_dtype(q.dtype))
        for member in range(group):
            head = key_head * group + member
            for first in range(first_key // BM * BM if CAUSAL else 0, n, BM):
                rows = first + mk.arange(0, BM)
                seen = rows[:, None] < n
                queries = mk.load(q, at(q, batch, head, rows, dims), seen)
                grads = mk.load(grad, at(grad, batch, head, rows, value_dims), seen)
                # What a row of gradients has in common with its result is the part of softmax's sum.
                common = mk.sum(wide(grads) * wide(mk.load(out, at(out, batch, head, rows, value_dims), seen)), axis=1)
                norm = mk.load(norms, (batch * heads + head) * n + rows, rows < n)
                scores = mk.dot(queries, mk.trans(keys), mk.zeros([BM, BN], key_grads.dtype)) * (scale * LOG2_E)
                scores = masked_scores(scores, mask, batch, head, rows, cols, n, n_keys, CAUSAL)
                weights = mk.exp2(scores - norm[:, None])
                value_grads = mk.dot(mk.trans(weights.to(v.dtype)), grads, value_grads)
                slopes = mk.dot(grads, mk.trans(values), mk.zeros([BM, BN], key_grads.dtype))
                slopes = weights * (slopes - common[:, None])
                if dmask is not None:
                    # New memory without gaps: its strides would be more facts than a native launch can tell apart.
                    places = ((batch * heads + head) * n + rows[:, None]) * n_keys + cols[None, :]
                    mk.store(dmask, places, slopes, seen & (cols[None, :] < n_keys))
                slopes = (slopes * scale).to(q.dtype)
                key_grads = mk.dot(mk.trans(slopes), queries, key_grads)
                mine = at(dq, batch, head, rows, dims)
                if first_key == 0:
                    mk.store(dq, mine, mk.dot(slopes, keys, mk.zeros([BM, D], key_grads.dtype)), seen)
                else:
                    mk.store(dq, mine, mk.dot(slopes, keys, wide(mk.load(dq, mine, seen))), seen)
        mk.store(dk, at(dk, batch, key_head, cols, dims), key_grads, cols[:, None] < n_keys)
        mk.store(dv, at(dv, batch, key_head, cols, value_dims), value_grads, cols[:, None] < n_keys)


def attention(q: Array, k: Array, v: Array, out: Array | None = None, *, mask: Array | None = None, causal: bool = False, scale: float | None = None, tiles: tuple[int, int] | None = None) -> Array:
    """softmax(q @ k.T * scale + mask) @ v of [..., heads, n, D]; scale is D ** -0.5 unless given.

    k and v may have fewer heads, each shared by a group of query heads. A bool mask says what is
    seen, a float mask is added; it broadcasts to [..., heads, n, m]. causal: query i sees the keys
    up to i. A query that sees nothing gets zeros. There is no dropout.
    """
    is_plain = mask is None and q.ndim == 3 and q.shape[:1] == k.shape[:1] and k.shape == v.shape
    if is_plain and q.shape[-1] == k.shape[-1]:
        return plain_attention(q, k, v, out, causal=causal, scale=scale, tiles=tiles)
    check_shapes(q, k, v)
    out = result(out, (*q.shape[:-1], v.shape[-1]), q.dtype, q)
    by_heads = flat(out, leading(out.shape[:-3]), *out.shape[-3:])
    made = result(None, out.shape, q.dtype, q) if by_heads is None else by_heads
    attend(q, k, v, mask, made, None, causal, scale, tiles)
    fill(out, made.reshape(out.shape))
    return out


def attention_qkv(qkv: Array, out: Array | None = None, *, causal: bool = False, scale: float | None = None) -> Array:
    """Attention of [..., n, 3, heads, D], queries, keys and values as one product makes them; gives [..., n, heads, D].

    Its gradient is one array, too: nothing is taken apart or put together again.
    """
    check_packed(qkv)
    *batch, n, _, heads, d = qkv.shape
    out = result(out, (*batch, n, heads, d), qkv.dtype, qkv)
    by_place = flat(out, leading(tuple(batch)), n, heads, d)
    made = result(None, (leading(tuple(batch)), n, heads, d), qkv.dtype, qkv) if by_place is None else by_place
    whole = qkv.reshape(leading(tuple(batch)), n, 3, heads, d)
    q, k, v = (heads_first(whole[:, :, i]) for i in range(3))
    attend(q, k, v, None, heads_first(made), None, causal, scale)
    fill(out, made.reshape(out.shape))
    return out


def check_packed(qkv: Array) -> None:
    """Refuse what is not queries, keys and values side by side."""
    need(qkv.ndim >= 4 and qkv.shape[-3] == 3 and qkv.shape[-4] > 0, lambda: f"attention_qkv needs [..., n, 3, heads, D], got {tuple(qkv.shape)}")
    need_float(qkv, "attention_qkv")
    check_small(qkv)


def heads_first(x: Any) -> Any:
    """A view [batch, heads, n, D] of [batch, n, heads, D]."""
    return x.transpose(1, 2) if isinstance(x, Tensor) else x.swapaxes(1, 2)


def check_shapes(q: Array, k: Array, v: Array) -> None:
    """Refuse heads that do not fit together."""
    fits = q.ndim >= 3 and q.ndim == k.ndim == v.ndim and q.shape[:-3] == k.shape[:-3] == v.shape[:-3]
    fits = fits and k.shape[:-1] == v.shape[:-1] and q.shape[-1] == k.shape[-1] and k.shape[-2] > 0
    need(fits and q.shape[-3] % k.shape[-3] == 0,
         lambda: f"attention needs q [..., heads, n, D] and k, v [..., key heads, m, D], got {q.shape}, {k.shape}, {v.shape}")  # fmt: skip
    need(q.dtype == k.dtype == v.dtype, lambda: f"attention needs one dtype, got {q.dtype}, {k.dtype}, {v.dtype}")
    need_float(q, "attention")
    check_small(q, k, v)


def attend(q: Any, k: Any, v: Any, mask: Any, out: Any, norms: Any, causal: bool, scale: float | None, tiles: tuple[int, int] | None = None) -> None:
    """Fill out, and norms [batch * heads, n] if they are given, with what the gradient needs."""
    check_shapes(q, k, v)
    q4, k4, v4, out4 = map(by_head, (q, k, v, out))
    launch, grid, rest = attend_launch(q, q4.shape, k4.shape, v4.shape, causal, scale, tiles)
    launch[grid](q4, k4, v4, spread_mask(mask, (*q.shape[:-1], k.shape[-2])), out4, norms, *rest)


def attend_launch(x: Any, q: Shape, k: Shape, v: Shape, causal: bool, scale: float | None, tiles: tuple[int, int] | None = None) -> Launch:
    """For q, k, v of these shapes where `x` lives: what follows q, k, v, mask, out, norms."""
    batch, heads, n, d = q
    bm, bn = tiles or _tiles(x, n, k[2], max(d, v[3]), causal)
    factor = (d**-0.5 if scale is None else float(scale)) * LOG2_E
    return grouped_attention_kernel, (mk.cdiv(n, bm), batch * heads), (n, k[2], heads, heads // k[1], factor, d, v[3], bm, bn, bool(causal))


def backward_launch(x: Any, q: Shape, k: Shape, v: Shape, causal: bool, scale: float | None, tiles: tuple[int, int] | None = None) -> Launch:
    """For q, k, v of these shapes where `x` lives: what follows q, k, v, mask, out, norms, grad, dq, dk, dv, dmask."""
    batch, heads, n, d = q
    bm, bn = tiles or _backward_tiles(x, n, k[2], max(d, v[3]), causal)
    factor = d**-0.5 if scale is None else float(scale)
    return attention_backward_kernel, (batch * k[1],), (n, k[2], heads, heads // k[1], factor, d, v[3], bm, bn, bool(causal))


def _tiles(x: Any, n: int, m: int, d: int, causal: bool) -> tuple[int, int]:
    if on_metal(x):
        return metal_scores(x, n, m, d)
    queries, keys = (CAUSAL_EDGE, CAUSAL_EDGE) if causal else GROUPED_TILE
    return tile(x, n, queries), tile(x, m, keys)


def _backward_tiles(x: Any, n: int, m: int, d: int, causal: bool = False) -> tuple[int, int]:
    """Queries and keys of a block; on Metal about ten blocks of [edge, d] have to fit into a threadgroup's memory."""
    if not on_metal(x):
        half = CAUSAL_EDGE // 2
        return (tile(x, n, half), tile(x, m, half)) if causal and m <= FEW_KEYS else _tiles(x, n, m, d, causal)
    edge = next((edge for most, edge in BACKWARD_EDGES if d <= most), 1)
    return min(tile(x, n), edge), min(tile(x, m), edge)


def by_head(x: Any) -> Any:
    """[batch, heads, n, D] of an array with any number of leading axes."""
    return x if x.ndim == 4 else x.reshape(leading(x.shape[:-3]), *x.shape[-3:])


def spread_mask(mask: Any, shape: tuple[int, ...]) -> Any:
    """A mask as [batch, heads, n, m], with strides of 0 where it is the same."""
    if mask is None:
        return None
    need(dtype_of(mask).is_bool or dtype_of(mask).is_float, lambda: f"a mask holds bools or floats, got {mask.dtype}")
    array = mask._stored if isinstance(mask, Tensor) else mask
    try:
        wide_mask = mask.spread(shape) if isinstance(mask, TorchArray) else np.broadcast_to(array, shape)
    except ValueError:
        need(False, f"a mask of shape {mask.shape} does not broadcast to {shape}")
    made = by_head(wide_mask)
    return Tensor._made(made, mask.dtype, mask._owner, mask._device) if isinstance(mask, Tensor) else made
