"""`eas.capture` and `Graph.replay` on the backends that run on this processor, and through the Metal extension on the fake."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime import get_runtime
from eas.runtime.launch_queue import Span
from tests.unit.fake_metal import NEEDS_EXTENSION


@eas.kernel
def add_to(a, b, n, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(b, i, mk.load(a, i, i < n) + mk.load(b, i, i < n), i < n)


@eas.kernel
def check(a, n, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    v = mk.load(a, i, i < n)
    mk.device_assert(v < 100, "too large")
    mk.store(a, i, v + 1, i < n)


@pytest.fixture(params=["cpu", "interp", "sim"])
def where(request, monkeypatch):
    if not get_runtime(request.param).is_available():
        pytest.skip(f"{request.param} is not available here")
    monkeypatch.setenv("EAS_BACKEND", request.param)
    return request.param


def ones(n=256):
    return np.ones(n, np.float32)


def chain(x, y, times=5):
    for _ in range(times):
        add_to(x, y, 256, BLOCK=64, _grid=4)
        add_to(y, x, 256, BLOCK=64, _grid=4)


def test_launches_are_written_down_and_replayed(where):
    x, y = ones(), ones()
    with eas.capture() as graph:
        chain(x, y)
    assert len(graph) == 10
    assert np.array_equal(x, ones())  # nothing has run
    want_x, want_y = ones(), ones()
    chain(want_x, want_y)
    graph.replay()
    np.testing.assert_array_equal(x, want_x)
    chain(want_x, want_y)
    stream = eas.Stream()
    graph.replay(_sync=False, _stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(x, want_x)
    np.testing.assert_array_equal(y, want_y)


def test_a_replay_waits_for_launches_on_its_memory(monkeypatch):
    """One that is under way writes what the graph reads."""
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    if not get_runtime("cpu").is_available():
        pytest.skip("cpu is not available here")
    x, y = ones(), ones()
    with eas.capture() as graph:
        add_to(x, y, 256, BLOCK=64, _grid=4)
    graph.replay()  # which compiles
    for sync in (True, False):
        gate, x[:] = threading.Event(), 1

        def write(gate=gate):
            gate.wait(30)
            x[:] = 5

        queue, start = get_runtime("cpu").queue, x.ctypes.data
        queue.submit(write, 64, [Span(start, start + x.nbytes, True)])
        threading.Timer(0.1, gate.set).start()
        graph.replay(_sync=sync)
        queue.synchronize()
    np.testing.assert_array_equal(y, 12)


def test_new_arguments_take_the_place_of_old_ones(where):
    x, y = ones(512), ones()
    with eas.capture(x=x, y=y) as graph:
        add_to(x[:256], y, 256, BLOCK=64, _grid=4)
        add_to(x[256:], y, 256, BLOCK=64, _grid=4)
    new = np.arange(512, dtype=np.float32)
    other = np.zeros(257, np.float32)[1:]  # other facts: it is not aligned
    for _ in range(2):
        graph.replay(x=new, y=other)
    np.testing.assert_array_equal(other, 2 * (new[:256] + new[256:]))
    graph.replay(y=new[:256])  # x is in its place
    np.testing.assert_array_equal(new[:256], np.arange(256) + 2)
    np.testing.assert_array_equal(x, ones(512))
    np.testing.assert_array_equal(y, ones())
    graph.replay()
    assert y[0] == 3


def test_arguments_that_overlap_when_replaced_are_seen(where):
    """Launch facts are those of the new arguments."""
    x, y = ones(), ones()
    with eas.capture(x=x, y=y) as graph:
        add_to(x, y, 256, BLOCK=256, _grid=1)
    same = np.arange(256, dtype=np.float32)
    graph.replay(x=same, y=same)
    np.testing.assert_array_equal(same, 2 * np.arange(256))


def test_errors_of_a_replay_name_the_kernel_and_leave_it_usable(where):
    x = np.zeros(64, np.float32)
    with eas.capture() as graph:
        for _ in range(3):
            check(x, 64, BLOCK=64, _grid=1)
    graph.replay()
    x[5] = 98
    with pytest.raises(eas.DeviceAssertion, match="too large"):
        graph.replay()
    if where == "cpu":
        graph.replay(_sync=False)
        with pytest.raises(eas.DeviceAssertion, match="too large"):
            eas.synchronize()
    x[:] = 0
    graph.replay()
    assert np.array_equal(x, np.full(64, 3))


def test_a_graph_keeps_its_memory_and_no_more():
    y = ones()
    x = ones()
    seen = weakref.ref(x)
    with eas.capture(y=y) as graph:
        add_to(x, y, 256, BLOCK=256, _grid=1)
    del x
    gc.collect()
    graph.replay()
    assert y[0] == 2
    del graph
    gc.collect()
    assert seen() is None


def test_torch_hears_of_replayed_writes():
    torch = pytest.importorskip("torch")
    x, y = torch.ones(256), torch.ones(256)
    with eas.capture() as graph:
        add_to(x, y, 256, BLOCK=256, _grid=1)
    before = y._version
    graph.replay()
    assert y._version > before
    assert y[0] == 2


def test_wrong_uses_are_refused():
    x, y = ones(), ones()
    graph = eas.capture(x=x)
    with pytest.raises(eas.LaunchError, match="was never captured"):
        graph.replay()
    with graph:
        add_to(x, y, 256, BLOCK=256, _grid=1)
        with pytest.raises(eas.LaunchError, match="a capture is going on already"), eas.capture():
            pass
        with pytest.raises(eas.LaunchError, match="is still being captured"):
            graph.replay()
        with pytest.raises(eas.LaunchError, match="would run on a copy of an argument"):
            add_to(np.ones((4, 512), np.float32)[:, ::2], y, 256, BLOCK=256, _grid=1)
    with eas.capture(), pytest.raises(eas.LaunchError, match="cannot be replayed while another one is captured"):
        graph.replay()
    with pytest.raises(eas.LaunchError, match="has been captured"), graph:
        pass
    with pytest.raises(eas.ArgumentError, match="the graph has no argument `z`; it has `x`"):
        graph.replay(z=x)
    for wrong, said in ((ones(128), "has shape"), (x.astype(np.int32), "has dtype")):
        with pytest.raises(eas.ArgumentError, match=f"`x` of the graph {said}"):
            graph.replay(x=wrong)
    with pytest.raises(eas.ArgumentError, match="is not contiguous"):
        eas.capture(x=ones(512)[::2])
    with eas.capture(x=x[:100]) as part:
        add_to(x, y, 256, BLOCK=256, _grid=1)
    with pytest.raises(eas.LaunchError, match="memory that only in part is that of `x`"):
        part.replay(x=ones(100))
    broken = eas.capture()
    with pytest.raises(ZeroDivisionError), broken:
        add_to(x, y, 1 // 0, BLOCK=256)
    with pytest.raises(eas.LaunchError, match="was not captured to its end"):
        broken.replay()
    assert np.array_equal(y, ones())


def test_backends_are_not_mixed(monkeypatch):
    x, y = ones(), ones()
    with eas.capture():
        monkeypatch.setenv("EAS_BACKEND", "cpu")
        add_to(x, y, 256, BLOCK=256, _grid=1)
        monkeypatch.setenv("EAS_BACKEND", "interp")
        with pytest.raises(eas.LaunchError, match="add_to runs on interp, the graph on cpu"):
            add_to(x, y, 256, BLOCK=256, _grid=1)


METAL = """
n = 256
def tensor(value):
    return eas.tensor(np.full(n, value, np.float32), device="mps")
x, y, one = tensor(1), tensor(1), tensor(1)
def work():
    for _ in range(60):  # two command buffers
        add_kernel(x, one, y, n, BLOCK=64)
        add_kernel(y, x, x, n, BLOCK=64)
"""
on_metal = NEEDS_EXTENSION


@on_metal
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_metal_replays_with_the_barriers_that_are_needed(seed):
    from tests.unit.test_metal_runtime import run

    run(METAL + """
with eas.capture(x=x) as graph:
    for _ in range(30):
        add_kernel(x, one, y, n, BLOCK=64)
        add_kernel(y, one, x, n, BLOCK=64)
plain = [eas.empty_like(x) for _ in range(3)]
add_kernel(*plain, n, BLOCK=64)
plans = len(runtime._plans)
graph._recording({})
assert len(runtime._plans) == plans  # the text of this GPU, as launches have it
assert x.numpy()[0] == 1 and type(graph._recording({})).__name__ == "MetalRecording"
s = eas.Stream()
for k in range(6):
    with eas.Stream():
        add_kernel(x, one, x, n, BLOCK=64, _sync=False)
    graph.replay(_sync=False, _stream=s)
eas.synchronize()
assert x.numpy()[0] == 1 + 6 * 61, x.numpy()[0]
other = tensor(5)
graph.replay(x=other)
assert other.numpy()[0] == 65 and x.numpy()[0] == 367

def is_wrong(nth):
    x.copy_(np.ones(n, np.float32))
    hooks.hold(True)
    hooks.drop_order(nth)
    graph.replay(_sync=False)
    hooks.drop_order(0)
    runtime.native_stream(0).flush()
    hooks.hold(False)
    eas.synchronize()
    return x.numpy()[0] != 61
assert not any(is_wrong(0) for _ in range(3))
assert any(is_wrong(nth) for nth in range(5, 25))
""", EAS_FAKE_SEED=seed)  # fmt: skip


@on_metal
def test_metal_replays_fail_as_launches_do():
    from tests.unit.test_metal_runtime import run

    run(METAL + """
with eas.capture() as graph:
    work()
graph.replay()
def raised(make):
    try:
        make()
    except BaseException as error:
        return error
    raise SystemExit("nothing was raised")
hooks.inject("page")
error = raised(graph.replay)
assert type(error) is eas.LaunchError and "a graph of 120 launches of add_kernel failed on the GPU (fault)" in error.message, error
eas.synchronize()  # all parts of it are told
hooks.inject("page")
graph.replay(_sync=False)
raised(eas.synchronize)
graph.replay()
eas.synchronize()

a = np.ones(100, np.float32)  # memory that has to be copied: each launch goes its own way
with eas.capture() as graph:
    add_kernel(a, a, a, 100, BLOCK=64)
    add_kernel(a, a, a, 100, BLOCK=64)
graph.replay()
assert a[0] == 4
objects = hooks.live_objects()
for _ in range(20):
    with eas.capture() as graph:
        work()
    graph.replay()
del graph
gc.collect()
eas.synchronize()
assert hooks.live_objects() <= objects + 4
""")
