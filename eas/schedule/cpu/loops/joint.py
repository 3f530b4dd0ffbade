"""A loop inside a nest, for several positions at once: what it carries are elements in registers."""

from __future__ import annotations

from collections.abc import Sequence

from eas.base.types import Type
from eas.ir import Inst, Region, Trait, Value
from eas.schedule.cpu.elements import Elements, Index
from eas.schedule.cpu.members import member

Position = tuple[Elements, tuple[Index, ...]]  # where an instruction of a nest is done


def joint_loop(positions: Sequence[Position], inst: Inst, shared: frozenset[Inst] = frozenset()) -> None:
    """One `for` that carries the elements of all positions; `shared` loads read the same at all of them."""
    n = len(inst.outs)
    first = positions[0][0]
    for elements, index in positions:
        if elements.masks is not None:
            elements.masks.hold(elements, inst, index)
    operands = [first.at(v, ()) for v in inst.operands[: len(inst.operands) - n]]
    operands += [elements.at(v, index) for elements, index in positions for v in inst.operands[len(operands) :]]
    region = _joint_region(positions, inst.regions[0], n, shared)
    first.e.loc = inst.loc
    new = first.e.inst("for", operands, {}, [region])
    for k, (elements, _) in enumerate(positions):
        elements.local.update(zip(inst.outs, new.outs[k * n : (k + 1) * n], strict=True))


def _joint_region(positions: Sequence[Position], region: Region, n: int, shared: frozenset[Inst]) -> Region:
    inners = [(elements.nested(), index) for elements, index in positions]
    counter, *carried = region.params

    def body(i: Value, *params: Value) -> Sequence[Value]:
        for k, (inner, _) in enumerate(inners):
            inner.scalars[counter] = i  # type: ignore[index]
            inner.local.update(zip(carried, params[k * n : (k + 1) * n], strict=True))
        for inst in region.body[:-1]:
            _step(inners, inst, shared)
        return [inner.at(v, index) for inner, index in inners for v in region.yields]

    params = [counter, *(p for _ in inners for p in carried)]
    return positions[0][0].e.region([Type(p.dtype) for p in params], body, [p.hint for p in params])


def _step(inners: Sequence[Position], inst: Inst, shared: frozenset[Inst]) -> None:
    """One instruction of the loop; numbers are the same at all positions."""
    inners[0][0].e.loc = inst.loc or inners[0][0].e.loc
    if inst.op.name == "for":
        joint_loop(inners, inst, shared)
    elif not any(v.shape for v in (*inst.operands, *inst.outs)):
        first = inners[0][0]
        made = first.e.inst(inst.op.name, [first.at(v, ()) for v in inst.operands], dict(inst.attrs))
        for inner, _ in inners:
            inner.scalars.update(zip(inst.outs, made.outs, strict=True))  # type: ignore[attr-defined]
    elif inst in shared:
        (first, index), *others = inners
        member(first, inst, index)
        for inner, _ in others:
            inner.local[inst.out] = first.local[inst.out]
            if inst.out in first.shared:
                inner.shared.add(inst.out)
    else:
        for inner, index in inners:
            if inst.op.is_pure and inst.op.name != "gather" and not _is_float(inst, index):
                inner.formulas.update(dict.fromkeys(inst.outs, inst))  # type: ignore[attr-defined]
            else:
                member(inner, inst, index)


def _is_float(inst: Inst, index: tuple[Index, ...]) -> bool:
    """Whether an instruction computes floats of the nest: done in its turn, as loads are."""
    is_float = inst.out.dtype.is_float and inst.out.type.is_value
    return is_float and inst.op.has(Trait.ELEMENTWISE) and len(inst.out.shape) == len(index)
