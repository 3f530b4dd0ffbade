"""The cycle collector: it rests while kernels are compiled, and is afterwards as it was before."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import eas
from eas import lowering, mk
from eas.base import collector


@pytest.fixture(autouse=True)
def as_it_was():
    was_on = gc.isenabled()
    yield
    gc.enable() if was_on else gc.disable()


@eas.kernel
def add_one(x, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(x, i, mk.load(x, i) + 1.0)


def test_collector_rests_while_a_kernel_is_compiled(monkeypatch):
    seen = []
    plain = lowering.optimise
    monkeypatch.setattr(lowering, "optimise", lambda *args, **kwargs: (seen.append(gc.isenabled()), plain(*args, **kwargs))[1])
    monkeypatch.setenv("EAS_CACHE", "0")
    gc.enable()
    _ = eas.kernel(add_one.fn).compile(np.zeros(8, np.float32), BLOCK=8).variant().module
    assert seen == [False]
    assert gc.isenabled()


@pytest.mark.parametrize("was_on", [True, False])
def test_collector_is_as_before(was_on):
    gc.enable() if was_on else gc.disable()
    seen = []

    def fail():
        with collector.resting(), collector.resting():
            seen.append(gc.isenabled())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [False]
    assert gc.isenabled() == was_on
    assert not collector._depths


def test_last_thread_lets_the_collector_go_on():
    gc.enable()
    inside, leave = threading.Event(), threading.Event()

    def compile_for_a_while():
        with collector.resting():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=compile_for_a_while)
    with collector.resting():
        thread.start()
        inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_child_does_not_wait_for_threads_that_it_does_not_have(monkeypatch):
    gc.enable()
    with collector.resting():
        collector._depths[-1] = 2  # of another thread
        collector._after_fork()
        assert list(collector._depths) == [threading.get_ident()]
        assert not gc.isenabled()
    assert gc.isenabled()
