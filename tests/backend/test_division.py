"""Division of integers by numbers known when compiling, which vectors multiply instead."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch

pytestmark = pytest.mark.every_width

N = 133  # whole vectors and a rest


@eas.kernel
def divide_kernel(x, quotients, rests, DIVISORS: mk.constexpr, BLOCK: mk.constexpr):
    offs = mk.arange(0, BLOCK)
    values = mk.load(x, offs)
    for k, divisor in enumerate(DIVISORS):
        mk.store(quotients, k * BLOCK + offs, values // divisor)
        mk.store(rests, k * BLOCK + offs, values % divisor)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_division_by_a_number(backend, dtype):
    info = np.iinfo(dtype)
    divisors = (1, 2, 7, 10, 100, 0, *((-1, -3, -8) if info.min < 0 else ()))
    x = np.random.default_rng(0).integers(info.min, info.max, N, dtype=dtype, endpoint=True)
    x[:3] = info.min, info.max, 0
    quotients, rests = (np.empty((len(divisors), N), dtype) for _ in range(2))
    launch(backend, divide_kernel, x, quotients, rests, grid=1, DIVISORS=divisors, BLOCK=N)
    size = 1 << info.bits
    for k, divisor in enumerate(divisors):
        exact = [(int(v) // divisor, int(v) % divisor) if divisor else (0, 0) for v in x]
        for got, want in zip((quotients[k], rests[k]), zip(*exact, strict=True), strict=True):
            assert [int(v) % size for v in got] == [w % size for w in want], f"by {divisor}"


@eas.kernel
def divide_by_loaded_kernel(x, divisors, quotients, rests, K: mk.constexpr, BLOCK: mk.constexpr):
    offs = mk.arange(0, BLOCK)
    values = mk.load(x, offs)
    for k in range(K):
        divisor = mk.load(divisors, k)
        mk.store(quotients, k * BLOCK + offs, values // divisor)
        mk.store(rests, k * BLOCK + offs, values % divisor)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.uint64])
def test_division_by_a_number_that_only_the_launch_knows(backend, dtype):
    """Divisors with the highest bit set are negative only where the type is signed."""
    info = np.iinfo(dtype)
    ends = sorted({info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, info.max // 2, info.max // 3, 0, 1, 2, 3, 7, *((-1, -2, -7) if info.min else ())})
    divisors = np.array(ends, dtype)
    x = np.random.default_rng(1).integers(info.min, info.max, N, dtype=dtype, endpoint=True)
    x[: len(ends)] = ends
    quotients, rests = (np.empty((len(divisors), N), dtype) for _ in range(2))
    launch(backend, divide_by_loaded_kernel, x, divisors, quotients, rests, grid=1, K=len(divisors), BLOCK=N)
    size = 1 << info.bits
    for divisor, *got in zip(ends, quotients, rests, strict=True):
        exact = [(int(v) // divisor % size, int(v) % divisor % size) if divisor else (0, 0) for v in x]
        found = [tuple(int(v) % size for v in pair) for pair in zip(*got, strict=True)]
        assert found == exact, f"by {divisor}"


@eas.kernel
def divide_by_lane_kernel(x, quotients, BLOCK: mk.constexpr):
    offs = mk.arange(0, BLOCK)
    mk.store(quotients, offs, mk.load(x, offs) // offs)


def test_division_by_the_position(backend):
    """Lane numbers are constants too, of which one is 0."""
    x = np.random.default_rng(0).integers(-1000, 1000, N).astype(np.int32)
    got = np.empty_like(x)
    launch(backend, divide_by_lane_kernel, x, got, grid=1, BLOCK=N)
    np.testing.assert_array_equal(got, [0, *(int(v) // i for i, v in enumerate(x) if i)])


@eas.kernel
def divide_positions_kernel(quotients, rests, width, STARTS: mk.constexpr, DIVISORS: mk.constexpr, BLOCK: mk.constexpr):
    """Positions of which the compiler knows the first: just below zero, zero, and just above; by numbers and by an argument."""
    offs = mk.arange(0, BLOCK)
    for j, start in enumerate(STARTS):
        for k, divisor in enumerate((*DIVISORS, width)):
            at = (j * (len(DIVISORS) + 1) + k) * BLOCK + offs
            mk.store(quotients, at, (offs + start) // divisor)
            mk.store(rests, at, (offs + start) % divisor)


def test_positions_from_around_zero(backend):
    """What is never negative is divided as unsigned; -1 would be the largest of all."""
    starts, divisors, block = (-130, -2, -1, 0, 1), (1, 3, 8, 100), 128
    quotients, rests = (np.empty((len(starts), len(divisors) + 1, block), np.int32) for _ in range(2))
    for width in (5, 7, 16, 100, 1000, 0, -1, -5):
        launch(backend, divide_positions_kernel, quotients, rests, width, grid=1, STARTS=starts, DIVISORS=divisors, BLOCK=block)
        for j, start in enumerate(starts):
            x = start + np.arange(block)
            for k, divisor in enumerate((*divisors, width)):
                want = (x // divisor, x % divisor) if divisor else (0 * x, 0 * x)
                np.testing.assert_array_equal((quotients[j, k], rests[j, k]), want, f"from {start} by {divisor}")
