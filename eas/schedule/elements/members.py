"""One instruction of a nest at one position: memory, gathers, control flow, or the op itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eas.analysis import mask_of
from eas.base.types import Type
from eas.ir import Inst, Region, Trait, Value
from eas.ops.atomic import number_of_values
from eas.schedule.elements.addresses import first_address
from eas.schedule.elements.elements import I32, Elements, Index, first_lane, nothing
from eas.schedule.elements.masks import conjuncts
from eas.schedule.elements.near_loads import near_load
from eas.schedule.rewrite.element_loops import is_each, wish
from eas.schedule.target import NEAR_STEPS, CpuTarget


def member(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    """One instruction of a nest at one position."""
    special = _MEMBERS.get(inst.op.name)
    if special is not None:
        special(elements, inst, index)
    elif inst.op.has(Trait.ATOMIC):
        _atomic(elements, inst, index)
    elif not any(out in elements.context.lines for out in inst.outs):
        elements.local.update(zip(inst.outs, elements.apply(inst, index), strict=True))


def masks_are_slow(insts: Iterable[Inst], target: CpuTarget) -> bool:
    """Where a masked access would be a branch per lane, as those of 8 and 16 bits often are; single elements are better."""
    accesses = [inst for inst in insts if inst.op.name in ("load", "store") and mask_of(inst) is not None]
    are_narrow = any(inst.operands[0].dtype.nbytes < 4 for inst in accesses)
    return not target.has_cheap_masks or (are_narrow and not target.has_narrow_masks)


def mask_at(elements: Elements, mask: Value | None, index: tuple[Index, ...]) -> Value | None:
    """What is left of a mask here, None when it surely holds."""
    if mask is None:
        return None
    left: Value | None = None
    for condition, where in conjuncts(elements, mask, index):
        if (condition, tuple(ix.axis for ix in where)) in elements.context.known_true:
            continue
        value = elements.at(condition, where)
        left = value if left is None else elements.e.emit("and", left, value)
    return left


def _load(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    elements.local[inst.out] = load_at(elements, inst, index)


def load_at(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> Value:
    """What a load reads at one position."""
    pointer = inst.operands[0]
    special = elements.context.load(elements, inst, index) if elements.context.load is not None else None
    if special is not None:
        return special
    mask = mask_at(elements, mask_of(inst), index)
    extra = [] if mask is None else [mask]
    if mask is not None and len(inst.operands) > 2:
        extra.append(elements.at(inst.operands[2], index))
    step = elements.step_inside(pointer, index) if mask is None else elements.step(pointer, index)
    has_lanes = any(ix.lanes for ix in index)
    if has_lanes and step == 1:
        address = first_address(elements, pointer, index)
        if mask is None and elements.context.prefetch is not None:
            elements.context.prefetch(elements, inst, address)
        return elements.e.emit("vload", address, *extra)
    if has_lanes and step == 0 and mask is None:
        elements.shared.add(inst.out)
        return elements.e.emit("load", elements.at(pointer, first_lane(index)))
    if has_lanes and step == 0 and mask is not None and elements.context.loads_strides:
        return _load_shared(elements, pointer, index, extra)
    is_run = has_lanes and elements.context.loads_strides and (mask is None or takes_masks(elements, pointer, index))
    stride = elements.stride(pointer, index) if is_run else None
    if stride is not None:
        return elements.e.emit("stride_load", first_address(elements, pointer, index), elements.number(stride), *extra)
    near = near_load(elements, pointer, index) if has_lanes and mask is None else None
    return near if near is not None else elements.e.emit("load", elements.at(pointer, index), *extra)


def takes_masks(elements: Elements, pointer: Value, index: tuple[Index, ...]) -> bool:
    """Whether lanes read neighbours, or elements so near to each other that whole vectors of masks find them."""
    step = elements.step(pointer, index)
    is_near = elements.context.loads_strides and pointer.dtype.nbytes == 4
    return step == 1 or (is_near and step in NEAR_STEPS)


def _load_shared(elements: Elements, pointer: Value, index: tuple[Index, ...], extra: Sequence[Value]) -> Value:
    """One element for all lanes, if one is on."""
    e, mask = elements.e, extra[0]
    some = e.emit("load", elements.at(pointer, first_lane(index)), e.emit("vany", mask))
    other = extra[1] if len(extra) > 1 else e.const(nothing(some), some.type)
    return e.emit("select", mask, some, other)


def _store(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    pointer, value = inst.operands[:2]
    mask = mask_at(elements, mask_of(inst), index)
    extra = [] if mask is None else [mask]
    stored = elements.at(value, index)
    attrs = {"stream": True} if inst in elements.context.streams else {}
    has_lanes = any(ix.lanes for ix in index)
    step = elements.step_inside(pointer, index) if mask is None else elements.step(pointer, index)
    if has_lanes and step == 1:
        address = first_address(elements, pointer, index)
        if mask is not None and attrs and elements.context.past is not None:
            extra, attrs = [mask, elements.context.past], {}
        elif attrs and elements.context.some is not None:
            extra = [elements.context.some if mask is None else elements.e.emit("and", mask, elements.context.some)]
            attrs = {"singly": True}
        elements.e.inst("vstore", [address, stored, *extra], attrs)
        return
    stride = elements.stride(pointer, index) if has_lanes and mask is None and elements.context.loads_strides else None
    if stride is not None:
        elements.e.inst("stride_store", [elements.at(pointer, first_lane(index)), elements.number(stride), stored])
    else:
        elements.e.inst("store", [elements.at(pointer, index), stored, *extra], attrs)


def _atomic(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    count = 1 + number_of_values(inst.op)
    operands = [elements.at(v, index) for v in inst.operands[:count]]
    mask = mask_at(elements, mask_of(inst), index)
    extra = [] if mask is None else [mask]
    elements.local.update(
        zip(inst.outs, elements.e.inst(inst.op.name, [*operands, *extra]).outs, strict=True)
    )


def _gather(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    source, where = inst.operands
    axis = inst["axis"] % len(index)
    position = elements.at(where, index)
    if position.type.dtype.name != "i32":
        position = elements.e.emit("cast", position, type=I32)
    taken = Index(position, is_general=True)
    elements.local[inst.out] = elements.at(source, (*index[:axis], taken, *index[axis + 1 :]))


def _control(elements: Elements, inst: Inst, index: tuple[Index, ...]) -> None:
    """Control flow inside a nest: carried blocks are carried elements, in registers."""
    n = len(inst.outs)
    head = inst.operands if inst.op.name == "if" else inst.operands[: len(inst.operands) - n]
    inits = () if inst.op.name == "if" else inst.operands[len(inst.operands) - n :]
    operands = [elements.at(v, index) for v in (*head, *inits)]
    go_on = wish(inst) if is_each(inst) else None
    regions = [_element_region(elements, region, index, go_on) for region in inst.regions]
    elements.e.loc = inst.loc
    new = elements.e.inst(inst.op.name, operands, {}, regions)
    for old, out in zip(inst.outs, new.outs, strict=True):
        elements.local[old] = out


def _element_region(
    elements: Elements,
    region: Region,
    index: tuple[Index, ...],
    go_on: tuple[Value, tuple[Inst, ...]] | None,
) -> Region:
    """A region for this position. `go_on`: of which block its loop asks for any element, and how."""
    inner = elements.nested()

    def body(*params: Value) -> Sequence[Value]:
        for old, new in zip(region.params, params, strict=True):
            (inner.local if old.shape else inner.scalars)[old] = new
        for inst in region.body[:-1]:
            elements.e.loc = inst.loc or elements.e.loc
            if go_on is not None and inst in go_on[1]:
                if not inst.out.shape:
                    inner.scalars[inst.out] = elements.e.emit("vany", inner.at(go_on[0], index))
            elif not any(v.shape for v in (*inst.operands, *inst.outs)):
                made = elements.e.inst(
                    inst.op.name, [inner.at(v, ()) for v in inst.operands], dict(inst.attrs)
                )
                inner.scalars.update(zip(inst.outs, made.outs, strict=True))
            elif inst.op.is_pure and not inst.regions and inst.op.name not in _MEMBERS:
                inner.formulas.update(dict.fromkeys(inst.outs, inst))
            else:
                member(inner, inst, index)
        return [inner.at(v, index if v.shape else ()) for v in region.yields]

    return elements.e.region(
        [Type(p.dtype) for p in region.params], body, [p.hint for p in region.params]
    )


_MEMBERS = {
    "load": _load,
    "store": _store,
    "gather": _gather,
    "for": _control,
    "while": _control,
    "if": _control,
}
