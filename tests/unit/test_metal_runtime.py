"""The Metal runtime through its extension, on the fake Metal: each test is a process of its own, with EAS_METAL=software."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("eas._metal") is None or sys.platform != "linux",
    reason="eas._metal is not built here: EAS_METAL=software python tools/build_metal_ext.py",
)

START = """
import gc, os, sys
import numpy as np
import eas
from eas import mk
from eas.runtime import get_runtime

@eas.kernel
def add_kernel(a, b, c, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)

runtime = get_runtime()
hooks = runtime.extension().hooks
"""


def run(script: str, **env: str) -> str:
    """What a script prints; no problem of the fake may be left."""
    text = START + textwrap.dedent(script) + "\nassert hooks.problem() is None, hooks.problem()\n"
    settings = {**os.environ, "EAS_METAL": "software", "EAS_BACKEND": "mps", **env}
    done = subprocess.run([sys.executable, "-c", text], env=settings, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_numpy_arrays_are_staged_and_tensors_are_not():
    run("""
        n = 1031
        a, b, c = (np.random.default_rng(0).normal(size=n).astype(np.float32) for _ in range(3))
        add_kernel(a, b, c, n, BLOCK=256)
        assert np.array_equal(c, a + b) and runtime.copies == 3
        x, y = eas.tensor(a, device="mps"), eas.tensor(b).to("mps")
        z = eas.empty_like(x)
        add_kernel(x, y, z, n, BLOCK=256)
        assert z.device == "mps" and np.array_equal(z.numpy(), a + b) and runtime.copies == 3
    """)


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_commands_keep_the_order_of_their_hazards(seed):
    """Whatever order the fake takes among commands that no barrier orders."""
    run("""
        n = 4096
        x = [eas.tensor(np.full(n, float(k), np.float32), device="mps") for k in range(4)]
        want = [np.full(n, float(k), np.float32) for k in range(4)]
        rng = np.random.default_rng(int(os.environ["EAS_FAKE_SEED"]))
        for _ in range(200):
            a, b, c = rng.integers(0, 4, 3)
            add_kernel(x[a], x[b], x[c], n, BLOCK=1024, _sync=False)
            want[c] = want[a] + want[b]
        eas.synchronize()
        for got, expected in zip(x, want):
            assert np.array_equal(got.numpy(), expected)
        assert runtime._stream.statistics["barriers"] > 20
    """, EAS_FAKE_SEED=seed)  # fmt: skip


@pytest.mark.parametrize(("fault", "said"), [("page", "fault"), ("timeout", "timeout"), ("memory", "memory"), ("removed", "removed")])
def test_a_fault_reaches_the_call_that_waits_and_the_next_launch_works(fault, said):
    out = run(f"""
        x = eas.tensor(np.ones(64, np.float32), device="mps")
        y = eas.empty_like(x)
        add_kernel(x, x, y, 64, BLOCK=64)
        hooks.inject({fault!r})
        try:
            add_kernel(x, x, y, 64, BLOCK=64)
            print("nothing was raised")
        except eas.LaunchError as error:
            print(error.message)
        add_kernel(x, x, y, 64, BLOCK=64)
        assert np.array_equal(y.numpy(), np.full(64, 2, np.float32))
    """)  # fmt: skip
    assert f"kernel add_kernel failed on the GPU ({said})" in out


def test_faults_of_memory_and_compiler():
    out = run("""
        x = eas.tensor(np.ones(64, np.float32), device="mps")
        for fault in ("compile", "pipeline"):
            hooks.inject(fault)
            try:
                add_kernel(x, x, x, 64, BLOCK=64)
            except eas.LaunchError as error:
                print(error.message)
        hooks.inject("allocation")
        try:
            add_kernel(*(np.ones(10**6, np.float32) for _ in range(3)), 64, BLOCK=64)
        except eas.LaunchError as error:
            print(error.message)
        add_kernel(x, x, x, 64, BLOCK=64)
    """)
    assert "(compile)" in out
    assert "on demand" in out
    assert "(memory): Metal has no" in out


def test_nothing_is_left_alive():
    run("""
        def work():
            x = eas.tensor(np.ones(64, np.float32), device="mps")
            for _ in range(100):
                add_kernel(x, x, x, 64, BLOCK=64, _sync=False)
            eas.synchronize()
        work()
        gc.collect()
        before = hooks.live_objects()
        for _ in range(5):
            work()
        gc.collect()
        eas.synchronize()
        assert hooks.live_objects() <= before + 2, (before, hooks.live_objects())
    """)


def test_a_forked_child_is_told():
    out = run("""
        x = eas.tensor(np.ones(64, np.float32), device="mps")
        add_kernel(x, x, x, 64, BLOCK=64)
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            try:
                add_kernel(x, x, x, 64, BLOCK=64)
            except eas.LaunchError as error:
                print(error.message, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
    """)
    assert 'start processes with the method "spawn"' in out
