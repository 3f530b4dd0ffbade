"""The lanes of a nest behind the bound of its masks: where its loops end early, and what that leaves."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from eas.base.types import Type
from eas.ir import Value
from eas.schedule.cpu.loops.nest import NestLoops
from eas.schedule.cpu.loops.row_parts import TailPlan
from eas.schedule.cpu.tails import (
    Tail,
    TailValues,
    can_end_early,
    fill_tail,
    repeated,
    stop_of,
    tail_of,
)
from eas.schedule.elements.elements import Index, nothing
from eas.schedule.elements.masks import Bounds
from eas.schedule.elements.members import masks_are_slow


def plan_tail(nest: NestLoops, bounds: Bounds, index: tuple[Index, ...]) -> TailPlan | None:
    """Where the loops may end before the extent; slots that are not filled so far are, if not."""
    e = nest.e
    read = {v: t for i in nest.members for v in i.operands if (t := nest.p.tails.get(v))}
    own = frozenset(bounds.lanes)
    keys = {t.key for t in read.values()}
    if (read or own) and can_end_early(nest.extent, nest.p.target) and _may_end_early(nest):
        plan = TailPlan(own.union(*keys), index, read)
        if has_one_tail(nest, plan):
            stops = dict.fromkeys(t.stop for t in read.values())
            if own and own not in keys:
                stops[stop_of(e, bounds, nest.extent, _step(nest, read))] = None
            plan.stop = functools.reduce(lambda a, b: e.emit("max", a, b), stops)
            _fill_up(nest, plan)
            return plan
    nest.complete_tails()
    return None


def _step(nest: NestLoops, read: Mapping[Value, Tail]) -> int:
    """Of what the end is a multiple: of the lanes of every loop, unless nothing is kept and any vector or element may come last."""
    if not read and not nest.stores and (nest.may_repeat() or masks_are_slow(nest.insts(), nest.p.target)):
        return 1
    return nest.p.target.vector_nbytes


def _fill_up(nest: NestLoops, plan: TailPlan) -> None:
    """Let all slots that are read reach the end of the loops."""
    for value, tail in plan.read.items():
        if tail.stop is not plan.stop:
            nest.p.complete(value, plan.stop)
            nest.p.tails[value] = replace(tail, stop=plan.stop)


def _may_end_early(nest: NestLoops) -> bool:
    return all(r.is_last and r.neutrals is not None for r in nest.reductions)


def has_one_tail(nest: NestLoops, plan: TailPlan) -> bool:
    """Whether all that is asked for behind the bound is one value each."""
    nest.e.blocks.append([])
    found = _tail_values(nest, plan)
    nest.e.blocks.pop()
    return found is not None


def _tail_values(nest: NestLoops, plan: TailPlan) -> tuple[list[Value], list[Value]] | None:
    values = TailValues(nest.elements(), nest.members, plan.index, plan.key, plan.read)
    extremes = {r.inst for r in nest.reductions if r.extreme is not None}
    return tail_of(values, nest.members, [inner for inner, _ in nest.stores], extremes)


def end_with_tail(nest: NestLoops, bases: tuple[Value, ...], plan: TailPlan, accumulators: list[Value]) -> list[Value]:
    """Add what the lanes behind the bound contribute, if there are any; prefixes end before them."""
    e, inners = nest.e, [inner for inner, _ in nest.stores]
    accumulators = accumulators[: len(accumulators) - len(nest.scans)]
    if not accumulators and not inners:
        return []

    def behind() -> Sequence[Value]:
        found = _tail_values(nest, plan)
        assert found is not None, "planned"
        count = e.emit("sub", e.const(nest.extent), plan.stop)
        merged: list[Value] = []
        old = iter(accumulators)
        for r, value in zip(nest.reductions, found[0], strict=True):
            if r.extreme is None:
                new = [repeated(e, r.inst, value, count)]
            else:
                new = [value, nest.p.elements().at(r.inst.operands[1], nest.index(bases, plan.stop, 1))]
            merged += r.merge(nest.p.elements(), [next(old) for _ in new], new)
        return [*merged, *found[1]]

    def none() -> Sequence[Value]:
        return [*accumulators, *(e.const(nothing(v), Type(v.dtype)) for v in inners)]

    is_shorter = e.emit("lt", plan.stop, e.const(nest.extent))
    regions = [e.region([], behind), e.region([], none)]
    outs = list(e.inst("if", [is_shorter], {}, regions).outs)
    outer = [Index(base) for base in bases]
    for (inner, slot), value in zip(nest.stores, outs[len(accumulators) :], strict=True):
        crossing = nest.outer_of[inner]
        if crossing in nest.p.facts.may_end_early and inner not in nest.into:
            nest.p.tails[crossing] = Tail(plan.key, plan.stop, value)
        else:
            fill_tail(e, nest.p.elements, slot, outer, nest.lanes, (plan.stop, e.const(nest.extent)), value)
    return outs[: len(accumulators)]


def put(nest: NestLoops, bases: tuple[Value, ...], totals: list[Value], tail: TailPlan | None) -> None:
    """Add what is behind the bound of the masks, and put the results where they belong."""
    nest.put(bases, totals if tail is None else end_with_tail(nest, bases, tail, totals))
