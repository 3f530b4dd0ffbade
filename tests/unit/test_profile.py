"""`eas.profile` where launches are timed by the wall."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime import get_runtime
from eas.runtime.streams import PROFILES, SPECIAL


@eas.kernel
def double_kernel(x, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(x, i, mk.load(x, i, i < N) * 2, i < N)


@eas.kernel
def step_kernel(x, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(x, i, mk.load(x, i, i < N) + 1, i < N)


@pytest.mark.parametrize("name", ["cpu", "interp"])
def test_every_launch_is_counted_also_those_that_were_native(name, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", name)
    x, t = np.ones(10, np.int32), eas.ones(10, dtype="i32")
    for _ in range(6):  # from then on such calls are native
        double_kernel(x, 10, BLOCK=16)
        double_kernel(t, 10, BLOCK=16)
    with eas.profile() as times:
        double_kernel(x, 10, BLOCK=16)
        double_kernel(t, 10, BLOCK=16, _sync=False)
        for _ in range(3):
            step_kernel(x, 10, BLOCK=16)
    found = {row.kernel: row for row in times}
    assert {name: row.launches for name, row in found.items()} == {"double_kernel": 2, "step_kernel": 3}
    assert all(row.backend == name and 0 < row.least <= row.mean <= row.seconds for row in times)
    assert x[0] == 2**7 + 3
    assert t.numpy()[0] == 2**7
    assert len(str(times).splitlines()) == 3
    assert repr(times) == "<eas.Profile of 2 kernels, 5 launches>"
    assert not PROFILES
    assert not SPECIAL
    double_kernel(x, 10, BLOCK=16)
    assert sum(row.launches for row in times) == 5


def test_launches_of_a_graph_count_one_by_one():
    x = np.zeros(10, np.int32)
    with eas.capture() as graph:
        step_kernel(x, 10, BLOCK=16)
        double_kernel(x, 10, BLOCK=16)
        step_kernel(x, 10, BLOCK=16)
    graph.replay()
    with eas.profile() as times:
        graph.replay()
    graph.replay()
    assert {row.kernel: row.launches for row in times} == {"double_kernel": 1, "step_kernel": 2}
    assert x[0] == 21


def test_an_error_ends_the_profile():
    with pytest.raises(ZeroDivisionError), eas.profile():
        raise ZeroDivisionError
    assert not PROFILES
    assert not SPECIAL


def test_graphs_are_told_of_launch_by_launch(monkeypatch, capfd):
    monkeypatch.setenv("EAS_DEBUG", "2")
    x = np.zeros(10, np.int32)
    with eas.capture() as graph:
        step_kernel(x, 10, BLOCK=16)
        double_kernel(x, 10, BLOCK=16)
    graph.replay()
    told = capfd.readouterr().err
    assert told.count("step_kernel ") == 1
    assert told.count("double_kernel ") == 1


def test_a_profile_does_not_open_devices_that_were_only_asked_for(monkeypatch):
    monkeypatch.delenv("EAS_METAL", raising=False)
    metal = get_runtime("mps")
    if metal.is_available():
        pytest.skip("this machine has Metal")
    loaded = metal._metal
    with eas.profile():
        pass
    assert metal._metal is loaded
