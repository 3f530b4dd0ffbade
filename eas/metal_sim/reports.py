"""What went wrong in a launch, as text and as facts: lines of the Metal text and of the Python kernel, threads, buffers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from eas.base.errors import KernelError, LaunchError, SanitizerError, SourcePlace
from eas.metal_sim.errors import MetalPlace
from eas.metal_sim.loaded import LoadedKernel
from eas.metal_sim.native import Kind, Launch, Report
from eas.metal_sim.tokens import OWN_FILE

RegionName = Callable[[int], str | None]
Position = tuple[int, int, int]
NOBODY = 0xFFFFFFFF
MAX_TOLD = 4

HINTS = {
    Kind.DIVERGENT_BARRIER: "every thread of the group must reach the same barrier: move it out of the branch, and do not return before it",
    Kind.RACE: "put a threadgroup_barrier with the right mem_flags between the two accesses, or use atomics",
    Kind.OUT_OF_BOUNDS: "compare the index with the size of the buffer before the access",
    Kind.UNINITIALISED: "write the element before it is read; threadgroup memory starts with arbitrary contents",
    Kind.MISALIGNED: "a vector must lie at a multiple of its size; packed_float4 and the like need not",
    Kind.PRIVATE_BOUNDS: "compare the index with the length of the array",
    Kind.MISSING_LANE: "let all lanes reach the function, and ask lanes that take part: move it out of the branch, and keep the lane below 32",
    Kind.ALIASED: "bind the memory once, or copy it: a compiler may read such an argument before the write",
    Kind.UNSET: "give the variable, array or matrix a value before it is used",
    Kind.DIVERGENT_MATRIX: "all 32 lanes of the simdgroup must reach a matrix function: move it out of the branch",
}
PYTHON_RACE = "put mk.barrier() between the two accesses; lanes and programs that meet in one element need atomics"
NAMES = {
    Kind.DIVERGENT_BARRIER: "barrier divergence",
    Kind.DEADLOCK: "deadlock",
    Kind.RACE: "data race",
    Kind.OUT_OF_BOUNDS: "out of bounds",
    Kind.UNINITIALISED: "uninitialised read",
    Kind.MISALIGNED: "misaligned access",
    Kind.PRIVATE_BOUNDS: "out of bounds",
    Kind.READ_ONLY: "write to constant memory",
    Kind.MISSING_LANE: "missing lane",
    Kind.ALIASED: "aliased arguments",
    Kind.DIVERGENT_MATRIX: "matrix divergence",
    Kind.UNSET: "uninitialised value",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a kernel did wrong."""

    kind: str
    kernel: str
    message: str
    line: int | None
    """Of the Metal text."""
    python: str | None
    """`file:line` of the Python kernel, if the text was made from one."""
    thread: Position
    threadgroup: Position
    buffer: str | None = None
    offset: int | None = None
    """Bytes from the start of the buffer."""
    nbytes: int = 0
    access: str = ""
    other_line: int | None = None
    other_python: str | None = None
    other_thread: Position | None = None
    other_threadgroup: Position | None = None
    other_access: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the Metal text and what stands behind it."""

    line: int | None
    python: SourcePlace | None

    def __str__(self) -> str:
        told = "an unknown line" if self.line is None else f"line {self.line}"
        return f"{told} ({_short(self.python)})" if self.python is not None else told


class Teller:
    """Turns the engine's records into findings."""

    def __init__(self, kernel: LoadedKernel, launch: Launch, region_name: RegionName) -> None:
        self.kernel, self.launch, self.region_name = kernel, launch, region_name

    def place(self, site: int | None, line: int = 0) -> Place:
        if not line:
            found = self.kernel.line_at(site)
            line = found.line if found is not None and found.file == OWN_FILE else 0
        return Place(line or None, (self.kernel.library.places or {}).get(line))

    def thread(self, index: int, group: int) -> tuple[Position, Position]:
        """Positions of the thread in its group and of the group in the grid."""
        where = _position(group, self.launch.groups)
        size = [min(t, n - g * t) for t, n, g in zip(self.launch.threads, self.launch.grid_threads, where, strict=True)]
        return _position(index, size), where

    def finding(self, r: Report) -> Finding:
        kind = Kind(r.kind)
        here, there = self.place(r.site, r.line), self.place(r.other_site)
        thread, group = self.thread(r.thread, r.group)
        has_other = r.other_thread != NOBODY
        other, other_group = self.thread(r.other_thread, r.other_group) if has_other else (None, None)
        buffer = self._variable(r)[0] if kind is Kind.PRIVATE_BOUNDS else self.region_name(r.region)
        return Finding(
            NAMES.get(kind, kind.name), self.kernel.name, self._message(kind, r, here, there), here.line, _short(here.python),
            thread, group, buffer, r.offset if buffer else None, r.size, _access(r.is_write, r.is_atomic),
            there.line if has_other and r.other_site else None, _short(there.python) if has_other else None, other, other_group,
            _access(r.other_is_write, 0) if has_other and kind is Kind.RACE else "",
        )  # fmt: skip

    def _message(self, kind: Kind, r: Report, here: Place, there: Place) -> str:
        name = self.kernel.name
        who = self._who(r.thread, r.group)
        other = self._who(r.other_thread, r.other_group) if r.other_thread != NOBODY else ""
        what = f"{_access(r.is_write, r.is_atomic)} of {r.size} bytes"
        buffer = self.region_name(r.region)
        where = f"at byte {r.offset} of {buffer}" if buffer else ""
        match kind:
            case Kind.DIVERGENT_BARRIER:
                does = f"waits at another one, {there}" if r.other_site else "has returned"
                return f"barrier divergence in {name}: {who} waits at the barrier of {here}, {other} {does}"
            case Kind.DEADLOCK:
                return f"deadlock in {name}: {who} waits at {here} and nobody can go on"
            case Kind.RACE:
                return f"data race in {name}: {what} {where} by {who} at {here}, and {_access(r.other_is_write, 0)} by {other} at {there}"
            case Kind.UNINITIALISED:
                return f"uninitialised read in {name}: {what} {where} by {who} at {here}, which nobody has written"
            case Kind.OUT_OF_BOUNDS:
                return f"out of bounds in {name}: {what} {where or 'outside of every buffer'} by {who} at {here}"
            case Kind.READ_ONLY:
                return f"write to constant memory in {name}: {what} {where} by {who} at {here}"
            case Kind.MISALIGNED:
                return f"misaligned access in {name}: {_type_name(r)} {where} needs an address that is a multiple of {r.size}, by {who} at {here}"
            case Kind.MISSING_LANE:
                return f"missing lane in {name}: lane {r.size} asks for the value of lane {r.offset}, which takes no part, by {who} at {here}"
            case Kind.ALIASED:
                return f"aliased arguments in {name}: {what} {where} by {who} at {here}, and {_access(r.other_is_write, 0)} of the same place through another argument by {other} at {there}"
            case Kind.UNSET:
                return f"uninitialised value in {name}: {who} uses or stores what it has never set, at {here}"
            case Kind.DIVERGENT_MATRIX:
                return f"matrix divergence in {name}: not all 32 lanes of the simdgroup reach {_type_name(r)}, by {who} at {here}"
            case Kind.PRIVATE_BOUNDS:
                return f"out of bounds in {name}: index {r.offset} of {self._array_name(r)}, by {who} at {here}"
        return f"{kind.name.lower()} in {name} by {who} at {here}"

    def _variable(self, r: Report) -> tuple[str | None, str]:
        """Name and type of the array that an index misses; the name is known for threadgroup variables."""
        told = _type_name(r)
        found = re.search(r"eas_tg_(\d+)", told)
        if found is None:
            return None, told
        name, type_ = self.kernel.library.threadgroup_variables[int(found[1])]
        return name, type_

    def _array_name(self, r: Report) -> str:
        name, type_ = self._variable(r)
        if name is None:
            return type_ if type_.startswith(("a ", "an ")) else f"the array {type_}"
        return f"{name} ({type_})"

    def _who(self, thread: int, group: int) -> str:
        inside, where = self.thread(thread, group)
        return f"thread {_ids(inside)} of threadgroup {_ids(where)}"


def raise_error(kernel: LoadedKernel, launch: Launch, reports: Sequence[Report], region_name: RegionName = lambda region: None) -> NoReturn:
    """Raise what the first of the reports means; the others are told with it."""
    first = reports[0]
    teller = Teller(kernel, launch, region_name)
    place = teller.place(first.site, first.line)
    lines = kernel.library.text.splitlines()
    text = lines[place.line - 1] if place.line and place.line <= len(lines) else ""
    loc = place.python or (MetalPlace(kernel.library.name, place.line, text) if place.line else None)
    kind = Kind(first.kind)
    if kind is Kind.THREADGROUP_MEMORY:
        raise LaunchError(
            f"kernel {kernel.name} needs {first.size} bytes of threadgroup memory; Metal has 32768", loc=loc,
            hint="use smaller tiles or a narrower type",
        )  # fmt: skip
    if kind is Kind.FAILED:
        raise KernelError(f"{(first.text or b'').decode(errors='replace')} (kernel {kernel.name}, {teller._who(first.thread, first.group)})", loc=loc)
    findings = [teller.finding(r) for r in reports]
    message = findings[0].message
    for also in findings[1:MAX_TOLD]:
        message += f"\nalso: {also.message}"
    if len(findings) > MAX_TOLD:
        message += f"\nand {len(findings) - MAX_TOLD} more, in `findings` of this exception"
    hint = PYTHON_RACE if kind is Kind.RACE and place.python else HINTS.get(kind, "")
    raise SanitizerError(message, hint=hint, loc=loc, findings=findings)


def _type_name(r: Report) -> str:
    """A type as the text calls it: clang tells `'float4' (aka ...)`."""
    return (r.text or b"a value").decode(errors="replace").split("' (aka")[0].strip("'")


def _position(index: int, extents: Sequence[int]) -> Position:
    x, y = extents[0], extents[1]
    return index % x, index // x % y, index // x // y


def _ids(position: Position) -> str:
    """One number for a launch along one axis, else all three."""
    return str(position[0]) if position[1:] == (0, 0) else str(position)


def _access(is_write: int, is_atomic: int) -> str:
    return ("atomic " if is_atomic else "") + ("write" if is_write else "read")


def _short(place: SourcePlace | None) -> str | None:
    """`file:line` of a place."""
    return None if place is None else place.describe()[0].removeprefix("at ")
