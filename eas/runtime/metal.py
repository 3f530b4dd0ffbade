"""The Apple GPU backend: Metal text on `eas._metal`, which is Objective-C++ on a Mac, and the same on a fake Metal on Linux."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from eas.base.errors import LaunchError
from eas.runtime import Executable, Grid, Lane, Recording, Step, require
from eas.runtime.copies import told
from eas.runtime.debug import note
from eas.runtime.gpu import copies as metal_copies
from eas.runtime.gpu.device import BUILD, EXTENSION, MetalDevice, MetalLane, MetalMark
from eas.runtime.gpu.failures import HINTS, Logged, refusal
from eas.runtime.gpu.launch import MetalExecutable, MetalLaunch, prepare
from eas.runtime.gpu.memory import Place, Region, Staged, address_of, merged
from eas.runtime.gpu.replay import recorded
from eas.runtime.launch_site import LaunchCode, LaunchSite
from eas.runtime.native.launch_layout import ENDS, OBJECTS

__all__ = ["BUILD", "EXTENSION", "MetalEntry", "MetalLane", "MetalMark", "MetalRuntime"]

_NOTHING_PENDING = ctypes.c_int64(0)  # hazards order launches: none has to wait for others in Python
_SHORT = ctypes.c_int64(1)


class MetalEntry:
    """What native launchers call for one variant."""

    scratch_nbytes, rate, max_programs = 0, _SHORT, 1 << 62  # to encode is short, and needs Python's lock

    def __init__(self, native: Any) -> None:
        self._native = native
        self.address: int = native.address


class MetalRuntime(MetalDevice):
    """Runs generated Metal text on the GPU of a Mac."""

    used_hints = frozenset({"num_warps"})

    def __init__(self) -> None:
        super().__init__()
        self.copies = 0
        """Pieces of memory that had to be copied for the GPU, so far."""

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
        name, stream = executable.name, cast(MetalLane, lane or self.default_lane).stream
        staged: list[Staged] = []
        slots = self._slots(launch)
        places = self._places(name, launch, slots, staged)
        # What is written to a copy is in the array when the call returns: nobody could see that it is not there yet.
        is_awaited = sync or any(s.region.is_written for s in staged)
        plan = self.answer(name, lambda: self.plan_of(launch.code, tuple(slots.items())))
        log = 0 if launch.log is None else address_of(launch.log.words)
        bound = tuple(places[index] for index in slots)
        owner = (*launch.bound.values(), *staged)
        number, ticket = self.answer(name, lambda: plan(stream, bound, _constants(launch), launch.grid, is_awaited, owner, log))
        if launch.log is not None:
            self.failures.watch(number, Logged(name, launch, stream, ticket))
        if is_awaited:
            self.finish(number, ticket, stream, staged)

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

    def record(self, steps: Sequence[Step]) -> Recording | None:
        return recorded(self, steps)

    def aim(self, sync: bool, lane: Lane | None) -> Callable[..., object] | None:
        return cast(MetalLane, lane or self.default_lane).aim(sync)

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
        staged.append(told("mps", "cpu", region.nbytes, lambda: self.answer(name, lambda: self.memory.copied(region))))
        self.copies += 1
        return staged[-1].place

def _constants(launch: MetalLaunch) -> bytes:
    index = launch.code.scalars_index
    return b"" if index is None else launch.bound[index].tobytes()
