"""Scripts that could hang or die, run in processes of their own with a time limit; and what these scripts use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path

import eas
from eas import mk

ROOT = Path(__file__).parents[2]
LIMIT_S = int(os.environ.get("HANG_LIMIT_S", "60"))  # far above what any script takes on a busy machine

PRELUDE = """
import faulthandler
faulthandler.dump_traceback_later({limit} - 5, exit=True)
import ctypes, gc, os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts tests in the background may have it ignored
import numpy as np
import eas
from eas.runtime import get_runtime
from tests.unit.hang_scripts import broken, in_child, scale, spin
"""


def run_script(text, *, status=0, backend="cpu", **environment):
    """Run a script behind PRELUDE; what it wrote, after it ended with this status in time."""
    settings = {"EAS_BACKEND": backend, "EAS_NUM_THREADS": "2", "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE.format(limit=LIMIT_S) + textwrap.dedent(text)],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, env={**os.environ, **settings},
    )  # fmt: skip
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def in_child(work):
    """Run `work()` in a forked child; a child that hangs is killed by its alarm."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@eas.kernel
def scale(x, y, a, N, BLOCK: eas.constexpr = 64):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(y, i, mk.load(x, i, i < N) * a, i < N)


@eas.kernel
def broken(x, y, N, BLOCK: eas.constexpr = 64):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.device_assert(mk.load(x, i, i < N) < 0, "broken")
    mk.store(y, i, mk.load(x, i, i < N), i < N)


@eas.kernel
def spin(x, y, steps):
    """Takes about 2 ns per step and program, as long as `steps` asks for."""
    total = mk.load(x, mk.program_id(0))
    for _ in range(steps):
        total = total * 0.999 + 1.0
    mk.store(y, mk.program_id(0), total)


@eas.kernel
def sum_rows(x, y, n, BLOCK: eas.constexpr = 16):
    row, total = mk.program_id(0), mk.zeros([BLOCK])
    for start in range(0, n, BLOCK):
        cols = start + mk.arange(0, BLOCK)
        total += mk.load(x, row * n + cols, cols < n)
    mk.store(y, row, mk.sum(total))


def long_text(n):
    """LLVM text that takes long to compile: n chains of 4 operations in one block."""
    lines = [f"  %v{i + 1} = call double @llvm.sin.f64(double %v{i})\n  %w{i} = getelementptr double, ptr %p, i64 {i}\n  store double %v{i + 1}, ptr %w{i}" for i in range(n)]
    return "declare double @llvm.sin.f64(double)\ndefine void @f(ptr %p, double %v0) {\n" + "\n".join(lines) + "\n  ret void\n}\n"
