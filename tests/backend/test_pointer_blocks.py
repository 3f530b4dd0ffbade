"""Blocks of pointers that loops and branches change in ways that are no plain step."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk


@eas.kernel
def uneven_kernel(x, out, N, BLOCK: eas.constexpr):
    """Each lane walks with a step of its own."""
    i = mk.arange(0, BLOCK)
    ptrs = x + i
    total = mk.zeros([BLOCK], mk.i32)
    for k in range(N):
        total += mk.load(ptrs)
        ptrs += i % 3 + (k & 1)
    mk.store(out, i, total)


@eas.kernel
def while_kernel(x, out, N, BLOCK: eas.constexpr):
    """A list in memory: every element holds the distance to the next one, 0 ends the walk."""
    i = mk.arange(0, BLOCK)
    ptrs = x + i
    steps = mk.zeros([BLOCK], mk.i32)
    going = 1
    while going > 0:
        gap = mk.load(ptrs)
        steps += (gap > 0).to(mk.i32)
        ptrs += gap
        going = mk.max(gap)
    mk.store(out, i, steps)
    mk.store(out + BLOCK + i, mk.load(ptrs + N))


@eas.kernel
def if_kernel(x, out, N, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    ptrs = x + i
    if N > 3:
        ptrs += i
    else:
        for _ in range(N, N + 1):
            ptrs += BLOCK - 1 - 2 * i
    mk.store(out, i, mk.load(ptrs))


@eas.kernel
def tile_kernel(x, out, N, H: eas.constexpr, W: eas.constexpr):
    """Two axes; pointers are transposed on the way, and written through."""
    rows, cols = mk.arange(0, H), mk.arange(0, W)
    ptrs = out + rows[:, None] * W + cols[None, :]
    for k in range(N):
        mk.store(ptrs, mk.load(x + rows[:, None] * W + cols[None, :]) + k)
        ptrs += H * W + (rows * 0)[:, None] + k * (cols * 0)[None, :]


@pytest.fixture(autouse=True)
def _backend(backend, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", backend)


@pytest.fixture(params=["", "EAS_NOOPT", "EAS_CHECK_BOUNDS"], autouse=True)
def _setting(request, monkeypatch):
    if request.param:
        monkeypatch.setenv(request.param, "1")


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("block", [8, 37])
def test_uneven_steps(n, block):
    x = np.random.default_rng(0).integers(-9, 9, 400).astype(np.int32)
    out = np.zeros(block, np.int32)
    uneven_kernel(x, out, n, BLOCK=block, _grid=1)
    want, at = np.zeros(block, np.int32), np.arange(block)
    for k in range(n):
        want += x[at]
        at = at + np.arange(block) % 3 + (k & 1)
    np.testing.assert_array_equal(out, want)


def test_walk_of_unknown_length():
    n, block = 200, 16
    rng = np.random.default_rng(1)
    x = np.zeros(n + 8, np.int32)
    x[: n - 20] = rng.integers(1, 4, n - 20)  # all walks end in the zeros
    out = np.zeros(2 * block, np.int32)
    while_kernel(x, out, 0, BLOCK=block, _grid=1)
    for i in range(block):
        at, steps = i, 0
        while x[at]:
            at, steps = at + x[at], steps + 1
        assert out[i] == steps
    assert not out[block:].any()


@pytest.mark.parametrize("n", [2, 5])
def test_branches(n):
    x, out = np.arange(64, dtype=np.int32), np.zeros(16, np.int32)
    if_kernel(x, out, n, BLOCK=16, _grid=1)
    i = np.arange(16)
    np.testing.assert_array_equal(out, 2 * i if n > 3 else 15 - i)


@pytest.mark.parametrize("n", [1, 3])
def test_tiles_are_stored_through_pointers(n):
    x = np.random.default_rng(2).standard_normal((8, 16)).astype(np.float32)
    out = np.zeros((n, 8, 16), np.float32)
    tile_kernel(x, out, n, H=8, W=16, _grid=1)
    np.testing.assert_array_equal(out, x + np.arange(n, dtype=np.float32)[:, None, None])
