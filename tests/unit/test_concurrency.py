"""Launches from many threads, from asyncio executors, and in a child after fork: right results, no deadlock."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import eas
from eas import lib, mk


@eas.kernel
def affine(x, y, a, b, N, BLOCK: eas.constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, offs, mk.load(x, offs, offs < N) * a + b, offs < N)


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60_000))
    x, y = rng.standard_normal(n, dtype=np.float32), np.zeros(n, np.float32)
    affine(x, y, 2.0, float(seed), n, BLOCK=1024)
    assert np.array_equal(y, x * np.float32(2) + np.float32(seed))
    rows = rng.standard_normal((50, 1 + seed % 97), dtype=np.float32)
    assert np.allclose(lib.softmax(rows).sum(axis=1), 1, atol=1e-5)


def test_many_threads_launch_at_once():
    errors = []

    def work(first):
        try:
            for seed in range(first, first + 20):
                check(seed)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=120)
    assert not any(t.is_alive() for t in threads)
    assert errors == []


def test_asyncio_executors():
    async def main():
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(6) as executor:
            await asyncio.gather(*(loop.run_in_executor(executor, check, seed) for seed in range(40)))
            await asyncio.gather(*(asyncio.to_thread(check, seed) for seed in range(20)))

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_after_fork_launches():
    check(1)  # the pool of the parent has started
    pid = os.fork()
    if pid == 0:
        try:
            for seed in range(10):
                check(seed)
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    check(2)  # and so does the parent
