"""Records on lane IR what the code generator would otherwise have to look around for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd

from eas.analysis import PointerBases
from eas.analysis.ranges import Ranges, value_ranges
from eas.base.types import Space
from eas.ir import Arg, Inst, IRModule, Region, Value, walk

_MEMORY_ALIGNMENT = 16  # of threadgroup memory
_VECTORS = ("vload", "vstore")


def mark_accesses(module: IRModule) -> IRModule:
    """`aligned` on vector accesses; `vector` on a thread's arrays of vectors: how many lanes these have.

    In textbooks: alignment and vector width on accesses.

        %v = vload %p {lanes=4}
        ->
        %v = vload %p {aligned, lanes=4}
    """
    lanes = {inst: n for inst, n in _with_lanes(module.body, 1) if inst.op.name in _VECTORS}
    if not lanes:
        return module
    bases, ranges = PointerBases(module), value_ranges(module)
    vectors = _vector_arrays(module, bases, ranges, lanes)
    whole = {bases[inst.operands[0]] for inst in lanes}

    def marked(inst: Inst) -> Inst:
        regions = tuple(Region(r.params, tuple(map(marked, r.body))) for r in inst.regions)
        if inst in lanes:
            pointer = inst.operands[0]
            alignment = _alignment(pointer, bases, ranges)
            if bases[pointer] in vectors or alignment % (lanes[inst] * pointer.dtype.nbytes) == 0:
                inst = inst.with_attrs(aligned=True)
        elif inst.op.name == "alloc_tg" and inst.out in whole:
            inst = inst.with_attrs(align=_MEMORY_ALIGNMENT)
        elif inst.op.name == "scratch" and inst.out in vectors:
            inst = inst.with_attrs(vector=vectors[inst.out])
        return replace(inst, regions=regions)

    return module.with_body(Region(module.body.params, tuple(map(marked, module.body.body))))


def _with_lanes(region: Region, around: int) -> Iterator[tuple[Inst, int]]:
    """Every instruction with the lanes of its vectors."""
    for inst in region.body:
        lanes = inst.attr("lanes", around)
        yield inst, lanes
        for inner in inst.regions:
            yield from _with_lanes(inner, lanes if inst.op.name == "loop" else around)


def _alignment(pointer: Value, bases: PointerBases, ranges: Ranges) -> int:
    base, nbytes = bases[pointer], pointer.dtype.nbytes
    start = nbytes
    if isinstance(base, Arg):
        start = base.attr("align", nbytes)
    elif base.type.space is Space.THREADGROUP:
        start = _MEMORY_ALIGNMENT
    multiple = ranges[pointer].multiple
    return gcd(start, multiple * nbytes) if multiple else int(start)


def _vector_arrays(module: IRModule, bases: PointerBases, ranges: Ranges, lanes: dict[Inst, int]) -> dict[Value, int]:
    """Arrays of which vectors of one width are read or written, each from a multiple of that width on."""
    widths: dict[Value, set[int]] = {}
    for inst in walk(module.body):
        for operand in inst.operands:
            if not operand.type.is_pointer or inst.op.name == "addptr" or isinstance(base := bases[operand], Arg):
                continue
            found = widths.setdefault(base, set())
            if inst in lanes:
                found.add(lanes[inst] if ranges[operand].multiple % lanes[inst] == 0 else 0)
            elif inst.op.name == "frag_mma":
                found.add(2)  # the two elements of a matrix
            elif inst.op.name not in ("load", "store"):
                found.add(0)
    arrays = {i.out: i["size"] for i in walk(module.body) if i.op.name == "scratch"}
    return {
        base: next(iter(found)) for base, found in widths.items()
        if base in arrays and len(found) == 1 and 0 not in found and arrays[base] % next(iter(found)) == 0
    }


def layouts_of(module: IRModule) -> str:
    """Where the threads hold the blocks of a kernel in lane IR; one paragraph per block."""
    paragraphs = []
    for inst in walk(module.body):
        layout = inst.attr("layout")
        if layout is not None:
            kind = {"alloc_tg": "threadgroup memory", "fragments": "simdgroup matrices"}.get(inst.op.name, "registers")
            paragraphs.append(f"{inst.out.hint or 'block'}: {inst['dtype'].name} in {kind}, {layout}\n")
    return "".join(paragraphs)
