"""The state of the CPU schedule's lowering: where blocks are, how far their slots are filled, and what is known of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from eas.analysis import reads
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.types import Shape, Type
from eas.ir import Inst, IRModule, Trait, Value, walk
from eas.schedule.cpu.lane_quotients import divided
from eas.schedule.cpu.prefetch import Prefetch
from eas.schedule.cpu.tails import Tail, TailValues, can_end_early, fill_tail, readers_know_tails
from eas.schedule.elements.elements import (
    I32,
    Context,
    Elements,
    Emitter,
    Index,
    Known,
    Slot,
    nothing,
)
from eas.schedule.elements.masks import Bounds
from eas.schedule.elements.statements import Statements
from eas.schedule.target import CpuTarget

_MANY_NESTS = 32
_HUNDREDS = 200
_LONG, _VERY_LONG = 1000, 3000  # instructions
_ROUNDING = 10  # instructions that round a number to a dtype of which the target has no arithmetic


@dataclass(frozen=True, eq=False)
class ProgramFacts:
    """What a lowering knows of a module before it starts."""

    prefetch: Prefetch
    unread: frozenset[Value]  # buffers that the kernel never loads from
    may_end_early: frozenset[Value]  # blocks whose slots need not be filled to the end
    carried: frozenset[tuple[Inst, int]]  # loops, and which of their blocks may end early
    in_rows: bool  # whether the rows of a tile go on through the tiles beside it
    walk: int  # the tiles side by side of which a row is one
    has_many_nests: bool  # so that copies of their loops for special cases are not worth the time to compile them
    has_hundreds_of_nests: bool  # so that a loop without masks beside the one with masks is not, either
    is_long: bool  # as `has_many_nests`, and also of other special cases
    is_very_long: bool  # so that vectors are single registers, too: LLVM takes its time for each

    @classmethod
    def of(cls, module: IRModule, target: CpuTarget) -> ProgramFacts:
        read = set(reads(module))
        # What is written in place was just read through another argument.
        unread = frozenset(a.value for a in module.args if a.is_buffer and a.name not in read and not a.attr("in_place"))
        may_end_early, carried = readers_know_tails(module)
        insts = list(walk(module.body))
        count = sum(inst.op.name == "nest" for inst in insts)
        length = len(insts) + _ROUNDING * sum(_rounds(inst, target) for inst in insts)
        return cls(
            Prefetch(module, target),
            unread,
            frozenset(may_end_early),
            frozenset(carried),
            in_rows=bool(module.attr("rows")),
            walk=module.attr("walk", 1),
            has_many_nests=count > _MANY_NESTS,
            has_hundreds_of_nests=count > _HUNDREDS,
            is_long=count > _HUNDREDS or length > _LONG,
            is_very_long=length > _VERY_LONG,
        )


def _rounds(inst: Inst, target: CpuTarget) -> bool:
    """Whether an instruction computes a float that has to be rounded bit by bit."""
    dtype = inst.outs[0].dtype if inst.outs else dtypes.f32
    is_narrow = dtype.is_float and dtype.bits <= 16 and (dtype is not dtypes.f16 or not target.has_f16)
    return is_narrow and inst.op.has(Trait.ELEMENTWISE)


class Lowering(Statements):
    """The lowering of one program for a CPU: all but which rule an instruction has, which `lower.py` knows."""

    def __init__(self, target: CpuTarget, facts: ProgramFacts) -> None:
        super().__init__(Emitter())
        self.target = target
        self.facts = facts
        divide = partial(divided, lanes=target.most_lanes)
        self._context = Context(divide=divide, prefetch=facts.prefetch.emit, permutes=target.has_permutes)
        self.has_tags = False
        self.loads: dict[Value, Inst] = self.scopes.table()  # results of nests that are what a load read
        self.tails: dict[Value, Tail] = self.scopes.table()  # slots that are not filled to the end

    # --- slots ------------------------------------------------------------------------------

    def new_slot(self, shape: Shape, dtype: DType, hint: str = "") -> Slot:
        size = 1
        for extent in shape:
            size *= extent
        self.e.blocks.append([])
        pointer = self.e.inst("scratch", (), {"size": size, "dtype": dtype}, hints=[hint]).out
        self.allocations += self.e.blocks.pop()
        return Slot(pointer, shape)

    def slot_like(self, value: Value) -> Slot:
        return self.new_slot(value.shape, value.dtype, value.hint)

    def tags(self, words: int) -> Slot:
        """Words that keep what programs note there; the first 8 are 0 when a thread joins a launch."""
        slot = self.new_slot((words,), dtypes.i64, "tags")
        self.allocations.insert(0, self.allocations.pop())  # the runtime clears the first 64 bytes
        self.has_tags = True
        return slot

    def materialise(self, value: Value) -> Slot:
        """A slot that holds the value; formulas are computed into one."""
        if value in self.slots:
            return self.slots[value]
        slot = self.slot_like(value)
        self.fill(slot, value)
        return slot

    def complete(self, value: Value, stop: Value | None = None) -> None:
        """Fill the rest of a slot that ended early, or more of it."""
        tail = self.tails.pop(value)
        lanes = self.target.vector_nbytes // max(4, value.dtype.nbytes)
        end = self.e.const(value.shape[-1]) if stop is None else stop
        fill_tail(self.e, self.elements, self.slots[value], (), lanes, (tail.stop, end), tail.value)

    # --- blocks that a loop carries -----------------------------------------------------------

    def notes_instead_of(self, loop: Inst, i: int) -> list[Value] | None:
        """(0, what all elements are) where the block may end early and is one value at first."""
        init = loop.operands[len(loop.operands) - len(loop.outs) + i]
        if (loop, i) not in self.facts.carried or not can_end_early(init.shape[-1], self.target):
            return None
        first = TailValues(self.elements(), (), (Index(self.e.const(0), axis=0),), frozenset(), {}).at(init)
        return None if first is None else [self.e.const(0), first]

    def learn(self, block: Value, notes: Sequence[Value]) -> None:
        """A block is filled up to the first of the notes, and is the second behind it."""
        stop, value = notes
        self.tails[block] = Tail(frozenset(), stop, value)
        if block not in self.facts.may_end_early:
            self.complete(block)

    def notes_on(self, block: Value, slot: Slot) -> Sequence[Value]:
        if block in self.tails and self.slots[block] is not slot:
            self.complete(block)
        tail = self.tails.get(block)
        if tail is not None:
            return tail.stop, tail.value
        return self.e.const(block.shape[-1]), self.e.const(nothing(block), Type(block.dtype))

    def make_whole(self, block: Value) -> None:
        if block in self.tails:
            self.complete(block)

    def elements(self, known_true: frozenset[Known] = frozenset()) -> Elements:
        return self.within(self.context(known_true))

    def context(self, known_true: frozenset[Known] = frozenset()) -> Context:
        """What every body of a nest is told."""
        return replace(self._context, known_true=known_true) if known_true else self._context

    def within(self, context: Context) -> Elements:
        return Elements(self.e, self.formulas, self.slots, self.scalars, context)

    def bounds(self) -> Bounds:
        return Bounds(self.e)

    # --- loops ------------------------------------------------------------------------------

    def counted(self, extent: int, body: Callable[[Value], None], hint: str = "", **attrs: object) -> None:
        """for i in range(extent), without carried values."""
        if extent == 1:
            body(self.e.const(0))
            return

        def inside(i: Value) -> Sequence[Value]:
            body(i)
            return ()

        region = self.e.region([I32], inside, [hint])
        self.e.inst("loop", [self.e.const(0), self.e.const(extent)], {"lanes": 1, **attrs}, [region])
