"""Loads and stores: every dtype, masks, pointers, strides, and memory order within a program."""

from __future__ import annotations

import math

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.ops import TABLE
from tests.backend.formats import assert_identical, buffer, contents, edges, nearest, poison, sample
from tests.backend.launches import launch, need_dtype

COVERS = {"addptr", "load", "store", "program_id", "num_programs", "arange", "const"}


@eas.kernel
def copy_kernel(x, y, n, OTHER: eas.constexpr, BLOCK: eas.constexpr):
    """Element i of y is element n - 1 - i of x; lanes past n write `OTHER` after them."""
    offsets = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    inside = offsets < n
    value = mk.load(x, n - 1 - offsets, inside) if OTHER is None else mk.load(x, n - 1 - offsets, inside, other=OTHER)
    mk.store(y, offsets, value)


@pytest.mark.parametrize("dtype", TABLE["load"].dtypes, ids=str)
def test_masked_lanes_read_other_and_touch_nothing(backend, dtype):
    need_dtype(backend, dtype)
    values = edges(dtype) + sample(dtype, 60, 0)
    n, block = len(values), 33
    grid = -(-n // block)
    rest = grid * block - n
    one = True if dtype.is_bool else 1.0 if dtype.is_float else dtype.max
    for other in (None, one):
        y = poison(grid * block + 1, dtype)
        launch(backend, copy_kernel, buffer(values, dtype), y, n, grid=grid, OTHER=other, BLOCK=block)
        want = values[::-1] + [other if other is not None else type(one)(0)] * rest
        assert_identical(contents(y)[:-1], contents(buffer(want, dtype)), dtype)
        assert_identical(contents(y)[-1:], contents(poison(1, dtype)), dtype)


@eas.kernel
def scatter_kernel(x, index, y, n, BLOCK: eas.constexpr):
    offsets = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offsets < n
    where = mk.load(index, offsets, mask)
    mk.store(y + where, mk.load(x + offsets, mask=mask), mask=mask & (where % 3 != 0))


@pytest.mark.parametrize("index", [d for d in dtypes.ALL if d.is_int], ids=str)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.u8, dtypes.bf16], ids=str)
def test_stores_go_where_an_index_buffer_says(backend, dtype, index):
    n = 100
    values = sample(dtype, n, 0)
    order = np.random.default_rng(1).permutation(n)
    y = poison(n, dtype)
    launch(backend, scatter_kernel, buffer(values, dtype), buffer(order, index), y, n, grid=4, BLOCK=33)
    want = contents(poison(n, dtype)).copy()
    for i, at in enumerate(order):
        if at % 3:
            want[at] = values[i]
    assert_identical(contents(y), want, dtype)


@eas.kernel
def tile_kernel(x, y, H, W, D, BH: eas.constexpr, BW: eas.constexpr):
    """A 3-D grid; every axis has a masked tail but D."""
    rows = mk.program_id(1) * BH + mk.arange(0, BH)
    cols = mk.program_id(0) * BW + mk.arange(0, BW)
    base = mk.program_id(2) * H * W
    mask = (rows < H)[:, None] & (cols < W)[None, :]
    offsets = base + rows[:, None] * W + cols[None, :]
    last = mk.num_programs(0) * 10000 + mk.num_programs(1) * 100 + mk.num_programs(2)
    mk.store(y, offsets, mk.load(x, offsets, mask) + last, mask)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (3, 17, 33)])
def test_three_axes_of_programs(backend, shape):
    x = np.random.default_rng(0).integers(-100, 100, shape, dtype=np.int32)
    y = np.zeros_like(x)
    grid = (-(-shape[2] // 8), -(-shape[1] // 4), shape[0])
    launch(backend, tile_kernel, x, y, shape[1], shape[2], shape[0], grid=grid, BH=4, BW=8)
    np.testing.assert_array_equal(y, x + grid[0] * 10000 + grid[1] * 100 + grid[2])


@eas.kernel
def order_kernel(x, n, BLOCK: eas.constexpr):
    """Within a program memory acts in program order, a whole block at a time."""
    i = mk.arange(0, BLOCK)
    mk.store(x, i + 1, mk.load(x, i, i < n), i < n)
    mk.store(x, i, mk.load(x, mk.maximum(n - i, 0), i <= n) * 2, i <= n)


@pytest.mark.parametrize("n", [1, 7, 33, 63])
def test_a_load_completes_before_later_stores(backend, n):
    x = np.arange(65, dtype=np.float32) + 1
    want = x.copy()
    want[1 : n + 1] = want[:n].copy()
    want[: n + 1] = want[: n + 1][::-1].copy() * 2
    launch(backend, order_kernel, x, n, grid=1, BLOCK=64)
    np.testing.assert_array_equal(x, want)


@eas.kernel
def in_order_kernel(out, seen, n, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(out + i, i)
    if n > 0:
        mk.store(seen + i, mk.load(out + i))
        mk.store(out + i, 2)
    for k in range(n):
        mk.store(out + i, mk.load(out + i) + k)
    mk.store(seen + BLOCK + i, mk.load(out + i))
    mk.store(out + i, 5)
    if n > 1:
        mk.store(out + i, 6)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_branches_and_loops_come_after_the_stores_before_them(backend, n):
    """What is stored needs nothing of the nest before it, but the elements are the same."""
    size = 256
    out, seen, i = np.zeros(size, np.int32), np.zeros(2 * size, np.int32), np.arange(size)
    launch(backend, in_order_kernel, out, seen, n, grid=1, BLOCK=size)
    np.testing.assert_array_equal(seen[:size], i if n else 0)
    np.testing.assert_array_equal(seen[size:], 2 + n * (n - 1) // 2 if n else i)
    np.testing.assert_array_equal(out, 6 if n > 1 else 5)


@eas.kernel
def scalar_kernel(x, y, at, scale):
    """Scalar loads and stores, a broadcast store, and a store of one value to a whole block."""
    value = mk.load(x, at)
    mk.store(y, 0, value * scale)
    mk.store(y, 1 + mk.arange(0, 5), value)
    mk.store(y, 6 + mk.arange(0, 5), 2.5)
    mk.store(y + 11, mk.load(x + at + 1))


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "f64"])
def test_scalars_are_loaded_stored_and_spread(backend, name):
    dtype = dtypes.parse(name)
    need_dtype(backend, dtype)
    values = sample(dtype, 9, 0)
    y = poison(12, dtype)
    launch(backend, scalar_kernel, buffer(values, dtype), y, 4, 0.1, grid=1)
    # A scalar argument is f32, or f64 beside buffers of f64: it is rounded before it meets the block.
    wide = dtypes.f32 if dtype.bits < 32 else dtype
    product = values[4] * nearest(0.1, wide)
    want = [nearest(nearest(product, wide), dtype), *[values[4]] * 5, *[2.5] * 5, values[5]]
    assert_identical(contents(y), contents(buffer(want, dtype)), dtype)


@eas.kernel
def far_kernel(x, y, n, BLOCK: eas.constexpr):
    """Masked-off lanes may point anywhere."""
    i = mk.arange(0, BLOCK)
    inside = i < n
    mk.store(y, mk.where(inside, i, 2000000000), mk.load(x, mk.where(inside, i, -2000000000), inside, other=7), inside)
    mk.store(y, i + 1000000, mk.load(x, i - 1000000, False), False)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_masked_off_lanes_may_point_outside(backend, n):
    x, y = np.arange(7, dtype=np.int32), np.full(7, -1, np.int32)
    launch(backend, far_kernel, x, y, n, grid=1, BLOCK=16)
    np.testing.assert_array_equal(y, [*range(n), *[-1] * (7 - n)])


@eas.kernel
def doubled_kernel(x, y, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < N) * 2, i < N)


VIEWS = [lambda a: a, lambda a: a[::2], lambda a: a[::-1], lambda a: a.reshape(10, 6).T, lambda a: a.reshape(6, 10)[1:4, 2:9:3]]


@pytest.mark.parametrize("view", VIEWS)
def test_strided_arguments_are_seen_as_their_elements(backend, view):
    x, y = view(np.arange(60, dtype=np.float32)), view(np.zeros(60, np.float32))
    launch(backend, doubled_kernel, x, y, x.size, BLOCK=16)
    np.testing.assert_array_equal(y, x * 2)


def test_nothing_is_launched_for_no_elements(backend):
    y = np.ones(3, np.float32)
    launch(backend, doubled_kernel, np.zeros(0, np.float32), y, 0, BLOCK=16)
    np.testing.assert_array_equal(y, 1)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float32", "int64", "uint8", "bool"])
def test_torch_tensors_are_arguments(backend, name):
    torch = pytest.importorskip("torch")
    x = torch.tensor([0.5, -2.0, 3.0, 0.0, 7.0, -0.0, 1.5]).to(getattr(torch, name))
    y = torch.zeros(9).to(x.dtype)
    launch(backend, copy_kernel, x, y, 7, grid=1, OTHER=None, BLOCK=9)
    expected = torch.cat([x.to(torch.float64).flip(0), torch.zeros(2, dtype=torch.float64)])
    assert torch.equal(y.to(torch.float64), expected)
    assert torch.equal(torch.signbit(y.to(torch.float64)), torch.signbit(expected))


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_torch_arithmetic_agrees_bit_for_bit(backend, name):
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1000, generator=generator).to(getattr(torch, name))
    y = torch.zeros_like(x)
    launch(backend, doubled_kernel, x, y, 1000, BLOCK=128)
    assert torch.equal(y, x * 2)


def test_memory_outside_of_a_buffer_is_refused_by_the_interpreter(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    x = np.zeros(5, np.float32)
    with pytest.raises(eas.OutOfBounds, match=r"test_memory\.py"):
        doubled_kernel(x, x.copy(), 6, BLOCK=8)
    assert math.isfinite(x.sum())
