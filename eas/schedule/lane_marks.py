"""Records on lane IR what the code generator would otherwise have to look around for."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from eas.analysis import PointerBases
from eas.ir import Arg, Inst, IRModule, Region, Value, sorted_attrs, walk
from eas.ranges import Ranges, value_ranges
from eas.schedule.lane_vectors import WIDTH

_MEMORY_ALIGNMENT = 16  # of threadgroup memory and of a thread's arrays
_VECTORS = ("vload", "vstore")


def mark_accesses(module: IRModule) -> IRModule:
    """`aligned` on vector accesses; `vector` on a thread's arrays that hold only whole vectors."""
    if not any(inst.op.name in _VECTORS for inst in walk(module.body)):
        return module
    bases, ranges = PointerBases(module), value_ranges(module)
    vectors = _vector_arrays(module, bases, ranges)
    whole = {bases[inst.operands[0]] for inst in walk(module.body) if inst.op.name in _VECTORS}

    def marked(inst: Inst) -> Inst:
        regions = tuple(Region(r.params, tuple(map(marked, r.body))) for r in inst.regions)
        if inst.op.name in _VECTORS:
            pointer = inst.operands[0]
            if _alignment(pointer, bases, ranges) % (WIDTH * pointer.dtype.nbytes) == 0:
                inst = _with(inst, aligned=True)
        elif inst.op.name == "alloc_tg" and inst.out in whole:
            inst = _with(inst, align=_MEMORY_ALIGNMENT)
        elif inst.op.name == "scratch" and inst.out in vectors:
            inst = _with(inst, vector=True)
        return replace(inst, regions=regions)

    return module.with_body(Region(module.body.params, tuple(map(marked, module.body.body))))


def _with(inst: Inst, **attrs: object) -> Inst:
    return replace(inst, attrs=sorted_attrs({**dict(inst.attrs), **attrs}))


def _alignment(pointer: Value, bases: PointerBases, ranges: Ranges) -> int:
    base, nbytes = bases[pointer], pointer.dtype.nbytes
    start = base.attr("align", nbytes) if isinstance(base, Arg) else _MEMORY_ALIGNMENT
    multiple = ranges[pointer].multiple
    return gcd(start, multiple * nbytes) if multiple else int(start)


def _vector_arrays(module: IRModule, bases: PointerBases, ranges: Ranges) -> set[Value]:
    """Arrays that every access reads or writes a whole vector of, from a multiple of its width on."""
    arrays = {i.out for i in walk(module.body) if i.op.name == "scratch" and i["size"] % WIDTH == 0}
    for inst in walk(module.body):
        for operand in inst.operands:
            if not operand.type.is_pointer or inst.op.name == "addptr":
                continue
            base = bases[operand]
            whole = inst.op.name in _VECTORS and ranges[operand].multiple % WIDTH == 0
            if not whole and isinstance(base, Value):
                arrays.discard(base)
    return arrays
