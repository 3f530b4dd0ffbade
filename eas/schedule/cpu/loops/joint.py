"""A loop inside a nest, for several positions at once: what it carries are elements in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eas.base.types import Type
from eas.ir import Inst, Region, Trait, Value
from eas.schedule.cpu.opaque_masks import OpaqueMasks
from eas.schedule.elements.elements import Elements, Index
from eas.schedule.elements.members import member


@dataclass(frozen=True, eq=False)
class Position:
    """Where an instruction of a nest is done, with the masks that are made there before loops."""

    elements: Elements
    index: tuple[Index, ...]
    masks: OpaqueMasks

    def nested(self) -> Position:
        return replace(self, elements=self.elements.nested())


def joint_loop(positions: Sequence[Position], inst: Inst, shared: frozenset[Inst] = frozenset()) -> None:
    """One `for` that carries the elements of all positions; `shared` loads read the same at all of them."""
    n = len(inst.outs)
    first = positions[0].elements
    for at in positions:
        at.masks.hold(at.elements, inst, at.index)
    operands = [first.at(v, ()) for v in inst.operands[: len(inst.operands) - n]]
    operands += [at.elements.at(v, at.index) for at in positions for v in inst.operands[len(operands) :]]
    region = _joint_region(positions, inst.regions[0], n, shared)
    first.e.loc = inst.loc
    new = first.e.inst("for", operands, {}, [region])
    for k, at in enumerate(positions):
        at.elements.local.update(zip(inst.outs, new.outs[k * n : (k + 1) * n], strict=True))


def _joint_region(positions: Sequence[Position], region: Region, n: int, shared: frozenset[Inst]) -> Region:
    inners = [at.nested() for at in positions]
    counter, *carried = region.params

    def body(i: Value, *params: Value) -> Sequence[Value]:
        for k, inner in enumerate(inners):
            inner.elements.scalars[counter] = i
            inner.elements.local.update(zip(carried, params[k * n : (k + 1) * n], strict=True))
        for inst in region.body[:-1]:
            _step(inners, inst, shared)
        return [inner.elements.at(v, inner.index) for inner in inners for v in region.yields]

    params = [counter, *(p for _ in inners for p in carried)]
    return positions[0].elements.e.region([Type(p.dtype) for p in params], body, [p.hint for p in params])


def _step(inners: Sequence[Position], inst: Inst, shared: frozenset[Inst]) -> None:
    """One instruction of the loop; numbers are the same at all positions."""
    first, index = inners[0].elements, inners[0].index
    first.e.loc = inst.loc or first.e.loc
    if inst.op.name == "for":
        joint_loop(inners, inst, shared)
    elif not any(v.shape for v in (*inst.operands, *inst.outs)):
        made = first.e.inst(inst.op.name, [first.at(v, ()) for v in inst.operands], dict(inst.attrs))
        for inner in inners:
            inner.elements.scalars.update(zip(inst.outs, made.outs, strict=True))
    elif inst in shared:
        member(first, inst, index)
        for inner in inners[1:]:
            inner.elements.local[inst.out] = first.local[inst.out]
            if inst.out in first.shared:
                inner.elements.shared.add(inst.out)
    else:
        for inner in inners:
            if inst.op.is_pure and inst.op.name != "gather" and not _is_float(inst, inner.index):
                inner.elements.formulas.update(dict.fromkeys(inst.outs, inst))
            else:
                member(inner.elements, inst, inner.index)


def _is_float(inst: Inst, index: tuple[Index, ...]) -> bool:
    """Whether an instruction computes floats of the nest: done in its turn, as loads are."""
    is_float = inst.out.dtype.is_float and inst.out.type.is_value
    return is_float and inst.op.has(Trait.ELEMENTWISE) and len(inst.out.shape) == len(index)
