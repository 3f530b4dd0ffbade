"""Blocks in threadgroup memory that are not needed at the same time share a place, where memory is short."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eas.analysis import PointerBases
from eas.ir import Inst, IRModule, Region, Value, make, walk
from eas.ir.rewriting import Rewriter, rewrite
from eas.schedule.gpu.target import MetalTarget

_GRANULE = 16  # bytes: arrays start at multiples of this


@dataclass(eq=False)
class _Place:
    """Arrays that share memory: when they are in use, in order, and the size of the largest."""

    members: list[Inst]
    spans: list[tuple[int, int]]
    size: int

    @property
    def nbytes(self) -> int:
        nbytes: int = self.size * self.members[0]["dtype"].nbytes
        return -(-nbytes // _GRANULE) * _GRANULE

    def can_join(self, other: _Place) -> bool:
        if self.members[0]["dtype"] is not other.members[0]["dtype"]:
            return False
        few, many = sorted((self.spans, other.spans), key=len)
        return all(_is_free(many, span) for span in few)

    def join(self, other: _Place) -> None:
        self.members += other.members
        self.spans = sorted(self.spans + other.spans)
        self.size = max(self.size, other.size)


def _is_free(spans: Sequence[tuple[int, int]], span: tuple[int, int]) -> bool:
    """Whether a span meets none of those, which are in order."""
    at = bisect(spans, span)
    return (at == 0 or spans[at - 1][1] < span[0]) and (at == len(spans) or span[1] < spans[at][0])


def fit_memory(module: IRModule, target: MetalTarget) -> IRModule:
    """Share places until threadgroup memory suffices; each costs a barrier, so not before it is short.

    Runs before barriers are placed: they then keep the users of one place apart.
    """
    spans = _spans(module)
    places = [_Place([i], [spans[i.out]], i["size"]) for i in module.body.body if i.op.name == "alloc_tg" and i.out in spans]
    before = len(places)
    while sum(p.nbytes for p in places) > target.threadgroup_nbytes and _join_largest(places, target.threadgroup_nbytes):
        pass
    return module if len(places) == before else _shared(module, places)


def _join_largest(places: list[_Place], limit: int) -> bool:
    """Join pairs of which the smaller is as large as can be, until the limit is kept or a place has grown; whether there were any."""
    total, count = sum(p.nbytes for p in places), len(places)
    for least in sorted({p.nbytes for p in places}, reverse=True):
        at = 0
        while at < len(places):
            a, rest = places[at], at + 1
            while a.nbytes >= least and rest < len(places):
                b = places[rest]
                if min(a.nbytes, b.nbytes) != least or not a.can_join(b):
                    rest += 1  # and never again: places grow
                    continue
                del places[rest]
                total, has_grown = total - least, b.nbytes > a.nbytes
                a.join(b)
                if total <= limit or has_grown:
                    return True
            at += 1
    return len(places) < count


def _shared(module: IRModule, places: Sequence[_Place]) -> IRModule:
    """The module with one allocation per place, that of its first member."""
    order = {inst.out: k for k, inst in enumerate(module.body.body) if inst.op.name == "alloc_tg"}
    firsts: dict[Value, _Place] = {}
    joined: dict[Value, Value] = {}
    for place in places:
        first, *others = sorted((inst.out for inst in place.members), key=order.__getitem__)
        firsts[first] = place
        joined.update(dict.fromkeys(others, first))
    made: dict[Value, Value] = {}

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name != "alloc_tg":
            return None
        if inst.out in joined:
            return (made[joined[inst.out]],)
        place = firsts.get(inst.out)
        if place is None or len(place.members) == 1:
            return None
        names = "_".join(dict.fromkeys(i.out.hint or i["name"] for i in place.members))
        new = make("alloc_tg", (), {**dict(inst.attrs), "size": place.size}, loc=inst.loc, hints=[names])
        rw.append(new)
        made[inst.out] = new.out
        return new.outs

    return rewrite(module, rule)


def _spans(module: IRModule) -> dict[Value, tuple[int, int]]:
    """The statements between which an array is in use.

    They stand in the innermost region that has all of its uses. An array that is used in the body of
    a loop only is written there before it is read: what goes around a loop is also set before it.
    """
    bases = PointerBases(module)
    uses: dict[Value, list[Path]] = {}
    for path, inst in _numbered(module.body, ()):
        for operand in inst.operands:
            if operand.type.is_pointer and inst.op.name != "addptr" and isinstance(base := bases[operand], Value):
                uses.setdefault(base, []).append(path)
    return {base: _span(paths) for base, paths in uses.items()}


Path = tuple[tuple[int, int], ...]


def _numbered(region: Region, outer: Path, start: int = 0) -> Iterator[tuple[Path, Inst]]:
    """Every instruction with the (first, last) numbers of the statements that it stands in, outermost first.

    Only control flow that all threads follow together has statements of its own: there are no
    barriers in other loops and branches.
    """
    for inst in region.body:
        inner = [w for r in inst.regions for w in walk(r)]
        path = (*outer, (start, start + len(inner)))
        yield path, inst
        start += 1
        if not inst.attr("uniform"):
            yield from ((path, w) for w in inner)
            start += len(inner)
            continue
        for r in inst.regions:
            yield from _numbered(r, path, start)
            start += sum(1 for _ in walk(r))


def _span(paths: Sequence[Path]) -> tuple[int, int]:
    depth = 0
    while all(len(p) > depth + 1 and p[depth] == paths[0][depth] for p in paths):
        depth += 1
    return min(p[depth][0] for p in paths), max(p[depth][1] for p in paths)
