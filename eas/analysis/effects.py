"""What instructions do besides computing: who writes, who may move, which memory may overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from eas.analysis.program import made_by
from eas.base.types import Space
from eas.ir import Inst, IRModule, Region, Value, walk
from eas.ops import Op, Trait


@cache
def is_movable(op: Op) -> bool:
    """Pure, and free of the question which other lanes take part: may be merged and hoisted."""
    return op.has(Trait.PURE) and not op.has(Trait.CONVERGENT)


@cache
def is_speculatable(op: Op) -> bool:
    """May also run where the program would not."""
    return is_movable(op) and not op.has(Trait.PARTIAL)


@cache
def is_load(op: Op) -> bool:
    """Reads memory and does nothing else."""
    return op.has(Trait.READS) and not op.traits & (Trait.WRITES | Trait.EFFECT | Trait.CONVERGENT)


@cache
def is_droppable(op: Op) -> bool:
    """Nobody notices when an instruction whose results are not used is missing."""
    return not op.traits & (Trait.WRITES | Trait.EFFECT)


@cache
def is_fence(op: Op) -> bool:
    """After it, this thread may see what others wrote; accesses to memory stay on their side."""
    return op.has(Trait.FENCE)


@cache
def is_store(op: Op) -> bool:
    """Writes memory through its first operand."""
    return op.has(Trait.WRITES)


@cache
def is_commutative(op: Op) -> bool:
    """The first two operands may be swapped."""
    return op.has(Trait.COMMUTATIVE)


def writes(inst: Inst) -> bool:
    """Whether memory may look different afterwards, its regions included."""
    if not inst.regions:
        return is_store(inst.op) or is_fence(inst.op)
    return any(writes(i) for r in inst.regions for i in r.body)


def has_effects(inst: Inst) -> bool:
    """Whether the instruction must stay although its results are not used."""
    if inst.op.name == "for" or inst.op.name == "if":
        return any(has_effects(i) for r in inst.regions for i in r.body[:-1])
    return not is_droppable(inst.op)  # a `while` may not end: it stays


@dataclass(frozen=True, slots=True)
class Place:
    """What a pointer points into: an argument or allocation, or an unknown one of its space."""

    space: Space
    root: Value | None


class Memory:
    """The buffers of a module and which of them may be the same memory."""

    def __init__(self, module: IRModule) -> None:
        self._unaliased = {a.value: bool(a.attr("noalias")) for a in module.args}
        self._body = module.body
        self._written: tuple[Place, ...] | None = None
        self._producer: Mapping[Value, Inst] = {}
        self._roots: dict[Value, Value | None] = {}  # of pointers that were asked for, by way of `_producer`

    def place(self, pointer: Value, producer: Mapping[Value, Inst]) -> Place:
        """Follow the pointer to where it was made; pointers that loops carry are unknown."""
        if producer is not self._producer:
            self._producer, self._roots = producer, {}
        path, value = [], pointer
        while value not in self._roots:
            path.append(value)
            inst = producer.get(value)
            if inst is None or inst.op.name == "alloc_tg":
                self._roots[value] = value if inst is not None or value in self._unaliased else None
            elif not inst.op.is_pure or sum(v.type.is_pointer for v in inst.operands) != 1:
                self._roots[value] = None
            else:
                value = inst.operands[0]
        root = self._roots[value]
        self._roots.update(dict.fromkeys(path, root))
        return Place(pointer.type.space, root)

    def may_overlap(self, a: Place, b: Place) -> bool:
        if a.space is not b.space:
            return False
        if a.root is b.root or a.root is None or b.root is None:
            return True
        # Allocations are distinct; the caller may pass one array as two arguments.
        return a.space is Space.DEVICE and not (self._unaliased[a.root] or self._unaliased[b.root])

    def is_stable(self, place: Place) -> bool:
        """Whether nothing in the module writes there."""
        if self._written is None:
            self._written = self._written_places()
        return not any(self.may_overlap(place, w) for w in self._written)

    def is_written(
        self, place: Place, insts: Iterable[Inst], producer: Mapping[Value, Inst]
    ) -> bool:
        """Whether running `insts`, with all that is in them, may change what is read there."""
        for inst in insts:
            if is_fence(inst.op) and not self.is_stable(place):
                return True
            if is_store(inst.op) and self.may_overlap(
                place, self.place(inst.operands[0], producer)
            ):
                return True
        return False

    def _written_places(self) -> tuple[Place, ...]:
        producer = made_by(walk(self._body))
        return tuple(dict.fromkeys(self.place(i.operands[0], producer) for i in walk(self._body) if is_store(i.op)))


def free_of(inst: Inst, values: set[Value]) -> bool:
    """Whether the instruction, its regions included, uses none of `values`."""
    return not any(v in values for v in inst.operands) and all(
        free_of(i, values) for r in inst.regions for i in r.body
    )


def own_insts(regions: Iterable[Region]) -> list[Inst]:
    """Everything in the regions, at any depth."""
    return [inst for region in regions for inst in walk(region)]
