"""Registers of a thread become values: what lowering kept in slots and loops of one step reads as plain code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eas.analysis import PointerBases, producers
from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Inst, IRModule, Region, Trait, Value, make, walk
from eas.ir.rewriting import Rewriter, rewrite
from eas.schedule.gpu.vectors import WIDTHS

_LANED = ("lane", "vload", "vstore", "vgather")


def dissolve_loops(module: IRModule) -> IRModule:
    """A loop over lanes that takes one step is its body; what asks for a lane says of how many.

    In textbooks: removal of single-trip loops.

        loop 0, 4 {lanes=4} (%i) { %a = vload (%p + %i) }
        ->
        %a = vload %p {lanes=4}
    """
    open_loops: list[tuple[int, bool]] = []  # lanes, whether it takes one step

    def enter(inst: Inst, rw: Rewriter) -> None:
        if inst.op.name != "loop":
            return
        start, end = (rw.literal(rw.use(v)) for v in inst.operands[:2])
        is_once = start is not None and end is not None and end - start == inst["lanes"]
        open_loops.append((inst["lanes"], is_once))
        if is_once:
            first, *carried = inst.regions[0].params
            rw.replaced[first] = rw.use(inst.operands[0])
            rw.replaced.update((p, rw.use(v)) for p, v in zip(carried, inst.operands[2:], strict=True))

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name == "loop":
            _, is_once = open_loops.pop()
            return rw.splice(inst.regions[0]) if is_once else None
        if inst.op.name not in _LANED or not open_loops:
            return None
        lanes = open_loops[-1][0]
        if inst.op.name == "lane" and lanes == 1:
            return (rw.const(0, inst.out.type),)
        rw.append(inst.with_attrs(lanes=lanes))
        return inst.outs

    return rewrite(module, rule, enter=enter)


def promote_registers(module: IRModule) -> IRModule:
    """Slots of one number or one vector are values, which loops and branches carry where they change.

    In textbooks: mem2reg: scalar replacement of arrays.

        %s = scratch {size=1}; store %s, %v
        %w = load %s; store %p, %w
        ->
        store %p, %v
    """
    slots = _candidates(module)
    while slots:
        try:
            return module.with_body(_Promotion(module, slots).program(module.body))
        except _Unclear as found:
            slots = slots - {found.slot}
    return module


class _Unclear(Exception):
    """A slot that is not written on all ways to a read, or that would be carried lane by lane."""

    def __init__(self, slot: Value) -> None:
        super().__init__()
        self.slot = slot


def _candidates(module: IRModule) -> frozenset[Value]:
    """Slots that are only written as a whole."""
    bases = PointerBases(module)
    sizes = {i.out: i["size"] for i in walk(module.body) if i.op.name == "scratch" and i["size"] in (1, *WIDTHS)}
    slots = set(sizes)
    for inst in walk(module.body):
        for k, operand in enumerate(inst.operands):
            base = bases[operand] if operand.type.is_pointer else None
            if not isinstance(base, Value) or base not in slots:
                continue
            if not (k == 0 and _is_whole(inst, sizes[base])):
                slots.discard(base)
    return frozenset(slots)


def _is_whole(inst: Inst, size: int) -> bool:
    """Whether an access concerns all of a slot; one lane of a vector may be read."""
    name, count = inst.op.name, len(inst.operands)
    if name == "addptr" or (name == "load" and count == 1):
        return True
    if size == 1:
        return name == "store" and count == 2
    whole = inst.attr("lanes") == size
    return whole and ((name == "vload" and count == 1) or (name == "vstore" and count == 2))


_Known = dict[Value, Value | None]  # what is in each slot; None: nothing that all ways agree on


class _Promotion:
    """Copies a module without its slots, following what is in each."""

    def __init__(self, module: IRModule, slots: frozenset[Value]) -> None:
        self.slots = slots
        self.bases, self.made = PointerBases(module), producers(module)
        self.replaced: dict[Value, Value] = {}

    def program(self, body: Region) -> Region:
        return Region((), tuple(self._insts(body.body, {})))

    def _insts(self, insts: Sequence[Inst], known: _Known) -> list[Inst]:
        kept = []
        for inst in insts:
            slot = self._slot(inst)
            if slot is not None:
                kept += self._access(inst, slot, known)
            elif inst.op.name in ("for", "while", "loop"):
                kept.append(self._loop(inst, known))
            elif inst.op.name == "if":
                kept.append(self._branch(inst, known))
            else:
                kept.append(inst.with_operands([self._use(v) for v in inst.operands]))
        return kept

    def _use(self, value: Value) -> Value:
        return self.replaced.get(value, value)

    def _slot(self, inst: Inst) -> Value | None:
        """The slot that an instruction makes, moves in, reads or writes."""
        pointer = inst.out if inst.op.name == "scratch" else inst.operands[0] if inst.operands else None
        if pointer is None or not pointer.type.is_pointer:
            return None
        base = self.bases[pointer]
        return base if isinstance(base, Value) and base in self.slots else None

    def _access(self, inst: Inst, slot: Value, known: _Known) -> list[Inst]:
        """What is left of an access: at most the choice of a lane."""
        if inst.op.name in ("store", "vstore"):
            known[slot] = self._use(inst.operands[1])
            self._name(inst.operands[1], slot.hint)
        elif inst.op.name in ("load", "vload"):
            value = known.get(slot)
            if value is None:
                raise _Unclear(slot)
            if inst.op.name == "load" and self.made[slot]["size"] > 1:
                return self._lane(inst, slot, value)
            self.replaced[inst.out] = value
            self._name(value, inst.out.hint)
        return []

    def _lane(self, inst: Inst, slot: Value, vector: Value) -> list[Inst]:
        moved = self.made[inst.operands[0]]
        if moved.op.name == "addptr" and moved.operands[0] is not slot:  # in several steps
            raise _Unclear(slot)
        zero = make("const", (), {"value": 0, "type": Type(dtypes.i32)}, loc=inst.loc)
        number = self._use(moved.operands[1]) if moved.op.name == "addptr" else zero.out
        chosen = make("vextract", [vector, number], loc=inst.loc)
        return [zero, replace(chosen, outs=inst.outs)]

    def _name(self, value: Value, hint: str) -> None:
        """A value without a name takes that of its slot."""
        made = self.made.get(value)
        if made is not None and made.op.name != "const" and not value.hint:
            value.hint = hint

    def _stored(self, regions: Sequence[Region]) -> list[Value]:
        stores = (i for r in regions for i in walk(r) if i.op.name in ("store", "vstore"))
        return list(dict.fromkeys(slot for i in stores if (slot := self._slot(i)) is not None))

    def _loop(self, inst: Inst, known: _Known) -> Inst:
        """What a loop changes goes around it, unless each iteration makes it anew."""
        changed = self._stored(inst.regions)
        carried = [slot for slot in changed if known.get(slot) is not None]
        for slot in carried:
            if inst.attr("lanes", 1) > 1:
                raise _Unclear(slot)
        operands = [self._use(v) for v in inst.operands] + [v for s in carried if (v := known[s]) is not None]
        regions, inside = [], {}
        for region in inst.regions:
            params = [_like(slot) for slot in carried]
            inside = {**known, **dict.fromkeys(changed), **dict(zip(carried, params, strict=True))}
            body = self._insts(region.body, inside)
            if region is inst.regions[-1]:
                body[-1] = _ended(body[-1], carried, inside)
            elif any(inside[s] is not p for s, p in zip(carried, params, strict=True)):
                raise _Unclear(changed[0])
            regions.append(Region((*region.params, *params), tuple(body)))
        outs = [_like(slot) for slot in carried]
        known.update({**dict.fromkeys(changed), **dict(zip(carried, outs, strict=True))})
        return replace(inst, operands=tuple(operands), regions=tuple(regions), outs=(*inst.outs, *outs))

    def _branch(self, inst: Inst, known: _Known) -> Inst:
        """What a branch changes is chosen after it, if both sides have it."""
        changed = self._stored(inst.regions)
        sides = [dict(known) for _ in inst.regions]
        bodies = [self._insts(r.body, side) for r, side in zip(inst.regions, sides, strict=True)]
        chosen = [slot for slot in changed if all(side.get(slot) is not None for side in sides)]
        for body, side in zip(bodies, sides, strict=True):
            body[-1] = _ended(body[-1], chosen, side)
        outs = [_like(slot) for slot in chosen]
        known.update({**dict.fromkeys(changed), **dict(zip(chosen, outs, strict=True))})
        regions = tuple(Region(r.params, tuple(body)) for r, body in zip(inst.regions, bodies, strict=True))
        operands = tuple(self._use(v) for v in inst.operands)
        return replace(inst, operands=operands, regions=regions, outs=(*inst.outs, *outs))


def _like(slot: Value) -> Value:
    return Value(Type(slot.dtype), slot.hint)


def _ended(last: Inst, slots: Sequence[Value], known: _Known) -> Inst:
    """A yield that also gives what is in the slots."""
    values = []
    for slot in slots:
        value = known[slot]
        if value is None:
            raise _Unclear(slot)
        values.append(value)
    return last.with_operands([*last.operands, *values])


def declare_late(module: IRModule) -> IRModule:
    """Threadgroup memory stands first; what is a thread's own, before the first statement that needs it.

    In textbooks: sinking of declarations.

        %s = scratch {size=4}; %t = alloc_tg {size=64}; statement; vstore %s, %v
        ->
        %t = alloc_tg {size=64}; statement
        %s = scratch {size=4}; vstore %s, %v
    """
    body = module.body.body
    shared = [inst for inst in body if inst.op.name == "alloc_tg"]
    waiting = {inst.out: inst for inst in body if inst.op.name in ("scratch", "fragments")}
    if module.attr("threads") is None or not (shared or waiting):
        return module
    placed: list[Inst] = list(shared)
    for inst in body:
        if inst.op.has(Trait.ALLOCATES):
            continue
        used = {v for part in (inst, *(w for r in inst.regions for w in walk(r))) for v in part.operands}
        for pointer in [p for p in waiting if p in used]:
            placed.append(waiting.pop(pointer))
        placed.append(inst)
    return module.with_body(Region(module.body.params, tuple(placed)))
