"""Where the memory of tensors comes from and goes: the pool, devices, random numbers, copies."""

from __future__ import annotations

import gc
import itertools
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.interop import devices
from eas.interop.pool import Pool, size_class

ROOT = Path(__file__).parents[2]


def address(x):
    return x._array.__array_interface__["data"][0]


# --- the pool -----------------------------------------------------------------------------------


def test_memory_is_used_again_after_the_last_view_died():
    pool = Pool()
    memory = pool.allocate(1000)
    start = memory.ctypes.data
    part = memory[10:20].view(np.uint8)
    del memory
    assert pool.stats().used_nbytes == size_class(1000)  # the view still needs it
    del part
    assert (pool.stats().used_nbytes, pool.stats().free_nbytes) == (0, size_class(1000))
    again = pool.allocate(990)
    assert again.ctypes.data == start
    assert (pool.stats().allocations, pool.stats().reused) == (2, 1)


def test_pool_counts_and_releases():
    pool = Pool()
    kept = [pool.allocate(n) for n in (1, 64, 65, 5000)]
    assert pool.stats().used_nbytes == sum(size_class(n) for n in (1, 64, 65, 5000))
    peak = pool.stats().peak_nbytes
    kept.clear()
    assert (pool.stats().used_nbytes, pool.stats().peak_nbytes) == (0, peak)
    assert pool.release() == peak
    assert pool.stats().free_nbytes == 0
    before = pool.stats().reused
    kept = [pool.allocate(n) for n in (1, 64, 65, 5000)]
    assert pool.stats().reused == before, "memory was given back, and is in the pool nevertheless"


def test_pool_keeps_no_more_than_its_limit():
    pool = Pool(max_free_nbytes=1 << 16)
    for _ in range(3):
        kept = [pool.allocate(40000) for _ in range(3)]
        kept.clear()
        assert pool.stats().free_nbytes <= 1 << 16


def test_blocks_lie_inside_of_their_memory():
    pool = Pool()
    for nbytes in (1, 63, 64, 65, 1000, 4096, 70_001):
        block = pool.allocate(nbytes)
        memory = block
        while memory.base is not None:  # a lease, the pool's block, and what the system gave
            memory = memory.base
        start, room = block.ctypes.data, memory.ctypes.data
        assert start % 64 == 0
        assert room <= start
        assert start + size_class(nbytes) <= room + memory.nbytes


@pytest.mark.parametrize("n", [0, 1, 64, 65, 127, 1000, 4097, 10**6, 2**20, 2**20 + 1, 10**9])
def test_size_classes_waste_little(n):
    size = size_class(n)
    assert size % 64 == 0
    assert n <= size <= max(1.25 * n, n + 64)
    assert size_class(size) == size


def test_sizes_fall_into_few_classes():
    assert len({size_class(n) for n in range(1 << 16, 1 << 17)}) <= 5


def test_two_live_tensors_never_share_a_block():
    tensors = [eas.empty(100).copy_(i) for i in range(200)]
    del tensors[::2]
    tensors += [eas.empty(100).copy_(-i) for i in range(200)]
    starts = sorted(address(t) for t in tensors)
    assert all(b - a >= 400 for a, b in itertools.pairwise(starts))


def test_threads_share_the_pool():
    pool, wrong = Pool(), []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            memory = pool.allocate(int(rng.integers(1, 5000)))
            memory[...] = seed
            if not (memory == seed).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    gc.collect()
    assert wrong == []
    assert pool.stats().used_nbytes == 0


def test_memory_stats_see_tensors():
    gc.collect()
    before = eas.memory_stats().used_nbytes
    x = eas.empty(1 << 20)
    assert eas.memory_stats().used_nbytes - before >= x.nbytes
    del x
    assert eas.memory_stats().used_nbytes == before
    assert eas.release_memory() >= 1 << 22
    assert eas.memory_stats().free_nbytes == 0


def test_memory_may_outlive_the_pool():
    code = "import eas, sys; sys.kept = eas.ones(5); eas.kept = eas.ones(5).numpy()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- a device with memory of its own ------------------------------------------------------------


@pytest.fixture
def other(monkeypatch):
    """A device that stands for any with memory of its own (DLPack calls it Vulkan): host memory underneath."""
    monkeypatch.setattr(devices, "_devices", dict(devices._devices))
    log = []
    pool = Pool()
    device = devices.Device("mps", 7, pool.allocate, pool.stats, pool.release, lambda: log.append("synchronize"))
    devices.add_device(device)
    device_pool = pool
    return device_pool, log


def test_tensors_live_on_a_device(other):
    pool, _ = other
    x = eas.arange(6, device="mps").reshape(2, 3)
    assert (x.device, x[0].device, x.T.device, x.clone().device) == ("mps",) * 4
    assert (x.to("f16").device, x.cpu().device, eas.tensor(x).device) == ("mps", "cpu", "mps")
    assert (eas.empty_like(x).device, eas.zeros(2, device="metal").device) == ("mps", "mps")
    assert pool.stats().allocations >= 4
    assert x.to("mps") is x
    assert x.cpu().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert pickle.loads(pickle.dumps(x)).device == "mps"


def test_reading_a_device_waits_for_its_kernels(other):
    _, log = other
    x = eas.ones(3, device="mps")
    for read in (x.numpy, x.tolist, x.cpu, x.clone, lambda: repr(x), x.__dlpack__):
        log.clear()
        read()
        assert log, read


def test_dlpack_names_the_device(other):
    x = eas.ones(3, device="mps")
    assert x.__dlpack_device__() == (7, 0)
    with pytest.raises(eas.ArgumentError, match="the capsule lives on Vulkan"):
        eas.from_dlpack(x.__dlpack__())
    on_cpu = eas.from_dlpack(x.__dlpack__(dl_device=(1, 0)))
    assert on_cpu.tolist() == [1, 1, 1]
    assert address(on_cpu) != address(x)
    with pytest.raises(BufferError, match="as a copy only"):
        x.__dlpack__(dl_device=(1, 0), copy=False)


def test_a_launch_on_two_devices_names_the_arguments(other):
    @eas.kernel
    def copy(x, y, N, BLOCK: eas.constexpr):
        offs = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(y, offs, mk.load(x, offs, offs < N), offs < N)

    with pytest.raises(eas.LaunchError, match=r"different devices: `x` on mps; `y` on cpu(.|\n)*hint: move them to one device"):
        copy(eas.ones(4, device="mps"), eas.ones(4), 4, BLOCK=4)


# --- random numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "f8e5m2"])
def test_random_numbers(dtype):
    x, y = eas.rand(2000, seed=3, dtype=dtype), eas.randn(2000, seed=3, dtype=dtype)
    assert (x.dtype, y.dtype) == (dtypes.parse(dtype),) * 2
    values, normals = np.array(x.tolist()), np.array(y.tolist())
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.05
    assert abs(normals.std() - 1) < 0.1
    assert eas.rand(2000, seed=3, dtype=dtype).tolist() == x.tolist()
    assert eas.rand(2000, seed=4, dtype=dtype).tolist() != x.tolist()


def test_random_numbers_are_fresh_without_a_seed_and_never_integers():
    assert eas.rand(50).tolist() != eas.rand(50).tolist()
    with pytest.raises(eas.TypeMismatch, match="random numbers are floats, got dtype i32"):
        eas.rand(3, dtype="i32")


# --- copies where memory cannot be shared -------------------------------------------------------


def test_tensor_copies_what_it_cannot_share():
    class Copies:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3)

    assert eas.tensor(Copies()).tolist() == [0, 1, 2]
    swapped = np.arange(3, dtype=">i4")
    assert eas.tensor(swapped).tolist() == [0, 1, 2]


def test_view_refuses_to_copy():
    x = eas.arange(6).reshape(2, 3)
    assert x.view(3, 2).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert x.flatten().shape == (6,)
    with pytest.raises(eas.ArgumentError, match=r"no view of a tensor with shape \(3, 2\) and strides \(1, 3\) has shape \(6,\)"):
        x.T.view(6)


@pytest.mark.parametrize("pick", [lambda x: x[::-1], lambda x: eas.tensor(np.broadcast_to(np.float32(2), 3))])
def test_to_torch_copies_what_torch_cannot_share(pick):
    pytest.importorskip("torch")
    x = pick(eas.arange(3, dtype="f32"))
    t = x.to_torch()
    assert t.tolist() == x.tolist()
    t.zero_()
    assert any(x.tolist())


def test_torch_negative_bit_is_resolved_by_a_copy():
    torch = pytest.importorskip("torch")
    t = torch.tensor([1 + 2j]).conj().imag
    assert t.is_neg()
    assert eas.tensor(t).tolist() == [-2]
