"""Errors of launches that nobody waited for: all are told, to the thread that launched; what relies on a failed launch is not run."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import eas
from eas.runtime import get_runtime
from eas.runtime.launch_queue import LaunchQueue, Span, relies_on
from tests.unit.hang_scripts import broken, run_script, scale

WAIT = 20.0


@pytest.fixture(params=["cpu", "sim"])
def runtime(request, monkeypatch):
    found = get_runtime(request.param)
    if not found.is_available():
        pytest.skip(str(found.why_unavailable()))
    monkeypatch.setenv("EAS_BACKEND", request.param)
    yield found
    found.queue.drain()
    found.queue.take_errors(of_all=True)


def ones(n=100):
    return np.ones(n, np.float32)


def in_thread(work):
    """What `work()` raises in a thread of its own, or None."""
    found = []

    def guarded():
        try:
            work()
            found.append(None)
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join(WAIT)
    return found[0]


def test_all_failures_are_raised_together(runtime):
    x, outs = ones(), [ones() for _ in range(3)]
    for out in outs:
        broken(x, out, 100, _sync=False)
    with pytest.raises(ExceptionGroup, match="3 launches failed") as caught:
        runtime.synchronize()
    assert [type(e) for e in caught.value.exceptions] == [eas.DeviceAssertion] * 3
    runtime.synchronize()


def test_one_failure_is_raised_as_it_is(runtime):
    broken(ones(), ones(), 100, _sync=False)
    with pytest.raises(eas.DeviceAssertion, match="broken"):
        runtime.synchronize()


def test_failures_are_told_to_the_thread_that_launched(runtime):
    launched, synchronized = threading.Event(), threading.Event()

    def work():
        broken(ones(), ones(), 100, _sync=False)
        launched.set()
        synchronized.wait(WAIT)
        runtime.synchronize()

    main_has_run = []

    def main():
        launched.wait(WAIT)
        runtime.synchronize()  # waits, and has nothing to do with that error
        main_has_run.append(1)
        synchronized.set()

    other = threading.Thread(target=main)
    other.start()
    error = in_thread(work)
    other.join(WAIT)
    assert main_has_run == [1]
    assert isinstance(error, eas.DeviceAssertion)


def test_failures_of_a_thread_that_has_ended_are_told_to_whoever_asks(runtime):
    assert in_thread(lambda: broken(ones(), ones(), 100, _sync=False)) is None
    with pytest.raises(eas.DeviceAssertion):
        runtime.synchronize()


def test_launches_that_rely_on_a_failed_one_fail_and_do_nothing(runtime):
    x, y, z, apart = ones(), np.full(100, 5, np.float32), np.full(100, 7, np.float32), np.zeros(100, np.float32)
    broken(x, y, 100, _sync=False)
    scale(y, z, 2.0, 100, _sync=False)  # reads what should have been written
    scale(z, z, 2.0, 100, _sync=False)  # and what that one should have
    scale(x, apart, 2.0, 100, _sync=False)  # reads what the failed one only read
    with pytest.raises(ExceptionGroup) as caught:
        runtime.synchronize()
    first, second, third = caught.value.exceptions
    assert isinstance(first, eas.DeviceAssertion)
    for error in (second, third):
        assert isinstance(error, eas.FailedDependency)
        assert str(error).startswith("scale was not run: broken, launched before it, failed and should have written memory that it uses")
        assert "synchronize() raises that error" in str(error)
        assert error.__cause__ is first
    assert (z == 7).all()
    assert (apart == 2).all()


@pytest.mark.parametrize("warm", [False, True])
def test_synchronous_launch_behind_a_failed_one_raises(runtime, warm):
    x, y, z, apart = ones(), ones(), np.full(100, 7, np.float32), np.zeros(100, np.float32)
    for _ in range(5 * warm):  # the native launcher looks first
        scale(x, apart, 1.0, 100)
    broken(x, y, 100, _sync=False)
    for _ in range(2):
        with pytest.raises(eas.FailedDependency, match="scale was not run: broken"):
            scale(y, z, 2.0, 100)
    scale(x, apart, 2.0, 100)
    assert (apart == 2).all()
    assert (z == 7).all()
    with pytest.raises(eas.DeviceAssertion):
        runtime.synchronize()
    scale(y, z, 2.0, 100)  # who knows of the error may use the memory
    assert not (z == 7).all()


def test_memory_lives_until_the_error_is_told(runtime):
    x, y = ones(10_000), ones(10_000)
    memory = weakref.ref(y)
    broken(x, y, 10_000, _sync=False)
    del y
    runtime.queue.drain()
    gc.collect()
    assert memory() is not None  # nobody gets its address while that is marked as failed
    with pytest.raises(eas.DeviceAssertion):
        runtime.synchronize()
    gc.collect()
    assert memory() is None


def test_a_thread_that_never_asks_is_told_in_the_end(monkeypatch):
    monkeypatch.setattr("eas.runtime.launch_queue._MAX_FAILURES", 10)
    queue = LaunchQueue()

    def fail():
        raise ValueError("no")

    def work():
        for i in range(1000):
            queue.submit(fail, 4, [Span(8 * i, 8 * i + 8, True)])

    error = in_thread(work)
    assert isinstance(error, ExceptionGroup)
    assert 10 <= len(error.exceptions) <= 20


@pytest.mark.parametrize(
    ("later", "failed", "expected"),
    [
        ([Span(0, 8, False)], [Span(0, 8, True)], True),
        ([Span(0, 8, True)], [Span(4, 12, True)], True),
        ([Span(0, 8, True)], [Span(0, 8, False)], False),
        ([Span(0, 8, True)], [Span(8, 12, True)], False),
        (None, [], True),
        ([], None, True),
    ],
)
def test_relies_on(later, failed, expected):
    later, failed = (None if s is None else tuple(s) for s in (later, failed))
    assert relies_on(later, failed) is expected


def test_nothing_is_lost_at_exit():
    done = run_script("""
        x = np.ones(100, np.float32)
        for _ in range(3):
            broken(x, np.ones(100, np.float32), 100, _sync=False)
        import atexit
        print("the end")
    """, status=120)  # fmt: skip
    assert done.stderr.count("eas: a launch failed, and nobody synchronized: broken") == 3
    assert done.stdout == "the end\n"
    assert "Traceback" not in done.stderr


def test_exit_without_failures_is_a_success():
    run_script("x = np.ones(100, np.float32)\nscale(x, x, 2.0, 100, _sync=False)\n")
