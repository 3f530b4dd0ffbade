"""Blocks of pointers that loops and branches change in ways that are no plain step."""

from __future__ import annotations

import re

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import METAL

COVERS = {"int_to_ptr", "ptr_to_int"}


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


# --- pointers from integers -----------------------------------------------------------------------


@eas.kernel
def group_kernel(sources, targets, sizes, B: eas.constexpr):
    """Programs find their arrays by address, as a grouped product does."""
    g = mk.program_id(0)
    p, q = mk.int_to_ptr(mk.load(sources, g), mk.f32), mk.int_to_ptr(mk.load(targets, g), mk.f32)
    n = mk.load(sizes, g)
    for start in range(0, n, B):
        i = start + mk.arange(0, B)
        mk.store(q + i, mk.load(p + i, mask=i < n) * 2, mask=i < n)


@eas.kernel
def product_kernel(addresses, out, n, B: eas.constexpr):
    i = mk.arange(0, B)
    a, b = mk.int_to_ptr(mk.load(addresses, 0), mk.f32), mk.int_to_ptr(mk.load(addresses, 1), mk.f32)
    a, b = a + i[:, None] * n + i[None, :], b + i[:, None] * B + i[None, :]
    total = mk.zeros([B, B])
    for _ in range(0, n, B):
        total += mk.dot(mk.load(a), mk.load(b))
        a += B
        b += B * B
    mk.store(out + i[:, None] * B + i[None, :], total)


@eas.kernel
def words_kernel(addresses, x, out, n, B: eas.constexpr):
    """A block of addresses, an argument's own address, and memory that is an argument as well."""
    i = mk.arange(0, B)
    p = mk.int_to_ptr(mk.load(addresses, i, i < n), mk.f32)
    mk.store(out, i, mk.load(p + 1, mask=i < n), i < n)
    mk.store(out, n, mk.load(mk.int_to_ptr(mk.ptr_to_int(x + 3), mk.f32)))
    same = mk.int_to_ptr(mk.ptr_to_int(x), mk.f32)
    before = mk.load(x, i)
    mk.store(same + i, before + 1)
    mk.store(x, i, mk.load(x, i) * 2)
    mk.store(same + i, mk.load(x, i) + mk.load(same + i))


def addresses_of(*arrays):
    return np.array([a.ctypes.data for a in arrays], np.int64)


def refuses_addresses(backend, kernel, *args, **options):
    """Whether this is Metal, which must say why it does not run the kernel."""
    if backend not in METAL:
        return False
    with pytest.raises(eas.Unsupported, match="Metal kernels see the memory of their arguments only"):
        kernel(*args, **options)
    return True


@pytest.mark.every_width
def test_integers_point_to_memory(backend):
    xs = [np.random.default_rng(n).standard_normal(n).astype(np.float32) for n in (100, 7, 1000)]
    ys = [np.zeros_like(x) for x in xs]
    args = addresses_of(*xs), addresses_of(*ys), np.array([len(x) for x in xs], np.int32)
    if refuses_addresses(backend, group_kernel, *args, B=64, _grid=3):
        return
    group_kernel(*args, B=64, _grid=3)
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_array_equal(y, x * 2)


def test_products_of_matrices_at_addresses(backend):
    a, b = (np.random.default_rng(k).integers(-3, 4, shape).astype(np.float32) for k, shape in enumerate([(16, 64), (64, 16)]))
    out = np.zeros((16, 16), np.float32)
    args = addresses_of(a, b), out, 64
    if not refuses_addresses(backend, product_kernel, *args, B=16, _grid=1):
        product_kernel(*args, B=16, _grid=1)
        np.testing.assert_array_equal(out, a @ b)


def test_memory_at_an_address_may_be_an_arguments(backend):
    x, others = np.arange(8, dtype=np.float32), [np.array([k, 10 * k], np.float32) for k in range(3)]
    out = np.zeros(4, np.float32)
    args = addresses_of(*others), x, out, 3
    if not refuses_addresses(backend, words_kernel, *args, B=8, _grid=1):
        words_kernel(*args, B=8, _grid=1)
        assert out.tolist() == [0, 10, 20, 3]
        assert x.tolist() == [4.0 * (k + 1) for k in range(8)]


@pytest.mark.parametrize("name", ["interp", "cpu"])
def test_checks_find_null_and_misaligned_addresses(monkeypatch, name):
    monkeypatch.setenv("EAS_BACKEND", name)
    monkeypatch.setenv("EAS_CHECK_BOUNDS", "1")
    y, sizes = np.zeros(4, np.float32), np.array([4], np.int32)
    for address in (0, y.ctypes.data + 2):
        with pytest.raises(eas.EasError) as caught:
            group_kernel(np.array([address]), addresses_of(y), sizes, B=64, _grid=1)
        assert "mk.load(p + i" in str(caught.value) or "mk.int_to_ptr(" in str(caught.value)
        assert re.search("null, or no multiple of the 4 bytes of f32|memory at an address|no multiple of the 4 bytes", str(caught.value))


def test_addresses_are_integers_of_64_bits(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")

    @eas.kernel
    def k(x):
        mk.load(mk.int_to_ptr(mk.load(x, 0), mk.f32))

    with pytest.raises(eas.TypeMismatch, match="int_to_ptr needs an address of 64 bits, got i32"):
        k(np.zeros(1, np.int32), _grid=1)
