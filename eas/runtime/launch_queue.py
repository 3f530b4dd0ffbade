"""Launches that run later: those that touch the same memory in the order in which they were made, others at once.

A launch is in the table from its submission until it has ended, and one that failed until its error has
been delivered. There is no lock: each step is one operation on a dict or list, which the GIL makes
atomic, so that a launch may be made inside of any other one, by a signal handler or by `__del__`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from eas.base.errors import EasError, FailedDependency, KernelError
from eas.base.locks import Gate
from eas.runtime import Lane, Mark
from eas.runtime.crew import Crew

Task = Callable[[], None]

_MAX_FAILURES = 1024  # of one thread that never synchronizes; their memory stays until somebody is told
_NAP_S = 0.01


class Span(NamedTuple):
    """Bytes that a launch touches."""

    begin: int
    end: int
    is_written: bool


Spans = tuple[Span, ...]


def conflict(one: Spans | None, other: Spans | None) -> bool:
    """Whether the order of two launches matters; None may touch anything."""
    if one is None or other is None:
        return True
    return any(
        a.begin < b.end and b.begin < a.end and (a.is_written or b.is_written)
        for a in one
        for b in other
    )


def relies_on(later: Spans | None, earlier: Spans | None) -> bool:
    """Whether a launch touches what an earlier one writes; None may touch anything."""
    if later is None or earlier is None:
        return True
    return any(a.begin < b.end and b.begin < a.end for a in later for b in earlier if b.is_written)


class Access(NamedTuple):
    """What a launch asks of the order: its memory, and whether all others are before or after it."""

    name: str
    spans: Spans | None
    in_order: bool

    def conflicts(self, other: Access) -> bool:
        return self.in_order or other.in_order or conflict(self.spans, other.spans)


class Follower:
    """Goes ahead when all that it follows have ended."""

    __slots__ = ("_left", "go")

    def __init__(self, go: Callable[[], None]) -> None:
        self.go = go
        self._left = [0]
        """A number for each step that is missing; who takes the 0, the last one, goes ahead."""

    def follow(self, launch: Launch, is_needed: bool = True) -> None:
        """Count one more step, which the end of the launch takes; one that is not needed lets us go alone."""
        if is_needed:
            self._left.append(1)
        launch.followers.append(self)
        if launch.is_done and launch.forget(self):
            self.step()

    def step(self) -> None:
        try:
            is_last = self._left.pop() == 0
        except IndexError:  # gone already
            return
        if is_last:
            self.go()


class Launch:
    """A task, and what stands between it and its start."""

    __slots__ = ("__weakref__", "access", "after", "error", "followers", "is_done", "is_ready", "is_stopped", "lane", "n_threads", "owner", "root", "runner", "stop_word", "submitter", "task", "turn")

    def __init__(self, access: Access, task: Task, n_threads: int, stop_word: ctypes.c_int32 | None, lane: QueueLane) -> None:
        self.access = access
        self.lane = lane
        self.task: Task | None = task
        self.n_threads = n_threads
        self.stop_word = stop_word
        self.owner = threading.current_thread()
        self.turn = [None]
        """Who takes this runs the launch, or ends it without."""
        self.after: list[Launch] = []
        """What it waits for, and must not have failed."""
        self.followers: list[Follower] = []
        self.submitter, self.runner = threading.get_ident(), 0
        """The threads in whose hands it is; a signal handler or `__del__` may come in the middle of that."""
        self.is_ready = self.is_done = self.is_stopped = False
        self.error: BaseException | None = None
        self.root: Launch = self
        """What failed first, of a launch that failed for that."""

    def forget(self, follower: Follower) -> bool:
        """Whether the follower was still to be told of the end."""
        try:
            self.followers.remove(follower)
        except ValueError:
            return False
        return True

    def stop(self) -> None:
        """Let it end soon, or never start."""
        self.is_stopped = True
        if self.stop_word is not None:
            self.stop_word.value = 1

    def is_of(self, thread: threading.Thread) -> bool:
        """Whether this thread hears of it: the one that launched, or any once that has ended."""
        return self.owner is thread or not self.owner.is_alive()


class _Length(ctypes.c_int64):
    """The length of a dict as native code reads it, in the dict itself."""

    owner: dict[Launch, None]


class LaunchQueue:
    """Runs launches on threads of its own; errors wait until their launcher asks for them."""

    def __init__(self) -> None:
        self._table: dict[Launch, None] = {}  # in order
        self._crew = Crew("eas-launches")
        self._inside: list[int] = []  # threads that are running launches
        self._waits: dict[object, tuple[int, Sequence[Launch]]] = {}
        """Of each wait that is going on: the thread, and what it would like to see end."""
        self.default_lane = QueueLane(self)
        _queues.add(self)

    @property
    def pending(self) -> ctypes.c_int64:
        """How many launches have not ended, or have failed and nobody knows; always as it is now."""
        # ma_used is the first word of PyDictObject behind its head, as long as there have been dicts.
        length = _Length.from_address(id(self._table) + 16)
        length.owner = self._table
        assert length.value == len(self._table)
        return length

    def __len__(self) -> int:
        return len(self._table)

    def submit(
        self, task: Task, max_in_flight: int, spans: Iterable[Span] | None = None, n_threads: int = 1, *,
        name: str = "a task", in_order: bool = False, stop_word: ctypes.c_int32 | None = None, lane: QueueLane | None = None,
    ) -> None:  # fmt: skip
        """Run `task` after the earlier ones that touch its memory, while at most `n_threads` run.

        Waits while `max_in_flight` launches are pending. Without spans, or `in_order`, it runs after
        everything before it, and before everything after it. A 1 in `stop_word` asks the task to end.
        """
        lane = lane or self.default_lane
        access = Access(name, None if spans is None else tuple(spans), in_order)
        if threading.get_ident() in self._inside:  # `__del__` in the middle of a launch: this one is done before that goes on
            self.wait_for(spans, name, in_order, lane)
            task()
            return
        self._wait_for_room(max_in_flight)
        launch = Launch(access, task, n_threads, stop_word, lane)
        try:
            self._table[launch] = None
            self._let_start(launch)
            launch.submitter = 0
        except BaseException:
            launch.stop()
            self._run(launch)
            raise

    def drain(self) -> None:
        """Afterwards everything that was submitted before has ended, well or not."""
        self._wait(list(self._table))

    def synchronize(self, lane: QueueLane | None = None) -> None:
        """`drain`, then raise what failed of this thread's launches (in a lane): one error, or a group of them."""
        self._wait([launch for launch in list(self._table) if lane is None or launch.lane is lane])
        raise_all(self.take_errors(lane=lane))

    def wait_for(self, spans: Iterable[Span] | None, name: str = "a task", in_order: bool = False, lane: QueueLane | None = None) -> None:
        """Afterwards no launch submitted before, whose order with these spans matters, is pending.

        Raises if one of them failed and should have written what the spans touch.
        """
        if not self._table:
            return
        access = Access(name, None if spans is None else tuple(spans), in_order)
        awaited = (lane or self.default_lane).awaited
        before = [launch for launch in list(self._table) if launch in awaited or access.conflicts(launch.access)]
        unstopped = [launch for launch in before if not launch.is_stopped]  # who stopped the others knows
        self._wait(before)
        found = _failed_before(access, unstopped)
        if found is not None:
            raise _dependency_error(access, found)

    def take_errors(self, *, of_all: bool = False, lane: QueueLane | None = None) -> list[BaseException]:
        """What failed of this thread's launches (in a lane), in their order; their memory can be used again.

        Failures of threads that have ended belong to whoever asks first, and `of_all` those of every thread.
        """
        here = threading.current_thread()
        failed = [launch for launch in list(self._table) if launch.error is not None and (of_all or launch.is_of(here)) and lane in (None, launch.lane)]
        told = [launch for launch in failed if self._table.pop(launch, self) is None]
        return [launch.error for launch in told if launch.error is not None]

    def stop(self, *, of_all: bool = False) -> None:
        """Let this thread's launches end soon, without a further error."""
        here = threading.current_thread()
        for launch in list(self._table):
            if not launch.is_done and (of_all or launch.is_of(here)):
                launch.stop()

    # --- waiting ----------------------------------------------------------------------------

    def _wait_for_room(self, max_in_flight: int) -> None:
        if len(self._table) < max_in_flight:
            return
        self._tell_of_too_many()
        while True:
            pending = self._awaited(list(self._table))
            if len(pending) < max_in_flight:
                return
            gate = Gate()
            waiter = Follower(gate.open)
            for launch in pending:
                waiter.follow(launch, is_needed=False)
            self._block(gate)
            for launch in pending:
                launch.forget(waiter)

    def _tell_of_too_many(self) -> None:
        """Raise what failed of a thread that never asks for it."""
        here = threading.current_thread()
        if sum(launch.error is not None and launch.is_of(here) for launch in list(self._table)) >= _MAX_FAILURES:
            self.synchronize()

    def _awaited(self, launches: Sequence[Launch]) -> list[Launch]:
        """Those that have not ended and will end without this thread."""
        here = threading.get_ident()
        for launch in list(self._table):
            if launch.submitter == here:  # we are inside of its submission: do that first
                self._let_start(launch)
        stuck = self._behind({launch for launch in list(self._table) if launch.runner == here})
        return [launch for launch in launches if not launch.is_done and launch not in stuck]

    def _behind(self, launches: set[Launch]) -> set[Launch]:
        """These, those that follow them, and those in whose middle a thread waits for one of all these (in `__del__`)."""
        found, size = set(launches), 0
        while len(found) > size:
            size = len(found)
            held = {thread for thread, awaited in list(self._waits.values()) if not found.isdisjoint(awaited)}
            found.update(launch for launch in list(self._table) if launch.runner in held or not found.isdisjoint(launch.after))
        return found

    def _wait(self, launches: Sequence[Launch]) -> None:
        """Afterwards all of them have ended; a wait that a signal handler ends stops this thread's launches."""
        mark = object()
        try:
            self._waits[mark] = (threading.get_ident(), launches)  # first: of two that wait for each other one sees it
            pending = self._awaited(launches)
            if not pending:
                return
            gate = Gate()
            waiter = Follower(gate.open)
            for launch in pending:
                waiter.follow(launch)
            waiter.step()
            self._block(gate)
        except BaseException:
            self.stop()
            raise
        finally:
            self._waits.pop(mark, None)

    def _block(self, gate: Gate) -> None:
        if not self._crew.is_here:
            gate.wait()
            return
        # In `__del__` on a thread of the crew: what it waits for may be in the hands of this very thread.
        while not gate.wait(_NAP_S):
            for launch in list(self._table):
                if launch.is_ready:
                    self._run(launch)

    # --- running ----------------------------------------------------------------------------

    def _let_start(self, launch: Launch) -> None:
        """Let it start behind those before it; done twice it still starts once."""
        start = Follower(functools.partial(self._start, launch))
        awaited = launch.lane.awaited
        for earlier in list(self._table):
            if earlier is launch:
                break
            if earlier in awaited or launch.access.conflicts(earlier.access):
                if not earlier.is_stopped:
                    launch.after.append(earlier)
                start.follow(earlier)
        start.step()

    def _start(self, launch: Launch) -> None:
        launch.is_ready = True
        self._crew.put(functools.partial(self._run, launch), launch.n_threads)

    def _run(self, launch: Launch) -> None:
        """Run a launch, or end it without: nobody else does."""
        try:
            launch.turn.pop()
        except IndexError:
            return
        launch.runner = threading.get_ident()
        self._inside.append(launch.runner)
        failed = _failed_before(launch.access, launch.after)
        launch.after = []
        if launch.is_stopped:
            error: BaseException | None = _stopped(launch)
        elif failed is not None:
            launch.root = failed.root
            error = _dependency_error(launch.access, failed)
        else:
            error = _failure(launch)
        if error is None or launch.is_stopped:
            launch.task = None  # arguments are free before anybody hears that the launch has ended
        self._end(launch, error)

    def _end(self, launch: Launch, error: BaseException | None) -> None:
        if launch.is_stopped:
            error = _stopped(launch)
        launch.error = error
        if error is None or launch.is_stopped:  # who stopped it knows
            self._table.pop(launch, None)
        launch.is_done = True
        self._inside.remove(launch.runner)
        launch.runner = 0
        while launch.followers:
            with contextlib.suppress(IndexError):
                launch.followers.pop().step()


def raise_all(errors: Sequence[BaseException]) -> None:
    """Raise what several launches failed with: the error itself if there is one, else a group."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} launches failed", errors)


class QueueMark(Mark):
    """Launches of a queue."""

    def __init__(self, queue: LaunchQueue, launches: frozenset[Launch]) -> None:
        self.queue, self.launches = queue, launches

    @property
    def is_done(self) -> bool:
        return all(launch.is_done for launch in self.launches)

    def wait(self) -> None:
        self.queue._wait([launch for launch in self.launches if not launch.is_done])


class QueueLane(Lane):
    """A stream of a queue."""

    def __init__(self, queue: LaunchQueue) -> None:
        self._queue = queue
        self.awaited: frozenset[Launch] = frozenset()
        """Launches that later ones of this lane come after."""

    def mark(self) -> Mark:
        own = [launch for launch in list(self._queue._table) if launch.lane is self]
        return QueueMark(self._queue, _unended([*own, *self.awaited]))

    def wait(self, mark: Mark) -> None:
        if isinstance(mark, QueueMark) and mark.queue is self._queue:
            self.awaited = _unended([*self.awaited, *mark.launches])
        else:
            mark.wait()

    def synchronize(self) -> None:
        self._queue.synchronize(self)


def _unended(launches: Iterable[Launch]) -> frozenset[Launch]:
    return frozenset(launch for launch in launches if not launch.is_done)


def _failure(launch: Launch) -> BaseException | None:
    task = launch.task
    assert task is not None
    try:
        task()
    except EasError as error:
        return error.with_traceback(None)  # its text says it all, and frames keep arguments alive
    except BaseException as error:
        return error
    return None


def _stopped(launch: Launch) -> KernelError:
    return KernelError(f"the launch of {launch.access.name} was interrupted")


def _failed_before(access: Access, launches: Iterable[Launch]) -> Launch | None:
    """The first of these launches that failed and left what `access` touches unwritten."""
    return next((launch for launch in launches if launch.error is not None and relies_on(access.spans, launch.access.spans)), None)


def _dependency_error(access: Access, failed: Launch) -> FailedDependency:
    error = FailedDependency(
        f"{access.name} was not run: {failed.root.access.name}, launched before it, failed and should have written memory that it uses",
        hint="eas.runtime.get_runtime().synchronize() raises that error on the thread that launched; then the memory can be used again",
    )
    error.__cause__ = failed.root.error
    return error


_queues: weakref.WeakSet[LaunchQueue] = weakref.WeakSet()


def _after_fork() -> None:
    for queue in list(_queues):
        for launch in queue._table:  # these launches are the parent's
            launch.is_done = True
        queue._table.clear()
        queue._inside = [ident for ident in queue._inside if ident == threading.get_ident()]


os.register_at_fork(after_in_child=_after_fork)
