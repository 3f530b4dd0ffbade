"""Rows whose neighbours are some elements apart, equal, or those of another axis; numbers that are small by chance."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np
import pytest

import eas
from benchmarks.held_kernels import add_tiles
from eas import mk
from tests.unit.fixed_target import llvm_text

pytestmark = pytest.mark.every_width


@eas.kernel
def pick(x, out, n, sx, so, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i * so, mk.load(x, i * sx, i < n), i < n)


@eas.kernel
def gray(x, out, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    r, g, b = (mk.load(x, 3 * i + c, i < n).to(mk.i32) for c in range(3))
    mk.store(out, i, ((77 * r + 150 * g + 29 * b) >> 8).to(mk.u8), i < n)


STEPS = [(np.float32, 0), (np.float32, 2), (np.float32, 3), (np.float32, 4), (np.float32, 31), (np.float16, 2), (np.uint8, 2), (np.uint8, 3), (np.int64, 3), (np.bool_, 4)]


@pytest.mark.parametrize(("dtype", "step"), STEPS, ids=[f"{np.dtype(d)} {s}" for d, s in STEPS])
def test_every_so_many_elements(backend, dtype, step):
    n = 300
    x = np.random.default_rng(step).integers(0, 200, (n - 1) * step + 1).astype(dtype)
    out = np.full(2 * n, 1, dtype)
    pick[mk.cdiv(n, 128),](x, out, n, step, 2, BLOCK=128)
    want = np.full(2 * n, 1, dtype)
    want[::2] = x[np.arange(n) * step]
    assert np.array_equal(out, want)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect by ctypes")
@pytest.mark.parametrize("step", [2, 3, 4, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8], ids=["f32", "u8"])
def test_nothing_is_read_behind_the_last_element(backend, dtype, step):
    n, size = 256, mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * size)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + 2 * size), ctypes.c_size_t(size), 0) == 0
    length = (n - 1) * step + 1
    if length * np.dtype(dtype).itemsize > 2 * size:
        n = 128
        length = (n - 1) * step + 1
    x = np.frombuffer(memory, dtype, length, 2 * size - length * np.dtype(dtype).itemsize)
    x[:] = np.arange(length) % 251
    out = np.zeros(n, dtype)
    pick[1,](x, out, n, step, 1, BLOCK=n)
    assert np.array_equal(out, x[::step])
    assert libc.mprotect(ctypes.c_void_p(start + 2 * size), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE) == 0


def test_three_channels_side_by_side(backend):
    n = 1000
    x = np.random.default_rng(0).integers(0, 256, (n, 3)).astype(np.uint8)
    out = np.zeros(n, np.uint8)
    gray[mk.cdiv(n, 256),](x, out, n, BLOCK=256)
    assert np.array_equal(out, (x.astype(np.int32) @ np.array([77, 150, 29], np.int32) >> 8).astype(np.uint8))


LAYOUTS = {
    "plain": lambda a: a,
    "turned": lambda a: np.ascontiguousarray(a.T).T,
    "second": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "third": lambda a: np.repeat(a, 3, axis=1)[:, ::3],
    "part": lambda a: np.pad(a, ((0, 0), (3, 5)))[:, 3:-5],
}


PAIRS = [("plain", "column"), ("turned", "turned"), ("turned", "plain"), ("second", "third"), ("part", "row"), ("third", "turned")]


@pytest.mark.parametrize(("x", "y"), PAIRS, ids=[" ".join(p) for p in PAIRS])
@pytest.mark.parametrize("out", ["plain", "turned", "second"])
def test_tiles_of_any_layout(backend, x, y, out):
    rng, (m, n) = np.random.default_rng(1), (37, 50)
    a, b = rng.random((m, n), dtype=np.float32), rng.random((m, n), dtype=np.float32)
    if y in LAYOUTS:
        b = LAYOUTS[y](b)
    else:
        b = np.broadcast_to(b[:, :1] if y == "column" else b[:1], (m, n))
    result = LAYOUTS[out](np.zeros((m, n), np.float32))
    add_tiles[mk.cdiv(n, 16), mk.cdiv(m, 16)](LAYOUTS[x](a), b, result, m, n, BM=16, BN=16)
    assert np.array_equal(result, a + b)


def test_turned_tiles_run_along_the_other_axis():
    turned = np.zeros((64, 64), np.float32).T
    facts = {"disjoint", *(f"equals_1({a}_stride0)" for a in ("x", "y", "out"))}
    text = llvm_text(add_tiles, turned, turned, turned, 64, 64, facts=facts, BM=16, BN=16)
    assert "gather" not in text
    assert "load <32 x float>" in text


def test_a_small_number_is_a_fact_of_its_own(backend):
    x = np.zeros(64, np.float32)
    facts = set(map(str, pick.compile(x, x, 4, 1, 1, BLOCK=64).facts))
    assert {f"equals_{k}(sx)" for k in range(5)} <= facts
    assert not any("equals" in f and "(n)" in f for f in facts)


def test_repeated_launches_see_new_numbers(backend):
    x, n = np.arange(400, dtype=np.float32), 60
    for step in (1, 2, 0, 3, 2, 5, 4, 1, 0, 6):
        out = np.zeros(n, np.float32)
        pick[1,](x, out, n, step, 1, BLOCK=64)
        assert np.array_equal(out, x[np.arange(n) * step])


@eas.kernel
def backwards(x, out, n, BLOCK: mk.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, n - 1 - i, mk.load(x, n - 1 - i, i < n) + 1, i < n)
    mk.store(out + n, i, mk.load(x, n - 1 - i, i < n), i < n)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8], ids=["f32", "u8"])
def test_rows_from_their_end(backend, dtype):
    n = 300
    x, out = np.random.default_rng(0).integers(0, 99, n).astype(dtype), np.zeros((2, n), dtype)
    backwards[3,](x, out, n, BLOCK=128)
    assert np.array_equal(out, [x + dtype(1), x[::-1]])


@eas.kernel
def windows(x, w, out, n, made, STEP: mk.constexpr, TAPS: mk.constexpr, OTHER: mk.constexpr, LOOP: mk.constexpr, BLOCK: mk.constexpr):
    """Sums of TAPS elements around every so many; those outside are OTHER."""
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    acc = mk.zeros([BLOCK], x.dtype)
    if LOOP:
        for k in range(TAPS):
            at = i * STEP + k - TAPS // 2
            acc += mk.load(x, at, (at >= 0) & (at < n) & (i < made), OTHER) * mk.load(w, k)
    else:
        for k in mk.static_range(TAPS):
            at = i * STEP + k - TAPS // 2
            acc += mk.load(x, at, (at >= 0) & (n > at), OTHER) * mk.load(w, k)
    mk.store(out, i, acc, i < made)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect by ctypes")
@pytest.mark.parametrize("mode", ["", "EAS_NOOPT", "EAS_CHECK_BOUNDS"])
@pytest.mark.parametrize("step", [2, 3, 4])
def test_windows_around_every_so_many_elements_stay_inside(backend, monkeypatch, step, mode):
    """There is no memory in front of the first element, and none behind the last."""
    if mode:
        monkeypatch.setenv(mode, "1")
    size, libc = mmap.PAGESIZE, ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, 3 * size)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, 2):
        assert libc.mprotect(ctypes.c_void_p(start + page * size), ctypes.c_size_t(size), 0) == 0
    x = np.frombuffer(memory, np.float32, size // 4, size)
    x[:] = np.random.default_rng(step).integers(-9, 9, x.size)
    for dtype, taps, is_loop in ((np.float32, 5, True), (np.float32, 3, False), (np.int32, 7, True)):
        numbers, w = x.view(np.int32) if dtype is np.int32 else x, np.arange(1, taps + 1).astype(dtype)
        made = mk.cdiv(x.size, step)
        out, other = np.zeros(made, dtype), dtype(2)
        windows[mk.cdiv(made, 128),](numbers, w, out, x.size, made, STEP=step, TAPS=taps, OTHER=int(other), LOOP=is_loop, BLOCK=128)
        wide = np.pad(numbers, taps, constant_values=other)
        want = sum(wide[taps - taps // 2 + k :][: x.size : step] * w[k] for k in range(taps))
        assert np.array_equal(out, want)
    for page in (0, 2):
        assert libc.mprotect(ctypes.c_void_p(start + page * size), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.parametrize("limit", [-(2**31), -5, 0, 1, 2, 37, 254, 255, 2**31 - 1])
def test_bounds_of_numbers_that_grow_in_steps(backend, limit):
    """2 * i + 1 compared from both sides with what divides evenly and what does not."""
    n = 256
    x, out = np.arange(2 * n, dtype=np.float32), np.zeros((4, n), np.float32)
    compared[1,](x, out, limit, BLOCK=n)
    at = 2 * np.arange(n) + 1
    for row, inside in zip(out, (at < limit, at <= limit, at > limit, at >= limit), strict=True):
        assert np.array_equal(row, np.where(inside, x[at] + 1, 1))


@eas.kernel
def compared(x, out, limit, BLOCK: mk.constexpr):
    i = mk.arange(0, BLOCK)
    at = 2 * i + 1
    for k, inside in enumerate((at < limit, limit >= at, at > limit, limit <= at)):
        mk.store(out, k * BLOCK + i, mk.load(x, at, inside, 0.0) + 1)
