"""DLPack at length: no growth over 100,000 exchanges, no use after free under a debug allocator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eas
from eas import mk

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


@pytest.fixture
def jax():
    return pytest.importorskip("jax", reason="JAX is not part of the test extra, jaxlib is 80 MB: pip install jax")


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "u8", "bool", "f8e4m3"])
def test_jax_shares_pointers_both_ways(jax, dtype):
    x = eas.ones(64, dtype=dtype)
    place = x._array.ctypes.data
    there = jax.dlpack.from_dlpack(x)
    assert there.unsafe_buffer_pointer() == place
    back = eas.from_dlpack(there)
    assert (back._array.ctypes.data, back.dtype) == (place, x.dtype)
    del x, there
    assert back.to("f32").tolist() == [1.0] * 64


def test_arrays_of_jax_are_read_only_here(jax):
    """JAX never changes its arrays, and neither may a kernel."""
    ours = jax.numpy.arange(100.0).reshape(10, 10)
    shared = eas.from_dlpack(ours)
    assert shared._array.ctypes.data == ours.unsafe_buffer_pointer()
    assert not shared.numpy().flags.writeable
    for target in (ours, shared):
        with pytest.raises(eas.LostWrite, match="'y', which is read-only"):
            fill(target, BLOCK=64)
    # JAX asks for a capsule without flags, which cannot say that memory is read-only.
    frozen = np.ones(8, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(BufferError, match="readonly"):
        jax.dlpack.from_dlpack(eas.from_numpy(frozen))


@eas.kernel
def fill(y, BLOCK: eas.constexpr):
    mk.store(y, mk.arange(0, BLOCK), 1.0)
