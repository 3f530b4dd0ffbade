"""The gradient of attention fits into the threadgroup memory of Metal, whatever the size of a head."""

from __future__ import annotations

import numpy as np
import pytest

from eas.lib.grouped_attention import _backward_tiles, attention_backward_kernel


@pytest.mark.parametrize("d", [16, 32, 64, 128, 192, 256, 512])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_backward_tiles_fit(monkeypatch, d, dtype):
    monkeypatch.setenv("EAS_BACKEND", "sim")
    x, norms = np.zeros((2, 4, 64, d), dtype), np.zeros(8 * 64, np.float32)
    bm, bn = _backward_tiles(x, 64, 64, d)
    compiled = attention_backward_kernel.compile(
        x, x, x, None, x, norms, x, x.copy(), x.copy(), x.copy(), None, 64, 64, 4, 1, 0.1, D=d, DV=d, BM=bm, BN=bn, CAUSAL=True
    )
    assert compiled.variant().metal.threadgroup_nbytes <= 32768
