"""The Apple GPU backend: Metal text on `eas._metal`, which is Objective-C++ on a Mac, and the same on a fake Metal on Linux."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from eas.base import config
from eas.base.errors import EasError, KernelError, LaunchError
from eas.base.locks import new_lock
from eas.runtime import Executable, Grid, Runtime, require
from eas.runtime.at_exit import finish_before_exit
from eas.runtime.copies import told
from eas.runtime.debug import note
from eas.runtime.gpu import copies as metal_copies
from eas.runtime.gpu import facts as gpu_facts
from eas.runtime.gpu.failures import HINTS, Failures, Logged, refusal
from eas.runtime.gpu.launch import MetalCode, MetalExecutable, MetalLaunch, prepare
from eas.runtime.gpu.memory import MetalMemory, Place, Region, Staged, address_of, merged
from eas.runtime.gpu.replay import recorded
from eas.runtime.launch_queue import raise_all
from eas.runtime.launch_settings import setting_now
from eas.runtime.launch_site import LaunchCode, LaunchSite
from eas.runtime.native.launch_layout import ENDS, OBJECTS
from eas.runtime.recordings import OneByOne, Recording, Step
from eas.runtime.streams import SPECIAL, Lane, Mark, Stream, lane_of
from eas.schedule.gpu.target import MetalTarget, newest_language

EXTENSION = "eas._metal"
BUILD = "python tools/build_metal_ext.py"
MAX_STREAMS = 32  # of the extension; as many queues are more than a GPU runs side by side
T = TypeVar("T")


class MetalMark(Mark):
    """The commands of a native stream up to a ticket."""

    def __init__(self, runtime: MetalRuntime, stream: Any) -> None:
        self._runtime, self.stream, self.ticket = runtime, stream, stream.ticket

    @property
    def is_done(self) -> bool:
        return bool(self.stream.completed >= self.ticket)

    def wait(self) -> None:
        self._runtime._told("", lambda: self.stream.wait(self.ticket))


class MetalLane(Lane):
    """A stream on the GPU: a command queue of its own, as far as there are some."""

    def __init__(self, runtime: MetalRuntime, index: int) -> None:
        self._runtime, self._index = runtime, index
        self._aims: dict[bool, Callable[..., object]] = {}

    @property
    def stream(self) -> Any:
        """The native stream, made when it is first needed."""
        return self._runtime.native_stream(self._index)

    def aim(self, sync: bool) -> Callable[..., object]:
        """`aim(call, ...)` calls a native launcher so that it launches here."""
        found = self._aims.get(sync)
        if found is None:
            found = self._aims[sync] = functools.partial(self._runtime.extension().aimed, self.stream, sync)
        return found

    def mark(self) -> Mark:
        return MetalMark(self._runtime, self.stream)

    def wait(self, mark: Mark) -> None:
        if isinstance(mark, MetalMark):
            self.stream.wait_on_gpu(mark.stream, mark.ticket)
        else:
            mark.wait()

    def synchronize(self) -> None:
        self._runtime.synchronize(self)


_NOTHING_PENDING = ctypes.c_int64(0)  # hazards order launches: none has to wait for others in Python
_SHORT = ctypes.c_int64(1)


class MetalEntry:
    """What native launchers call for one variant."""

    scratch_nbytes, rate, max_programs = 0, _SHORT, 1 << 62  # to encode is short, and needs Python's lock

    def __init__(self, native: Any) -> None:
        self._native = native
        self.address: int = native.address


class MetalRuntime(Runtime):
    """Runs generated Metal text on the GPU of a Mac."""

    name = "mps"
    used_hints = frozenset({"num_warps"})

    def __init__(self) -> None:
        self._lock = new_lock()  # of what is made once; never held while the GPU works
        self._plans: dict[tuple[str, str], Any] = {}
        self._streams: dict[int, Any] = {}
        self._users = [0] * MAX_STREAMS  # streams that are alive, by queue; the first is the default's
        self._default = MetalLane(self, 0)
        self._metal: ModuleType | None = None
        self._memory: MetalMemory | None = None
        self._failures: Failures | None = None
        self.copies = 0
        """Pieces of memory that had to be copied for the GPU, so far."""

    def why_unavailable(self) -> str | None:
        is_software = config.metal() == "software"
        if elsewhere := _why_elsewhere():
            return elsewhere
        macos = platform.mac_ver()[0]
        if not is_software and macos and newest_language(macos) is None:
            return f"the text needs Metal 3.1, which macOS 14 and newer have; this is macOS {macos}"
        try:
            self.extension()
        except (ImportError, OSError) as error:  # OSError: it is there, but its libraries do not load
            return f"{EXTENSION} cannot be imported ({error}); run {'EAS_METAL=software ' if is_software else ''}{BUILD}"
        except EasError as error:
            return error.message
        return None

    def extension(self) -> ModuleType:
        """The loaded `eas._metal`, with a device."""
        if self._metal is not None:
            return self._metal
        with self._lock:
            if self._metal is None:
                if elsewhere := _why_elsewhere():
                    raise LaunchError(elsewhere)  # an extension that is built for the software Metal would have nobody to ask
                metal = import_module(EXTENSION)
                if config.metal() == "software":
                    _start_fake(metal)
                try:
                    metal.device_info()
                except metal.Error as error:
                    raise LaunchError(str(error.args[1])) from None
                self._memory, self._failures = MetalMemory(metal), Failures(metal)
                self._metal = metal
                finish_before_exit(_UntilExit(self))
                os.register_at_fork(after_in_child=self._streams.clear)  # they are the parent's
        return self._metal

    @property
    def memory(self) -> MetalMemory:
        """The buffers of this process."""
        self.extension()
        assert self._memory is not None
        return self._memory

    @functools.cached_property
    def target(self) -> MetalTarget:
        """What text is made for: the family of this GPU, and what `python -m eas verify` has measured on it."""
        info = self.extension().device_info()
        return gpu_facts.target_of(str(info["name"]), int(info["family"]), platform.mac_ver()[0])

    @property
    def failures(self) -> Failures:
        """What nobody was told of."""
        self.extension()
        assert self._failures is not None
        return self._failures

    # --- streams ----------------------------------------------------------------------------------

    def new_lane(self) -> Lane:
        with self._lock:
            index = min(range(1, MAX_STREAMS), key=self._users.__getitem__)
            self._users[index] += 1
            is_shared = self._users[index] == 2 and sum(self._users) == MAX_STREAMS
        if is_shared:
            note(1, f"more than {MAX_STREAMS - 1} streams are alive: from now on several share a queue, and what they launch runs in one order")
        made = MetalLane(self, index)
        weakref.finalize(made, self._leave, index).atexit = False
        return made

    def _leave(self, index: int) -> None:
        self._users[index] -= 1  # the collector may run this anywhere: no lock

    @property
    def default_lane(self) -> Lane:
        return self._default

    def native_stream(self, index: int) -> Any:
        """The queue of that number; many streams share a few of them."""
        found = self._streams.get(index)
        if found is None:
            with self._lock:
                found = self._streams.get(index)
                if found is None:
                    made = self._told("", lambda: self.extension().Stream(max_in_flight=setting_now(config.max_in_flight)))
                    found = self._streams[index] = made
                    if index == 0:
                        self.extension().set_default(found, self._tell)
        return found

    def synchronize(self, lane: MetalLane | None = None) -> None:
        """Every launch (of a lane) has ended and its results are in memory; raises what failed of those of this thread."""
        if not self._streams:
            return
        self.drain(lane)
        raise_all(self.failures.of_this_thread(None if lane is None else lane.stream))

    def drain(self, lane: MetalLane | None = None) -> None:
        """Every launch (of a lane) has ended, well or not, and what it printed is shown."""
        for stream in list(self._streams.values()) if lane is None else [lane.stream]:
            stream.wait()
        self.failures.show_logs()

    has_clock = True

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        metal = self.extension()
        metal.ask_for_times(True)
        try:
            yield
        finally:
            metal.ask_for_times(False)

    def take_times(self, *, of_all: bool = False) -> list[tuple[str, float]]:
        return list(self.extension().take_times(of_all))

    # --- one launch -------------------------------------------------------------------------------

    def prepare(self, executable: Executable) -> None:
        code = cast(MetalExecutable, executable).metal_on(self.target)
        if code.log_index is None:
            self.plan(executable.name, code)

    def run(
        self, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True, lane: Lane | None = None
    ) -> None:
        require(self)
        launch = prepare(cast(MetalExecutable, executable), args, grid, self.target)
        if 0 in grid:
            return
        name, stream = executable.name, cast(MetalLane, lane or self._default).stream
        staged: list[Staged] = []
        slots = self._slots(launch)
        places = self._places(name, launch, slots, staged)
        # What is written to a copy is in the array when the call returns: nobody could see that it is not there yet.
        is_awaited = sync or any(s.region.is_written for s in staged)
        plan = self._told(name, lambda: self._plan(launch.code, tuple(slots.items())))
        log = 0 if launch.log is None else address_of(launch.log.words)
        bound = tuple(places[index] for index in slots)
        owner = (*launch.bound.values(), *staged)
        number, ticket = self._told(name, lambda: plan(stream, bound, _constants(launch), launch.grid, is_awaited, owner, log))
        if launch.log is not None:
            self.failures.watch(number, Logged(name, launch, stream, ticket))
        if is_awaited:
            self._finish(number, ticket, stream, staged)

    def _finish(self, number: int, ticket: int, stream: Any, staged: list[Staged]) -> None:
        """Wait for a launch; raise its error, or bring its results to where they belong."""
        stream.wait(ticket)
        self.failures.show_logs()
        error = self.failures.of_launch(number)
        if error is not None:
            raise error
        for s in staged:
            s.write_back()

    def _told(self, name: str, action: Callable[[], T]) -> T:
        """What an action of the extension gives; what it refuses as an error of eas."""
        try:
            return action()
        except self.extension().Error as error:
            kind, text = error.args
        return cast(T, self._tell(name, kind, text))

    # --- native launchers -------------------------------------------------------------------------

    def launch_site(self) -> LaunchSite | None:
        if self.native_stream(0) is None or sys.is_finalizing():
            return None
        return LaunchSite(self.extension().run_address, _NOTHING_PENDING, 1)

    def launch_code(self, executable: Executable) -> LaunchCode | None:
        code = cast(MetalExecutable, executable).metal_on(self.target)
        if code.log_index is not None:
            return None
        places = {a.name: i for i, a in enumerate(executable.module.args)}
        slots = tuple(places[name] for name, _, _ in code.buffers)
        scalars = tuple((places[name], offset, dtype.nbytes) for name, dtype, offset in code.scalars)
        plan = self.plan(executable.name, code)
        nbytes = 0 if code.scalars_index is None else max(code.scalars_nbytes, 1)
        return LaunchCode(MetalEntry(self.extension().Entry(plan, slots, scalars, nbytes, (len(places), ENDS, OBJECTS))), ())

    def record(self, steps: Sequence[Step]) -> Recording:
        return recorded(self, steps) or OneByOne(self, steps)

    def place_of(self, array: np.ndarray) -> Place | None:
        """Where an array lies in memory of the GPU, or None."""
        return self.memory.place_of(address_of(array), array.nbytes) if array.nbytes else Place(self.memory.nothing, 0, 0)

    def plan(self, name: str, code: MetalCode) -> Any:
        """The prepared launch of a kernel without a log."""
        return self._told(name, lambda: self._plan(code, tuple((index, is_written) for _, index, is_written in code.buffers)))

    def copy_plan(self) -> Any:
        """The prepared launch of the kernel that copies by strides."""
        return self._planned((metal_copies.TEXT, "safe"), metal_copies.NAME, "3.1", ((0, True), (1, False)), 2, metal_copies.THREADS)

    def aim(self, sync: bool, stream: Stream | None) -> Callable[..., object] | None:
        lane = lane_of(stream, self) if stream is not None or SPECIAL else None
        return cast(MetalLane, lane or self._default).aim(sync)

    def _tell(self, name: str, kind: str, text: str) -> None:
        """Raise what a launch of a native launcher failed with."""
        if kind == "failed":
            raise self.failures.of_launch(int(text)) or KernelError(f"kernel {name} failed")
        raise self.failures.dependency(name, int(text)) if kind == "dependency" else refusal(name, kind, text)

    def _slots(self, launch: MetalLaunch) -> dict[int, bool]:
        """The indices of the buffers, the log's too, and whether each is written."""
        code = launch.code
        written = {index: is_written for _, index, is_written in code.buffers}
        if code.log_index is not None:
            written[code.log_index] = True
            if launch.log is not None:
                launch.bound[code.log_index] = launch.log.words = self._shared(launch.log.words)
        return written

    def allocate(self, nbytes: int, is_private: bool = False) -> np.ndarray:
        """New memory of the GPU as bytes; of private memory only the layout."""
        try:
            return self.memory.allocate(nbytes, is_private)
        except self.extension().Error as error:
            kind, text = error.args
        if kind != "memory":
            raise refusal("", kind, text)
        raise LaunchError(f"there is no memory of the GPU for a tensor of {nbytes} bytes: {text}", hint=HINTS["memory"])

    def copy_elements(self, target: np.ndarray, source: np.ndarray) -> None:
        """Copy between layouts of memory of the GPU; it has happened on return."""
        metal_copies.copy_elements(self, target, source)

    def _shared(self, array: np.ndarray) -> np.ndarray:
        """The same values in memory of Metal."""
        made = self.memory.allocate(array.nbytes).view(array.dtype)
        made[...] = array
        return made

    def _places(self, name: str, launch: MetalLaunch, written: dict[int, bool], staged: list[Staged]) -> dict[int, Place]:
        """Where each buffer of a launch lies for Metal; what overlaps lies in one buffer, so that writes are seen."""
        places, foreign = {}, []
        for index, is_written in written.items():
            array = launch.bound[index]
            address, found = address_of(array), self.place_of(array)
            if found is None:
                foreign.append(Region(address, address + array.nbytes, is_written))
            else:
                places[index] = found
        for region in merged(foreign):
            home = self._home(name, region, launch, staged)
            for index in written.keys() - places.keys():
                array = launch.bound[index]
                if region.begin <= address_of(array) < region.end:
                    places[index] = Place(home.buffer, home.offset + address_of(array) - region.begin, array.nbytes)
        if staged:
            names = [n for n, index, _ in launch.code.buffers if any(places[index].buffer is s.place.buffer for s in staged)]
            note(2, f"    copied {', '.join(names)} for the GPU: it shares tensors of device=\"mps\", and page-aligned arrays of whole pages")
        return places

    def _home(self, name: str, region: Region, launch: MetalLaunch, staged: list[Staged]) -> Place:
        """A buffer around the memory itself where it is whole pages, else a copy."""
        metal = self.extension()
        if region.is_whole_pages:
            with contextlib.suppress(metal.Error):  # memory that Metal does not take, as some mappings: copied, too
                return Place(metal.wrap(region.begin, region.nbytes, tuple(launch.bound.values())), 0, region.nbytes)
        root = metal.wait_for_bytes(region.begin, region.end, region.is_written)  # launches that have it wrapped
        if root:
            raise self.failures.dependency(name, root)
        staged.append(told("mps", "cpu", region.nbytes, lambda: self._told(name, lambda: self.memory.copied(region))))
        self.copies += 1
        return staged[-1].place

    def _plan(self, code: MetalCode, slots: tuple[tuple[int, bool], ...]) -> Any:
        return self._planned((code.text, code.math_mode), code.name, code.language, slots, code.scalars_index or 0, code.threads)

    def _planned(self, key: tuple[str, str], name: str, language: str, slots: tuple[tuple[int, bool], ...], constants_index: int, threads: int) -> Any:
        """The prepared launch of a text in a math mode, made once."""
        found = self._plans.get(key)
        if found is None:
            metal = self.extension()
            with self._lock:
                found = self._plans.get(key)
                if found is None:
                    pipeline = metal.compile(key[0], name, language=language, math_mode=key[1])
                    found = self._plans[key] = metal.Plan(pipeline, slots, constants_index, (threads, 1, 1))
        return found


class _UntilExit:
    """The GPU must not work on memory that a process gives back: it ends after its launches."""

    def __init__(self, runtime: MetalRuntime) -> None:
        self._runtime = runtime

    @property
    def pending(self) -> ctypes.c_int64:
        return ctypes.c_int64(sum(stream.statistics["in_flight"] for stream in self._runtime._streams.values()))

    def drain(self) -> None:
        self._runtime.drain()

    def stop(self, *, of_all: bool) -> None:
        """What the GPU was given it does: only the process ends without it."""

    def take_errors(self, *, of_all: bool) -> list[BaseException]:
        return self._runtime.failures.of_all() if self._runtime._streams else []


def _constants(launch: MetalLaunch) -> bytes:
    index = launch.code.scalars_index
    return b"" if index is None else launch.bound[index].tobytes()


def _why_elsewhere() -> str | None:
    """Why this machine has no Metal at all, if it has none."""
    system: str = sys.platform  # mypy takes the rest for dead code when it sees sys.platform
    if system == "darwin" or config.metal() == "software":
        return None
    return f"Metal needs macOS, this is {system} (EAS_METAL=software runs it on the software Metal)"


def _start_fake(metal: ModuleType) -> None:
    from eas.metal_fake.hooks import Hooks

    library = ctypes.CDLL(metal.__file__)
    if not hasattr(library, "eas_fake_register"):
        raise LaunchError(f"{EXTENSION} is built for a Mac, not for the software Metal")
    if not hasattr(metal, "hooks"):
        metal.hooks = Hooks(library, config.fake_family(), config.fake_seed(), config.sanitize())  # type: ignore[attr-defined]
