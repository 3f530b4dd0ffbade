"""DLPack at length: no growth over 100,000 exchanges, no use after free under a debug allocator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eas

ROOT = Path(__file__).parents[2]

EXCHANGE = """
import gc, random, sys
import numpy as np
import eas

def rss_kib():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1])

def exchange(count, foreign):
    rng = random.Random(count)
    for i in range(count):
        x = eas.empty(500 + i % 7, dtype=("f32", "bf16", "f8e4m3")[i % 3])
        kind = i % 4
        if kind == 0:
            chain = [x, eas.from_dlpack(eas.to_dlpack(x))]
        elif kind == 1:
            chain = [x, x.__dlpack__(max_version=(1, 0)), eas.from_dlpack(x)]
        elif kind == 2 and foreign is not None:
            t = foreign.from_dlpack(x)
            chain = [x, t, eas.from_dlpack(t)]
            if i % 16 == 2:
                chain += [eas.from_torch(t), x[3:].to_torch()]
        else:
            capsule = eas.to_dlpack(x)
            chain = [x, capsule, eas.from_dlpack(capsule)[1:]]
        del x
        rng.shuffle(chain)
        while chain:
            chain.pop()

foreign = None
if "torch" in sys.argv:
    import torch as foreign
count = int(sys.argv[1])
exchange(count // 10, foreign)
gc.collect()
before = rss_kib()
exchange(count, foreign)
gc.collect()
assert eas.memory_stats().used_nbytes == 0, eas.memory_stats()
print(rss_kib() - before)
"""


def run(count, *words, **environment):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", EXCHANGE, str(count), *words],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout)


def torch_word():
    try:
        import torch  # noqa: F401
    except ImportError:
        return ()
    return ("torch",)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")


@linux
def test_a_hundred_thousand_exchanges_do_not_grow():
    # One leaked tensor per exchange would be 50 MiB and more, one leaked capsule 10 MiB.
    assert run(100_000, *torch_word()) < 2048


@linux
def test_exchanges_under_a_debug_allocator():
    """Freed memory is overwritten, blocks carry guards: a use after free or an overrun shows."""
    run(3000, *torch_word(), PYTHONMALLOC="debug", MALLOC_PERTURB_="165", MALLOC_CHECK_="3")


# --- every order of deletion --------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (2, 0, 3, 1)])
def test_a_chain_through_torch_may_die_in_any_order(order):
    torch = pytest.importorskip("torch")
    x = eas.arange(100, dtype="f32")
    t = torch.from_dlpack(x)
    links = [x, t, eas.from_dlpack(t[10:]), torch.from_dlpack(eas.from_torch(t)).numpy()]
    del x, t
    for place in order:
        links[place] = None
        _ = [eas.ones(100).copy_(-1) for _ in range(3)]  # takes memory that was freed too early
        for link, start in zip(links, (0, 0, 10, 0), strict=True):
            if link is not None:
                assert list(link.tolist()) == list(range(start, 100))


def test_numpy_shares_pointers():
    x = eas.arange(64, dtype="f32")
    assert np.from_dlpack(x).ctypes.data == x.numpy().ctypes.data


def test_jax_shares_memory_both_ways():
    """In a process of its own: JAX keeps threads, and other tests of this process fork."""
    pytest.importorskip("jax", reason="JAX is not installed here: pip install jax")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-o", "addopts=", str(ROOT / "tests/unit/jax_sharing.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout
