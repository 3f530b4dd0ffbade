"""Locks: each is made by `eas.base.locks`, a thread may meet one that it holds, and a child after fork has them free."""

from __future__ import annotations

import _thread
import functools
import gc
import importlib
import pkgutil
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import eas
from eas.base import locks
from eas.metal_sim import toolchain
from eas.runtime import get_runtime
from eas.runtime.launch_queue import LaunchQueue, Span
from tests.unit.hang_scripts import run_script

EAS = Path(eas.__file__).parent
BACKENDS = ["cpu", "interp", pytest.param("sim", marks=pytest.mark.skipif(toolchain.why_unavailable() is not None, reason="needs the software Metal"))]
LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Semaphore, threading.Event, threading.Barrier)


# --- all locks ------------------------------------------------------------------------------------


def test_locks_are_made_in_one_place():
    """But for `eas verify`, whose stages are processes of their own, in which nobody forks or handles signals."""
    makes = re.compile(r"\b(threading\.(Lock|RLock|Condition|Semaphore|BoundedSemaphore|Event|Barrier)|allocate_lock|ThreadPoolExecutor|Queue)\(|from threading import")
    wrong = [f"{path.relative_to(EAS)}: {found[0]}" for path in sorted(EAS.rglob("*.py")) if path.name != "locks.py" and "verify" not in path.parts for found in makes.finditer(path.read_text()) if "SimpleQueue" not in path.read_text()[found.start() - 6 : found.end()]]
    assert wrong == []


def every_module():
    for found in pkgutil.walk_packages(eas.__path__, "eas."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def locks_within(roots):
    """(owner, lock) of all that our modules, classes and objects refer to; `Gate`s are one wait each."""
    seen, todo, found = set(), list(roots), []
    while todo:
        owner = todo.pop()
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        for value in gc.get_referents(owner):
            kind = type(value)
            if isinstance(value, LOCKS):
                found.append((owner, value))
            elif kind in (dict, list, tuple, set, frozenset) or kind.__module__.startswith("eas") or (isinstance(value, type) and value.__module__.startswith("eas")):
                todo.append(value)
    return [(owner, lock) for owner, lock in found if not isinstance(owner, locks.Gate)]


def test_every_lock_is_registered():
    modules = list(every_module())
    kernel = eas.Kernel(add)
    kernel(np.ones(4, np.float32), 4)
    found = locks_within([*(vars(m) for m in modules), kernel, get_runtime("cpu"), get_runtime("sim")])
    assert len(found) >= 10, "the walk finds nothing"
    assert [(owner, lock) for owner, lock in found if not locks.is_registered(lock)] == []


def add(x, N, BLOCK: eas.constexpr = 4):
    i = eas.mk.program_id(0) * BLOCK + eas.mk.arange(0, BLOCK)
    eas.mk.store(x, i, eas.mk.load(x, i, i < N) + 1, i < N)


def test_a_strange_lock_is_found():
    class Mine:
        def __init__(self):
            self.lock = _thread.allocate_lock()

    Mine.__module__ = "eas.mine"
    ((_, lock),) = locks_within([{"mine": Mine()}])
    assert not locks.is_registered(lock)


def test_a_thread_may_take_its_lock_again():
    lock = locks.new_lock()
    with lock, lock:
        assert locks.is_registered(lock)


# --- after fork -----------------------------------------------------------------------------------


def test_locks_of_other_threads_are_free_in_a_child():
    run_script("""
        from eas.base import locks
        from eas.interop.pool import POOL
        from eas.metal_sim import native, toolchain
        from eas.runtime import debug, interp
        held, go = threading.Event(), threading.Event()
        ours = [lock for lock in locks._registered]
        assert len(ours) >= 5

        def hold():
            for lock in ours:
                lock.acquire()
            held.set()
            go.wait()

        from eas.runtime.native import jit
        for lock in (jit.lock, jit._llvm_lock):  # nobody forks while they are held
            ours.remove(lock)
        threading.Thread(target=hold, daemon=True).start()
        held.wait()

        def work():
            for lock in ours:
                with lock:
                    pass
            x = np.ones(100, np.float32)
            scale(x, eas.empty(100), 2.0, 100)

        in_child(work)
        mine = locks.new_lock()
        with mine:  # of the thread that forks: it releases it in the child, too
            pid = os.fork()
        if pid == 0:
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        go.set()
    """)


@pytest.mark.skipif(toolchain.why_unavailable() is not None, reason="needs the software Metal")
def test_fork_while_another_thread_compiles_for_the_software_metal(tmp_path):
    run_script("""
        def launch(a):
            x, y = np.ones(9000, np.float32), np.zeros(9000, np.float32)
            scale(x, y, a, 9000)
            assert (y == a).all()

        launch(2.0)  # the engine and its helper threads exist
        compiling = threading.Thread(target=lambda: broken[1](np.ones(4, np.float32), np.ones(4, np.float32), 4), daemon=True)
        from eas.metal_sim import toolchain
        began = threading.Event()
        run = toolchain.Compiler.run
        def slow(self, *args, **kwargs):
            if threading.current_thread() is compiling:
                began.set()
                time.sleep(50)
            return run(self, *args, **kwargs)
        toolchain.Compiler.run = slow
        compiling.start()
        began.wait(50)
        in_child(lambda: launch(3.0))
        in_child(lambda: spin[3](np.ones(3, np.float32), np.ones(3, np.float32), 3))  # compiles
    """, backend="sim", EAS_CACHE_DIR=str(tmp_path))  # fmt: skip


def test_fork_while_other_threads_compile():
    run_script("""
        from eas.runtime.native import jit
        text = "define void @f() { ret void }"
        stop = threading.Event()

        def work():
            while not stop.is_set():
                with jit.lock:
                    time.sleep(0.001)
                    jit.compile_object(text)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
        for t in threads: t.start()
        for _ in range(10):
            in_child(lambda: jit.compile_object(text))
        stop.set()
    """)


# --- a launch in the middle of a launch -------------------------------------------------------------


@pytest.mark.parametrize("on", BACKENDS)
def test_signal_handlers_may_launch_allocate_and_wait(on):
    run_script("""
        x, ys = np.ones(5000, np.float32), [np.zeros(5000, np.float32) for _ in range(4)]
        count, inside = 0, False

        def handler(signum, frame):
            global count, inside
            if inside:
                return
            inside, count = True, count + 1
            out = np.zeros(5000, np.float32)
            kept = eas.empty(100 + count % 7)
            scale(x, out, 3.0, 5000, _sync=count % 3 == 0)
            if count % 5 == 0:
                get_runtime().synchronize()
                assert (out == 3).all()
            eas.memory_stats()
            inside = False

        for k in range(5):  # what is imported and compiled when it is first used
            scale(x, ys[0], 1.0, 5000, _sync=k % 2 == 0)
            handler(0, None)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            for k, y in enumerate(ys):
                scale(x, y, float(k), 5000, _sync=k == 3)
                eas.empty(100 + k)
            get_runtime().synchronize()
            for k, y in enumerate(ys):
                assert (y == k).all()
        signal.setitimer(signal.ITIMER_REAL, 0)
        get_runtime().synchronize()
        assert count > 20, count
    """, backend=on)  # fmt: skip


@pytest.mark.parametrize("step", ["submit", "_let_start", "_start", "_awaited", "_wait", "_run", "_end"])
def test_a_handler_inside_of_each_step_of_the_queue(step, monkeypatch):
    queue, ran = LaunchQueue(), []
    plain, budget = getattr(LaunchQueue, step), [1] * 4

    def interrupted(self, *args, **kwargs):
        if budget:
            budget.pop()
            queue.submit(lambda: ran.append(2), 64, [], n_threads=2)
            queue.wait_for(None)
        return plain(self, *args, **kwargs)

    def work():
        for _ in range(5):
            queue.submit(lambda: ran.append(1), 64, None, n_threads=2)
        queue.drain()

    monkeypatch.setattr(LaunchQueue, step, interrupted)
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert sorted(ran) == [1] * 5 + [2] * 4
    assert queue.take_errors(of_all=True) == []


@pytest.mark.parametrize("count", [2, 3])
def test_launches_that_wait_for_each_other_in_del_all_end(count):
    """Each of them is in the middle of its task on a thread of its own, where `__del__` waits for the memory of the next."""
    queue, order = LaunchQueue(), []
    memory = [(Span(8 * i, 8 * i + 8, True),) for i in range(count)]

    def work():
        for turn in range(20):
            met = threading.Barrier(count)

            def task(i, turn=turn, met=met):
                met.wait(30)
                if turn % 2:  # a launch, or only a wait
                    queue.submit(lambda: order.append(i), 64, memory[(i + 1) % count], n_threads=count)
                else:
                    queue.wait_for(memory[(i + 1) % count])
                    order.append(i)

            for i in range(count):
                queue.submit(functools.partial(task, i), 64, memory[i], n_threads=count)
            queue.drain()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert queue.take_errors(of_all=True) == []
    assert sorted(order) == sorted(list(range(count)) * 20)


def test_del_may_launch_anywhere():
    run_script("""
        x, out = np.ones(500, np.float32), np.zeros(500, np.float32)
        count = 0

        class Last:
            def __init__(self):
                self.me = self
            def __del__(self):
                global count
                count += 1
                eas.empty(10)
                scale(x, out, 3.0, 500, _sync=count % 2 == 0)
                if count % 3 == 0:
                    get_runtime().synchronize()

        gc.set_threshold(20, 2, 2)
        ys = [np.zeros(500, np.float32) for _ in range(4)]
        def work():
            end = time.monotonic() + 1.0
            while time.monotonic() < end or (count <= 20 and time.monotonic() < end + 30):  # on a busy machine
                for k, y in enumerate(ys):
                    Last()
                    scale(x, y, 2.0, 500, _sync=False)
                    eas.empty(20)
                get_runtime().synchronize()
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads: t.start()
        for t in threads: t.join()
        get_runtime().synchronize()
        assert count > 20, count
        assert (out == 3).all() and all((y == 2).all() for y in ys)
    """)


# --- no thread to be had ----------------------------------------------------------------------------


@pytest.mark.parametrize("error", ["RuntimeError(\"can't start new thread\")", "MemoryError()"])
def test_launches_run_here_when_no_thread_can_be_started(error):
    run_script(f"""
        def refuse(self):
            raise {error}
        start, threading.Thread.start = threading.Thread.start, refuse
        x, y = np.ones(500, np.float32), np.zeros(500, np.float32)
        scale(x, y, 2.0, 500, _sync=False)
        scale(y, y, 2.0, 500, _sync=False)
        get_runtime().synchronize()
        assert (y == 4).all()
        threading.Thread.start = start
        scale(y, y, 2.0, 500, _sync=False)
        get_runtime().synchronize()
        assert (y == 8).all()
    """)
