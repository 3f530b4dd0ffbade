"""CPU lowerings along one axis of a block: scans, prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eas.analysis.combines import identity, may_reorder
from eas.base.types import Shape, Type
from eas.ir import Inst, Value
from eas.ir.rewriting import clone_region
from eas.schedule.cpu.lowering import Lowering
from eas.schedule.elements.elements import I32, Index, Slot
from eas.schedule.elements.statements import moved_back, moved_last


def loop(
    p: Lowering,
    first: Value,
    end: Value,
    starts: Sequence[Value],
    body: Callable[..., Sequence[Value]],
    lanes: int = 1,
) -> list[Value]:
    """A loop that carries values; returns their last ones, a vector each with several lanes."""
    region = p.e.region([I32, *(s.type for s in starts)], body)
    return list(p.e.inst("loop", [first, end, *starts], {"lanes": lanes}, [region]).outs)


def cast(p: Lowering, value: Value, type: Type) -> Value:
    return value if value.type == type else p.e.emit("cast", value, type=type)


def rows(p: Lowering, shape: Shape, body: Callable[[tuple[Index, ...]], None]) -> None:
    """Loop over all axes but the last."""

    def level(axis: int, index: tuple[Index, ...]) -> None:
        if axis == len(shape) - 1:
            body(index)
        else:
            p.counted(shape[axis], lambda i: level(axis + 1, (*index, Index(i, axis=axis))))

    level(0, ())


def scan(p: Lowering, inst: Inst) -> None:
    axis = inst["axis"] % len(inst.operands[0].shape)
    shape = inst.operands[0].shape
    if axis < len(shape) - 1 and shape[-1] >= 4:
        _scan_outer(p, inst, axis)
        return
    blocks = [moved_last(p, v, axis) for v in inst.operands]
    results = [Value(b.type, out.hint) for b, out in zip(blocks, inst.outs, strict=True)]
    slots = [p.slot_for(r) for r in results]
    lanes = lanes_for(p, blocks, blocks[0].shape[-1])
    if lanes > 1 and may_reorder(inst.regions[0]):
        rows(p, slots[0].shape, lambda at: _scan_vectors(p, inst, blocks[0], slots[0], at, lanes))
    else:
        rows(p, slots[0].shape, lambda at: _scan_row(p, inst, blocks, slots, at))
    for old, result in zip(inst.outs, results, strict=True):
        moved_back(p, old, result, axis)


def lanes_for(p: Lowering, blocks: Sequence[Value], extent: int) -> int:
    """Elements of one register, 1 where an axis does not fill a useful one."""
    lanes = p.target.vector_nbytes // max(4, *(b.dtype.nbytes for b in blocks))
    while lanes > extent:
        lanes //= 2
    return lanes if lanes >= 4 else 1


def _scan_row(
    p: Lowering,
    inst: Inst,
    blocks: Sequence[Value],
    slots: Sequence[Slot],
    index: tuple[Index, ...],
    begin: int = 0,
    starts: Sequence[Value] = (),
) -> None:
    """Element by element; `starts` is what came before `begin`, which counts from the end in reverse."""
    combine, extent = inst.regions[0], blocks[0].shape[-1]
    neutral = identity(combine)
    fresh = [p.e.const(neutral if neutral is not None else _zero(b), Type(b.dtype)) for b in blocks]

    def step(i: Value, *before: Value) -> Sequence[Value]:
        place = p.e.emit("sub", p.e.const(extent - 1), i) if inst["reverse"] else i
        elements = p.elements()
        here = (*index, Index(place))
        new = [elements.at(b, here) for b in blocks]
        merged = p.e.inline(combine, [*before, *new])
        if neutral is None:
            is_first = p.e.emit("eq", i, p.e.const(0))
            merged = [p.e.emit("select", is_first, a, b) for a, b in zip(new, merged, strict=True)]
        for slot, value in zip(slots, merged, strict=True):
            p.e.inst("store", [elements.address(slot, here)[0], value])
        return merged

    loop(p, p.e.const(begin), p.e.const(extent), starts or fresh, step)


def _scan_vectors(
    p: Lowering, inst: Inst, block: Value, slot: Slot, index: tuple[Index, ...], lanes: int
) -> None:
    """Prefixes within a register, behind the total of the registers before; then the elements left."""
    combine, extent = inst.regions[0], block.shape[-1]
    neutral = identity(combine)
    whole = extent // lanes * lanes
    attrs = {"reverse": inst["reverse"], "neutral": neutral}

    def step(i: Value, before: Value) -> Sequence[Value]:
        place = p.e.emit("sub", p.e.const(extent - lanes), i) if inst["reverse"] else i
        elements = p.elements()
        here = (*index, Index(place, lanes=True))
        prefixes, total = p.e.inst(
            "vscan", [elements.at(block, here), before], attrs, [clone_region(combine)]
        ).outs
        p.e.inst("vstore", [elements.address(slot, here)[0], prefixes])
        return [total]

    start = p.e.const(neutral, Type(block.dtype))
    loop(p, p.e.const(0), p.e.const(whole), [start], step, lanes)
    if whole < extent:
        last = p.e.const(extent - whole if inst["reverse"] else whole - 1)
        total = p.elements().read(slot, (*index, Index(last)))
        _scan_row(p, inst, [block], [slot], index, whole, [total])


def _scan_outer(p: Lowering, inst: Inst, axis: int) -> None:
    """Along an axis that is not the last: neighbours of the last axis are scanned side by side."""
    blocks, combine = inst.operands, inst.regions[0]
    shape = blocks[0].shape
    slots = [p.slot_for(out) for out in inst.outs]
    lanes = lanes_for(p, blocks, shape[-1])

    def line(index: tuple[Index, ...], i: Value | None) -> None:
        def position(k: Value) -> Index:
            from_end = inst["reverse"]
            return Index(p.e.emit("sub", p.e.const(shape[axis] - 1), k) if from_end else k)

        def step(j: Value, width: int) -> None:
            elements = p.elements()
            tail = (*index[axis:], Index(j, lanes=width > 1))
            here = (*index[:axis], position(i if i is not None else p.e.const(0)), *tail)
            new = [elements.at(b, here) for b in blocks]
            if i is not None:
                back = position(p.e.emit("sub", i, p.e.const(1)))
                old = [elements.read(s, (*index[:axis], back, *tail)) for s in slots]
                new = p.e.inline(combine, [*old, *new])
            for slot, value in zip(slots, new, strict=True):
                address = elements.address(slot, here)[0]
                p.e.inst("vstore" if width > 1 else "store", [address, value])

        vectors(p, shape[-1], lanes, step)

    def lines(index: tuple[Index, ...]) -> None:
        line(index, None)

        def inside(i: Value) -> Sequence[Value]:
            line(index, i)
            return ()

        loop(p, p.e.const(1), p.e.const(shape[axis]), (), inside)

    rows(p, shape[:axis] + shape[axis + 1 :], lines)


def span(p: Lowering, first: Value, end: Value, lanes: int, body: Callable[[Value], None]) -> None:
    """A loop that carries nothing."""

    def step(i: Value) -> Sequence[Value]:
        body(i)
        return ()

    loop(p, first, end, (), step, lanes)


def vectors(p: Lowering, extent: int, lanes: int, body: Callable[[Value, int], None]) -> None:
    """body(i, lanes) for whole vectors, body(i, 1) for what is left."""
    whole = extent // lanes * lanes
    if whole:
        span(p, p.e.const(0), p.e.const(whole), lanes, lambda i: body(i, lanes))
    if whole < extent:
        span(p, p.e.const(whole), p.e.const(extent), 1, lambda i: body(i, 1))


def _zero(value: Value) -> object:
    return 0.0 if value.dtype.is_float else False if value.dtype.is_bool else 0


def device_print(p: Lowering, inst: Inst) -> None:
    """Values go to the host as they are in scratch; it formats them as the interpreter does."""
    slots = []
    for value in inst.operands:
        if value.shape:
            slots.append(p.materialise(value))
        else:
            slots.append(p.new_slot((1,), value.dtype))
            p.e.inst("store", [slots[-1].pointer, p.scalar_of(value)])
    attrs = {
        "prefix": inst["prefix"],
        "dtypes": tuple(v.dtype for v in inst.operands),
        "shapes": tuple(v.shape for v in inst.operands),
    }
    p.e.inst("write_log", [s.pointer for s in slots], attrs)
