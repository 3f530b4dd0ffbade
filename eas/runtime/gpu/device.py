"""The GPU of this process: the extension, its memory, streams and prepared launches; what all that is launched there needs."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import sys
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from eas.base import config
from eas.base.errors import EasError, KernelError, LaunchError, Unsupported
from eas.base.locks import new_lock
from eas.runtime import Lane, Mark, Runtime
from eas.runtime.at_exit import finish_before_exit
from eas.runtime.debug import note
from eas.runtime.gpu import facts as gpu_facts
from eas.runtime.gpu.failures import Failures, refusal
from eas.runtime.gpu.launch import MetalCode
from eas.runtime.gpu.memory import MetalMemory, Place, Staged, address_of
from eas.runtime.launch_queue import raise_all
from eas.runtime.launch_settings import setting_now
from eas.schedule.gpu.target import NEEDED_MACOS, MetalTarget, newest_language

EXTENSION = "eas._metal"
BUILD = "python tools/build_metal_ext.py"
MAX_STREAMS = 32  # of the extension; as many queues are more than a GPU runs side by side
T = TypeVar("T")


class MetalMark(Mark):
    """The commands of a native stream up to a ticket."""

    def __init__(self, runtime: MetalDevice, stream: Any) -> None:
        self._runtime, self.stream, self.ticket = runtime, stream, stream.ticket

    @property
    def is_done(self) -> bool:
        return bool(self.stream.completed >= self.ticket)

    def wait(self) -> None:
        self._runtime.answer("", lambda: self.stream.wait(self.ticket))


class MetalLane(Lane):
    """A stream on the GPU: a command queue of its own, as far as there are some."""

    def __init__(self, runtime: MetalDevice, index: int) -> None:
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


class MetalDevice(Runtime):
    """What the launches of `MetalRuntime`, its copies and its recordings share."""

    name = "mps"

    def __init__(self) -> None:
        self._lock = new_lock()  # of what is made once; never held while the GPU works
        self._plans: dict[tuple[str, str], Any] = {}
        self._streams: dict[int, Any] = {}
        self._users = [0] * MAX_STREAMS  # streams that are alive, by queue; the first is the default's
        self._default = MetalLane(self, 0)
        self._metal: ModuleType | None = None
        self._memory: MetalMemory | None = None
        self._failures: Failures | None = None

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
                    made = self.answer("", lambda: self.extension().Stream(max_in_flight=setting_now(config.max_in_flight)))
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

    # --- what the extension does ------------------------------------------------------------------

    def finish(self, number: int, ticket: int, stream: Any, staged: list[Staged]) -> None:
        """Wait for a launch; raise its error, or bring its results to where they belong."""
        stream.wait(ticket)
        self.failures.show_logs()
        error = self.failures.of_launch(number)
        if error is not None:
            raise error
        for s in staged:
            s.write_back()

    def answer(self, name: str, action: Callable[[], T]) -> T:
        """What an action of the extension gives; what it refuses as an error of eas."""
        try:
            return action()
        except self.extension().Error as error:
            kind, text = error.args
        return cast(T, self._tell(name, kind, text))

    def place_of(self, array: np.ndarray) -> Place | None:
        """Where an array lies in memory of the GPU, or None."""
        return self.memory.place_of(address_of(array), array.nbytes) if array.nbytes else Place(self.memory.nothing, 0, 0)

    def plan(self, name: str, code: MetalCode) -> Any:
        """The prepared launch of a kernel without a log."""
        return self.answer(name, lambda: self.plan_of(code, tuple((index, is_written) for _, index, is_written in code.buffers)))

    def _tell(self, name: str, kind: str, text: str) -> None:
        """Raise what a launch of a native launcher failed with."""
        if kind == "failed":
            raise self.failures.of_launch(int(text)) or KernelError(f"kernel {name} failed")
        raise self.failures.dependency(name, int(text)) if kind == "dependency" else refusal(name, kind, text)

    def plan_of(self, code: MetalCode, slots: tuple[tuple[int, bool], ...]) -> Any:
        return self.planned((code.text, code.math_mode), code.name, code.language, slots, code.scalars_index or 0, code.threads)

    def planned(self, key: tuple[str, str], name: str, language: str, slots: tuple[tuple[int, bool], ...], constants_index: int, threads: int) -> Any:
        """The prepared launch of a text in a math mode, made once."""
        found = self._plans.get(key)
        if found is None:
            metal = self.extension()
            with self._lock:
                found = self._plans.get(key)
                if found is None:
                    need_language(name, language)
                    pipeline = metal.compile(key[0], name, language=language, math_mode=key[1])
                    found = self._plans[key] = metal.Plan(pipeline, slots, constants_index, (threads, 1, 1))
        return found


def need_language(name: str, language: str) -> None:
    """Refuse a text that is newer than the system."""
    macos = platform.mac_ver()[0]
    if macos and NEEDED_MACOS[language] > int(macos.partition(".")[0]):
        raise Unsupported(
            f"kernel {name} orders memory between programs, which needs Metal {language} of macOS {NEEDED_MACOS[language]}; this is macOS {macos}",
            hint='use sem="relaxed" atomics only, or run it on the CPU',
        )


class _UntilExit:
    """The GPU must not work on memory that a process gives back: it ends after its launches."""

    def __init__(self, runtime: MetalDevice) -> None:
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
