"""The CPU schedule: nests become loops over lanes, blocks that cross nests live in scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from eas.analysis import reads
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.types import Shape, Type
from eas.ir import Inst, IRModule, Trait, Value, walk
from eas.schedule.cpu.elements import I32, Elements, Emitter, Index, Known, Slot
from eas.schedule.cpu.lane_quotients import divided
from eas.schedule.cpu.masks import Bounds
from eas.schedule.cpu.next_program import NextProgram
from eas.schedule.cpu.tails import (
    Tail,
    TailValues,
    can_end_early,
    fill_tail,
    nothing,
    readers_know_tails,
)
from eas.schedule.cpu.turned_nests import lower_turned_nest, turned_nests
from eas.schedule.nest.partition import CONTROL
from eas.schedule.nest.statements import Statements
from eas.schedule.target import CpuTarget

_MANY_NESTS = 32
_HUNDREDS = 200
_LONG, _VERY_LONG = 1000, 3000  # instructions
_ROUNDING = 10  # instructions that round a number to a dtype of which the target has no arithmetic


def lower_nests(module: IRModule, target: CpuTarget) -> IRModule:
    """Replace every block of a partitioned module by scalars in loops; the result is scheduled IR.

    In textbooks: strip-mining and vectorisation; in Halide: split and vectorize.

        nest {shape=(1024,)} { %a = load %p; store %q, %a }
        ->
        loop 0, 1024 {lanes=8} (%i) { %a = vload (%p + %i)
                                      vstore (%q + %i), %a }
    """
    lowering = Program(target)
    read = set(reads(module))
    # What is written in place was just read through another argument.
    unread = (a for a in module.args if a.is_buffer and a.name not in read and not a.attr("in_place"))
    lowering.unread = {a.value for a in unread}
    lowering.may_end_early, lowering.carried = readers_know_tails(module)
    lowering.turned = turned_nests(module, target)
    lowering.in_rows, lowering.walk = bool(module.attr("rows")), module.attr("walk", 1)
    lowering.next_program = NextProgram(module, target)
    insts = list(walk(module.body))
    count = sum(inst.op.name == "nest" for inst in insts)
    lowering.has_many_nests, lowering.has_hundreds_of_nests = count > _MANY_NESTS, count > _HUNDREDS
    length = len(insts) + _ROUNDING * sum(_rounds(inst, target) for inst in insts)
    lowering.is_long, lowering.is_very_long = count > _HUNDREDS or length > _LONG, length > _VERY_LONG
    body = lowering.program(module.body)
    module = module.with_body(body).with_attrs(scheduled="loops")
    return module.with_attrs(long=True) if lowering.is_long else module


def _rounds(inst: Inst, target: CpuTarget) -> bool:
    """Whether an instruction computes a float that has to be rounded bit by bit."""
    dtype = inst.outs[0].dtype if inst.outs else dtypes.f32
    is_narrow = dtype.is_float and dtype.bits <= 16 and (dtype is not dtypes.f16 or not target.has_f16)
    return is_narrow and inst.op.has(Trait.ELEMENTWISE)


class Program(Statements):
    """The lowering of one program for a CPU."""

    def __init__(self, target: CpuTarget) -> None:
        super().__init__(Emitter())
        self.target = target
        self.has_tags = False
        self.loads: dict[Value, Inst] = self.scopes.table()  # results of nests that are what a load read
        self.unread: set[Value] = set()  # buffers that the kernel never loads from
        self.may_end_early: set[Value] = set()  # blocks whose slots need not be filled to the end
        self.tails: dict[Value, Tail] = self.scopes.table()  # those that are not
        self.carried: set[tuple[Inst, int]] = set()  # loops, and which of their blocks may end early
        self.in_rows = False  # whether the rows of a tile go on through the tiles beside it
        self.walk = 1  # the tiles side by side of which a row is one
        self.next_program: NextProgram | None = None
        self.has_many_nests = False  # so that copies of their loops for special cases are not worth the time to compile them
        self.has_hundreds_of_nests = False  # so that a loop without masks beside the one with masks is not, either
        self.is_long = False  # as `has_many_nests`, and also of other special cases
        self.is_very_long = False  # so that vectors are single registers, too: LLVM takes its time for each
        self.turned: dict[Inst, int] = {}  # nests whose results lie along another axis than their last

    # --- statements -------------------------------------------------------------------------

    def statement(self, inst: Inst) -> None:
        self.e.loc = inst.loc or self.e.loc
        name = inst.op.name
        if name == "nest":
            self._nest(inst)
        elif name in CONTROL:
            self._control(inst)
        elif name == "device_print" or any(v.shape for v in (*inst.operands, *inst.outs)):
            if self.is_formula(inst):
                self.formula(inst)
            else:
                from eas.schedule.cpu.cuts import lower_cut

                lower_cut(self, inst)
        else:
            self.scalar(inst)

    def _nest(self, nest: Inst) -> None:
        from eas.schedule.cpu.loops.nest import lower_nest

        axis = self.turned.get(nest)
        if axis is not None:
            lower_turned_nest(self, nest, axis)
        else:
            lower_nest(self, nest)
            self._note_loads(nest)

    def _note_loads(self, nest: Inst) -> None:
        region = nest.regions[0]
        loads = {i.out: i for i in region.body if i.op.name == "load"}
        self.loads.update(
            (out, loads[v]) for v, out in zip(region.yields, nest.outs, strict=True) if v in loads
        )

    # --- slots ------------------------------------------------------------------------------

    def new_slot(self, shape: Shape, dtype: DType, hint: str = "") -> Slot:
        size = 1
        for extent in shape:
            size *= extent
        self.e.blocks.append([])
        pointer = self.e.inst("scratch", (), {"size": size, "dtype": dtype}, hints=[hint]).out
        self.allocations += self.e.blocks.pop()
        return Slot(pointer, shape)

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
        slot = self.new_slot(value.shape, value.dtype, value.hint)
        self.fill(slot, value)
        return slot

    def fill(self, slot: Slot, value: Value) -> None:
        """Write every element of a block into a slot."""
        from eas.schedule.cpu.loops.nest import copy_loops

        copy_loops(self, slot, value)

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
        if (loop, i) not in self.carried or not can_end_early(init.shape[-1], self.target):
            return None
        first = TailValues(self.elements(), (), (Index(self.e.const(0), axis=0),), frozenset(), {}).at(init)
        return None if first is None else [self.e.const(0), first]

    def learn(self, block: Value, notes: Sequence[Value]) -> None:
        """A block is filled up to the first of the notes, and is the second behind it."""
        stop, value = notes
        self.tails[block] = Tail(frozenset(), stop, value)
        if block not in self.may_end_early:
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
        elements = super().elements(known_true)
        elements.permutes = self.target.has_permutes
        elements.divide = partial(divided, lanes=self.target.most_lanes)
        if self.next_program is not None:
            elements.next_program = self.next_program.ask
        return elements

    def bounds(self) -> Bounds:
        return Bounds(self)

    # --- loops ------------------------------------------------------------------------------

    def counted(self, extent: int, body: Callable[[Value], None], hint: str = "") -> None:
        """for i in range(extent), without carried values."""
        if extent == 1:
            body(self.e.const(0))
            return

        def inside(i: Value) -> Sequence[Value]:
            body(i)
            return ()

        region = self.e.region([I32], inside, [hint])
        self.e.inst("loop", [self.e.const(0), self.e.const(extent)], {"lanes": 1}, [region])
