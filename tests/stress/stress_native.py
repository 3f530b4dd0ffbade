"""Long runs of the CPU runtime, outside the default collection: python -m pytest tests/stress/stress_native.py"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import eas
from eas.base import dtypes
from eas.launch.native_plan import make_native
from eas.launch.plan import Axis, LaunchPlan, Param
from eas.runtime.cpu import CpuRuntime
from eas.runtime.launch_site import LaunchSite
from eas.runtime.native import jit
from eas.runtime.native.kernels import load_kernel
from eas.runtime.native.pool import pool
from tests.unit.native_kernels import COUNT, add_kernel, buffer, executable

N_THREADS, N_LAUNCHES, N_FORKS = 64, 1000, 200
N_KERNELS = int(os.environ.get("STRESS_KERNELS", "10000"))
N_SHAPES = int(os.environ.get("STRESS_SHAPES", "100000"))
N_PROCESSES = int(os.environ.get("STRESS_PROCESSES", "20"))


@pytest.fixture
def runtime(monkeypatch):
    monkeypatch.setenv("EAS_NUM_THREADS", "4")
    return CpuRuntime()


def run_threads(work, n=N_THREADS):
    failures = []

    def guarded(seed):
        try:
            work(seed)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_64_threads_launch_1000_times(runtime):
    kernel = executable("count", COUNT, [buffer("c", dtypes.i32)])

    def work(seed):
        for i in range(N_LAUNCHES):
            counts = np.zeros(1 + (seed * 7 + i) % 300, np.int32)
            runtime.run(kernel, [counts], (counts.size, 1, 1), sync=i % 4 != 0)
            if i % 4 == 0:
                runtime.synchronize()
            assert (counts == 1).all()

    run_threads(work)


def test_64_threads_use_one_launcher_1000_times(runtime):
    f32 = dtypes.f32
    params = (
        Param("x", "buffer", 0, f32),
        Param("y", "buffer", 1, f32),
        Param("z", "buffer", 2, f32, is_written=True),
        Param("N", "i32", 3),
    )
    grid = (Axis(slot=3, block=256), Axis(), Axis())
    launcher = make_native(LaunchPlan(params, ("x", "y", "z", "N"), grid, LaunchSite(pool().run_address, runtime.queue.pending, 4)))
    assert launcher is not None
    launcher.add_variant(frozenset(), load_kernel(add_kernel()), "add", ())

    def work(seed):
        x, y = np.random.default_rng(seed).random((2, 500 * (1 + seed)), np.float32)
        z = np.zeros_like(x)
        for _ in range(N_LAUNCHES):
            z[:] = 0
            assert launcher.call((x, y, z, x.size), {}, None) is None
            assert (z == x + y).all()

    run_threads(work)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_in_the_middle(runtime):
    kernel = executable("count", COUNT, [buffer("c", dtypes.i32)])
    stop = threading.Event()

    def launch(n):
        counts = np.zeros(n, np.int32)
        runtime.run(kernel, [counts], (n, 1, 1), sync=n % 2 == 0)
        runtime.synchronize()
        return (counts == 1).all()

    def background():
        while not stop.is_set():
            assert launch(500)

    threads = [threading.Thread(target=background) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for i in range(N_FORKS):
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)
                code = 1
                try:
                    code = 0 if all(launch(100 + k) for k in range(20)) else 2
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, f"child {i}"
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def resident_nbytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def growth_of(make, n=N_KERNELS):
    """Bytes that stay in memory for each of `n` things made."""
    sizes = []
    for i in range(n):
        make(i)
        if i % (n // 10) == n // 10 - 1:
            gc.collect()
            sizes.append(resident_nbytes())
    return (sizes[-1] - sizes[1]) / (n * 0.8)


def test_10000_texts_in_one_process(monkeypatch):
    monkeypatch.setenv("EAS_CACHE", "0")

    def load(i):
        text = f"define i64 @f(i64 %x) {{\n  %y = mul i64 %x, {i + 3}\n  ret i64 %y\n}}\n"
        code = jit.load(text)
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("f"))(5) == 5 * (i + 3)

    assert growth_of(load) < 2000


KERNEL = """
from eas import mk

def body(x, y, N, BLOCK: constexpr):
    offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mask = offs < N
    mk.store(y, offs, mk.load(x, offs, mask) * {i} + {i}, mask)
"""


@pytest.mark.parametrize("cache", ["0", "1"])
def test_10000_kernels_in_one_process(monkeypatch, cache):
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    monkeypatch.setenv("EAS_CACHE", cache)
    monkeypatch.setenv("EAS_VERIFY", "0")
    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)

    def launch(i):
        names = {}
        exec(compile("from __future__ import annotations\n" + KERNEL.format(i=i), f"<kernel {i}>", "exec"), names)
        kernel = eas.Kernel(names["body"])
        for _ in range(2):
            y[:] = 0
            kernel(x, y, 64, BLOCK=64)
            assert y[1] == 2 * i

    assert growth_of(launch) < 2000


def test_100000_launches_of_changing_shapes(monkeypatch):
    """Synchronous, asynchronous and failing launches: no growth, whatever the shape."""
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    from tests.unit.hang_scripts import broken, scale

    runtime, memory = eas.runtime.get_runtime("cpu"), np.ones(1 << 20, np.float32)

    def launch(i):
        n = 1 + i * 7919 % 65_536
        x, y = memory[i % 64 :][:n], np.zeros(n, np.float32)
        scale(x, y, 3.0, n, _sync=i % 3 != 0)
        if i % 50 == 0:
            broken(x, np.zeros(n, np.float32), n, _sync=False)
        if i % 5 == 0 or i % 50 == 0:
            failed = 0
            try:
                runtime.synchronize()
            except eas.DeviceAssertion:
                failed = 1
            assert failed == (i % 50 == 0)
            assert (y == 3).all()

    assert growth_of(launch, N_SHAPES) < 300  # the arenas of several threads differ by some MB; an array has 128 KB


RACE = """
import numpy as np
from eas.runtime import get_runtime
from tests.unit.hang_scripts import scale, spin, sum_rows
x, y = np.ones(5000, np.float32), np.zeros(5000, np.float32)
for i in range(20):
    scale(x, y, float(i), 5000, _sync=i % 2 == 0)
get_runtime().synchronize()
assert (y == 19).all()
spin[9](x, y, 7)
sum_rows[4](x, y, 50)
assert (y[:4] == 50).all()
"""


@pytest.mark.parametrize("on", ["cpu", "sim"])
def test_20_processes_on_an_empty_cache(tmp_path, on):
    if not eas.runtime.get_runtime(on).is_available():
        pytest.skip(f"needs {on}")
    root = Path(__file__).parents[2]
    settings = {**os.environ, "EAS_CACHE_DIR": str(tmp_path), "EAS_BACKEND": on, "PYTHONPATH": str(root)}
    running = [subprocess.Popen([sys.executable, "-c", RACE], cwd=root, env=settings, stderr=subprocess.PIPE, text=True) for _ in range(N_PROCESSES)]
    for process in running:
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_interrupts_forks_and_failures_in_the_middle():
    """Launches on 8 threads and in a handler of the main thread, while this process forks."""
    from tests.unit.hang_scripts import run_script

    run_script("""
        stop, wrong = threading.Event(), []
        x = np.ones(3000, np.float32)

        def work(seed):
            i = 0
            while not stop.is_set():
                i += 1
                y, bad = np.zeros(3000, np.float32), np.zeros(3000, np.float32)
                scale(x, y, 2.0, 3000, _sync=i % 2 == 0)
                if i % 7 == 0:
                    broken(x, bad, 3000, _sync=False)
                try:
                    get_runtime().synchronize()
                    failed = False
                except eas.DeviceAssertion:
                    failed = True
                if not (y == 2).all() or failed != (i % 7 == 0):
                    wrong.append((seed, i, failed))

        def handler(signum, frame):
            scale(x, np.zeros(3000, np.float32), 3.0, 3000, _sync=False)

        def child():
            y = np.zeros(3000, np.float32)
            for k in range(10):
                scale(x, y, float(k), 3000, _sync=k % 2 == 0)
            get_runtime().synchronize()
            assert (y == 9).all()

        child()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads: t.start()
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        for _ in range(25):
            in_child(child)
        signal.setitimer(signal.ITIMER_REAL, 0)
        stop.set()
        for t in threads: t.join()
        get_runtime().synchronize()
        assert not wrong, wrong[:5]
    """)
