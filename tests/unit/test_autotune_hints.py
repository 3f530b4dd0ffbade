"""`Config(..., num_warps=...)` reaches the kernel on Metal, and costs nothing elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime import get_runtime
from eas.runtime.interp import InterpRuntime
from eas.runtime.sim import SimRuntime

needs_sim = pytest.mark.skipif(not get_runtime("sim").is_available(), reason="no software Metal here")


@eas.kernel
def double_kernel(x, y, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < N) * 2, i < N)


@eas.kernel
def told_kernel(x, y, N, BLOCK: eas.constexpr, num_warps: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < N) * num_warps, i < N)


def configs(*warps):
    return [eas.Config({"BLOCK": 256}, num_warps=w) for w in warps]


def run_counting(monkeypatch, runtime, made, seconds):
    """The threads of every launch, by a clock that advances as `seconds` says for them."""
    threads, run = [], runtime.run
    now = [0.0]

    def timed(self, executable, args, grid, **options):
        threads.append(executable.metal.threads)
        now[0] += seconds(threads[-1])
        run(self, executable, args, grid, **options)

    monkeypatch.setattr(runtime, "run", timed)
    made.clock = lambda: now[0]
    x, y = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    made(x, y, 300, _grid=2)
    return threads, x, y


@needs_sim
def test_autotune_times_each_num_warps_and_launches_the_fastest(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "sim")
    made = eas.autotune(configs=configs(1, 2, 8), key=["N"], warmup=0, repeat=2)(double_kernel)
    threads, x, y = run_counting(monkeypatch, SimRuntime, made, lambda t: abs(t - 64))
    assert threads == [32, 64, 256] * 2 + [64]
    assert made.best_config == configs(2)[0]
    np.testing.assert_array_equal(y, 2 * x)
    assert made.compile(x, y, 300).threads_per_threadgroup == 64
    assert "64 threads" in made.to_msl(x, y, 300)


def test_backends_without_threadgroups_try_such_configs_once(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    made = eas.autotune(configs=configs(1, 2, 8), key=["N"], warmup=0, repeat=2)(double_kernel)
    threads, x, y = run_counting(monkeypatch, InterpRuntime, made, lambda t: 1)
    assert len(threads) == 2 + 1  # one config twice, and the launch that was asked for
    np.testing.assert_array_equal(y, 2 * x)


def test_a_kernel_that_declares_num_warps_gets_its_value_everywhere(monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    made = eas.autotune(configs=configs(1, 4), warmup=0, repeat=1)(told_kernel)
    threads, x, y = run_counting(monkeypatch, InterpRuntime, made, lambda t: 1 / t)
    assert threads == [32, 128, 128]
    np.testing.assert_array_equal(y, 4 * x)


def test_num_warps_of_a_call_is_refused_where_a_config_gives_it():
    made = eas.autotune(configs=configs(1, 4))(double_kernel)
    x = np.zeros(4, np.float32)
    with pytest.raises(eas.ArgumentError, match="was given `num_warps`, which autotune chooses"):
        made(x, x.copy(), 4, _grid=1, num_warps=2)


def test_num_warps_of_a_call_holds_where_no_config_gives_it():
    made = eas.autotune(configs=[eas.Config({"BLOCK": 256}), eas.Config({"BLOCK": 128})])(double_kernel)
    x = np.zeros(4, np.float32)
    assert made.compile(x, x.copy(), 4, num_warps=4).threads_per_threadgroup == 128


@pytest.mark.parametrize("warps", [0, 3, 64, "4", True])
def test_config_refuses_a_num_warps_that_no_program_can_have(warps):
    with pytest.raises(eas.ArgumentError) as caught:
        eas.Config({"BLOCK": 256}, num_warps=warps)
    assert str(caught.value) == (
        f"Config was given num_warps={warps!r}\n  hint: a program has 1, 2, 4, 8, 16 or 32 simdgroups of 32 threads"
    )
