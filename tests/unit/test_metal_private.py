"""Tensors in private storage: memory that only the GPU sees, on the fake Metal and on the software Metal."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import eas
from eas.runtime.gpu.copies import Axis, joined
from tests.unit.fake_metal import NEEDS_EXTENSION

START = """
import gc, pickle
import numpy as np
import eas
from eas import mk
from eas.runtime import get_runtime

@eas.kernel
def add_kernel(a, b, c, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(c, i, mk.load(a, i, i < N) + mk.load(b, i, i < N), i < N)

runtime = get_runtime()
hooks = getattr(runtime, "extension", lambda: None)() and runtime.extension().hooks

def private(values, **options):
    return eas.tensor(values, device="mps", storage="private", **options)
"""


def run(script: str, **env: str) -> str:
    """What a script prints; no problem of the fake may be left."""
    text = START + textwrap.dedent(script) + "\nassert hooks is None or hooks.problem() is None, hooks.problem()\n"
    settings = {**os.environ, "EAS_METAL": "software", "EAS_BACKEND": "mps", **env}
    done = subprocess.run([sys.executable, "-c", text], env=settings, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


BASICS = """
    n = 1000
    numbers = np.arange(n, dtype=np.float32)
    x = private(numbers)
    y, z = eas.full((n,), 2, device="mps", storage="private", dtype="f32"), eas.empty_like(x)
    assert (x.storage, x.device, z.storage, eas.empty(3, device="mps").storage) == ("private", "mps", "private", "shared")
    for _ in range(8):  # the last ones by the native launcher
        add_kernel(x, y, z, n, BLOCK=128)
    got = z.numpy()
    assert np.array_equal(got, numbers + 2) and not got.flags.writeable and "storage='private'" in repr(z)
    assert np.array_equal(np.asarray(z), got) and z[3].item() == 5 and x[2:4].tolist() == [2, 3]

    table = x.reshape(10, 100)
    for view, want in (
        (table.T, numbers.reshape(10, 100).T), (x[::-3], numbers[::-3]), (table[1::2, 5:].permute(1, 0), numbers.reshape(10, 100)[1::2, 5:].T), (x[:0], numbers[:0]),
    ):
        assert view.storage == "private" and np.array_equal(view.numpy(), want)
        assert np.array_equal(view.reshape(-1).numpy(), want.reshape(-1)) and np.array_equal(view.clone().numpy(), want)
    add_kernel(table.T, table.T, z, n, BLOCK=128)  # strided arguments run on copies that the GPU makes
    assert np.array_equal(z.numpy(), 2 * numbers.reshape(10, 100).T.reshape(-1))
    rows = eas.zeros(20, 50, device="mps", storage="private")
    add_kernel(x[:500].reshape(10, 50), x[500:].reshape(10, 50), rows[::2], 500, BLOCK=128)
    want = np.zeros((20, 50), np.float32)
    want[::2] = (numbers[:500] + numbers[500:]).reshape(10, 50)
    assert np.array_equal(rows.numpy(), want)

    assert x.to("mps") is x and x.to("mps", storage="private") is x
    shared = x.to(storage="shared")
    assert shared.storage == "shared" and np.array_equal(shared.numpy(), numbers) and shared.numpy().flags.writeable
    assert x.to("cpu").device == "cpu" and np.array_equal(x.cpu().numpy(), numbers)
    assert x.to("i32").storage == "private" and x.to("i32").tolist()[-1] == 999
    assert eas.tensor(numbers).to("mps", storage="private").storage == "private"
    again = pickle.loads(pickle.dumps(x[::2]))
    assert again.storage == "private" and np.array_equal(again.numpy(), numbers[::2])
    x[1:].copy_(x[:-1])  # overlaps
    assert np.array_equal(x.numpy()[:4], [0, 0, 1, 2])
    assert np.array_equal(eas.lib.softmax(private(np.ones((4, 8), np.float32))).numpy(), np.full((4, 8), 0.125))
"""


@NEEDS_EXTENSION
def test_a_private_tensor_is_used_like_any_other():
    run(BASICS + """
    assert runtime.copies == 0
    """)


def test_private_tensors_work_on_the_software_metal():
    run(BASICS, EAS_BACKEND="sim", EAS_METAL="")


LAZY = """
    n = np.arange(12, dtype=np.float32)
    x, y, s = private(n), private(np.ones(12, np.float32)), eas.tensor(n, device="mps")
    for a, b, want, storage in ((s, s, 2 * n, "shared"), (x, y, n + 1, "private"), (x, s, 2 * n, "shared"), (s, x, 2 * n, "shared"), (x, x, 2 * n, "private")):
        for _ in range(6):  # one plan is not another's, whatever ran before
            made = a + b
            assert np.array_equal(made.numpy(), want) and made.storage == storage, (made, storage)
    table = x.reshape(3, 4)
    assert np.array_equal((table.T + 1).numpy(), n.reshape(3, 4).T + 1) and np.array_equal((table + 1).T.reshape(-1).numpy(), (n.reshape(3, 4) + 1).T.reshape(-1))
    assert np.array_equal((x + 1)[::-2].numpy(), (n + 1)[::-2]) and (x * y).sum().item() == n.sum()
    assert np.array_equal((table @ table.T).numpy(), n.reshape(3, 4) @ n.reshape(3, 4).T)
    assert np.array_equal(eas.where(x > 3, x, s).numpy(), n) if hasattr(eas, "where") else True
    try:
        x + eas.ones(12)
        raise SystemExit("mixed devices")
    except eas.TypeMismatch as error:
        assert "mps and cpu" in str(error)
"""


@NEEDS_EXTENSION
def test_arithmetic_on_private_tensors_is_done_by_the_gpu():
    run(LAZY + """
    assert runtime.copies == 0
    """)


@NEEDS_EXTENSION
def test_graphs_keep_what_private_memory_was_before_a_write():
    run("""
        x, one = private(np.arange(1000, dtype=np.float32)), private(np.ones(1000, np.float32))
        reader = x + 10
        add_kernel(one, one, x, 1000, BLOCK=256)
        assert (reader.numpy() == np.arange(1000) + 10).all() and (x.numpy() == 2).all()
        reader = x * 3
        x.copy_(one)
        assert (reader.numpy() == 6).all() and (x.numpy() == 1).all()
    """)


def test_arithmetic_on_private_tensors_of_the_software_metal():
    run(LAZY, EAS_BACKEND="sim", EAS_METAL="")


@NEEDS_EXTENSION
def test_every_dtype_and_odd_offsets_are_copied_exactly():
    run("""
        from eas.base import dtypes
        for dtype in dtypes.ALL:
            if dtype is dtypes.f64:
                continue
            raw = np.random.default_rng(0).integers(0, 2 if dtype.is_bool else 100, 33).astype(np.uint8).astype(dtype.np_storage)
            x = eas.Tensor(raw, dtype).to("mps", storage="private")
            for part in (slice(None), slice(1, 32), slice(3, 4), slice(None, None, -2), slice(5, 5)):
                assert x[part]._device.seen(x[part]._memory).tobytes() == raw[part].tobytes(), (dtype, part)
            y = eas.empty_like(x)
            y.copy_(x)
            y[1:4].copy_(x[5:8])  # no bytes beside it change
            want = raw.copy()
            want[1:4] = raw[5:8]
            assert y._device.seen(y._memory).tobytes() == want.tobytes(), dtype
    """)


@NEEDS_EXTENSION
def test_the_processor_has_no_address_of_private_memory(monkeypatch):
    out = run("""
        x = private([1.0, 2.0])
        for use in (lambda: x._array, lambda: np.array(x, copy=False), lambda: memoryview(runtime.memory.place_of(x._memory.__array_interface__["data"][0], 8).buffer),
                    lambda: x.__dlpack__(dl_device=(1, 0), copy=False), lambda: eas.empty(3, device="cpu", storage="private"),
                    lambda: eas.empty(3, device="mps", storage="secret"), lambda: eas.tensor([1.0], storage="private")):
            try:
                use()
            except Exception as error:
                print(type(error).__name__, error)
            else:
                raise AssertionError("not refused")
        import os, sys
        sys.stdout.flush()
        if os.fork() == 0:
            try:
                private([1.0])
            except eas.LaunchError as error:
                print("child:", error.message, flush=True)
            os._exit(0)
        os.wait()
        os.environ["EAS_BACKEND"] = "cpu"
        try:
            add_kernel(x, x, x, 2, BLOCK=16)
        except eas.LaunchError as error:
            print(error)
    """)
    assert out.count('x.to("cpu")') >= 3
    assert "NumPy gets a copy" in out
    assert "reaches the CPU as a copy only" in out
    assert out.count("has no private storage") == 2
    assert "child: Metal cannot be used in a child after fork" in out
    assert "'secret', not one of shared, private" in out
    assert "add_kernel runs on cpu, and `a`, `b`, `c` is memory that only the GPU sees" in out


@NEEDS_EXTENSION
def test_dlpack_passes_private_buffers_on():
    run("""
        from eas.interop.capsules import content_of
        x = private(np.arange(12, dtype=np.float32).reshape(3, 4))
        capsule = x[1:, 1:].__dlpack__(max_version=(1, 0))
        content, _ = content_of(capsule)
        place = runtime.memory.place_of(x._memory.__array_interface__["data"][0], x.nbytes)
        assert (content.data, content.byte_offset, content.device_type) == (place.buffer.handle, place.offset + 20, 8)
        y = eas.from_dlpack(capsule)
        assert y.storage == "private" and y.shape == (2, 3) and y.strides == (4, 1)
        row = eas.from_dlpack(x[1])
        hooks.hold(True)
        for _ in range(20):  # one memory has one address, whoever passed it on: hazards are seen
            add_kernel(x[0], row, row, 4, BLOCK=16, _sync=False)
            add_kernel(x[1], x[2], x[2], 4, BLOCK=16, _sync=False)
            add_kernel(x[0], x[0], x[0], 4, BLOCK=16, _sync=False) if _ == 5 else None
        hooks.hold(False)
        first, second, third = np.arange(12, dtype=np.float32).reshape(3, 4)
        for i in range(20):
            second = first + second
            third = second + third
            first = 2 * first if i == 5 else first
        assert np.array_equal(x.numpy(), [first, second, third]) and np.array_equal(y.numpy()[0], second[1:])
        assert np.array_equal(np.from_dlpack(x, device="cpu"), x.numpy())
        copy = eas.from_dlpack(x.__dlpack__(copy=True))
        assert copy.storage == "private" and np.array_equal(copy.numpy(), x.numpy())
        add_kernel(copy, copy, copy, 12, BLOCK=16)
        assert not np.array_equal(copy.numpy(), x.numpy())
        handle = place.buffer.handle
        del x, content, capsule, place, copy
        gc.collect()
        assert np.array_equal(row.numpy(), second)  # the importer keeps the buffer
    """)


@NEEDS_EXTENSION
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_copies_come_after_the_launches_that_they_depend_on(seed):
    run(
        """
        streams = [eas.Stream() for _ in range(3)]
        rng = np.random.default_rng(int(__import__("os").environ["EAS_FAKE_SEED"]))
        tensors = [private(np.full(40, i + 1, np.int32)) for i in range(4)]
        want = [np.full(40, i + 1, np.int32) for i in range(4)]
        import threading
        for step in range(120):
            if step % 10 == 0:  # commands gather, and may run in any order
                hooks.hold(True)
                threading.Timer(0.02, hooks.hold, [False]).start()
            a, b, c = rng.integers(0, 4, 3)
            with streams[step % 2]:
                if c in (a, b) or step % 3:
                    add_kernel(tensors[a], tensors[b], tensors[c], 40, BLOCK=16, _sync=False)
                    want[c] = want[a] + want[b]
                elif step % 2:
                    tensors[c].copy_(tensors[a])
                    want[c] = want[a].copy()
                else:
                    tensors[c][1:7].copy_(tensors[a][2:8])
                    want[c][1:7] = want[a][2:8]
            if step % 17 == 0:
                assert np.array_equal(tensors[c].numpy(), want[c]), step
        assert all(np.array_equal(t.numpy(), w) for t, w in zip(tensors, want))
        """,
        EAS_FAKE_SEED=seed,
    )


@NEEDS_EXTENSION
def test_graphs_take_private_memory():
    run("""
        x, y = private(np.ones(64, np.float32)), private(np.zeros(64, np.float32))
        with eas.capture(x=x) as graph:
            for _ in range(5):
                add_kernel(x, y, y, 64, BLOCK=64)
        assert y.numpy()[0] == 0
        graph.replay()
        graph.replay(x=private(np.full(64, 10, np.float32)), _sync=False)
        assert y.numpy()[0] == 55
        graph.replay(x=eas.ones(64, device="mps"))
        assert y.numpy()[63] == 60
    """)


@NEEDS_EXTENSION
def test_faults_of_copies_reach_the_caller_and_the_next_one_works():
    out = run("""
        x, y = private(np.ones(64, np.float32)), private(np.ones(64, np.float32))
        for fault, use in (("page", x.numpy), ("timeout", lambda: y.copy_(x[::-1])), ("memory", x.clone)):
            hooks.inject(fault)
            try:
                use()
            except eas.LaunchError as error:
                print(error.message)
        eas.empty_cache()
        for use in (lambda: eas.empty(5000, device="mps", storage="private"), lambda: eas.ones(5000, device="mps")):
            hooks.inject("allocation")
            try:
                use()
            except eas.LaunchError as error:
                print(error)
        assert np.array_equal(x.numpy(), np.ones(64)) and np.array_equal(x.clone().numpy(), np.ones(64))
        hooks.inject("page")
        add_kernel(x, x, y, 64, BLOCK=64, _sync=False)
        try:
            y.numpy()
        except eas.EasError as error:
            print("told", type(error).__name__)
        assert np.array_equal(x.numpy(), np.ones(64))
    """)
    assert [line for line in out.splitlines() if "copy" in line and "on the GPU (fault)" in line]
    assert "eas_copy_elements failed on the GPU (timeout)" in out
    assert out.count("there is no memory of the GPU for a tensor of 20000 bytes: Metal has no") == 2
    assert "eas.empty_cache() frees" in out
    assert "told LaunchError" in out


@NEEDS_EXTENSION
def test_the_pool_keeps_private_buffers_apart_and_leaves_nothing_alive():
    run("""
        def use():
            x = private(np.ones(5000, np.float32))
            add_kernel(x, x, x, 5000, BLOCK=256, _sync=False)
            return x[::2].numpy()[0]
        use()
        eas.empty_cache()
        gc.collect()
        before, live = eas.memory_stats("mps"), hooks.live_objects("FakeBuffer")
        x = eas.empty(5000, device="mps", storage="private")
        held = eas.memory_stats("mps")
        assert held.private_used_nbytes == held.used_nbytes - before.used_nbytes + before.private_used_nbytes >= 20000
        del x
        kept = eas.memory_stats("mps")
        assert kept.private_free_nbytes == kept.free_nbytes - before.free_nbytes >= 20000
        eas.empty(5000, device="mps")  # not the private one
        assert eas.memory_stats("mps").reused == kept.reused
        y = eas.empty(5000, device="mps", storage="private")
        assert eas.memory_stats("mps").reused == kept.reused + 1
        del y
        for _ in range(50):
            assert use() == 2
        assert eas.empty_cache() >= 40000
        after = eas.memory_stats("mps")
        assert (after.free_nbytes, after.private_free_nbytes, after.used_nbytes) == (0, 0, before.used_nbytes)
        gc.collect()
        assert hooks.live_objects("FakeBuffer") == live, (hooks.live_objects("FakeBuffer"), live)
        assert hooks.live_objects("FakeCommandBuffer") == 0
        hooks.inject("allocation")  # what is kept for later makes room first
        z = eas.empty(300, device="mps", storage="private")
        del z
    """.replace('hooks.inject("allocation")', 'z = eas.empty(9, device="mps"); del z; hooks.inject("allocation")'))


def test_axes_are_joined_where_their_steps_allow():
    assert joined([Axis(3, 40, 40), Axis(1, 7, 9), Axis(10, 4, 4)]) == [Axis(30, 4, 4)]
    assert joined([Axis(3, 40, 0), Axis(10, 4, 0)]) == [Axis(30, 4, 0)]
    assert joined([Axis(3, 40, 44), Axis(10, 4, 4)]) == [Axis(3, 40, 44), Axis(10, 4, 4)]
    assert joined([]) == []


def test_the_cpu_has_no_private_storage():
    with pytest.raises(eas.ArgumentError, match="'cpu' has no private storage"):
        eas.empty(3, storage="private")
    assert eas.empty(3, storage="shared").storage == "shared"
