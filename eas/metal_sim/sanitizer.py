"""A sanitized launch: buffers copied apart from each other, shadow memory, and what was found."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Sequence

import numpy as np

from eas.metal_sim import native
from eas.metal_sim.arguments import Binding
from eas.metal_sim.loaded import LoadedKernel
from eas.metal_sim.native import Kind
from eas.metal_sim.reports import raise_error

RED_ZONE = 1 << 18  # bytes between buffers: an index that is off by less is told with the buffer's name
CELL_NBYTES, MEETING_NBYTES = 48, 24
ARENA_NBYTES = 98304  # arena_capacity of engine.h
MAX_REPORTS, MAX_MEETINGS = 64, 1 << 16
DYNAMIC, VARIABLE = 1000, 2000  # regions of threadgroup memory
COARSE = 2  # log2 of the bytes that share a shadow cell, until a smaller access is seen


def run_sanitized(kernel: LoadedKernel, launch: native.Launch, bindings: Sequence[Binding]) -> None:
    """Run a launch on copies of its buffers; raise what was found, else the results are in the buffers."""
    shift = COARSE
    while True:
        session = _Session(kernel, launch, bindings, shift)
        native.run(launch)
        if launch.error.kind != Kind.NEEDS_FINER:
            break
        shift = launch.error.size
        _start_again(launch)
    reports = _most_telling_first(session.reports())
    if launch.error.kind != Kind.NONE:
        reports.insert(0, launch.error)
    if reports:
        raise_error(kernel, launch, reports, session.region_name)
    _check_registers(kernel, launch, bindings, shift)
    session.copy_back()


def _start_again(launch: native.Launch) -> None:
    launch.next_group = launch.stop = 0
    launch.error = native.Report()


def _check_registers(kernel: LoadedKernel, launch: native.Launch, bindings: Sequence[Binding], shift: int) -> None:
    """Look for values that nobody has set in the first launch of a kernel, on copies that nobody sees."""
    if kernel.has_checked_registers or kernel.register_twin is None:
        return
    kernel.has_checked_registers = True
    twin = kernel.register_twin
    session = _Session(twin, launch, bindings, shift)
    _start_again(launch)
    launch.entry, launch.checks_registers = twin.entry, 1
    try:
        native.run(launch)
    finally:
        launch.entry, launch.checks_registers = kernel.entry, 0
    launch.error = native.Report()  # what is wrong beside values was told before
    if found := [r for r in session.reports() if r.kind in (Kind.UNSET, Kind.MISSING_LANE)]:
        raise_error(twin, launch, found, session.region_name)


class _Session:
    """The memory of one sanitized launch."""

    def __init__(self, kernel: LoadedKernel, launch: native.Launch, bindings: Sequence[Binding], shift: int) -> None:
        self.kernel, self.bindings = kernel, [b for b in bindings if b.array is not None]
        shared = _blocks(self.bindings)
        blocks = [part for block in shared for part in ([[b] for b in block] if _must_not_see_each_other(block) else [block])]
        starts, total = _layout(blocks)
        self._memory = _pages(total)
        self._shadow = _pages((total >> shift) * CELL_NBYTES + CELL_NBYTES)
        self._group_shadow = _pages((ARENA_NBYTES >> shift) * CELL_NBYTES)
        self._meetings = _pages(MAX_MEETINGS * MEETING_NBYTES)
        self._reports = (native.Report * MAX_REPORTS)()
        self._regions = (native.Region * max(len(blocks), 1))()
        self._names: list[str] = []
        base = _address(self._memory)
        self._places: list[tuple[Binding, int]] = []
        for i, (members, start) in enumerate(zip(blocks, starts, strict=True)):
            lo = min(b.address for b in members)
            hi = max(b.address + b.nbytes for b in members)
            block = next(k for k, together in enumerate(shared, 1) if any(b is members[0] for b in together))
            self._regions[i] = native.Region(
                base + start, hi - lo, lo, block if len(shared[block - 1]) > len(members) else 0, all(b.is_const for b in members), any(map(_is_restrict, members))
            )
            self._names.append(" and ".join(b.parameter.name for b in members))
            for b in members:
                at = start + b.address - lo
                self._memory[at : at + b.nbytes] = _bytes(b)
                self._places.append((b, at))
                launch.buffers[b.parameter.index] = base + at
        self._state = native.Sanitizer(
            ctypes.addressof(self._regions), len(blocks), shift, kernel.code_start, kernel.code_nbytes, base, base + total,
            _address(self._shadow), _address(self._group_shadow), ctypes.addressof(self._reports), MAX_REPORTS, 0,
            _address(self._meetings), MAX_MEETINGS,
        )  # fmt: skip
        launch.sanitizer = ctypes.addressof(self._state)

    def reports(self) -> list[native.Report]:
        return list(self._reports[: self._state.n_reports])

    def region_name(self, region: int) -> str | None:
        """The buffer, threadgroup argument or variable that a region number stands for."""
        if region < len(self._names):
            return self._names[region]
        if DYNAMIC <= region < VARIABLE:
            index = region - DYNAMIC
            return next((p.name for p in self.kernel.parameters if p.kind == "threadgroup" and p.index == index), None)
        variables = self.kernel.library.threadgroup_variables
        at = region - VARIABLE
        return variables[at][0] if 0 <= at < len(variables) else None

    def copy_back(self) -> None:
        """Put the results where the caller looks for them."""
        before = {b.parameter.index: np.frombuffer(_bytes(b), np.uint8) for b, _ in self._places if not b.is_const}
        for b, at in self._places:
            if not b.is_const and b.array is not None:
                flat = b.array.reshape(-1).view(np.uint8)
                now = np.frombuffer(self._memory, np.uint8, b.nbytes, at)
                changed = now != before[b.parameter.index]  # another argument may have written the rest
                flat[changed] = now[changed]


def _most_telling_first(reports: list[native.Report]) -> list[native.Report]:
    """Races first; an unwritten element that somebody writes later without a barrier is one of them."""
    races = [r for r in reports if r.kind == Kind.RACE]
    racing = {site for r in races for site in (r.site, r.other_site)}
    return races + [r for r in reports if r.kind != Kind.RACE and r.site not in racing]


def _is_restrict(binding: Binding) -> bool:
    return "restrict" in binding.parameter.type


def _must_not_see_each_other(block: Sequence[Binding]) -> bool:
    """Whether arguments that overlap get a copy each: one is written, and another is const or restrict."""
    is_written = any(not b.is_const for b in block)
    return len(block) > 1 and is_written and any(b.is_const or _is_restrict(b) for b in block)


def _blocks(bindings: Sequence[Binding]) -> list[list[Binding]]:
    """Buffers that overlap in memory stay together."""
    blocks: list[list[Binding]] = []
    end = 0
    for b in sorted(bindings, key=lambda b: (b.address, b.nbytes)):
        if blocks and b.address < end:
            blocks[-1].append(b)
        else:
            blocks.append([b])
        end = max(end, b.address + b.nbytes)
    return blocks


def _layout(blocks: Sequence[Sequence[Binding]]) -> tuple[list[int], int]:
    """The offset of each block, as far from a multiple of 64 as it was, and the size of it all."""
    starts = []
    at = RED_ZONE
    for members in blocks:
        lo = min(b.address for b in members)
        at += lo % 64
        starts.append(at)
        at += max(b.address + b.nbytes for b in members) - lo + RED_ZONE
        at += -at % 64
    return starts, at + RED_ZONE


def _pages(nbytes: int) -> mmap.mmap:
    """Zeroed memory of which only touched pages cost anything."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return mmap.mmap(-1, nbytes, flags=flags)


def _address(pages: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(pages))


def _bytes(binding: Binding) -> bytes:
    assert binding.array is not None
    return binding.array.tobytes()


def library_nbytes(blob: bytes) -> int:
    """How far a shared library reaches in memory: the end of its last loaded segment."""
    offset, = struct.unpack_from("<Q", blob, 32)
    size, count = struct.unpack_from("<HH", blob, 54)
    end = 0
    for i in range(count):
        kind, _, _, start, _, _, nbytes, _ = struct.unpack_from("<IIQQQQQQ", blob, offset + i * size)
        if kind == 1:
            end = max(end, start + nbytes)
    return end
