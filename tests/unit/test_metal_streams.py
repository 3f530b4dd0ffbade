"""Streams, threads and failures of the Metal runtime on the fake Metal, which reorders what nothing orders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_metal_runtime import START, pytestmark, run

__all__ = ["pytestmark"]
STRESS = Path(__file__).parents[1] / "stress" / "stress_streams.py"

TWO = """
n = 64
x, y, one = (eas.tensor(np.full(n, v, np.float32), device="mps") for v in (0, 0, 1))
s, t = eas.Stream(), eas.Stream()
def add(a, b, c, **options):
    add_kernel(a, b, c, n, BLOCK=64, **{"_sync": False, **options})
add(x, one, y, _sync=True)
"""


def stress(*options: str, seed: int) -> None:
    env = {**os.environ, "EAS_METAL": "software", "EAS_BACKEND": "mps", "EAS_FAKE_SEED": str(seed)}
    done = subprocess.run([sys.executable, str(STRESS), "--seed", str(seed), *options], env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_launches_of_threads_and_streams_equal_the_sequence(seed):
    stress("--launches", "1500", seed=seed)


def test_a_missing_edge_shows_in_that_sequence():
    stress("--launches", "300", "--drops", "40", seed=4)


@pytest.mark.parametrize(("kind", "dropped"), [("barrier", 2), ("fence", 1), ("event", 1)])
def test_every_kind_of_order_is_needed(kind, dropped):
    """Launches that depend on each other in one encoder, in two of a stream, in two streams, all encoded before the GPU begins."""
    run(TWO + f"""
def is_wrong(dropped):
    x.copy_(np.zeros(n, np.float32))
    y.copy_(np.zeros(n, np.float32))
    hooks.hold(True)
    add(one, one, y, _stream=t if {kind!r} == "event" else s)  # a command buffer of its own: the GPU had nothing to do
    hooks.drop_order(dropped)
    add(y, y, x, _stream=s)
    add(x, one, x, _stream=s)
    runtime.native_stream(1).flush()
    hooks.drop_order(0)
    hooks.hold(False)
    eas.synchronize()
    return x.numpy()[0] != 5
assert not any(is_wrong(0) for _ in range(20))
assert any(is_wrong({dropped}) for _ in range(20))
""")


def test_what_nobody_follows_starts_by_itself():
    """The first launch at once; the second, encoded while that runs, when that has ended."""
    run(TWO + """
import time
hooks.hold(True)
add(x, one, x, _stream=s)
add(x, one, x, _stream=s)
hooks.hold(False)
for _ in range(2000):
    if x._array[0] == 2:
        break
    time.sleep(0.005)
assert x._array[0] == 2
""")


def test_events_order_streams_and_tell_when_they_have_come():
    run(TWO + """
z = eas.empty_like(x)
hooks.hold(True)
add(x, one, y, _stream=s)
event = s.record()
t.wait(event)
add(one, one, z, _stream=t)  # other memory: only the event orders it
late = t.record()
assert not event.query() and not late.query() and not s.query()
assert eas.Event().query()
statistics = runtime.native_stream(2).statistics
assert statistics["waits"] == 1, statistics
hooks.hold(False)
late.wait()
assert event.query() and late.query() and t.query() and z._array[0] == 2
with s:
    assert eas.current_stream() is s
    with t:
        assert eas.current_stream() is t
        add(z, z, z)
    default = eas.Event().record()
t.synchronize()
assert z._array[0] == 4 and default.query()
""")


def test_all_failures_reach_the_thread_that_launched():
    run(TWO + """
import threading
z = eas.empty_like(x)
def fail(a, b, stream):
    hooks.inject("page")
    add(a, one, b, _stream=stream)
    stream.record().wait()
fail(x, y, s)
fail(one, z, t)
add(y, one, x, _stream=s)  # uses what the first should have written
heard = []
def listen():
    try:
        eas.synchronize()
    except BaseException as error:
        heard.append(error)
other = threading.Thread(target=listen)
other.start()
other.join()
assert not heard
try:
    eas.synchronize()
    raise SystemExit("nothing was raised")
except ExceptionGroup as group:
    first, second, third = group.exceptions
assert "kernel add_kernel failed on the GPU (fault)" in first.message and isinstance(second, eas.LaunchError)
assert isinstance(third, eas.FailedDependency) and "add_kernel, launched before it, failed" in third.message
assert third.__cause__.message == first.message
eas.synchronize()
add(x, one, y, _sync=True)
assert y.numpy()[0] == 1

fail(x, y, s)  # of a stream: the other one has nothing to say
t.synchronize()
for make in (lambda: add(y, one, z, _sync=True), lambda: add_kernel(y, one, z, n, BLOCK=64)):
    try:
        make()
        raise SystemExit("nothing was raised")
    except eas.FailedDependency as error:
        assert "failed and should have written memory that it uses" in error.message
try:
    s.synchronize()
    raise SystemExit("nothing was raised")
except eas.LaunchError:
    pass
add(y, one, z, _sync=True)

thread = threading.Thread(target=fail, args=(x, y, s))  # a thread that has ended: whoever asks first
thread.start()
thread.join()
try:
    eas.synchronize()
    raise SystemExit("nothing was raised")
except eas.LaunchError:
    pass
""")


def test_dependents_of_failed_assertions_fail_too():
    out = run(TWO + """
@eas.kernel
def check_kernel(a, b, limit, N, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    v = mk.load(a, i, i < N)
    mk.device_assert(v < limit, "too large")
    mk.store(b, i, v, i < N)

check_kernel(one, y, 2.0, n, BLOCK=64)
hooks.hold(True)
check_kernel(one, y, 0.5, n, BLOCK=64, _sync=False, _stream=s)
add(y, one, x, _stream=t)  # encoded before anybody can know
hooks.hold(False)
try:
    eas.synchronize()
except ExceptionGroup as group:
    for error in group.exceptions:
        print(type(error).__name__, error.message.split(",")[0])
check_kernel(one, y, 2.0, n, BLOCK=64, _sync=False)
eas.synchronize()
try:
    check_kernel(one, y, 0.5, n, BLOCK=64)
except eas.DeviceAssertion as error:
    print("again", error.message.split(",")[0])
""")
    lines = out.splitlines()
    assert lines[0].startswith("DeviceAssertion")
    assert "too large" in lines[0]
    assert lines[1].startswith("FailedDependency add_kernel has no result")
    assert lines[2].startswith("again")


@pytest.mark.parametrize("fault", ["page", "timeout", "memory", "removed"])
def test_after_a_fault_the_queue_is_new(fault):
    """What was committed behind the fault is ignored and told; what comes later runs, in its order."""
    run(TWO + f"""
a, b = (eas.empty_like(x) for _ in range(2))
hooks.hold(True)
hooks.inject({fault!r})
add(one, one, a, _stream=s)
for _ in range(90):  # three more command buffers, on other memory
    add(one, one, b, _stream=s)
hooks.hold(False)
try:
    eas.synchronize()
    raise SystemExit("nothing was raised")
except (eas.LaunchError, ExceptionGroup) as error:
    told = [error] if isinstance(error, eas.LaunchError) else list(error.exceptions)
assert "a fault on demand" in told[0].message and all("(ignored)" in e.message for e in told[1:]), told
assert len(told) == 1 or {fault!r} != "memory"
add(one, one, a, _stream=t)
add(a, one, x, _stream=s)
add(x, x, y, _stream=t)
eas.synchronize()
assert y.numpy()[0] == 6
""", EAS_FAKE_SEED="7")  # fmt: skip


def test_ctrl_c_ends_a_wait_and_everything_can_be_used():
    run(TWO + """
import signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
waits = [eas.synchronize, s.synchronize, lambda: s.record().wait(), lambda: add(x, one, x, _sync=True, _stream=s)]
for wait in waits:
    hooks.hold(True)
    add(x, one, x, _stream=s)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        wait()
        raise SystemExit("not interrupted")
    except KeyboardInterrupt:
        pass
    timer.join()
    hooks.hold(False)
eas.synchronize()
assert x.numpy()[0] == 5
""")


def test_a_full_queue_waits_without_pythons_lock():
    """As many command buffers as the setting says, not Metal's 64; the next launch waits, other threads run meanwhile."""
    run(TWO + """
import threading, time
hooks.hold(True)
def launch():
    for k in range(70 * 40 + 200):
        add(x, one, x)
worker = threading.Thread(target=launch)
worker.start()
stream = runtime.native_stream(0)
while stream.statistics["in_flight"] < 70:
    time.sleep(0.01)
time.sleep(0.1)
assert stream.statistics["in_flight"] == 70 and worker.is_alive()
hooks.hold(False)
worker.join()
eas.synchronize()
assert x.numpy()[0] == 3000
""", EAS_MAX_IN_FLIGHT="70")  # fmt: skip


@pytest.mark.parametrize("fault", ["", "page"])
def test_a_process_ends_after_its_launches(tmp_path, fault):
    script = START + f"""
import mmap
path = {str(tmp_path / "numbers")!r}
np.zeros(mmap.PAGESIZE // 4, np.float32).tofile(path)
x = np.memmap(path, np.float32, "r+")
one = np.frombuffer(mmap.mmap(-1, x.nbytes), np.float32)
one[:] = 0.5
add_kernel(one, one, one, x.size, BLOCK=256)
if {fault!r}:
    hooks.inject({fault!r})
for stream in (eas.Stream(), eas.Stream()):
    add_kernel(x, one, x, x.size, BLOCK=256, _sync=False, _stream=stream)
"""
    env = {**os.environ, "EAS_METAL": "software", "EAS_BACKEND": "mps"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == (120 if fault else 0), done.stderr
    assert ("eas: a launch failed, and nobody synchronized: kernel add_kernel failed on the GPU (fault)" in done.stderr) == bool(fault)
    import numpy as np

    if not fault:
        assert np.array_equal(np.fromfile(tmp_path / "numbers", np.float32), np.full(1024, 2))


def test_no_object_is_left_of_streams_and_failures():
    run(TWO + """
def work():
    streams = [eas.Stream() for _ in range(3)]
    for k in range(60):
        add(x, one, x, _stream=streams[k % 3])
    hooks.inject("page", 30)
    for k in range(60):
        add(x, one, x, _stream=streams[k % 3])
    try:
        eas.synchronize()
    except (eas.LaunchError, ExceptionGroup):
        pass
    hooks.clear()
for _ in range(11):  # streams share 31 queues
    work()
gc.collect()
before = hooks.live_objects()
for _ in range(20):
    work()
gc.collect()
eas.synchronize()
assert hooks.live_objects() <= before + 40, (before, hooks.live_objects())  # each stream may have a command buffer open
""")


def test_a_child_after_fork_is_told_whatever_its_parent_was_doing():
    out = run(TWO + """
hooks.hold(True)
add(x, one, x, _stream=s)
event = s.record()
sys.stdout.flush()
pid = os.fork()
if not pid:
    eas.synchronize()  # nothing of its own
    assert not event.query()
    for make in (lambda: add(x, one, x, _sync=True), lambda: add(x, one, x, _stream=s), lambda: add(x, one, x, _stream=eas.Stream()), lambda: event.wait()):
        try:
            make()
            print("nothing was raised", flush=True)
        except eas.LaunchError as error:
            print(error.message, flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
hooks.hold(False)
eas.synchronize()
assert x.numpy()[0] == 1
""")
    assert out.count('start processes with the method "spawn"') == 4


def test_streams_that_have_to_share_a_queue_are_told_of():
    text = START + """
x = eas.tensor(np.ones(8, np.float32), device="mps")
def launch(stream):
    add_kernel(x, x, x, 8, BLOCK=8, _stream=stream)
    return stream
for _ in range(70):  # streams that are gone leave their queues to others
    launch(eas.Stream())
alive = [launch(eas.Stream()) for _ in range(31)]
assert len({s._lane_of(runtime)._index for s in alive}) == 31
print("now", file=sys.stderr, flush=True)
more = [launch(eas.Stream()) for _ in range(3)]
assert len({s._lane_of(runtime)._index for s in more}) == 3
"""
    env = {**os.environ, "EAS_METAL": "software", "EAS_BACKEND": "mps", "EAS_DEBUG": "1"}
    done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    before, _, after = done.stderr.partition("now\n")
    assert "share a queue" not in before
    assert after.count("more than 31 streams are alive: from now on several share a queue") == 1
