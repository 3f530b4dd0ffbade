"""Rows: what a call costs besides its work: launch, first call in a new process, warm disk cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.registry import Bar, Call, Workload

ROOT = Path(__file__).resolve().parent.parent
COLD = {"add": 0.150, "softmax": 0.250, "matmul": 0.400}  # seconds beyond import
WARM = 0.015

# Everything that the call needs is imported before the clock starts; inputs exist.
EAS = {
    "add": "from eas import lib; x, y = np.ones((2, 1 << 20), np.float32); call = lambda: lib.add(x, y)",
    "softmax": "from eas import lib; x = np.ones((512, 1024), np.float32); call = lambda: lib.softmax(x)",
    "matmul": "from eas import lib; x, y = np.ones((2, 256, 256), np.float32); call = lambda: lib.matmul(x, y)",
}
NUMBA = {
    "add": """
import numba
x, y = np.ones((2, 1 << 20), np.float32); out = np.empty_like(x)
@numba.njit(parallel=True)
def add(x, y, out):
    for i in numba.prange(x.size):
        out[i] = x[i] + y[i]
call = lambda: add(x, y, out)
""",
}
JAX = {
    "add": "import jax; x, y = map(jax.device_put, np.ones((2, 1 << 20), np.float32)); call = lambda: jax.jit(lambda a, b: a + b)(x, y).block_until_ready()",
    "softmax": "import jax; x = jax.device_put(np.ones((512, 1024), np.float32)); call = lambda: jax.jit(lambda a: jax.nn.softmax(a, axis=1))(x).block_until_ready()",
    "matmul": "import jax; x, y = map(jax.device_put, np.ones((2, 256, 256), np.float32)); call = lambda: jax.jit(lambda a, b: a @ b)(x, y).block_until_ready()",
}
TORCH_COMPILE = {
    "add": "import torch; x, y = map(torch.from_numpy, np.ones((2, 1 << 20), np.float32)); call = lambda: torch.compile(lambda a, b: a + b)(x, y)",
}
TIMED = """
import json, time
import numpy as np
{setup}
start = time.perf_counter()
call()
print(json.dumps(time.perf_counter() - start))
"""


def workloads() -> list[Workload]:
    return [launch(), *(cold(name) for name in COLD), *(warm(name) for name in COLD)]


def first_call(setup: str, cache: str) -> float:
    """Seconds of the first call in a new process that keeps its caches in that folder."""
    env = {**os.environ, "EAS_CACHE_DIR": cache, "NUMBA_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": cache}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), env.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", TIMED.format(setup=setup)], env=env, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def in_empty_cache(setup: str) -> Call:
    def call() -> float:
        with tempfile.TemporaryDirectory() as cache:
            return first_call(setup, cache)

    return call


def in_warm_cache(setup: str) -> Call:
    cache = tempfile.TemporaryDirectory()
    first_call(setup, cache.name)
    return lambda: first_call(setup, cache.name)


def cold(name: str) -> Workload:
    w = Workload("cold", f"first {name}", Bar(seconds=COLD[name]), self_timed=True)
    for peer, scripts in (("eas", EAS), ("numba", NUMBA), ("jax", JAX), ("torch.compile", TORCH_COMPILE)):
        if name in scripts:
            w.entry(peer)(lambda setup=scripts[name]: in_empty_cache(setup))
    return w


def warm(name: str) -> Workload:
    w = Workload("warm", f"first {name}, disk cache", Bar(seconds=WARM), self_timed=True)
    w.entry("eas")(lambda: in_warm_cache(EAS[name]))
    return w


def launch() -> Workload:
    n = 256
    w = Workload(
        "launch", f"add of {n}", Bar(seconds=3e-6), tolerance=0,
        make=lambda rng: tuple(rng.standard_normal((2, n), dtype=np.float32)),
        reference=lambda x, y: x + y,
    )  # fmt: skip

    @w.entry("eas")
    def _(x, y):
        from eas.lib.elementwise import add_kernel

        out = np.empty_like(x)
        return lambda: (add_kernel(x, y, out, n, BLOCK=n), out)[1]

    @w.entry("numpy")
    def _(x, y):
        out = np.empty_like(x)
        return lambda: np.add(x, y, out)

    @w.entry("c")
    def _(x, y):
        from benchmarks.baselines import bind

        out = np.empty_like(x)
        return bind("add_small", x, y, out, n, answer=out)

    @w.entry("numba")
    def _(x, y):
        import numba

        out = np.empty_like(x)

        @numba.njit
        def add(x, y, out):
            for i in range(x.size):
                out[i] = x[i] + y[i]

        return lambda: (add(x, y, out), out)[1]

    @w.entry("torch")
    def _(x, y):
        from benchmarks.torch_peer import tensors, torch

        tx, ty, out = tensors(x, y, np.empty_like(x))
        return lambda: torch.add(tx, ty, out=out)

    @w.entry("jax", allocates=True)
    def _(x, y):
        from benchmarks.jax_peer import jitted

        return jitted(lambda a, b: a + b, x, y)

    return w
