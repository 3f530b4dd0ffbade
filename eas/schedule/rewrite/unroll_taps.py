"""Short loops inside of loops that add up blocks are written out: the taps of a small filter then share their addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eas.ir import Inst, IRModule, Region, Trait, Value, walk
from eas.ir.rewriting import Rewriter, clone_inst, rewrite

_MOST_TRIPS, _MOST_INSTS = 5, 300


def unroll_taps(module: IRModule) -> IRModule:
    """Loops inside of loops, of a few iterations each that are known, follow each other instead.

    In textbooks: full unrolling.

        %s = for 0, 3, 1, %acc (%i, %a) { %b = load (%p + %i); yield (%a + %b) }
        ->
        %b0 = load (%p + 0); %s0 = add %acc, %b0
        %b1 = load (%p + 1); %s1 = add %s0, %b1; ...
    """
    inner = {i for loop in _loops(module.body) for i in walk(loop.regions[0]) if i.op.name == "for"}
    if not inner:
        return module
    short = {i.regions[0].params[0] for i in inner}  # a loop that is rewritten keeps its counter

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name != "for" or inst.regions[0].params[0] not in short or not _is_sum(inst.regions[0], inst.outs):
            return None
        numbers = [rw.literal(v) for v in inst.operands[:3]]
        if None in numbers:
            return None
        start, end, step = (int(n) for n in numbers if n is not None)
        steps = range(start, end, step) if step > 0 else range(0)
        if not 0 < len(steps) <= _MOST_TRIPS or len(steps) * sum(1 for _ in walk(inst.regions[0])) > _MOST_INSTS:
            return None
        return _written_out(inst, steps, rw)

    return rewrite(module, rule)


def _written_out(loop: Inst, steps: range, rw: Rewriter) -> Sequence[Value]:
    (body,), carried = loop.regions, list(loop.operands[3:])
    counter, *params = body.params
    for number in steps:
        mapping: dict[Value, Value] = {counter: rw.const(number, counter.type), **dict(zip(params, carried, strict=True))}
        for inst in body.body[:-1]:
            rw.append(clone_inst(inst, mapping))
        carried = [mapping.get(v, v) for v in body.yields]
    return carried


def _loops(region: Region) -> Iterator[Inst]:
    return (inst for inst in walk(region) if inst.op.name == "for")


def _is_sum(body: Region, outs: Sequence[Value]) -> bool:
    """Whether a loop carries blocks and only combines what it reads element by element."""
    reads = any(i.op.name == "load" and i.out.shape for i in body.body)
    known = (i.op.name in ("load", "yield") or (i.op.is_pure and not i.regions and not any(map(i.op.has, (Trait.FOLD, Trait.CUT, Trait.CONVERGENT)))) for i in body.body)
    return reads and any(out.shape for out in outs) and all(known)


__all__ = ["unroll_taps"]
