"""The settings that change how a kernel is compiled or run never change what it computes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import launch

MODES = ("EAS_NOOPT", "EAS_CHECK_BOUNDS", "EAS_NUM_THREADS")


@pytest.fixture(params=MODES)
def mode(request, monkeypatch):
    monkeypatch.setenv(request.param, "1")
    return request.param


def both(backend, monkeypatch, kernel, arrays, *scalars, grid, **meta):
    """The memory of `arrays`, views of one array, after a launch on the backend and on the interpreter."""
    results = []
    for name in (backend, "interp"):
        monkeypatch.setenv("EAS_BACKEND", name)
        whole = arrays[0].base.copy()
        first = arrays[0].base.__array_interface__["data"][0]
        views = [np.ndarray(a.shape, a.dtype, whole, a.__array_interface__["data"][0] - first, a.strides) for a in arrays]
        launch(name, kernel, *views, *scalars, grid=grid, **meta)
        results.append(whole)
    np.testing.assert_array_equal(*results)


def numbers(count, dtype=np.int32):
    return np.random.default_rng(count).integers(0, 50, count).astype(dtype)


@eas.kernel
def strided_kernel(x, y, n, step_x, step_y, first, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = i < n
    mk.store(y, first + i * step_y, mk.load(x, first + i * step_x, mask) * 2 + 1, mask)


@pytest.mark.parametrize(("step_x", "step_y"), [(1, 1), (-1, 1), (0, -1), (3, -2)])
def test_runtime_strides(backend, mode, monkeypatch, step_x, step_y):
    memory = numbers(1600, np.int16)
    both(backend, monkeypatch, strided_kernel, [memory[:800], memory[801:]], 100, step_x, step_y, 350, grid=2, BLOCK=64)


@eas.kernel
def swap_kernel(x, y, n, times, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mask = i < n
    for turn in range(times):
        a, b = mk.load(x, i, mask), mk.load(y, i, mask)
        mk.store(x, i, b + turn, mask)
        mk.store(y, i, a - mk.load(x, n - 1 - i, mask), mask)


@pytest.mark.parametrize("shift", [-9, -1, 0, 3, 8, 64])
def test_overlapping_views(backend, mode, monkeypatch, shift):
    memory = numbers(400)
    both(backend, monkeypatch, swap_kernel, [memory[100:], memory[100 + shift :]], 100, 3, grid=1, BLOCK=128)


@eas.kernel
def divided_kernel(x, y, n, by, count, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = i < n
    j = i - 40
    value = mk.load(x, (j // by) % 50, mask) + mk.load(x, (j % by) % 50, mask)
    mk.store(y, i, (value << count) + (value >> count) + value // by, mask)


@pytest.mark.parametrize(("by", "count"), [(7, 3), (-3, 31), (0, 32), (1, -1)])
def test_division_in_indices_and_wide_shifts(backend, mode, monkeypatch, by, count):
    memory = numbers(300)
    both(backend, monkeypatch, divided_kernel, [memory[:50], memory[51:]], 100, by, count, grid=2, BLOCK=64)


@eas.kernel
def filter_kernel(x, w, y, n, taps, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    total = mk.zeros([BLOCK], mk.i8)
    for k in range(taps):
        at = i + k - taps // 2
        total += mk.load(x, at, (at >= 0) & (at < n), other=3) * mk.load(w, k)
    mk.store(y, i, total - mk.max(total), (i < n) & (i % 3 != 1))


@pytest.mark.parametrize(("n", "taps"), [(1, 3), (65, 0), (100, 5)])
def test_filter_of_bytes_with_a_masked_tail(backend, mode, monkeypatch, n, taps):
    memory = numbers(400, np.int8)
    both(backend, monkeypatch, filter_kernel, [memory[:150], memory[150:160], memory[161:]], n, taps, grid=2, BLOCK=64)


@eas.kernel
def shared_kernel(out, step, B: eas.constexpr):
    i = mk.tid(0, B)
    shared = mk.alloc_tg(B, mk.bool_)
    mk.store(shared, i * step, i > 3)
    mk.barrier()
    mk.store(out + i, mk.load(shared, B - 1 - i).to(mk.i32))


@eas.kernel
def gathered_kernel(x, out, step, B: eas.constexpr):
    i = mk.arange(0, B)
    mk.store(out + i, mk.gather(mk.load(x + i), i * step, 0))


@eas.kernel
def walking_kernel(x, out, n, B: eas.constexpr):
    i = mk.arange(0, B)
    total = mk.zeros([B], mk.i32)
    for k in range(n):
        total += mk.load(x + i + k, mask=i < 5)
    mk.store(out + i, total)


def test_checked_memory_of_a_threadgroup(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setenv("EAS_CHECK_BOUNDS", "1")
    out = np.zeros(64, np.int32)
    shared_kernel(out, 1, B=64, _grid=1)
    assert out.tolist() == [1] * 60 + [0] * 4
    with pytest.raises(eas.OutOfBounds, match=r"store to tg0: index 64 is out of range, it has 64 elements \(kernel shared_kernel"):
        shared_kernel(out, 2, B=64, _grid=1)


def test_checked_gather(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setenv("EAS_CHECK_BOUNDS", "1")
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    gathered_kernel(x, out, 1, B=64, _grid=1)
    np.testing.assert_array_equal(out, x)
    for step in (-1, 2, 2**20):
        with pytest.raises(eas.DeviceAssertion, match="gather index is outside of an axis of 64 elements") as error:
            gathered_kernel(x, out, step, B=64, _grid=1)
        assert "mk.gather(mk.load(x + i), i * step, 0)" in str(error.value)


def test_errors_in_loops_name_the_line_of_the_load(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setenv("EAS_CHECK_BOUNDS", "1")
    with pytest.raises(eas.OutOfBounds, match="load from x: index 64 ") as error:
        walking_kernel(np.zeros(64, np.int32), np.zeros(64, np.int32), 70, B=64, _grid=1)
    assert "total += mk.load(x + i + k, mask=i < 5)" in str(error.value)


def test_kernels_without_arguments_or_effects_run(backend):
    @eas.kernel
    def nothing():
        pass

    @eas.kernel
    def constants(B: eas.constexpr):
        mk.static_assert(B == 3)

    @eas.kernel
    def unused(x, n):
        _ = mk.load(x, mk.arange(0, 4)) + n

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eas.KernelWarning)
        launch(backend, nothing, grid=2)
        launch(backend, constants, grid=2, B=3)
        launch(backend, unused, np.zeros(4, np.float32), 3, grid=2)
