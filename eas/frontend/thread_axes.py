"""Threadgroups of two and three axes: positions along them, computed from the one number that a thread has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Inst, Region, Value, make

Extents = tuple[int, int, int]


def with_axes(region: Region, extents: Extents) -> Region:
    """The same code with the positions along axes in terms of the thread's number; axis 0 runs fastest.

    tid {axis=1, start=0} -> local_id {axis=0} // extents[0] % extents[1]
    """
    body: list[Inst] = []
    for inst in region.body:
        if inst.op.name in ("tid", "local_id"):
            body += _position(inst, extents)
        elif inst.regions:
            body.append(replace(inst, regions=tuple(with_axes(r, extents) for r in inst.regions)))
        else:
            body.append(inst)
    return replace(region, body=tuple(body))


def _position(inst: Inst, extents: Extents) -> list[Inst]:
    axis, start = inst.attr("axis", 0), inst.attr("start", 0)
    if inst.attr("whole"):  # the thread's own number
        return [inst]
    made = [make("local_id", (), {"axis": 0, "whole": True}, loc=inst.loc)]
    inner, outer = prod(extents[:axis]), prod(extents[axis + 1 :])

    def step(name: str, number: int) -> None:
        value: Sequence[Value] = [made[-1].out]
        const = make("const", (), {"type": Type(dtypes.i32), "value": number}, loc=inst.loc)
        made.extend([const, make(name, [*value, const.out], loc=inst.loc)])

    if inner > 1:
        step("floordiv", inner)
    if outer > 1:
        step("mod", extents[axis])
    if start:
        step("add", start)
    made[-1] = replace(made[-1], outs=inst.outs)
    return made
