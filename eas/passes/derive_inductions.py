"""Blocks that a loop only moves by a uniform step become a function of the loop counter."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from eas.analysis import made_by
from eas.analysis.range_length import range_length
from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Inst, IRModule, Region, Value, make
from eas.ir.rewriting import Rewriter, rewrite

_I64 = Type(dtypes.i64)


def derive_inductions(module: IRModule) -> IRModule:
    """`ptrs += BK * stride` in a `for`: ptrs is its first value plus count * step; nothing is carried.

    In textbooks: induction variable elimination.

        for %i = 0..n, %p = %start (%i, %q) { load %q; yield (%q + 32) }
        ->
        for %i = 0..n { %q = addptr %start, (%i * 32)
                        load %q }
    """
    return rewrite(module, _rule)


def _rule(inst: Inst, rw: Rewriter) -> list[Value] | None:
    if inst.op.name != "for":
        return None
    region = inst.regions[0]
    inside = made_by(region.body)
    defined = set(inside) | set(region.params)
    steps: dict[int, Value] = {}
    for k, out in enumerate(inst.outs):
        step = _step(region.params[1 + k], region.yields[k], inside, defined)
        if step is not None and out.shape:
            steps[k] = step
    return _without(inst, steps, rw) if steps else None


def _step(param: Value, result: Value, inside: dict[Value, Inst], defined: set[Value]) -> Value | None:
    """The loop-invariant scalar that is added per iteration, if that is all that happens."""
    update = inside.get(result)
    if update is None or update.op.name not in ("addptr", "add") or update.operands[0] is not param:
        return None
    if param.type.dtype.is_float and not param.type.is_pointer:
        return None
    moved = update.operands[1]
    return moved if moved not in defined else None


def _without(inst: Inst, steps: dict[int, Value], rw: Rewriter) -> list[Value]:
    region, (start, end, step) = inst.regions[0], inst.operands[:3]
    inits = inst.operands[3:]
    counter = Value(region.params[0].type, region.params[0].hint)
    head: list[Inst] = []
    mapping: dict[Value, Value] = {region.params[0]: counter}
    first, pace = rw.literal(start), rw.literal(step)
    count = _count(head, counter, start, step, first is not None and first >= 0 and pace is not None and pace > 0)
    for k, amount in steps.items():
        mapping[region.params[1 + k]] = _advanced(head, inits[k], amount, count)
    kept = [k for k in range(len(inits)) if k not in steps]
    body = [*head, *(_substituted(i, mapping) for i in region.body[:-1])]
    yields = [mapping.get(region.yields[k], region.yields[k]) for k in kept]
    params = (counter, *(region.params[1 + k] for k in kept))
    inner = Region(params, (*body, make("yield", yields)))
    operands = [start, end, step, *(inits[k] for k in kept)]
    new = rw.append(make("for", operands, {}, [inner], inst.loc, [inst.outs[k].hint for k in kept]))
    results = dict(zip(kept, new.outs, strict=True))
    tail: list[Inst] = []
    trips = range_length(partial(_emit, tail), start, end, step, pace)
    finals = {k: _advanced(tail, inits[k], amount, trips) for k, amount in steps.items()}
    for made in tail:
        rw.append(made)
    return [results[k] if k in results else finals[k] for k in range(len(inits))]


def _emit(out: list[Inst], name: str, *operands: Value, **attrs: object) -> Value:
    out.append(make(name, operands, attrs))
    return out[-1].out


def _count(out: list[Inst], counter: Value, start: Value, step: Value, is_near: bool) -> Value:
    """How many iterations came before this one; a distance of two numbers of 32 bits may need more."""
    if not is_near and counter.dtype.bits < _I64.dtype.bits:
        counter, start, step = (_emit(out, "cast", v, type=_I64) for v in (counter, start, step))
    return _emit(out, "truncdiv", _emit(out, "sub", counter, start), step)


def _advanced(out: list[Inst], init: Value, amount: Value, count: Value) -> Value:
    """init + count * amount, per element; addresses in 64 bits."""
    kind = Type(dtypes.i64 if init.type.is_pointer else init.dtype, amount.shape)
    wide = amount if amount.dtype is kind.dtype else _emit(out, "cast", amount, type=kind)
    times = count if count.dtype is kind.dtype else _emit(out, "cast", count, type=Type(kind.dtype))
    if kind.shape:
        times = _emit(out, "broadcast", times, shape=kind.shape)
    return _emit(out, "addptr" if init.type.is_pointer else "add", init, _emit(out, "mul", wide, times))


def _substituted(inst: Inst, mapping: dict[Value, Value]) -> Inst:
    operands = tuple(mapping.get(v, v) for v in inst.operands)
    regions = tuple(Region(r.params, tuple(_substituted(i, mapping) for i in r.body)) for r in inst.regions)
    return replace(inst, operands=operands, regions=regions)
