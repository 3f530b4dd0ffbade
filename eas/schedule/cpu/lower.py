"""The CPU schedule: nests become loops over lanes, blocks that cross nests live in scratch memory."""

from __future__ import annotations

from eas.ir import Inst, IRModule, Trait, Value
from eas.schedule.cpu.cuts import lower_cut
from eas.schedule.cpu.loops.around import copy_loops, lower_nest
from eas.schedule.cpu.lowering import Lowering, ProgramFacts
from eas.schedule.cpu.transposed_nests import lower_turned_nest, transposed_nests
from eas.schedule.elements.elements import Slot
from eas.schedule.target import CpuTarget


def lower_nests(module: IRModule, target: CpuTarget) -> IRModule:
    """Replace every block of a partitioned module by scalars in loops; the result is scheduled IR.

    In textbooks: strip-mining and vectorisation; in Halide: split and vectorize.

        nest {shape=(1024,)} { %a = load %p; store %q, %a }
        ->
        loop 0, 1024 {lanes=8} (%i) { %a = vload (%p + %i)
                                      vstore (%q + %i), %a }
    """
    facts = ProgramFacts.of(module, target)
    body = ProgramLowering(target, facts, transposed_nests(module, target)).program(module.body)
    module = module.with_body(body).with_attrs(scheduled="loops")
    return module.with_attrs(long=True) if facts.is_long else module


class ProgramLowering(Lowering):
    """The lowering of one program: each instruction by the rule for its kind."""

    def __init__(self, target: CpuTarget, facts: ProgramFacts, turned: dict[Inst, int]) -> None:
        super().__init__(target, facts)
        self.turned = turned  # nests whose results lie along another axis than their last

    def statement(self, inst: Inst) -> None:
        self.e.loc = inst.loc or self.e.loc
        name = inst.op.name
        if name == "nest":
            self._nest(inst)
        elif inst.op.has(Trait.CONTROL):
            self._control(inst)
        elif name == "device_print" or any(v.shape for v in (*inst.operands, *inst.outs)):
            if self.is_formula(inst):
                self.formula(inst)
            else:
                lower_cut(self, inst)
        else:
            self.scalar(inst)

    def _nest(self, nest: Inst) -> None:
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

    def fill(self, slot: Slot, value: Value) -> None:
        copy_loops(self, slot, value)
