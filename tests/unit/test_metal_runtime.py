"""The Metal runtime through its extension, on the fake Metal: each test is a process of its own, with EAS_METAL=software."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from eas.runtime.gpu.failures import HINTS
from tests.unit.fake_metal import NEEDS_EXTENSION

pytestmark = NEEDS_EXTENSION

START = """
import atexit, gc, os, sys
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
atexit.register(hooks.hold, False)  # a test that fails ends, too
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


def test_whole_pages_are_shared_and_the_rest_is_copied(tmp_path):
    out = run(f"""
        import mmap
        n = 2 * mmap.PAGESIZE // 4
        path = {str(tmp_path / "numbers")!r}
        np.arange(n, dtype=np.float32).tofile(path)
        a = np.frombuffer(mmap.mmap(-1, 4 * n), np.float32)
        mapped, frozen = np.memmap(path, np.float32, "r+"), np.memmap(path, np.float32, "r")
        a[:] = 1
        add_kernel(a, frozen, mapped, n, BLOCK=256)  # two wraps of one file
        assert np.array_equal(np.fromfile(path, np.float32), np.arange(n) + 1.0)
        for _ in range(50):  # hazards go by address: each launch wraps the array anew
            add_kernel(a, a, a, n, BLOCK=256, _sync=False)
            add_kernel(a, frozen, mapped, n, BLOCK=256, _sync=False)
            a.setflags(write=False)  # nobody writes it in the next launch
            add_kernel(a, a, mapped, n, BLOCK=256, _sync=False)
            a.setflags(write=True)
        assert runtime.copies == 0
        eas.synchronize()
        assert a[0] == 2.0**50 and mapped[0] == 2.0**51

        a[:] = 1
        add_kernel(a, a, a, n, BLOCK=256, _sync=False)
        part = a[1:]  # starts within a page: its copy is made after the launch that writes it
        c = np.zeros(n, np.float32)
        add_kernel(part, part, c, n - 1, BLOCK=256, _sync=False)
        assert runtime.copies == 2 and np.array_equal(c[: n - 1], np.full(n - 1, 4, np.float32))
        x = np.arange(101, dtype=np.float32)
        add_kernel(x[:100], x[:100], x[1:], 100, BLOCK=128)  # arrays that overlap are one copy
        assert runtime.copies == 3 and x[0] == 0 and x[1] == 0
        nothing = np.zeros(0, np.float32)
        live = hooks.live_objects()
        for _ in range(3):
            add_kernel(nothing, nothing, nothing, 0, BLOCK=128)
        assert hooks.live_objects() <= live + 1
        import weakref
        views = []
        for _ in range(600):  # arguments of launches that have ended are not held
            view = a[:]
            views.append(weakref.ref(view))
            add_kernel(view, view, view, n, BLOCK=256, _sync=False)
        del view
        runtime.native_stream(0).wait()
        assert not any(view() is not None for view in views)
        hooks.inject("allocation")  # what Metal does not share is copied
        before = runtime.copies
        add_kernel(a, a, a, n, BLOCK=256)
        print("copies", runtime.copies - before)
    """)
    assert "copies 1" in out


def test_copies_are_told():
    text = START + """
a, page = np.ones(100, np.float32), np.frombuffer(__import__("mmap").mmap(-1, 16384), np.float32)
add_kernel(page, a, page, 100, BLOCK=128)
add_kernel(page, page, page, 100, BLOCK=128)
"""
    env = {**os.environ, "EAS_METAL": "software", "EAS_BACKEND": "mps", "EAS_DEBUG": "2"}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("copied") == 1
    assert re.findall(r"copy +(.*?) +mem", done.stderr) == ["400,     MPS <- CPU"]  # only b, which is not written
    assert re.search(r"add_kernel .* tm .*  gpu +\d+\.\d+us", done.stderr)
    assert 'copied b for the GPU: it shares tensors of device="mps"' in done.stderr


def test_dlpack_shares_buffers_both_ways():
    run("""
        from eas.base import dtypes
        from eas.interop.capsules import content_of
        metal = runtime.extension()
        x = eas.tensor(np.arange(24, dtype=np.float32).reshape(4, 6), device="mps")
        part = x[1:, 2::2].permute(1, 0)
        assert x.__dlpack_device__() == (8, 0)
        capsule = part.__dlpack__(max_version=(1, 0))
        content, _ = content_of(capsule)
        place = runtime.memory.place_of(x._array.ctypes.data, x.nbytes)
        assert (content.data, content.byte_offset, content.device_type) == (place.buffer.handle, place.offset + 32, 8)
        y = eas.from_dlpack(capsule)  # any strides
        assert y.device == "mps" and y.strides == part.strides and np.array_equal(y.numpy(), x.numpy()[1:, 2::2].T)
        row = eas.from_dlpack(x[1])
        copies = runtime.copies
        add_kernel(row, row, row, 6, BLOCK=128)
        assert runtime.copies == copies and np.array_equal(x.numpy()[1], 2.0 * np.arange(6, 12))
        assert y.numpy()[0, 0] == 16
        for dtype in dtypes.ALL:
            z = eas.from_dlpack(eas.empty(3, dtype=dtype, device="mps"))
            assert z.dtype is dtype and z.device == "mps"
        assert eas.from_dlpack(eas.empty(0, device="mps")).shape == (0,)
        assert np.array_equal(np.from_dlpack(x, device="cpu"), x.numpy())  # a copy

        gc.collect()
        eas.synchronize()
        buffers = hooks.live_objects("FakeBuffer")
        big = eas.tensor(np.ones(10**5, np.float32), device="mps")
        held = eas.from_dlpack(big.__dlpack__())
        handle = runtime.memory.place_of(big._array.ctypes.data, 4).buffer.handle
        del big
        assert eas.zeros(10**5, device="mps")._array.ctypes.data != held._array.ctypes.data and held.numpy()[5] == 1
        twice = eas.from_dlpack(held)
        del held
        add_kernel(twice, twice, twice, 10**5, BLOCK=128)
        assert twice.numpy()[5] == 2
        del twice
        gc.collect()
        eas.empty(1, device="mps"), runtime.memory.release(), runtime.native_stream(0).flush()
        assert hooks.live_objects("FakeBuffer") <= buffers + 1

        other = metal.allocate(4096, True)
        capsule = eas.empty(8, device="mps").__dlpack__()
        content_of(capsule)[0].data = other.handle
        assert eas.from_dlpack(capsule).storage == "private"  # of a buffer that the CPU does not see
        try:
            x.to_torch("mps")
            raise SystemExit("not refused")
        except eas.EasError as error:
            assert "needs a torch with MPS" in error.message, error.message
    """)


def test_memory_is_counted_and_given_back():
    run("""
        before = eas.memory_stats("mps")
        x = eas.empty(10**6, device="mps")
        used = eas.memory_stats("mps").used_nbytes - before.used_nbytes
        assert 4 * 10**6 <= used <= 5 * 10**6
        del x
        stats = eas.memory_stats("mps")
        assert stats.free_nbytes >= used and stats.used_nbytes == before.used_nbytes and stats.peak_nbytes >= used
        x = eas.empty(10**6, device="mps")
        assert eas.memory_stats("mps").reused == stats.reused + 1
        del x
        allocated = runtime.extension().device_info()["allocated_nbytes"]
        assert eas.empty_cache() >= used
        assert eas.memory_stats("mps").free_nbytes == 0
        assert runtime.extension().device_info()["allocated_nbytes"] <= allocated - used
    """)


def test_commits_by_count_bytes_and_time_and_waits_for_room():
    """Twice as many command buffers as may be under way: the next one waits for the first, nobody for ever."""
    run("""
        x = eas.tensor(np.zeros(64, np.float32), device="mps")
        one = eas.tensor(np.ones(64, np.float32), device="mps")
        for k in range(400):
            add_kernel(x, one, x, 64, BLOCK=64, _sync=False)
        stream = runtime.native_stream(0)
        assert stream.statistics["commits"] >= 9
        assert stream.ticket - stream.completed <= 3
        eas.synchronize()
        assert x.numpy()[0] == 400

        metal, (plan,) = runtime.extension(), runtime._plans.values()
        place = runtime.memory.place_of(x._array.ctypes.data, 256)
        constants = (64).to_bytes(4, "little") + bytes(12)
        def commits(n, **limits):
            # While the GPU is busy with the first launch, which has a command buffer of its own.
            stream = metal.Stream(**{"max_in_flight": 100, "max_ops": 1000, "max_seconds": 1000.0, **limits})
            hooks.hold(True)
            for _ in range(n + 1):
                plan(stream, (place,) * 3, constants, (1, 1, 1), False, None)
            found = stream.statistics["commits"] - 1
            hooks.hold(False)
            stream.wait()
            return found
        assert commits(10) == 0
        assert commits(10, max_ops=2) == 5
        assert commits(10, max_nbytes=3 * 256 * 5) == 2
        assert commits(10, max_seconds=0.0) == 10
    """, EAS_MAX_IN_FLIGHT="2")  # fmt: skip


def test_times_are_those_of_the_gpu():
    run("""
        import time
        n = 1 << 14
        x = eas.tensor(np.zeros(n, np.float32), device="mps")
        seen = []
        plain = runtime.run
        runtime.run = lambda executable, *rest, **options: (seen.append((executable, *rest)), plain(executable, *rest, **options))
        add_kernel(x, x, x, n, BLOCK=1024)
        start = time.perf_counter()
        times = runtime.benchmark(*seen[0], warmup=0, repeat=3)
        assert len(times) == 3 and min(times) > 0 and sum(times) < time.perf_counter() - start
        wall, gpu = runtime.seconds_of(lambda: None)
        assert gpu == 0 and wall >= 0
    """)


def test_each_launch_is_timed_alone():
    """Also those that share an encoder, a graph or the GPU with others when nobody asks; and not a moment longer."""
    run("""
        @eas.kernel
        def slow_kernel(x, N, BLOCK: eas.constexpr):
            i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
            v = mk.load(x, i, i < N)
            for _ in range(8):
                v = mk.sin(v) + 1.0
            mk.store(x, i, v, i < N)

        x, y = (eas.tensor(np.ones(4096, np.float32), device="mps") for _ in range(2))
        def work():
            for _ in range(4):
                slow_kernel(x, 4096, BLOCK=256, _sync=False)
                add_kernel(y, y, y, 64, BLOCK=64, _sync=False)
        work()
        eas.synchronize()
        stream = runtime.native_stream(0)
        with eas.capture() as graph:
            work()
        for act, launches in ((work, 4), (graph.replay, 4)):
            commits = stream.statistics["commits"]
            hooks.hold(False)
            with eas.profile() as times:
                act()
            rows = {row.kernel: row for row in times}
            assert set(rows) == {"slow_kernel", "add_kernel"}, rows
            assert all(row.launches == launches and row.backend == "mps" for row in times), rows
            assert stream.statistics["commits"] - commits == 8
            assert rows["add_kernel"].least > 0 and rows["add_kernel"].least <= rows["add_kernel"].mean
            assert "slow_kernel" in str(times)

        import threading
        one, other = eas.Stream(), eas.Stream()
        with eas.profile() as times:  # waits for other streams are no work
            hooks.hold(True)
            slow_kernel(x, 4096, BLOCK=256, _sync=False, _stream=one)
            threading.Timer(0.1, hooks.hold, [False]).start()
            add_kernel(x, x, y, 64, BLOCK=64, _sync=False, _stream=other)
        assert {row.kernel: row.launches for row in times} == {"add_kernel": 1, "slow_kernel": 1}
        assert other._lane_of(runtime).stream.statistics["commits"] == 2  # one waits, one works
        try:
            with eas.profile(), eas.profile():
                raise SystemExit("nested")
        except eas.LaunchError as error:
            assert "do not nest" in str(error)

        hooks.hold(True)
        commits = stream.statistics["commits"]
        work(), work()
        hooks.hold(False)
        eas.synchronize()
        assert stream.statistics["commits"] - commits < 8 and runtime.take_times(of_all=True) == []
    """)


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_commands_keep_the_order_of_their_hazards(seed):
    """Whatever order the fake takes among commands that no barrier orders."""
    run("""
        n = 4096
        x = [eas.tensor(np.full(n, float(k), np.float32), device="mps") for k in range(4)]
        want = [np.full(n, float(k), np.float32) for k in range(4)]
        rng = np.random.default_rng(int(os.environ["EAS_FAKE_SEED"]))
        hooks.hold(True)  # a GPU with nothing to do gets each launch at once, and orders it without a barrier
        for _ in range(200):
            a, b, c = rng.integers(0, 4, 3)
            add_kernel(x[a], x[b], x[c], n, BLOCK=1024, _sync=False)
            want[c] = want[a] + want[b]
        hooks.hold(False)
        eas.synchronize()
        for got, expected in zip(x, want):
            assert np.array_equal(got.numpy(), expected)
        assert runtime.native_stream(0).statistics["barriers"] > 20
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


@pytest.mark.parametrize(("family", "name"), [("7", "apple7"), ("8", "apple8"), ("9", "apple9")])
def test_text_is_made_for_the_gpu_and_what_was_measured_on_it(family, name, tmp_path):
    script = """
        from eas.lib.matmul import matmul_kernel
        from eas.runtime.gpu import facts as gpu_facts
        a, b = (np.random.default_rng(k).integers(-3, 4, (32, 32)).astype(np.float32) for k in (0, 1))
        x, y, z = (eas.tensor(v, device="mps") for v in (a, b, np.zeros_like(a)))
        for _ in range(20):  # also those that are repeated natively
            matmul_kernel[1](x, y, z, 32, 32, 32, BM=32, BN=32, BK=16)
            assert np.array_equal(z.numpy(), a @ b)
        (text,) = [key[0] for key in runtime._plans]
        print(runtime.target.name, runtime.target.fragment_map, "thread_elements" in text, text.split("math, ")[1].split(".")[0])
        gpu_facts.write(runtime.extension().device_info()["name"], {"fragment_map": "unknown"})
    """
    env = {"EAS_FAKE_FAMILY": family, "EAS_CACHE_DIR": str(tmp_path)}
    assert run(script, **env).split() == [name, "standard", "True", name]
    assert run(script, **env).split() == [name, "None", "False", name]


def test_what_the_compiler_says_of_a_text_is_kept():
    out = run("""
        metal = runtime.extension()
        text = "#include <metal_stdlib>\\nkernel void k(device float* x [[buffer(0)]]) { x[0] = 1.0f; }\\n"
        print(repr(metal.compile(text, "k", language="3.2").warnings))
        hooks.inject("warning")
        print(repr(metal.compile(text, "k").warnings))
        try:
            metal.compile(text, "k", language="metal3.1")
        except metal.Error as error:
            print(*error.args)
    """)
    assert out.splitlines() == ["''", "'a warning on demand'", "use a language level is a text such as 3.1, not metal3.1"]


def test_every_kind_of_failure_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "metal.md").read_text(encoding="utf-8")
    assert [kind for kind, advice in HINTS.items() if f"| `{kind}` |" not in page or f"| {advice} |" not in page] == []


def test_an_extension_for_the_fake_is_not_loaded_without_it():
    code = "from eas.runtime import get_runtime\nget_runtime('mps').extension()"
    env = {name: value for name, value in os.environ.items() if name != "EAS_METAL"}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"eas.LaunchError: Metal needs macOS, this is {sys.platform} (EAS_METAL=software runs it on the software Metal)"
