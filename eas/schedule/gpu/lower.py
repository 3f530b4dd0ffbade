"""The Metal schedule: a program becomes a threadgroup, blocks become registers of its threads.

Every nest runs over a layout: thread and register number give the element. A block that crosses nests
stays in registers if each reader finds its elements in its own thread; otherwise it goes through
threadgroup memory. Who reads what is known only after lowering, so a kernel is lowered again until
the plan (where blocks live, the layouts of carried ones) holds.
"""

from __future__ import annotations

from dataclasses import replace

from eas.analysis import constant_behind
from eas.base.errors import Unsupported
from eas.base.types import Type
from eas.ir import Inst, IRModule, Trait, Value
from eas.schedule.elements.elements import Slot
from eas.schedule.gpu.cuts import lower_cut
from eas.schedule.gpu.lanes import Lanes, LaneSlot, Plan
from eas.schedule.gpu.matrices import move_matrices
from eas.schedule.gpu.nests import copy_nest, lower_nest
from eas.schedule.gpu.target import MetalTarget

_MAX_ROUNDS = 12


def lower_lanes(module: IRModule, target: MetalTarget, threads: int, is_serial: bool) -> IRModule:
    """Replace every block of a partitioned module by scalars of a thread."""
    plan = Plan(threads, is_serial=is_serial)
    for _ in range(_MAX_ROUNDS):
        program, lowered = _lowered(module, target, plan)
        wanted = program.wanted_plan()
        if wanted.is_same(plan):
            return lowered
        plan = wanted
    raise Unsupported(f"no stable layout of the blocks of {module.name} was found", loc=module.loc)


def _lowered(module: IRModule, target: MetalTarget, plan: Plan) -> tuple[LaneLowering, IRModule]:
    program = LaneLowering(target, plan, module)
    body = program.program(module.body)
    attrs = {"scheduled": "lanes", "threads": plan.threads}
    return program, replace(module.with_body(body).with_attrs(**attrs), mode="thread")


class LaneLowering(Lanes):
    """The lowering of one program: each instruction by the rule for its kind."""

    def statement(self, inst: Inst) -> None:
        outer, self.lowered = self.lowered, inst
        self._lower(inst)
        self.lowered = outer

    def _lower(self, inst: Inst) -> None:
        self.e.loc = inst.loc or self.e.loc
        name = inst.op.name
        if name == "nest":
            lower_nest(self, inst)
        elif inst.op.has(Trait.CONTROL):
            self._control(inst)
        elif name == "fence":
            self._fence(inst["order"])
        elif name == "device_print" or any(v.shape for v in (*inst.operands, *inst.outs)):
            self._block_statement(inst)
        elif inst.op.has(Trait.WRITES) or (inst.op.has(Trait.EFFECT) and name != "assume"):
            self._once(inst)
        else:
            self.scalar(inst)

    def _block_statement(self, inst: Inst) -> None:
        if self.is_formula(inst):
            self.formula(inst)
            return
        lower_cut(self, inst)

    def _fence(self, order: str) -> None:
        """The first thread does the atomic; all have written before it, or read after it."""
        meeting = [("sync", {"spaces": ("device",)})] if self.threads > 1 else []
        fence = [("fence", {"order": order})]
        for name, attrs in fence + meeting if order == "release" else meeting + fence:
            self.e.inst(name, [], attrs)

    def _once(self, inst: Inst) -> None:
        """An effect of the program: the first thread does it; what it returns is told to all."""
        operands = [self.scalar_of(v) for v in inst.operands]
        if self.threads == 1:
            made = self.e.inst(inst.op.name, operands, dict(inst.attrs))
            self.scalars.update(zip(inst.outs, made.outs, strict=True))
            return
        told = {out: self.memory((1,), out.dtype, out.hint) for out in inst.outs if out in self.used}

        def body() -> None:
            made = self.e.inst(inst.op.name, operands, dict(inst.attrs))
            for out, value in zip(inst.outs, made.outs, strict=True):
                if out in told:
                    self.e.inst("store", [told[out], value])

        self.when(self.e.emit("eq", self.tid, self.e.const(0)), body)
        for out, pointer in told.items():
            self.scalars[out] = self.e.emit("load", pointer)

    def fill(self, slot: Slot, value: Value) -> None:
        assert isinstance(slot, LaneSlot)
        constant = constant_behind(value, self.formulas)
        if slot.is_matrices and constant is not None:
            number = self.e.const(constant, Type(value.dtype))
            self.e.inst("frag_fill", [slot.pointer, number], {"count": slot.layout.num_registers // 2})
            return
        if not move_matrices(self, slot, value):
            copy_nest(self, slot, value)
