"""Arguments that share memory: the same array twice, results over an input, elements that meet."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch

N = 1000


@eas.kernel
def add_kernel(x, y, out, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < n) + mk.load(y, i, i < n), i < n)


@eas.kernel
def add_thread_kernel(x, y, out, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)
    if i < n:
        mk.store(out, i, mk.load(x, i) + mk.load(y, i))


def numbers(n, dtype):
    return np.random.default_rng(0).integers(0, 50, n).astype(dtype)


@pytest.mark.parametrize("kernel", [add_kernel, add_thread_kernel])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16])
@pytest.mark.parametrize("starts", [(0, 0, 0), (0, 200, 0), (200, 0, 0), (0, 200, 200), (0, 0, 200)])
def test_result_over_an_input(backend, kernel, dtype, starts):
    """Each program reads what it writes, at the same place or far away from everything else."""
    memory = numbers(400, dtype)
    x, y, out = (memory[s : s + 200] for s in starts)
    want = x + y
    launch(backend, kernel, x, y, out, 200, grid=4, BLOCK=64)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("starts", [(0, 5, 0), (5, 0, 0), (1, 0, 0), (0, 0, 1), (3, 0, 2), (0, 33, 16)])
def test_shifted_views_in_one_program(backend, starts):
    """A program loads everything before it stores anything; threads without a barrier would race."""
    memory = numbers(N + 64, np.float32)
    x, y, out = (memory[s : s + N] for s in starts)
    want = x + y
    launch(backend, add_kernel, x, y, out, N, grid=1, BLOCK=1024)
    np.testing.assert_array_equal(out, want)


@eas.kernel
def increment_kernel(x, s, BLOCK: mk.constexpr):
    i = mk.arange(0, BLOCK) * s
    mk.store(x, i, mk.load(x, i) + 1)


@pytest.mark.meets
@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_elements_that_meet_are_changed_once(backend, step):
    x = numbers(1024, np.float32)
    want = x.copy()
    want[np.arange(256) * step] += 1
    launch(backend, increment_kernel, x, step, grid=1, BLOCK=256)
    np.testing.assert_array_equal(x, want)


@eas.kernel
def increment_thirds_kernel(x, BLOCK: mk.constexpr):
    i = mk.arange(0, BLOCK) // 3
    mk.store(x, i, mk.load(x, i) + 1)


@eas.kernel
def increment_at_kernel(x, places, BLOCK: mk.constexpr):
    i = mk.load(places, mk.arange(0, BLOCK))
    mk.store(x, i, mk.load(x, i) + 1)


@eas.kernel
def increment_windows_kernel(x, ROWS: mk.constexpr, COLS: mk.constexpr, STEP: mk.constexpr):
    i = mk.arange(0, ROWS)[:, None] * STEP + mk.arange(0, COLS)[None, :]
    mk.store(x, i, mk.load(x, i) + 1)


@pytest.mark.meets
def test_places_that_meet_by_computation(backend):
    x = np.zeros(300, np.float32)
    launch(backend, increment_thirds_kernel, x, grid=1, BLOCK=256)
    np.testing.assert_array_equal(x, np.arange(300) < 86)
    places = np.random.default_rng(0).integers(0, 40, 256).astype(np.int32)
    x[:] = 0
    launch(backend, increment_at_kernel, x, places, grid=1, BLOCK=256)
    np.testing.assert_array_equal(x, np.isin(np.arange(300), places))


@pytest.mark.meets
@pytest.mark.parametrize(("step", "reach"), [(32, 256), (40, 256), (8, 88)])
def test_windows_that_overlap(backend, step, reach):
    x = np.zeros(400, np.float32)
    launch(backend, increment_windows_kernel, x, grid=1, ROWS=8, COLS=32, STEP=step)
    i = np.unique(np.arange(8)[:, None] * step + np.arange(32)).ravel()
    assert i.size == reach
    np.testing.assert_array_equal(x, np.isin(np.arange(400), i))
