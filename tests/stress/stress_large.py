"""Buffers of more than 2^31 elements, and strides that are negative numbers at run time.

    python -m pytest tests/stress/stress_large.py

The large buffers are bytes of anonymous memory of which a few pages are touched (one test reads them all): they need
some 2.2 GB of addresses and next to no memory.
"""

from __future__ import annotations

import mmap
import sys

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.guarded import Guarded
from tests.backend.launches import METAL

BEYOND = 2**31
SIZE = BEYOND + (1 << 20) + 77
PLACES = (0, BEYOND - 4096, BEYOND - 100, BEYOND - 1, BEYOND, BEYOND + 1, BEYOND + 4097, SIZE - 300)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory that is promised and not there")


@pytest.fixture
def large(backend):
    if backend in METAL:
        pytest.skip("Metal's buffers are copies")
    memory = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # pages come when they are touched
    return np.frombuffer(memory, np.uint8)


@eas.kernel
def copy_kernel(x, y, start, n, FORM: eas.constexpr, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    at = mk.load(start, 0)
    if FORM == "offset":
        mk.store(y, i, mk.load(x, at + i, i < n) + 1, i < n)
    elif FORM == "pointer":
        mk.store(y, i, mk.load((x + at) + i, mask=i < n) + 1, i < n)
    elif FORM == "strided":
        mk.store(y, i, mk.load(x, at + i * 3, i < n) + 1, i < n)
    else:
        mk.store(y, i, mk.load(x, at + n - 1 - i, i < n) + 1, i < n)


@pytest.mark.parametrize("form", ["offset", "pointer", "strided", "backwards"])
def test_loads_beyond_2_31(large, backend, form):
    n = 90
    for place in PLACES:
        step = 3 if form == "strided" else 1
        values = (np.arange(n) * 7 % 251).astype(np.uint8)
        large[place : place + step * n : step] = values
        for _ in range(2):  # the second launch is native
            y = np.zeros(n, np.uint8)
            copy_kernel(large, y, np.array([place], np.int64), n, FORM=form, BLOCK=64, _grid=2)
            np.testing.assert_array_equal(y, (values[::-1] if form == "backwards" else values) + 1, f"at {place}")
        large[place : place + step * n : step] = 0


@eas.kernel
def fill_kernel(y, start, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, mk.load(start, 0) + i, (i % 251).to(mk.u8) + 1, i < n)
    mk.atomic_add(start, 1, 1)


def test_stores_beyond_2_31(large, backend):
    n = 200
    for place in PLACES:
        start = np.array([place, 0], np.int64)
        fill_kernel(large, start, n, BLOCK=128, _grid=2)
        around = large[max(place - 500, 0) : place + n + 100].copy()
        want = np.zeros_like(around)
        first = place - max(place - 500, 0)
        want[first : first + n] = np.arange(n) % 251 + 1
        np.testing.assert_array_equal(around, want, f"at {place}")
        assert start[1] == 2
        large[place : place + n] = 0


@eas.kernel
def rows_kernel(x, out, width, BLOCK: eas.constexpr):
    row = mk.cast(mk.program_id(0), mk.i64)
    total = mk.zeros([BLOCK], mk.i64)
    for first in range(0, width, BLOCK):
        c = first + mk.arange(0, BLOCK)
        total += mk.load(x, row * width + c, c < width)
    mk.store(out, row, mk.sum(total))


def test_all_elements_are_counted_once(large, backend):
    """Rows whose offsets exceed 32 bits; reads every page."""
    if backend == "interp":
        pytest.skip("takes minutes")
    marks = np.array([0, 1, 2**20, BEYOND - 1, BEYOND, BEYOND + 1, SIZE - 1])
    large[marks] = 5
    width = 1 << 22
    rows = -(-SIZE // width)
    whole = large[: (rows - 1) * width]
    out = np.zeros(rows - 1, np.int64)
    rows_kernel(whole, out, width, BLOCK=4096, _grid=rows - 1)
    want = np.bincount(marks[marks < whole.size] // width, minlength=rows - 1) * 5
    np.testing.assert_array_equal(out, want)


@eas.kernel
def walk_kernel(x, out, first, step, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, first + i * step, i < n), i < n)


@eas.kernel
def tile_kernel(x, out, first, row_step, step, M, N, BM: eas.constexpr, BN: eas.constexpr):
    i, j = mk.arange(0, BM)[:, None], mk.arange(0, BN)[None, :]
    inside = (i < M) & (j < N)
    mk.store(out, i * N + j, mk.load(x, first + i * row_step + j * step, inside), inside)


@eas.kernel
def scatter_kernel(x, out, first, step, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, first + i * step, mk.load(x, i, i < n), i < n)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float16, np.int64, np.bool_])
@pytest.mark.parametrize("step", [-1, -2, -3, -4, -5, -8, -16, -33])
def test_steps_that_are_negative(backend, step, dtype):
    for place in (Guarded(at_end=False), Guarded(at_end=True)):
        for n in (1, 2, 7, 16, 33, 64, 100, 257):
            length = (n - 1) * -step + 1
            x = place.like((np.arange(length) % 13).astype(dtype))
            for _ in range(2):
                out, spread = place.empty(n, dtype), place.like(np.zeros(length, dtype))
                walk_kernel(x, out, length - 1, step, n, BLOCK=64, _grid=-(-n // 64))
                scatter_kernel(out, spread, length - 1, step, n, BLOCK=64, _grid=-(-n // 64))
                np.testing.assert_array_equal(out, x[::step])
                np.testing.assert_array_equal(spread[::step], out)
        place.check()


@pytest.mark.parametrize("steps", [(-40, 1), (40, -1), (-40, -1), (-1, 9), (1, -9), (-1, -9), (-80, 2), (-80, -2)], ids=str)
def test_tiles_whose_steps_are_negative(backend, steps):
    for m, n in [(1, 1), (3, 7), (8, 30), (9, 33)]:
        memory = np.random.default_rng(1).integers(0, 99, 4000).astype(np.float32)
        out = np.zeros((m, n), np.float32)
        i, j = np.arange(m)[:, None], np.arange(n)[None, :]
        tile_kernel(memory, out, 2000, *steps, m, n, BM=16, BN=64, _grid=1)
        np.testing.assert_array_equal(out, memory[2000 + i * steps[0] + j * steps[1]])
