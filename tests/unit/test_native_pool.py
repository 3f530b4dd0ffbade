"""The worker pool: every program once, from many threads, after fork, asleep when idle."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import threading
import time

import numpy as np
import pytest

from eas.runtime.native import jit
from eas.runtime.native.pool import num_threads, pool
from tests.unit.native_kernels import COUNT, NAP, ORDER, RUNS, SCRATCH, THREADS
from tools import build_native

pytest.importorskip("llvmlite")


@pytest.fixture(scope="module")
def count():
    return jit.load(COUNT)


def counted(code, n, **options):
    counts = np.zeros(max(n, 1), np.int32)
    args = (ctypes.c_uint64 * 1)(counts.ctypes.data)
    pool().run(code.address("count"), ctypes.addressof(args), n, **options)
    return counts[:n]


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8, 33])
@pytest.mark.parametrize("chunk", [0, 1, 3, 1000])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 1001, 50_000])
def test_each_program_runs_exactly_once(count, n, chunk, n_threads):
    assert (counted(count, n, chunk=chunk, n_threads=n_threads) == 1).all()


def test_each_program_runs_once_whatever_the_pool_expects(count):
    for remembered in (1, 1000, 10**6, 10**12, 2**62):
        rate = ctypes.c_int64(remembered)
        for n in (2, 9, 1000, 20_000):
            assert (counted(count, n, n_threads=4, rate=ctypes.addressof(rate)) == 1).all()
        assert rate.value > 0


Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


@pytest.mark.parametrize("steady", [0, 1])
@pytest.mark.parametrize("slow_from", [0, 1, 5, 1000])
def test_each_program_runs_once_if_programs_are_slower_than_expected(slow_from, steady):
    """The first ones, later ones or none: the pool finds out in the middle of a grid, and shares the rest."""
    for n, n_threads, expected_ps in itertools.product((2, 9, 17, 100), (1, 2, 4), (1, 10**4)):
        runs: list[tuple[int, int]] = []
        rate = ctypes.c_int64(expected_ps)

        def note(args, begin, end, scratch, runs=runs):
            runs.append((begin, end))
            if end > slow_from:
                time.sleep(2e-5)

        pool().run(ctypes.cast(entry := Entry(note), ctypes.c_void_p).value, 0, n, n_threads=n_threads, rate=ctypes.addressof(rate), steady=steady)
        assert sorted(i for begin, end in runs for i in range(begin, end)) == list(range(n)), (n, n_threads, expected_ps, entry)


def test_the_second_thread_takes_programs_from_the_end():
    code, n = jit.load(ORDER), 100
    order = np.zeros(1 + n, np.int32)
    args = (ctypes.c_uint64 * 1)(order[1:].ctypes.data)
    pool().run(code.address("order"), ctypes.addressof(args), n, chunk=1, n_threads=2)
    turns = order[1:]
    assert sorted(turns) == list(range(n))
    assert turns[0] < turns[n // 2], "the caller starts at the front"
    assert turns[-1] < turns[n // 2], "the worker at the end, however late it wakes up"


@pytest.mark.parametrize("n_threads", [2, 3])
@pytest.mark.parametrize("late", [0, 1])
def test_the_last_one_ends_the_launch(n_threads, late):
    """The caller, or any helper: a launch waits for all of them, and for no longer."""
    ended: list[int] = []

    def nap(args, begin, end, scratch):
        time.sleep(0.15 if (begin == 0) == (late == 0) else 0.02)
        ended.append(begin)

    entry = Entry(nap)
    for _ in range(3):
        ended.clear()
        runner = threading.Thread(target=pool().run, args=(ctypes.cast(entry, ctypes.c_void_p).value, 0, n_threads), kwargs={"chunk": 1, "n_threads": n_threads}, daemon=True)
        runner.start()
        runner.join(20)
        assert not runner.is_alive(), "the launch hangs"
        assert sorted(ended) == list(range(n_threads))


@pytest.mark.parametrize("n", [2**31 - 1, 2**32 - 1, 2**32, 2**33 + 7])
def test_more_programs_than_a_cursor_counts(n):
    code, found = jit.load(RUNS), np.zeros(2, np.int64)
    args = (ctypes.c_uint64 * 1)(found.ctypes.data)
    pool().run(code.address("runs"), ctypes.addressof(args), n, n_threads=2)
    assert found.tolist() == [n, n]


def test_short_grids_are_learned(count):
    rate = ctypes.c_int64(0)
    for _ in range(50):
        counted(count, 100, n_threads=2, rate=ctypes.addressof(rate))
    assert rate.value > 0


def test_programs_of_one_grid_run_on_several_threads():
    code = jit.load(NAP)
    alone = elapsed(lambda: pool().run(code.address("nap"), 0, 24, chunk=1, n_threads=1))
    together = elapsed(lambda: pool().run(code.address("nap"), 0, 24, chunk=1, n_threads=8))
    assert together < alone  # programs that sleep overlap on any machine


@pytest.mark.parametrize("n_threads", [1, 2, 3, 5])
def test_no_more_threads_than_asked_for_run_a_grid(n_threads):
    """Though more of them wait for work."""
    code, nap, n = jit.load(THREADS), jit.load(NAP), 48
    pool().run(nap.address("nap"), 0, 16, chunk=1, n_threads=8)
    for _ in range(4):
        ids = np.zeros(n, np.int64)
        args = (ctypes.c_uint64 * 1)(ids.ctypes.data)
        pool().run(code.address("threads"), ctypes.addressof(args), n, chunk=1, n_threads=n_threads)
        assert ids.all()
        assert len(set(ids.tolist())) <= n_threads


def runs_of(n, total_us, n_threads):
    """(first program, last, thread) of the runs of a grid of which the pool expects that it takes so long."""
    runs, rate = [], ctypes.c_int64(total_us * 1_000_000 // n)
    note = Entry(lambda args, begin, end, scratch: (runs.append((begin, end, threading.get_ident())), time.sleep(1e-3))[1])
    pool().run(ctypes.cast(note, ctypes.c_void_p).value, 0, n, n_threads=n_threads, rate=ctypes.addressof(rate), steady=1)
    assert sorted(i for begin, end, _ in runs for i in range(begin, end)) == list(range(n))
    return runs


def test_a_grid_of_few_microseconds_is_shared_evenly():
    """Nobody takes so much at once that the other one waits for a third of all."""
    nap = jit.load(NAP)
    pool().run(nap.address("nap"), 0, 4, chunk=1, n_threads=2)  # somebody is awake
    assert max(end - begin for begin, end, _ in runs_of(400, 30, 2)) <= 100


def test_a_short_grid_asks_for_few_of_many_threads():
    assert len({thread for _, _, thread in runs_of(4000, 110, 40)}) <= 110 // 5 + 1
    assert len({thread for _, _, thread in runs_of(4000, 4000, 40)}) > 110 // 5 + 1


def elapsed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_scratch_is_aligned_private_and_tagged_per_launch():
    code = jit.load(SCRATCH)
    n, n_threads = 3000, 4
    for _ in range(20):
        out = np.zeros(n + 2, np.int64)
        args = (ctypes.c_uint64 * 1)(out.ctypes.data + 16)
        pool().run(
            code.address("through_scratch"),
            ctypes.addressof(args),
            n,
            chunk=7,
            n_threads=n_threads,
            scratch_nbytes=8000,
        )
        assert (out[2:] == np.arange(n)).all()  # nobody else wrote into a thread's scratch
        assert out[1] == 0  # every address was a multiple of 64
        assert 1 <= out[0] <= n_threads  # the tag was zero once per thread and launch


def test_scratch_that_does_not_exist_is_a_memory_error(count):
    with pytest.raises(MemoryError, match="bytes of scratch"):
        counted(count, 4, n_threads=2, scratch_nbytes=1 << 60)
    assert (counted(count, 100, n_threads=2, scratch_nbytes=4096) == 1).all()


def test_many_python_threads_run_at_once(count):
    results = []

    def work():
        for i in range(60):
            results.append((counted(count, 200 + i, chunk=i % 5, n_threads=1 + i % 6) == 1).all())

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 16 * 60
    assert all(results)


def in_child(work):
    """Whether `work()` is true in a forked child; a child that hangs is killed by its alarm."""
    pid = os.fork()
    if pid == 0:
        import signal

        signal.alarm(60)
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_child_after_fork_has_a_pool_of_its_own(count):
    counted(count, 1000, chunk=1, n_threads=4)
    assert in_child(lambda: (counted(count, 1000, chunk=1, n_threads=4) == 1).all())
    assert (counted(count, 1000, chunk=1, n_threads=4) == 1).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_while_other_threads_are_in_the_pool(count):
    stop = threading.Event()
    wrong = []

    def work():
        while not stop.is_set():
            if not (counted(count, 500, chunk=1, n_threads=3) == 1).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert in_child(lambda: (counted(count, 500, chunk=1, n_threads=3) == 1).all())
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong


def test_idle_workers_use_no_processor(count):
    counted(count, 10_000, chunk=1, n_threads=8)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1  # seven spinning workers would take 0.5 s per core


def test_number_of_threads_is_a_setting(monkeypatch):
    monkeypatch.setenv("EAS_NUM_THREADS", "3")
    assert num_threads() == 3
    monkeypatch.setenv("EAS_NUM_THREADS", "0")
    assert 1 <= num_threads() <= (os.cpu_count() or 1)


def test_whoever_sees_a_team_sees_its_size():
    """Arm processors may make two ordinary stores visible in the other order."""
    text = build_native.path_of("linux-aarch64").read_text()
    assert re.search(r"store atomic \w+ %\d, ptr @team_run release", text.split("@eas_pool_share(")[1].split("\n}")[0])
    assert re.search(r"load atomic \w+, ptr @team_run acquire", text)
