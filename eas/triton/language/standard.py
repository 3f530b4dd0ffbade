"""`triton.language.standard`: the same names under the module where upstream defines them."""

from __future__ import annotations

from eas.triton.language.creation import (  # noqa: F401
    bitonic_merge,
    cdiv,
    flip,
    interleave,
    ravel,
    sort,
    squeeze,
    swizzle2d,
    topk,
    unsqueeze,
    zeros,
    zeros_like,
)
from eas.triton.language.folding import (  # noqa: F401
    argmax,
    argmin,
    cumprod,
    cumsum,
    max,
    min,
    reduce_or,
    softmax,
    sum,
    xor_sum,
)
from eas.triton.language.math import sigmoid  # noqa: F401


def _log2(i: int) -> int:
    return i.bit_length() - 1
