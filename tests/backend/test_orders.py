"""Memory between programs: locks, flags and the last one to arrive, by atomics that have an order."""

from __future__ import annotations

import os

import numpy as np
import pytest

import eas
from eas import mk
from tests.backend.launches import METAL, launch

COVERS = {"fence", "atomic_poll"}
RUNS = int(os.environ.get("LOCK_RUNS", "20"))


@eas.kernel
def lock_kernel(lock, count, x, n, B: eas.constexpr):
    """Each program adds to a scalar and to a block that a spin lock guards."""
    i = mk.arange(0, B)
    while mk.atomic_cas(lock, 0, 0, 1, sem="acquire") == 1:
        pass
    seen = mk.load(count, 0)
    mk.store(x, i, mk.load(x, i, i < n) + seen + 1, i < n)
    mk.store(count, 0, seen + 1)
    mk.atomic_xchg(lock, 0, 0, sem="release")


def test_a_spin_lock_loses_no_update(backend):
    programs, n = (400, 61) if backend == "cpu" else (12, 61)
    for _ in range(RUNS if backend == "cpu" else 1):
        lock, count, x = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(64, np.int64)
        launch(backend, lock_kernel, lock, count, x, n, grid=programs, B=64)
        assert (lock[0], count[0]) == (0, programs)
        assert (x[:n] == programs * (programs + 1) // 2).all()
        assert not x[n:].any()


@eas.kernel
def last_kernel(x, parts, done, total, N, B: eas.constexpr):
    """The last program to arrive adds up what all have stored."""
    p = mk.program_id(0)
    i = p * B + mk.arange(0, B)
    mk.store(parts, p * 2 + mk.arange(0, 2), mk.full([2], mk.sum(mk.load(x, i, i < N)), mk.i32))
    if mk.atomic_add(done, 0, 1, sem="acq_rel") == mk.num_programs(0) - 1:
        j = mk.arange(0, 64)
        mk.store(total, 0, mk.sum(mk.load(parts, 2 * j + 1, j < mk.num_programs(0))))


def test_the_last_program_sees_what_all_have_stored(backend):
    for seed in range(RUNS if backend == "cpu" else 1):
        x = np.random.default_rng(seed).integers(-99, 99, 50 * 30 - 7).astype(np.int32)
        parts, done, total = np.zeros(100, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
        launch(backend, last_kernel, x, parts, done, total, len(x), grid=50, B=30)
        assert total[0] == x.sum()


@eas.kernel
def chain_kernel(flag, x, n, B: eas.constexpr):
    """Each program waits for the one before it."""
    p, i = mk.program_id(0), mk.arange(0, B)
    mk.atomic_poll(flag, 0, p)
    mk.store(x, i, mk.load(x, i, i < n) * 3 + p, i < n)
    mk.atomic_store(flag, 0, p + 1, sem="release")


@pytest.mark.parametrize("dtype", [np.int16, np.uint32, np.int64], ids=lambda d: d.__name__)
def test_programs_wait_for_those_before_them(backend, dtype):
    for _ in range(RUNS if backend == "cpu" else 1):
        flag, x = np.zeros(2, dtype), np.zeros(40, np.int32)
        launch(backend, chain_kernel, flag[1:], x, 37, grid=9, B=64)
        want = 0
        for p in range(9):
            want = want * 3 + p
        assert flag.tolist() == [0, 9]
        assert x.tolist() == [want] * 37 + [0] * 3


@eas.kernel
def look_kernel(flag, out, timeout):
    mk.store(out, 0, mk.where(mk.atomic_poll(flag, 0, 7, timeout), 1, 2))
    mk.store(out, 1, mk.where(mk.atomic_poll(flag, 0, 8, 0, sem="relaxed"), 1, 2))
    mk.store(out, 2, mk.atomic_load(flag, 0, sem="acquire"))


def test_a_poll_ends_after_its_time(backend):
    out = np.zeros(3, np.int32)
    if backend in METAL:
        with pytest.raises(eas.Unsupported, match="Metal has no clock for the timeout of atomic_poll") as caught:
            look_kernel(np.array([8], np.int32), out, 1000, _grid=1)
        assert "pass 0 to look once" in str(caught.value)
        return
    look_kernel(np.array([8], np.int32), out, 1000, _grid=1)
    assert out.tolist() == [2, 1, 8]


def test_the_interpreter_refuses_to_wait_forever(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    with pytest.raises(eas.EasError, match="atomic_poll waits forever: no program before this one") as caught:
        chain_kernel(np.ones(1, np.int32), np.zeros(4, np.int32), 4, _grid=1, B=4)
    assert "mk.atomic_poll(flag, 0, p)" in str(caught.value)


def test_threads_do_not_poll():
    @eas.kernel
    def k(flag, N, BLOCK: eas.constexpr):
        mk.atomic_poll(flag, mk.tid(0, BLOCK), 1)

    with pytest.raises(eas.Unsupported, match="atomic_poll in a thread kernel") as caught:
        k(np.ones(4, np.int32), 4, BLOCK=4)
    assert "poll in a kernel of blocks" in str(caught.value)


@eas.kernel
def volatile_kernel(x, out):
    first = mk.load(x, 0)
    mk.store(out, 0, first + mk.load(x, 0))
    mk.store(out, 1, mk.load(x, 0, volatile=True) + mk.load(x, 0, volatile=True))


def test_volatile_loads_are_not_merged(backend):
    out = np.zeros(2, np.int32)
    launch(backend, volatile_kernel, np.array([4], np.int32), out, grid=1)
    assert out.tolist() == [8, 8]
    ir = str(volatile_kernel.compile(np.zeros(1, np.int32), out).ir)
    assert ir.count(" load ") == 3


def test_metal_text_orders_device_memory():
    arrays = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(64, np.int64)
    text = lock_kernel.to_msl(*arrays, 61, B=64)
    assert text.count("atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);") == 2
    assert "coherent(device) device int *lock" in text  # without the word others need not see it


def test_an_older_system_refuses_ordered_kernels(monkeypatch):
    from eas.runtime.gpu import device

    monkeypatch.setattr(device.platform, "mac_ver", lambda: ("14.5", ("", "", ""), ""))
    device.need_language("k", "3.1")
    with pytest.raises(eas.Unsupported, match="orders memory between programs, which needs Metal 3"):
        device.need_language("k", "3.2")
