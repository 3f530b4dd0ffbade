"""Outputs that start anywhere, and short integers whose rows fill no vector."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch, need_dtype


@eas.kernel
def add_kernel(x, y, out, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < n) + mk.load(y, i, i < n), i < n)


def check(backend, n, offset, dtype, block):
    numbers = np.random.default_rng(0).integers(0, 50, (2, n + offset)).astype(dtype)
    x, y = numbers[0, offset:], numbers[1, :n]
    memory = np.full(n + 80, 7, dtype)
    out = memory[offset : offset + n]
    launch(backend, add_kernel, x, y, out, n, grid=mk.cdiv(n, block), BLOCK=block)
    np.testing.assert_array_equal(out, x + y)
    assert (memory[:offset] == 7).all()
    assert (memory[offset + n :] == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int8, np.int16, np.int64, np.float64])
@pytest.mark.parametrize(("n", "offset"), [(1, 0), (31, 1), (1031, 3)])
def test_small_outputs(backend, dtype, n, offset):
    need_dtype(backend, eas.base.dtypes.from_numpy(np.dtype(dtype)))
    check(backend, n, offset, dtype, 512)


@pytest.mark.left_out(lambda backend: backend != "cpu")  # only the CPU has such stores
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int16])
@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("block", [100, 4096])
def test_outputs_larger_than_the_cache(backend, dtype, offset, block):
    """Their stores bypass the cache, which needs an alignment that the first elements do not have."""
    check(backend, (1 << 24) // np.dtype(dtype).itemsize + 13, offset, dtype, block)


@eas.kernel
def threshold_kernel(x, out, N, limit, BLOCK: mk.constexpr):
    row, cols = mk.program_id(0), mk.arange(0, BLOCK)
    values = mk.load(x, row * N + cols, cols < N)
    mk.store(out, row * N + cols, mk.where(values > limit, values, 0), cols < N)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.float32])
@pytest.mark.parametrize(("cols", "block"), [(67, 128), (31, 32), (33, 64), (7, 64), (100, 100), (300, 512)])
def test_rows_that_fill_no_vector(backend, dtype, cols, block):
    x = np.random.default_rng(0).integers(0, 100, (5, cols)).astype(dtype)
    out = np.full(5 * cols + 9, 7, dtype)
    launch(backend, threshold_kernel, x, out, cols, 50, grid=5, BLOCK=block)
    np.testing.assert_array_equal(out[: 5 * cols].reshape(5, cols), np.where(x > 50, x, 0))
    assert (out[5 * cols :] == 7).all()


@eas.kernel
def root_kernel(x, out, N, BLOCK: mk.constexpr):
    row, cols = mk.program_id(0), mk.arange(0, BLOCK)
    mk.store(out, row * N + cols, mk.exp(mk.log(mk.load(x, row * N + cols, cols < N, other=1.0)) / 2), cols < N)


@pytest.mark.left_out(lambda backend: backend != "cpu")  # only the CPU has such stores
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("cols", "offset"), [(65, 0), (777, 1), (1040, 0), (1040, 2)])
def test_rows_past_the_cache(backend, dtype, cols, offset):
    """Rows that start anywhere: vectors overlap at their ends, and a few elements are stored one by one."""
    rows = (1 << 24) // np.dtype(dtype).itemsize // cols + 1
    x = np.arange(1, rows * cols + 1, dtype=dtype).reshape(rows, cols)
    memory = np.full(rows * cols + 8, 7, dtype)
    out = memory[offset : offset + rows * cols]
    launch(backend, root_kernel, x, out, cols, grid=rows, BLOCK=2048)
    np.testing.assert_allclose(out.reshape(rows, cols), np.sqrt(x), rtol=1e-5)
    assert (memory[:offset] == 7).all()
    assert (memory[offset + rows * cols :] == 7).all()
