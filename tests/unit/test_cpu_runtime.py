"""The CPU runtime with hand-written code: arguments, errors, asynchronous launches, debug lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

from eas.base import dtypes
from eas.base.errors import ArgumentError, DeviceAssertion, OutOfBounds
from eas.runtime import debug
from eas.runtime.cpu import ASSERTION, BAD_LOAD, BAD_STORE, CpuRuntime
from eas.runtime.native import jit
from tests.unit.native_kernels import (
    COUNT,
    add_kernel,
    buffer,
    executable,
    failing,
    per_program,
    scalar,
    slot,
)

pytest.importorskip("llvmlite")


@pytest.fixture
def runtime():
    return CpuRuntime()


class Place:
    def describe(self):
        return ["at k.py:7"]


def test_add(runtime):
    kernel, n = add_kernel(), 1000
    x, y = np.random.default_rng(0).random((2, n), np.float32)
    z = np.zeros(n + 3, np.float32)
    runtime.run(kernel, [x, y, z, n], (4, 1, 1))
    assert (z[:n] == x + y).all()
    assert (z[n:] == 0).all()


def test_code_is_loaded_once_and_dies_with_its_executable(runtime):
    kernel = add_kernel()
    x = np.ones(8, np.float32)
    runtime.run(kernel, [x, x, x, 8], (1, 1, 1))
    first = kernel.loaded
    runtime.run(kernel, [x, x, x, 8], (1, 1, 1))
    assert kernel.loaded is first
    assert (x == 4).all()


# Stores slot 1 (the scalar) into out[0], the grid into out[1..3], the sizes into out[4..5].
SLOTS = per_program(
    "slots",
    slot(0)
    + slot(1, "i64")
    + "".join(
        slot(source, "i64")
        + f"  %q{target} = getelementptr i64, ptr %a0, i64 {target}\n  store i64 %a{source}, ptr %q{target}\n"
        for target, source in enumerate([2, 3, 4, 7, 8], 1)
    )
    + "  store i64 %a1, ptr %a0\n",
)


@pytest.mark.parametrize(
    ("dtype", "given", "bits"),
    [
        (dtypes.i32, -2, -2),
        (dtypes.i64, 2**40 + 1, 2**40 + 1),
        (dtypes.u64, 2**64 - 1, -1),
        (dtypes.u8, 255, 255),
        (dtypes.bool_, True, 1),
        (dtypes.f32, 1.5, 0x3FC00000),
        (dtypes.f32, 1e300, 0x7F800000),
        (dtypes.f64, -0.0, -(2**63)),
        (dtypes.f16, 1.0, 0x3C00),
        (dtypes.bf16, 1.0, 0x3F80),
        (dtypes.i32, np.int64(7), 7),
        (dtypes.f32, np.float16(0.5), 0x3F000000),
    ],
)
def test_slots(runtime, dtype, given, bits):
    kernel = executable("slots", SLOTS, [buffer("out", dtypes.i64), scalar("s", dtype)])
    out = np.zeros(6, np.int64)
    runtime.run(kernel, [out, given], (2, 3, 1))
    assert out[0] == bits
    assert out[1:].tolist() == [2, 3, 1, 6, 0]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([np.zeros(4, np.float64), 1], "argument x is a flat, contiguous buffer of f32"),
        ([np.zeros((2, 2), np.float32), 1], r"float32 in memory\), got float32 of shape \(2, 2\)"),
        ([np.zeros(8, np.float32)[::2], 1], "argument x is a flat, contiguous buffer of f32"),
        (
            [np.zeros(9, np.uint8)[1:].view(np.float32), 1],
            "argument x starts in the middle of an element",
        ),
        ([3.0, 1], "argument x is a buffer of f32, got float"),
        ([np.zeros(4, np.float32), 2**31], "argument n is 2147483648, which is no i32"),
        ([np.zeros(4, np.float32), 0.5], "argument n is 0.5, which is no i32"),
        ([np.zeros(4, np.float32), "1"], "argument n is a number of type i32, got str"),
        ([np.zeros(4, np.float32)], "takes 2 arguments, got 1"),
    ],
)
def test_wrong_arguments_are_refused(runtime, args, text):
    kernel = executable("count", COUNT, [buffer("x", dtypes.f32), scalar("n", dtypes.i32)])
    with pytest.raises(ArgumentError, match=text):
        runtime.run(kernel, args, (1, 1, 1))


def test_empty_grid_runs_nothing(runtime):
    counts = np.zeros(1, np.int32)
    runtime.run(executable("count", COUNT, [buffer("c", dtypes.i32)]), [counts], (5, 0, 1))
    assert counts[0] == 0


# --- errors ---------------------------------------------------------------------------------------


def failing_kernel(kind, text, when, index=0, size=0):
    llvm = failing(kind, 1, 1, when, index, size)
    return executable(
        "failing", llvm, [buffer("c", dtypes.i32)], places=[("other", None), (text, Place())]
    )


def test_failed_assertion_names_the_program_and_the_line(runtime):
    with pytest.raises(DeviceAssertion) as caught:
        runtime.run(
            failing_kernel(ASSERTION, "x is positive", when=17), [np.zeros(1, np.int32)], (3, 4, 2)
        )
    assert str(caught.value) == "x is positive (kernel failing, program (2,1,1))\n  at k.py:7"


@pytest.mark.parametrize(
    ("kind", "index", "text"),
    [
        (
            BAD_LOAD,
            9,
            "load from c: index 9 is out of range, it has 8 elements (kernel failing, program (2,0,0))",
        ),
        (
            BAD_STORE,
            -1,
            "store to c: index -1 is out of range, it has 8 elements (kernel failing, program (2,0,0))",
        ),
    ],
)
def test_bad_access_names_index_buffer_and_line(runtime, kind, index, text):
    with pytest.raises(OutOfBounds) as caught:
        runtime.run(failing_kernel(kind, "c", 2, index, 8), [np.zeros(8, np.int32)], (4, 1, 1))
    assert caught.value.message == text
    assert str(caught.value).splitlines()[1] == "  at k.py:7"
    assert caught.value.hint


def test_launch_after_a_failed_one_is_fine(runtime):
    kernel = failing_kernel(ASSERTION, "no", when=3)
    with pytest.raises(DeviceAssertion):
        runtime.run(kernel, [np.zeros(1, np.int32)], (4, 1, 1))
    runtime.run(kernel, [np.zeros(1, np.int32)], (3, 1, 1))


# --- asynchronous launches ------------------------------------------------------------------------

# x[0] = x[0] * 3 + s after a short sleep: the result depends on the order.
STEP = per_program(
    "step",
    slot(0)
    + slot(1, "i64")
    + "  %r = call i32 @usleep(i32 300)\n  %old = load i64, ptr %a0\n  %t = mul i64 %old, 3\n"
    + "  %new = add i64 %t, %a1\n  store i64 %new, ptr %a0\n",
    "declare i32 @usleep(i32)",
)


def step_kernel():
    return executable("step", STEP, [buffer("x", dtypes.i64), scalar("s", dtypes.i64)])


def steps(n):
    value = 0
    for i in range(n):
        value = (value * 3 + i) % 2**64
    return value if value < 2**63 else value - 2**64


def test_asynchronous_launches_run_in_order(runtime):
    kernel, x = step_kernel(), np.zeros(1, np.int64)
    for i in range(60):
        runtime.run(kernel, [x, i], (1, 1, 1), sync=False)
    runtime.synchronize()
    assert x[0] == steps(60)


def test_synchronous_launch_waits_for_those_before(runtime):
    kernel, x = step_kernel(), np.zeros(1, np.int64)
    for i in range(20):
        runtime.run(kernel, [x, i], (1, 1, 1), sync=i == 19)
    assert x[0] == steps(20)


def test_launch_returns_before_the_kernel_has_ended(runtime):
    kernel, x = step_kernel(), np.zeros(1, np.int64)
    for _ in range(30):
        runtime.run(kernel, [x, 1], (1, 1, 1), sync=False)
    assert runtime.queue.pending.value > 0
    runtime.synchronize()
    assert runtime.queue.pending.value == 0


def test_max_in_flight_holds_launches_back(runtime, monkeypatch):
    monkeypatch.setenv("EAS_MAX_IN_FLIGHT", "2")
    kernel, x, most = step_kernel(), np.zeros(1, np.int64), 0
    for _ in range(10):
        runtime.run(kernel, [x, 1], (1, 1, 1), sync=False)
        most = max(most, runtime.queue.pending.value)
    runtime.synchronize()
    assert most <= 2


def test_arguments_live_until_the_launch_has_ended(runtime):
    kernel, count = step_kernel(), executable("count", COUNT, [buffer("c", dtypes.i32)])
    x = np.zeros(1, np.int64)
    results = []
    for _ in range(20):
        runtime.run(kernel, [x, 1], (1, 1, 1), sync=False)
        counts = np.zeros(200_000, np.int32)
        results.append(counts[:4])
        runtime.run(count, [counts.view()], (200_000, 1, 1), sync=False)
        del counts
    runtime.synchronize()
    assert all((r == 1).all() for r in results)


def test_errors_are_delivered_when_somebody_synchronizes(runtime):
    bad, good, x = failing_kernel(ASSERTION, "first", 0), step_kernel(), np.zeros(1, np.int64)
    runtime.run(bad, [np.zeros(1, np.int32)], (1, 1, 1), sync=False)
    runtime.run(good, [x, 5], (1, 1, 1), sync=False)
    runtime.run(good, [x, 5], (1, 1, 1))
    assert x[0] == 20  # later launches run all the same
    with pytest.raises(DeviceAssertion, match="first"):
        runtime.synchronize()
    runtime.synchronize()


def test_threads_may_launch_and_synchronize_at_once(runtime):
    kernel = executable("count", COUNT, [buffer("c", dtypes.i32)])
    wrong = []

    def work(seed):
        for i in range(50):
            counts = np.zeros(64, np.int32)
            runtime.run(kernel, [counts], (64, 1, 1), sync=(i + seed) % 3 == 0)
            runtime.synchronize()
            wrong.extend([1] if (counts != 1).any() else [])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_child_after_fork_has_an_empty_queue(runtime):
    kernel, x = step_kernel(), np.zeros(1, np.int64)
    for _ in range(20):
        runtime.run(kernel, [x, 1], (1, 1, 1), sync=False)
    pid = os.fork()
    if pid == 0:
        y = np.zeros(1, np.int64)
        for i in range(3):
            runtime.run(kernel, [y, i], (1, 1, 1), sync=False)
        runtime.synchronize()
        os._exit(0 if y[0] == steps(3) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    runtime.synchronize()


def test_process_ends_after_its_launches():
    script = textwrap.dedent("""
        import numpy as np
        from eas.runtime import cpu
        from tests.unit.test_cpu_runtime import failing_kernel, step_kernel
        runtime, x = cpu.CpuRuntime(), np.zeros(1, np.int64)
        for i in range(10):
            runtime.run(step_kernel(), [x, i], (1, 1, 1), sync=False)
        runtime.run(failing_kernel(cpu.ASSERTION, "too late", 0), [np.zeros(1, np.int32)], (1, 1, 1), sync=False)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 120, done.stderr  # Python's status of an exit that went wrong
    assert "a launch failed, and nobody synchronized: too late" in done.stderr


# --- what is shown --------------------------------------------------------------------------------


def test_debug_tells_the_rates_of_a_launch(runtime, monkeypatch, capsys):
    monkeypatch.setenv("EAS_DEBUG", "2")
    counts = np.zeros(6, np.int32)
    known = executable("count", COUNT, [buffer("c", dtypes.i32)], nbytes_per_program=8, flops_per_program=1)
    debug.run(runtime, known, [counts], (3, 2, 1))
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"\*\*\* CPU .* count  .*grid \(3,2,1\) .* tm .*us/.*ms \( *[\d.]+ GFLOPS +[\d.]+ GB/s\)", line)


def test_without_llvmlite_the_backend_says_so(runtime, monkeypatch):
    monkeypatch.setattr(jit, "_llvmlite_folder", lambda: None)
    assert runtime.why_unavailable() == "llvmlite is not installed (pip install llvmlite)"
    assert not runtime.is_available()
