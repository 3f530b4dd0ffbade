"""Places barriers where threads of a threadgroup would otherwise read or overwrite too early."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from eas.analysis import PointerBases
from eas.base.types import Space
from eas.ir import Arg, Inst, IRModule, Region, Trait, Value, make, walk

Place = object  # a buffer, or the one stand-in for all arguments that may overlap


@dataclass(frozen=True)
class Pending:
    """What happened since the last barrier, per memory."""

    reads: frozenset[Place] = frozenset()
    writes: frozenset[Place] = frozenset()

    def after(self, reads: Iterable[Place], writes: Iterable[Place]) -> Pending:
        return Pending(self.reads | frozenset(reads), self.writes | frozenset(writes))

    def join(self, other: Pending) -> Pending:
        return self.after(other.reads, other.writes)

    def without(self, places: frozenset[Place]) -> Pending:
        return Pending(self.reads - places, self.writes - places)


def place_barriers(module: IRModule) -> IRModule:
    """Insert `sync` between conflicting accesses of different statements; loops are followed around.

    In textbooks: synchronisation by dataflow of hazards.

        store %shared, %v
        %w = load %shared
        ->
        store %shared, %v; sync {spaces=(tg,)}; %w = load %shared
    """
    if module.attr("threads") == 1:
        return module
    placer = _Placer(module)
    body, _ = placer.region(module.body, Pending())
    return module.with_body(body)


class MemoryPlaces:
    """The memory that a pointer points into; None for what belongs to one thread."""

    def __init__(self, module: IRModule) -> None:
        self.bases = PointerBases(module)
        self.overlapping = object()

    def __getitem__(self, pointer: Value) -> Place | None:
        base = self.bases[pointer]
        if isinstance(base, Arg):
            return base if base.attr("noalias") else self.overlapping
        return base if base.type.space is Space.THREADGROUP else None

    def is_device(self, place: Place) -> bool:
        return place is self.overlapping or isinstance(place, Arg)


class _Placer:
    def __init__(self, module: IRModule) -> None:
        self.places = MemoryPlaces(module)
        self.is_device = self.places.is_device

    def accesses(self, insts: Iterable[Inst]) -> tuple[set[Place], set[Place]]:
        reads: set[Place] = set()
        writes: set[Place] = set()
        for inst in insts:
            pointers = [v for v in inst.operands if v.type.is_pointer]
            if not pointers:
                continue
            found = {p for v in pointers if (p := self.places[v]) is not None}
            if inst.op.has(Trait.READS):
                reads |= found
            if inst.op.has(Trait.WRITES):
                first = self.places[inst.operands[0]]
                writes |= {first} if first is not None else set()
        return reads, writes

    def region(self, region: Region, pending: Pending) -> tuple[Region, Pending]:
        body: list[Inst] = []
        for inst in region.body:
            if inst.attr("uniform"):
                new, pending = self._control(inst, pending)
                body.append(new)
                continue
            reads, writes = self.accesses((inst, *(w for r in inst.regions for w in walk(r))))
            clash = (pending.writes & (reads | writes)) | (pending.reads & writes)
            if clash:
                spaces = tuple(
                    name
                    for name, is_device in (("threadgroup", False), ("device", True))
                    if any(self.is_device(p) == is_device for p in clash)
                )
                body.append(make("sync", (), {"spaces": spaces}, loc=inst.loc))
                ordered = frozenset(
                    p for p in pending.reads | pending.writes
                    if ("device" if self.is_device(p) else "threadgroup") in spaces
                )
                pending = pending.without(ordered)
            pending = pending.after(reads, writes)
            body.append(inst)
        return Region(region.params, tuple(body)), pending

    def _control(self, inst: Inst, pending: Pending) -> tuple[Inst, Pending]:
        if inst.op.name == "if":
            sides = [self.region(r, pending) for r in inst.regions]
            joined = sides[0][1].join(sides[1][1])
            return replace(inst, regions=tuple(r for r, _ in sides)), joined
        state = pending
        while True:  # what is pending at the end of the body meets its start
            regions, ends = [], [state]
            for region in inst.regions:
                new, end = self.region(region, ends[-1])
                regions.append(new)
                ends.append(end)
            joined = state.join(ends[-1])
            if joined == state:
                # A `while` ends behind its test; the body of a `for` may never run.
                return replace(inst, regions=tuple(regions)), ends[1] if inst.op.name == "while" else ends[-1].join(pending)
            state = joined


