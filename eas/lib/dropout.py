"""Dropout: elements are zeroed by a counter-based random number, so that a seed alone brings them back."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from eas import mk
from eas.lib.arrays import Array, check_small, need, need_float, result
from eas.lib.kernels import constexpr, kernel, wide
from eas.lib.sizes import flat_block


@kernel
def dropout_kernel(x, out, p, scale, seed, N, BLOCK: constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    kept = mk.rand(seed, offs) >= p
    mk.store(out, offs, mk.where(kept, wide(mk.load(x, offs, mask)) * scale, 0.0), mask)


def dropout(x: Array, p: float = 0.5, seed: int = 0, out: Array | None = None, *, block: int | None = None) -> Array:
    """x / (1 - p), with each element zero instead with probability p; the same ones for the same seed."""
    need(0 <= p < 1, f"p is a probability below 1, got {p}")
    need_float(x, "dropout")
    check_small(x)
    out = result(out, x.shape, x.dtype, x)
    dropout_kernel(x, out, float(p), 1 / (1 - p), int(seed), x.size, BLOCK=block or flat_block(x.size))
    return out
