"""Regions that never run leave nothing behind: neither blocks that only they computed, nor ends of blocks, nor barriers."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch

pytestmark = pytest.mark.left_out(lambda backend, mode: mode and backend != "cpu")  # settings of the CPU
MODES = ("", "EAS_NOOPT", "EAS_CHECK_BOUNDS", "EAS_NUM_THREADS")


@pytest.fixture(params=MODES)
def mode(request, monkeypatch, backend):
    if request.param:
        monkeypatch.setenv(request.param, "1")


@eas.kernel
def argsort_in_branch(x, y, go, N: eas.constexpr):
    i = mk.arange(0, N)
    v = mk.load(x, i)
    if go > 0:
        mk.store(y, i, mk.argsort(v))
    mk.store(y, N + i, v + i)
    mk.store(y, 2 * N, mk.argmin(v, 0))
    mk.store(y, 2 * N + 1, mk.argmax(v, 0))


@eas.kernel
def argsort_in_for(x, y, go, N: eas.constexpr):
    i = mk.arange(0, N)
    v = mk.load(x, i)
    for k in range(go):
        mk.store(y, i, mk.argsort(v + k))
    mk.store(y, N + i, v + i)
    mk.store(y, 2 * N, mk.argmin(v, 0))
    mk.store(y, 2 * N + 1, mk.argmax(v, 0))


@eas.kernel
def argsort_in_while(x, y, go, N: eas.constexpr):
    i = mk.arange(0, N)
    v = mk.load(x, i)
    while go > 0:
        mk.store(y, i, mk.argsort(v))
        go -= 1
    mk.store(y, N + i, v + i)
    mk.store(y, 2 * N, mk.argmin(v, 0))
    mk.store(y, 2 * N + 1, mk.argmax(v, 0))


@pytest.mark.parametrize("go", [0, 1])
@pytest.mark.parametrize("kernel", [argsort_in_branch, argsort_in_for, argsort_in_while], ids=lambda k: k.__name__)
def test_argsort(kernel, go, backend, mode):
    x, y = np.random.default_rng(1).permutation(64).astype(np.int32), np.full(130, -1, np.int32)
    launch(backend, kernel, x, y, go, grid=1, N=64)
    order = np.argsort(x) if go else np.full(64, -1)
    np.testing.assert_array_equal(y, np.concatenate([order, x + np.arange(64), [x.argmin(), x.argmax()]]))


@eas.kernel
def shuffle_in_branch(x, y, go, B: eas.constexpr):
    i = mk.tid(0, B)
    v = mk.load(x, i) * 2
    if go > 0:
        v = mk.simd_shuffle_down(i, 1) + mk.simd_shuffle_up(v, 2) + mk.simd_shuffle_xor(v + i, 4) + mk.simd_shuffle(v * i, i)
    mk.store(y, i, v + i)


@pytest.mark.parametrize("go", [0, 1])
def test_shuffle(go, backend, mode):
    x, y, i = np.random.default_rng(2).integers(0, 9, 64).astype(np.int32), np.zeros(64, np.int32), np.arange(64)
    launch(backend, shuffle_in_branch, x, y, go, grid=1, B=64)
    lane, v = i % 32, 2 * x
    down, up = np.where(lane < 31, (i + 1) % 64, i), np.where(lane >= 2, i - 2, i)
    want = down + v[up] + (v + i)[i ^ 4] + (v * i)[i - lane + i % 32] if go else v
    np.testing.assert_array_equal(y[:32], (want + i)[:32])  # the second simdgroup asks for lanes that it does not have
    if not go:
        np.testing.assert_array_equal(y, want + i)


@eas.kernel
def prefix_in_loop(x, z, y, n, times, N: eas.constexpr):
    """A block that a loop replaces, by one of which most is off; it starts as one of which everything is on."""
    i = mk.arange(0, N)
    acc = mk.load(z, i)
    for k in range(times):
        acc = mk.load(x, i + k, i < n) * 2
        mk.store(y, N + k, mk.sum(acc))
    mk.store(y, i, acc)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_ends_of_carried_blocks(times, backend, mode):
    n, x, z, y = 100, np.arange(1100, dtype=np.int32), np.full(1024, 7, np.int32), np.zeros(1030, np.int32)
    launch(backend, prefix_in_loop, x, z, y, n, times, grid=1, N=1024)
    blocks = [np.where(np.arange(1024) < n, 2 * x[k : k + 1024], 0) for k in range(times)]
    want = np.concatenate([blocks[-1] if blocks else z, [b.sum() for b in blocks], np.zeros(6 - times)])
    np.testing.assert_array_equal(y, want)


@eas.kernel
def fold_in_while(x, y, n, N: eas.constexpr):
    """The last test of a `while`, and the first one of the next, fold blocks in the same memory."""
    i = mk.arange(0, N)
    for row in range(n):
        v = mk.load(x, row * N + i)
        total = 0
        while mk.max(v ^ total) < 90:
            total += mk.max(v ^ total) % 3 + 7
        mk.store(y, row, total)


def test_loops_end_behind_their_test(backend, monkeypatch):
    monkeypatch.setenv("EAS_SANITIZE", "1")
    x, y = np.random.default_rng(0).integers(0, 40, (8, 256)).astype(np.int32), np.zeros(8, np.int32)
    launch(backend, fold_in_while, x, y, 8, grid=1, N=256)
    for row, got in zip(x, y, strict=True):
        total = 0
        while (row ^ total).max() < 90:
            total += (row ^ total).max() % 3 + 7
        assert got == total


@eas.kernel
def outside_in_for(x, y, go, N: eas.constexpr):
    i = mk.arange(0, N)
    v = mk.load(x, i)
    for _ in range(go):
        v = mk.gather(mk.load(x, i), i + N, 0)
    mk.store(y, i, v)


@eas.kernel
def outside_in_while(x, y, go, N: eas.constexpr):
    i = mk.arange(0, N)
    v = mk.load(x, i)
    while go > 0:
        v += mk.gather(v, i + (1 << 30), 0)
        go -= 1
    mk.store(y, i, v)


@eas.kernel
def outside_in_expression(x, y, go, N: eas.constexpr):
    i = mk.arange(0, N)
    v = mk.load(x, i)
    v = mk.gather(v, i + (1 << 30), 0) if go > 0 else v
    mk.store(y, i, v)


@pytest.mark.parametrize("kernel", [outside_in_for, outside_in_while, outside_in_expression], ids=lambda k: k.__name__)
def test_gather_is_not_speculated(kernel, backend, mode):
    """Its index may be outside of the block: an error, or a read of other memory, if it ran."""
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    launch(backend, kernel, x, y, 0, grid=1, N=64)
    np.testing.assert_array_equal(y, x)
