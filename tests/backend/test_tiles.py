"""Tiles of matrices in all layouts: rows of neighbouring programs, broadcast axes, short rows in long blocks."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch


@eas.kernel
def add_tiles_kernel(x, y, out, M, N, ROWS: mk.constexpr, BM: mk.constexpr, BN: mk.constexpr):
    rows = mk.program_id(ROWS) * BM + mk.arange(0, BM)[:, None]
    cols = mk.program_id(1 - ROWS) * BN + mk.arange(0, BN)[None, :]
    mask = (rows < M) & (cols < N)
    a = mk.load(x, rows * x.stride(0) + cols * x.stride(1), mask)
    b = mk.load(y, rows * y.stride(0) + cols * y.stride(1), mask)
    mk.store(out, rows * out.stride(0) + cols * out.stride(1), a + b, mask)


LAYOUTS = {
    "rows": lambda a: a,
    "columns": lambda a: a.T,
    "every other": lambda a: a[:, ::2],
    "one row": lambda a: np.broadcast_to(a[:1], a.shape),
    "one column": lambda a: np.broadcast_to(a[:, :1], a.shape),
}


@pytest.mark.parametrize("rows_axis", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("tile", [(16, 32), (4, 128), (1, 256)])
def test_tiles(backend, rows_axis, layout, tile):
    m, n = 37, 83
    bm, bn = tile
    numbers = np.random.default_rng(0).integers(0, 100, (2, 200, 200)).astype(np.int32)
    x, y = LAYOUTS[layout](numbers[0])[:m, :n], numbers[1, 3 : 3 + m, 5 : 5 + n]
    memory = np.full((2 * m, 2 * n), -1, np.int32)
    for out in (memory[:m, :n], memory[::2, 1::2]):
        memory[:] = -1
        counts = [mk.cdiv(n, bn), mk.cdiv(m, bm)]
        grid = tuple(counts if rows_axis else counts[::-1])
        launch(backend, add_tiles_kernel, x, y, out, m, n, grid=grid, ROWS=rows_axis, BM=bm, BN=bn)
        np.testing.assert_array_equal(out, x + y)
        assert (memory == -1).sum() == memory.size - m * n


@eas.kernel
def strided_thread_kernel(x, out, n, sx, so, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i < n:
        mk.store(out, i * so, mk.load(x, i * sx))


@pytest.mark.parametrize(("sx", "so"), [(1, 1), (2, 1), (1, 3), (0, 1)])
def test_strides_of_threads(backend, sx, so):
    x = np.arange(700, dtype=np.float32)
    out = np.full(700, -1, np.float32)
    launch(backend, strided_thread_kernel, x, out, 200, sx, so, grid=4, BLOCK=64)
    want = np.full(700, -1, np.float32)
    want[np.arange(200) * so] = x[np.arange(200) * sx]
    np.testing.assert_array_equal(out, want)
