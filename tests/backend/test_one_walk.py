"""Rows that go on through tiles side by side."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from benchmarks.held_kernels import bias_tiles
from eas import mk
from tests.backend.launches import launch
from tests.unit.fixed_target import llvm_text


@eas.kernel
def padded_kernel(x, out, M, N, PITCH, BM: mk.constexpr, BN: mk.constexpr):
    """Behind the columns of x there are zeros, up to the end of the grid."""
    r = mk.program_id(0) * BM + mk.arange(0, BM)[:, None]
    c = mk.program_id(1) * BN + mk.arange(0, BN)[None, :]
    mk.store(out, r * PITCH + c, mk.load(x, r * N + c, (r < M) & (c < N), other=0) * 2)


@eas.kernel
def numbered_kernel(out, PITCH, BM: mk.constexpr, BN: mk.constexpr):
    """What depends on the program in another way than on the column."""
    r = mk.program_id(0) * BM + mk.arange(0, BM)[:, None]
    tile = mk.program_id(1)
    c = tile * BN + mk.arange(0, BN)[None, :]
    mk.store(out, r * PITCH + c, tile * 1000 + mk.arange(0, BN)[None, :] + r * 0)


@eas.kernel
def apart_kernel(x, out, M, N, GAP, BM: mk.constexpr, BN: mk.constexpr):
    """Tiles that are further apart than they are wide."""
    r = mk.program_id(0) * BM + mk.arange(0, BM)[:, None]
    c = mk.program_id(1) * 24 + mk.arange(0, BN)[None, :]
    inside = (r < M) & (c < N)
    mk.store(out, r * N + c, mk.load(x, r * N + c, inside) + 1, inside)


def is_walked(kernel, *args, **blocks) -> bool:
    return "%to, %program" in llvm_text(kernel, *args, **blocks)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 31), (33, 67), (40, 1000)])
@pytest.mark.parametrize(
    ("dtype", "tile"), [(np.float32, (16, 32)), (np.float32, (8, 20)), (np.uint8, (16, 32)), (np.uint8, (4, 8)), (np.int16, (8, 20)), (np.float64, (4, 8))]
)
def test_bias_of_tiles(backend, dtype, m, n, tile):
    rng, (bm, bn) = np.random.default_rng(0), tile
    x, b = rng.integers(0, 50, (m, n)).astype(dtype), rng.integers(0, 50, n).astype(dtype)
    memory = np.full(m * n + 70, 7, dtype)
    out = memory[3 : 3 + m * n]
    launch(backend, bias_tiles, x, b, out, m, n, grid=(mk.cdiv(m, bm), mk.cdiv(n, bn)), BM=bm, BN=bn)
    np.testing.assert_array_equal(out.reshape(m, n), x + b)
    assert (memory[:3] == 7).all()
    assert (memory[3 + m * n :] == 7).all()


def test_a_grid_that_covers_a_part_writes_a_part(backend):
    x, b = np.arange(4 * 100, dtype=np.float32).reshape(4, 100), np.ones(100, np.float32)
    out = np.zeros((4, 100), np.float32)
    launch(backend, bias_tiles, x, b, out, 4, 100, grid=(1, 2), BM=4, BN=16)
    np.testing.assert_array_equal(out[:, :32], x[:, :32] + 1)
    assert (out[:, 32:] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_stores_without_masks_go_to_the_end_of_the_grid(backend, dtype):
    x = np.random.default_rng(0).integers(1, 50, (8, 70)).astype(dtype)
    out = np.full((8, 96), 9, dtype)
    launch(backend, padded_kernel, x, out, 8, 70, 96, grid=(2, 3), BM=4, BN=32)
    np.testing.assert_array_equal(out[:, :70], x * 2)
    assert (out[:, 70:] == 0).all()


def test_what_counts_programs_stays_apart(backend):
    out = np.zeros((8, 96), np.int32)
    launch(backend, numbered_kernel, out, 96, grid=(2, 3), BM=4, BN=32)
    np.testing.assert_array_equal(out, np.tile(np.arange(96) // 32 * 1000 + np.arange(96) % 32, (8, 1)))


@pytest.mark.meets
def test_tiles_with_a_gap_or_an_overlap_stay_apart(backend):
    x = np.random.default_rng(0).random((8, 100), dtype=np.float32)
    for bn in (16, 32):
        out = np.zeros((8, 100), np.float32)
        launch(backend, apart_kernel, x, out, 8, 100, 0, grid=(2, 5), BM=4, BN=bn)
        want = np.zeros_like(out)
        for first in range(0, 5 * 24, 24):
            want[:, first : first + bn] = x[:, first : first + bn] + 1
        np.testing.assert_array_equal(out, want)


@pytest.mark.left_out(lambda backend: backend != "cpu" or eas.base.config.check_bounds())  # how the loops of a CPU run that does not check each access
def test_which_tiles_are_one_walk(backend):
    x, i = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.int32)
    assert is_walked(bias_tiles, x, x[0], x, 64, 64, BM=16, BN=16)
    assert is_walked(blocks_kernel, x, x, 64, BLOCK=16)
    assert is_walked(columns_kernel, x, x, 64, BLOCK=16)
    assert is_walked(padded_kernel, x, x, 64, 64, 64, BM=16, BN=16)
    assert not is_walked(numbered_kernel, i, 64, BM=16, BN=16)
    assert not is_walked(apart_kernel, x, x, 64, 64, 0, BM=16, BN=16)


@eas.kernel
def blocks_kernel(x, out, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < n) * 2 + mk.program_id(1), i < n)


@eas.kernel
def columns_kernel(x, out, N, BLOCK: mk.constexpr):
    row, c = mk.program_id(0), mk.program_id(1) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, row * N + c, mk.load(x, row * N + c, c < N) * 2, c < N)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float16])
@pytest.mark.parametrize("n", [1, 70, 1031, 70_000])
def test_blocks_of_one_axis(backend, dtype, n):
    x = np.random.default_rng(0).integers(0, 50, n).astype(dtype)
    memory = np.full(n + 70, 7, dtype)
    launch(backend, blocks_kernel, x, memory[3 : 3 + n], n, grid=(mk.cdiv(n, 64), 1), BLOCK=64)
    np.testing.assert_array_equal(memory[3 : 3 + n], x * 2)
    assert (memory[:3] == 7).all()
    assert (memory[3 + n :] == 7).all()


def test_blocks_of_the_second_axis(backend):
    x = np.random.default_rng(0).random((5, 333), dtype=np.float32)
    out = np.zeros_like(x)
    launch(backend, columns_kernel, x, out, 333, grid=(5, 11), BLOCK=32)
    np.testing.assert_array_equal(out, x * 2)


def test_blocks_in_place(backend):
    x = np.random.default_rng(0).random(1031, dtype=np.float32)
    want = x * 2
    launch(backend, blocks_kernel, x, x, 1031, grid=(17, 1), BLOCK=64)
    np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize(("tile", "shape"), [((64, 16), (300, 70)), ((2, 4), (301, 333)), ((32, 64), (500, 64))])
def test_every_row_of_many_tiles_is_done_once(backend, tile, shape):
    """Threads are given programs, and take as many rows of all tiles beside each other."""
    (bm, bn), (m, n) = tile, shape
    x, b = np.arange(m * n, dtype=np.int32).reshape(shape), np.arange(n, dtype=np.int32)
    out = np.full(shape, -1, np.int32)
    for _ in range(5 if backend == "cpu" else 1):
        out.fill(-1)
        launch(backend, bias_tiles, x, b, out, m, n, grid=(mk.cdiv(m, bm), mk.cdiv(n, bn)), BM=bm, BN=bn)
        np.testing.assert_array_equal(out, x + b)
