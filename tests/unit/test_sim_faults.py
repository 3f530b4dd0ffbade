"""A kernel that touches memory which is not there ends the process, and says which kernel it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eas.metal_sim import toolchain

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))
TOLD = "eas: kernel wild touched memory outside of its buffers; EAS_SANITIZE=1 names the line\n"
START = """
import ctypes, faulthandler, os, signal, sys
import numpy as np
from eas.metal_sim import Library
library = Library('''kernel void wild(device int* x, uint i [[thread_position_in_grid]]) { x[1ul << 40] = 1; }
kernel void fine(device int* x) { x[0] = 1; }''')
x = np.zeros(1, np.int32)
"""
FINE = "library.kernel('fine')(x, grid=1)\n"


def ended(code: str) -> tuple[int, str]:
    """Status and stderr of a process that runs the code; without a core file."""
    text = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n" + START + code
    done = subprocess.run([sys.executable, "-c", text], cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("grid", "times"), [(1, 1), (10_000, None)])
def test_the_kernel_is_named_and_the_signal_ends_the_process(grid, times):
    status, told = ended(f"library.kernel('wild')(x, grid={grid}, threads=8)")
    assert status == -signal.SIGSEGV
    assert told.startswith(TOLD)
    assert times is None or told == TOLD * times


def test_a_fault_handler_from_before_and_one_from_later_are_asked_too():
    status, told = ended("faulthandler.enable()\nlibrary.kernel('wild')(x, grid=1)")
    assert status == -signal.SIGSEGV
    assert told.startswith(TOLD)
    assert "Fatal Python error: Segmentation fault" in told
    status, told = ended(FINE + "faulthandler.enable()\nlibrary.kernel('wild')(x, grid=1)")
    assert status == -signal.SIGSEGV
    assert told.startswith("Fatal Python error: Segmentation fault")
    assert TOLD in told


def test_signals_and_faults_of_others_stay_as_they_were():
    assert ended(FINE + "os.kill(os.getpid(), signal.SIGSEGV)") == (-signal.SIGSEGV, "")
    assert ended(FINE + "ctypes.string_at(1)") == (-signal.SIGSEGV, "")
    mine = "signal.signal(signal.SIGSEGV, lambda *given: print('mine', file=sys.stderr))\n"
    assert ended(mine + FINE + "os.kill(os.getpid(), signal.SIGSEGV)") == (0, "mine\n")
