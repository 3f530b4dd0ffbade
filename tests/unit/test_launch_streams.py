"""`eas.Stream` and `eas.Event` on the backends that run on this processor."""

from __future__ import annotations

import functools
import random
import threading
import time

import numpy as np
import pytest

import eas
from eas import mk
from eas.runtime import get_runtime
from eas.runtime.launch_queue import LaunchQueue, QueueLane, Span, conflict


@eas.kernel
def add_to(a, b, n, BLOCK: eas.constexpr):
    i = mk.arange(0, BLOCK)
    mk.store(b, i, mk.load(a, i, i < n) + mk.load(b, i, i < n), i < n)


@pytest.fixture(params=["cpu", "interp", "sim"])
def where(request, monkeypatch):
    if not get_runtime(request.param).is_available():
        pytest.skip(f"{request.param} is not available here")
    monkeypatch.setenv("EAS_BACKEND", request.param)
    return request.param


def test_launches_of_streams_are_ordered_by_their_memory(where):
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    streams = [eas.Stream(), eas.Stream()]
    for k in range(10):
        add_to(x, y, 64, BLOCK=64, _sync=False, _stream=streams[k % 2])
        with streams[(k + 1) % 2]:
            add_to(y, x, 64, BLOCK=64, _sync=False)
    for stream in streams:
        stream.synchronize()
        assert stream.query()
    a, b = 1, 0
    for _ in range(10):
        b += a
        a += b
    assert np.array_equal(x, np.full(64, a))
    assert np.array_equal(y, np.full(64, b))


def test_events_come_and_streams_wait_for_them(where):
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    s, t = eas.Stream(), eas.Stream()
    event = eas.Event()
    assert event.query()
    add_to(x, y, 64, BLOCK=64, _sync=False, _stream=s)
    s.record(event)
    t.wait(event)
    add_to(x, x, 64, BLOCK=64, _stream=t)  # waits for itself, and for the event
    assert event.query()
    event.wait()
    assert x[0] == 2
    assert y[0] == 1


def test_the_innermost_stream_is_current(where):
    s, t = eas.Stream(), eas.Stream()
    outside = eas.current_stream()
    with s:
        with t:
            assert eas.current_stream() is t
            seen = []
            thread = threading.Thread(target=lambda: seen.append(eas.current_stream()))
            thread.start()
            thread.join()
            assert seen == [outside]  # of this thread only
        assert eas.current_stream() is s
    assert eas.current_stream() is outside


def test_what_is_no_stream_is_refused():
    x = np.ones(64, np.float32)
    with pytest.raises(eas.ArgumentError, match=r"_stream is an eas\.Stream, got int"):
        add_to(x, x, 64, BLOCK=64, _stream=0)
    with pytest.raises(eas.ArgumentError, match=r"a stream waits for an eas\.Event, got Stream"):
        eas.Stream().wait(eas.Stream())


class Paused:
    """Tasks of a queue that wait until they are let go; what ran, in order."""

    def __init__(self) -> None:
        self.gate, self.ran = threading.Event(), []
        self.queue = LaunchQueue()

    def submit(self, name: str, lane: QueueLane, at: int, *, fails: bool = False) -> None:
        def task() -> None:
            self.gate.wait(30)
            self.ran.append(name)
            if fails:
                raise eas.KernelError(name)

        self.queue.submit(task, 64, [Span(at, at + 8, True)], 4, name=name, lane=lane)


def test_only_the_event_orders_launches_on_other_memory():
    paused = Paused()
    s, t = QueueLane(paused.queue), QueueLane(paused.queue)
    paused.submit("first", s, 0)
    mark = s.mark()
    t.wait(mark)
    paused.submit("second", t, 100)
    paused.submit("free", QueueLane(paused.queue), 200)
    assert not mark.is_done
    assert not t.mark().is_done
    paused.gate.set()
    t.mark().wait()
    assert mark.is_done
    assert paused.ran.index("first") < paused.ran.index("second")
    paused.queue.drain()


@pytest.mark.parametrize("seed", range(12))
def test_random_launches_wait_for_memory_and_marks(seed):
    """Three lanes, marks and waits among them: whatever has to be first has ended when a launch starts."""
    draw, queue, gate = random.Random(seed), LaunchQueue(), threading.Event()
    lanes = [QueueLane(queue) for _ in range(3)]
    made: list[tuple[Span, ...]] = []
    own: list[set[int]] = [set(), set(), set()]
    awaited: list[set[int]] = [set(), set(), set()]
    before: list[set[int]] = []
    ended: set[int] = set()
    missing: list[tuple[int, set[int]]] = []

    def task(number: int) -> None:
        gate.wait(30)
        missing.append((number, before[number] - ended))
        time.sleep(0.002)
        ended.add(number)

    for number in range(14):
        if draw.random() < 0.5:
            a, b = draw.sample(range(3), 2)
            mark = lanes[b].mark()
            lanes[a].wait(mark)
            awaited[a] |= own[b] | awaited[b]
        lane = draw.randrange(3)
        spans = tuple(Span(at, at + draw.choice((1, 2)), draw.random() < 0.5) for at in draw.sample(range(12), draw.choice((1, 2))))
        meets = {n for n, other in enumerate(made) if conflict(spans, other)}
        before.append(meets | awaited[lane])
        made.append(spans)
        own[lane].add(number)
        queue.submit(functools.partial(task, number), 64, spans, 4, lane=lanes[lane])
    marks = [lane.mark() for lane in lanes]
    assert [mark.is_done for mark in marks] == [not (mine | others) for mine, others in zip(own, awaited, strict=True)]
    gate.set()
    marks[0].wait()
    assert own[0] | awaited[0] <= ended
    queue.drain()
    assert len(ended) == len(missing) == 14
    assert [found for found in missing if found[1]] == []


def test_what_comes_behind_a_stopped_launch_runs():
    """Who stops a launch knows; what is launched on its memory afterwards is no failure."""
    paused = Paused()
    lane = QueueLane(paused.queue)
    paused.submit("stopped", lane, 0)
    paused.submit("stopped too", lane, 0)
    paused.queue.stop()
    paused.submit("next", lane, 0)
    paused.submit("after", lane, 0)
    paused.gate.set()
    paused.queue.synchronize()
    assert paused.ran[-2:] == ["next", "after"]


def test_each_lane_tells_of_its_own_failures():
    paused = Paused()
    s, t = QueueLane(paused.queue), QueueLane(paused.queue)
    paused.gate.set()
    paused.submit("one", s, 0, fails=True)
    paused.submit("two", t, 100, fails=True)
    with pytest.raises(eas.KernelError, match="two"):
        t.synchronize()
    t.synchronize()
    with pytest.raises(eas.KernelError, match="one"):
        paused.queue.synchronize()


def test_streams_of_several_backends_wait_for_each_other(monkeypatch):
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    s = eas.Stream()
    monkeypatch.setenv("EAS_BACKEND", "cpu")
    add_to(x, y, 64, BLOCK=64, _sync=False, _stream=s)
    event = s.record()
    t = eas.Stream()
    t.wait(event)
    monkeypatch.setenv("EAS_BACKEND", "interp")
    add_to(y, x, 64, BLOCK=64, _stream=t)
    assert event.query()
    assert x[0] == 2
