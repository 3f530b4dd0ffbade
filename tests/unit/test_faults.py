"""A kernel that crashes the process is named; whoever handled the signal before still does."""

import os
import signal
import subprocess
import sys

import pytest

SCRIPT = """
import faulthandler, os, sys
import numpy as np
import eas
from eas import mk

@eas.kernel
def wild_store(x, far, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(x, i.to(mk.i64) + far, 1.0)

x = np.zeros(64, np.float32)
wild_store(x, 0, BLOCK=8, _grid=8)
assert x.all()
{before}
wild_store(x, 1 << 45, BLOCK=8, _grid={grid})
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    cache = str(tmp_path_factory.mktemp("cache"))  # of all tests here: what they crash is compiled once
    return lambda before="", grid=1, **env: crash(before, grid, {**os.environ, "EAS_CACHE_DIR": cache, **env})


def crash(before, grid, env):
    made = subprocess.run([sys.executable, "-c", SCRIPT.format(before=before, grid=grid)], capture_output=True, text=True, env=env, timeout=120)
    return made.returncode, made.stderr


@pytest.mark.parametrize("grid", [1, 10_000_000])
def test_a_crash_names_the_kernel(grid, run):
    status, told = run(grid=grid)
    assert status == -signal.SIGSEGV
    assert "eas: kernel wild_store touched memory outside of its buffers" in told
    assert "EAS_CHECK_BOUNDS=1" in told


def test_what_it_advises_finds_the_place(run):
    status, told = run(EAS_CHECK_BOUNDS="1")
    assert status == 1
    assert "eas.OutOfBounds: store to x: index 35184372088832 is out of range" in told


def test_faulthandler_still_tells_its_part(run):
    for before in ("", "faulthandler.enable()"):
        status, told = run(before, PYTHONFAULTHANDLER="" if before else "1")
        assert status == -signal.SIGSEGV
        assert "Fatal Python error: Segmentation fault" in told
        assert before or told.index("eas: kernel wild_store") < told.index("Fatal Python error")


@pytest.mark.parametrize("before", ["import ctypes; ctypes.string_at(8)", "os.kill(os.getpid(), 11)"])
def test_faults_of_others_are_not_ours(before, run):
    status, told = run(before)
    assert status == -signal.SIGSEGV
    assert "kernel" not in told


def test_it_can_be_left_out(run):
    status, told = run(EAS_FAULT_HANDLER="0")
    assert (status, told) == (-signal.SIGSEGV, "")
