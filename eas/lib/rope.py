"""Rotary position embedding: pairs of dimensions turn by an angle that grows with the position."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import math

from eas import mk
from eas.lib.arrays import Array, check_small, need, need_float, result
from eas.lib.kernels import constexpr, kernel, wide
from eas.lib.sizes import tile

ROPE_ROWS = 32  # positions of a program


@kernel
def rope_kernel(x, out, n_rows, n, first, rate, HALF: constexpr, PAIRED: constexpr, BM: constexpr, BD: constexpr):
    """rate is -2 * log2(theta) / D: pair i turns by position * 2 ** (i * rate)."""
    rows = mk.program_id(0) * BM + mk.arange(0, BM)[:, None]
    pair = mk.arange(0, BD)[None, :]
    mask = (rows < n_rows) & (pair < HALF)
    # Neighbours are a pair, or the elements half a row apart.
    left = rows * (2 * HALF) + (2 * pair if PAIRED else pair)
    right = left + (1 if PAIRED else HALF)
    angle = (first + rows % n).to(mk.f32) * mk.exp2(pair.to(mk.f32) * rate)
    a, b = wide(mk.load(x, left, mask)), wide(mk.load(x, right, mask))
    c, s = mk.cos(angle), mk.sin(angle)
    mk.store(out, left, a * c - b * s, mask)
    mk.store(out, right, b * c + a * s, mask)


def rope(x: Array, out: Array | None = None, *, theta: float = 10000.0, first: int = 0, interleaved: bool = False) -> Array:
    """Rotate [..., n, D] by position (from `first` on): halves of D are pairs, or neighbours if interleaved."""
    need_float(x, "rope")
    need(x.ndim >= 2 and x.shape[-1] % 2 == 0 and x.shape[-1] > 0, f"rope needs [..., n, D] with an even D, got shape {x.shape}")
    check_small(x)
    n, d = x.shape[-2:]
    rows, half = x.size // d, d // 2
    out = result(out, x.shape, x.dtype, x)
    bm = tile(x, rows, ROPE_ROWS)
    rope_kernel[mk.cdiv(rows, bm)](x, out, rows, n, int(first), -2 * math.log2(theta) / d, HALF=half, PAIRED=interleaved, BM=bm, BD=mk.next_power_of_2(half))
    return out
