"""The Apple GPU backend: Metal text on `eas._metal`, which is Objective-C++ on a Mac, and the same on a fake Metal on Linux."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from eas import config
from eas.errors import EasError, LaunchError
from eas.locks import new_lock
from eas.runtime import Executable, Grid, Runtime, require
from eas.runtime.debug import note
from eas.runtime.launch_settings import setting_now
from eas.runtime.metal_launch import MetalCode, MetalExecutable, MetalLaunch, prepare
from eas.runtime.metal_memory import MetalMemory, Place, Region, merged

EXTENSION = "eas._metal"
MAX_PENDING = 256  # launches whose arguments are held, before those that have ended are looked for
BUILD = "python tools/build_metal_ext.py"
HINTS = {
    "fault": "the kernel touched memory outside of its buffers: EAS_BACKEND=interp or EAS_CHECK_BOUNDS=1 on the CPU name the line",
    "timeout": "the GPU ended it after some seconds: give each program less work",
    "memory": "eas.empty_cache() frees buffers that are kept for later",
    "removed": "the GPU is gone: start the process again",
    "compile": "this Metal text should compile: please report it with the text of to_msl()",
}


class Staged(NamedTuple):
    """Bytes of the process that are no memory of Metal, and their copy in a buffer."""

    region: Region
    place: Place

    def write_back(self) -> None:
        """Copy what the kernel has left in the buffer to where it belongs."""
        ctypes.memmove(self.region.begin, self.place.buffer.address + self.place.offset, self.place.nbytes)


class Pending(NamedTuple):
    """A launch that has not been waited for, and what is left to do when it has ended."""

    executable: Executable
    launch: MetalLaunch
    staged: list[Staged]
    ticket: int  # of its command buffer

    def writes(self, region: Region) -> bool:
        """Whether it writes bytes of a region."""
        return any(s.is_written and s.begin < region.end and region.begin < s.end for s in self.launch.spans())


class MetalRuntime(Runtime):
    """Runs generated Metal text on the GPU of a Mac."""

    name = "mps"
    used_hints = frozenset({"num_warps"})

    def __init__(self) -> None:
        self._lock = new_lock()
        self._plans: dict[tuple[str, str], Any] = {}
        self._pending: list[Pending] = []
        self._stream: Any = None
        self._metal: ModuleType | None = None
        self._memory: MetalMemory | None = None
        self.copies = 0
        """Pieces of memory that had to be copied for the GPU, so far."""

    def why_unavailable(self) -> str | None:
        platform: str = sys.platform  # mypy takes the rest for dead code when it sees sys.platform
        is_software = config.metal() == "software"
        if platform != "darwin" and not is_software:
            return f"Metal needs macOS, this is {platform} (EAS_METAL=software runs it on the software Metal)"
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
                metal = import_module(EXTENSION)
                if config.metal() == "software":
                    _start_fake(metal)
                try:
                    metal.device_info()
                except metal.Error as error:
                    raise LaunchError(str(error.args[1])) from None
                self._memory = MetalMemory(metal)
                self._metal = metal
                atexit.register(self._at_exit)
        return self._metal

    @property
    def memory(self) -> MetalMemory:
        """The buffers of this process."""
        self.extension()
        assert self._memory is not None
        return self._memory

    def run(
        self, executable: Executable, args: Sequence[object], grid: Grid, *, sync: bool = True
    ) -> None:
        require(self)
        launch = prepare(cast(MetalExecutable, executable), args, grid)
        with self._lock:
            staged: list[Staged] = []
            try:
                self._encode(launch, staged)
            except self.extension().Error as error:
                raise _refusal(executable.name, error) from None
            self._pending.append(Pending(executable, launch, staged, self._the_stream().ticket))
            # What is written to a copy is in the array when the call returns: nobody could see that it is not there yet.
            if sync or any(s.region.is_written for s in staged):
                self.synchronize()

    def synchronize(self) -> None:
        """Every launch has ended and its results are in memory; raises what failed."""
        with self._lock:
            pending, self._pending = self._pending, []
            if self._stream is None:
                return
            try:
                self._stream.wait()
            except self.extension().Error as error:
                names = ", ".join(dict.fromkeys(p.executable.name for p in pending))
                raise _refusal(names, error) from None
            finally:
                for p in pending:
                    self.memory.returned.extend(s.place.buffer for s in p.staged)
            for p in pending:
                for s in p.staged:
                    if s.region.is_written:
                        s.write_back()
                p.launch.finish(p.executable.name)

    def device_seconds(self) -> float | None:
        """Of all command buffers that have completed: a launch that is waited for has one of its own."""
        return 0.0 if self._stream is None else float(self._stream.statistics["gpu_seconds"])

    def _at_exit(self) -> None:
        """The GPU must not work on memory that a process gives back: it ends after its launches."""
        try:
            self.synchronize()
        except EasError as error:
            print(f"eas: a launch failed, and nobody synchronized: {error}", file=sys.stderr)
        self._stream = None

    # --- one launch -------------------------------------------------------------------------------

    def _encode(self, launch: MetalLaunch, staged: list[Staged]) -> None:
        self._forget_completed()
        code = launch.code
        written = {index: is_written for _, index, is_written in code.buffers}
        if code.log_index is not None:
            written[code.log_index] = True
            if launch.log is not None:
                launch.bound[code.log_index] = launch.log.words = self._shared(launch.log.words)
        places = self._places(launch, written, staged)
        if staged:
            names = [name for name, index, _ in code.buffers if any(places[index].buffer is s.place.buffer for s in staged)]
            note(2, f"    copied {', '.join(names)} for the GPU: it shares tensors of device=\"mps\", and page-aligned arrays of whole pages")
        constants = b"" if code.scalars_index is None else launch.bound[code.scalars_index].tobytes()
        if 0 in launch.grid:
            return
        self._plan(code, tuple(written.items()))(self._the_stream(), tuple(places[index] for index in written), constants, launch.grid)
    def _shared(self, array: np.ndarray) -> np.ndarray:
        """The same values in memory of Metal."""
        made = self.memory.allocate(array.nbytes).view(array.dtype)
        made[...] = array
        return made

    def _places(self, launch: MetalLaunch, written: dict[int, bool], staged: list[Staged]) -> dict[int, Place]:
        """Where each buffer of a launch lies for Metal; what overlaps lies in one buffer, so that writes are seen."""
        places, foreign = {}, []
        for index, is_written in written.items():
            array = launch.bound[index]
            address = array.ctypes.data
            found = self.memory.place_of(address, array.nbytes) if array.nbytes else Place(self.memory.nothing, 0, 0)
            if found is None:
                foreign.append(Region(address, address + array.nbytes, is_written))
            else:
                places[index] = found
        for region in merged(foreign):
            home = self._home(region, launch, staged)
            for index in written.keys() - places.keys():
                array = launch.bound[index]
                if region.begin <= array.ctypes.data < region.end:
                    places[index] = Place(home.buffer, home.offset + array.ctypes.data - region.begin, array.nbytes)
        return places

    def _home(self, region: Region, launch: MetalLaunch, staged: list[Staged]) -> Place:
        """A buffer around the memory itself where it is whole pages, else a copy."""
        if region.is_whole_pages:
            with contextlib.suppress(self.extension().Error):  # memory that Metal does not take, as some mappings: copied, too
                return Place(self.extension().wrap(region.begin, region.nbytes, tuple(launch.bound.values())), 0, region.nbytes)
        if any(p.writes(region) for p in self._pending):
            self.synchronize()
        home = self.memory.copied(region)
        staged.append(Staged(region, home))
        self.copies += 1
        return home

    def _forget_completed(self) -> None:
        """Launches that have ended need their memory no more; those that may have something to say wait for `synchronize`."""
        if len(self._pending) < MAX_PENDING:
            return
        completed = self._the_stream().completed
        self._pending = [p for p in self._pending if p.ticket > completed or p.launch.log is not None]
        if len(self._pending) >= MAX_PENDING:
            self.synchronize()

    def _plan(self, code: MetalCode, slots: tuple[tuple[int, bool], ...]) -> Any:
        key = (code.text, code.math_mode)
        found = self._plans.get(key)
        if found is None:
            metal = self.extension()
            pipeline = metal.compile(code.text, code.name, language=code.language, math_mode=code.math_mode)
            found = self._plans[key] = metal.Plan(pipeline, slots, code.scalars_index or 0, (code.threads, 1, 1))
        return found

    def _the_stream(self) -> Any:
        if self._stream is None:
            self._stream = self.extension().Stream(max_in_flight=setting_now(config.max_in_flight))
        return self._stream


def _refusal(names: str, error: Exception) -> LaunchError:
    kind, text = error.args
    return LaunchError(f"kernel {names} failed on the GPU ({kind}): {text}", hint=HINTS.get(kind, ""))


def _start_fake(metal: ModuleType) -> None:
    from eas.metal_fake.hooks import Hooks

    library = ctypes.CDLL(metal.__file__)
    if not hasattr(library, "eas_fake_register"):
        raise LaunchError(f"{EXTENSION} is built for a Mac, not for the software Metal")
    if not hasattr(metal, "hooks"):
        metal.hooks = Hooks(library, config.fake_family(), config.fake_seed(), config.sanitize())  # type: ignore[attr-defined]
