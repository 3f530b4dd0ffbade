"""Which threads agree on a value: all of the launch, of a program, of a simdgroup, or none."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from eas.analysis.program import definitions, region_definitions
from eas.base.types import Space
from eas.ir import Inst, IRModule, Region, Trait, Value
from eas.ir.text import Names
from eas.ops.simd import LANES


class Uniformity(IntEnum):
    """The widest set of threads that agree on a value, wherever they compute it together."""

    LAUNCH = 0
    PROGRAM = 1
    SIMDGROUP = 2
    VARYING = 3

    def __str__(self) -> str:
        return self.name.lower()


Levels = Mapping[Value, Uniformity]

_SOURCES = {
    "num_programs": Uniformity.LAUNCH,
    "program_id": Uniformity.PROGRAM,
    "alloc_tg": Uniformity.PROGRAM,
    "sg_id": Uniformity.SIMDGROUP,
    "lane_id": Uniformity.VARYING,
    "tid": Uniformity.VARYING,
    "arange": Uniformity.VARYING,
}
# Of equal lanes these give the lanes' value; a sum also depends on how many lanes there are.


def uniformity(module: IRModule) -> Levels:
    """The level of every value; of spmd and spread modules no scalar is above PROGRAM."""
    return _Sweep(module).run()


def is_uniform(levels: Levels, *values: Value, among: Uniformity = Uniformity.PROGRAM) -> bool:
    """Whether the threads of one program (or of what `among` names) agree on all values."""
    return all(levels[v] <= among for v in values)


def decision(inst: Inst, levels: Levels) -> Uniformity:
    """The level of what an `if`, `for` or `while` decides by; LAUNCH for other instructions."""
    return max(
        (levels.get(v, Uniformity.LAUNCH) for v in _deciders(inst)), default=Uniformity.LAUNCH
    )


def _deciders(inst: Inst) -> tuple[Value, ...]:
    match inst.op.name:
        case "if":
            return inst.operands
        case "for":
            return inst.operands[:3]
        case "while":
            return inst.regions[0].yields
    return ()


def dump(module: IRModule) -> str:
    """One line `%name: level` per value, named and ordered as in the printed module."""
    levels, names = uniformity(module), Names()
    return "".join(f"%{names.define(v)}: {levels[v]}\n" for v in definitions(module))


class _Sweep:
    """Raises levels in sweeps over the module until none changes: the least fixpoint."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.levels: dict[Value, Uniformity] = {}
        self.producer: dict[Value, Inst] = {}
        self.scalars_agree = module.mode == "spmd" or bool(module.attr("spread"))
        self.changed = True

    def run(self) -> Levels:
        for arg in self.module.args:
            self.lift(arg.value, Uniformity.LAUNCH)
        while self.changed:
            self.changed = False
            self.region(self.module.body)
        return self.levels

    def lift(self, value: Value, level: Uniformity) -> None:
        """Raise `value` to at least `level`."""
        known = self.levels.get(value)
        if known is None or known < level:
            self.levels[value] = level
            self.changed = True

    def join(self, *values: Value) -> Uniformity:
        return max(
            (self.levels.get(v, Uniformity.LAUNCH) for v in values), default=Uniformity.LAUNCH
        )

    def region(self, region: Region) -> None:
        for inst in region.body:
            self.inst(inst)

    def inst(self, inst: Inst) -> None:
        match inst.op.name:
            case "if":
                self.branch(inst)
            case "for" | "while":
                self.loop(inst)
            case _:
                self.plain(inst)

    def branch(self, inst: Inst) -> None:
        then, other = inst.regions
        self.region(then)
        self.region(other)
        for out, a, b in zip(inst.outs, then.yields, other.yields, strict=True):
            self.lift(out, self.join(a, b, *inst.operands))

    def loop(self, inst: Inst) -> None:
        """Threads that leave at different times disagree on everything that the loop carries."""
        body = inst.regions[-1]
        is_for = inst.op.name == "for"
        inits, params = (
            (inst.operands[3:], body.params[1:]) if is_for else (inst.operands, body.params)
        )
        trips = decision(inst, self.levels)
        for iv in body.params[:1] if is_for else ():
            self.lift(iv, trips)
        for i, (init, param, out) in enumerate(zip(inits, params, inst.outs, strict=True)):
            level = max(trips, self.join(init, body.yields[i]))
            for value in (param, out, *(r.params[i] for r in inst.regions[:-1])):
                self.lift(value, level)
        for region in inst.regions:
            self.region(region)

    def plain(self, inst: Inst) -> None:
        for combine in inst.regions:
            # A combine region is scalar-typed but runs once per pair of lanes.
            self.varying(combine)
        level = self.level_of(inst)
        for out in inst.outs:
            self.producer[out] = inst
            agrees = self.scalars_agree and out.type.is_scalar
            self.lift(out, min(level, Uniformity.PROGRAM) if agrees else level)

    def varying(self, region: Region) -> None:
        for value in region_definitions(region):
            self.lift(value, Uniformity.VARYING)

    def level_of(self, inst: Inst) -> Uniformity:
        op, operands = inst.op, self.join(*inst.operands)
        if op.name in _SOURCES:
            return _SOURCES[op.name]
        if op.name == "local_id":  # threadgroups are one-dimensional: the other axes are 0
            return Uniformity.VARYING if inst["axis"] == 0 else Uniformity.LAUNCH
        if op.has(Trait.ATOMIC):  # every thread performs its own
            return Uniformity.VARYING
        if any(out.type.space is Space.SIMDGROUP for out in inst.outs):
            return Uniformity.SIMDGROUP
        if op.has(Trait.CONVERGENT) and inst.outs:
            return self.across_lanes(inst)
        if op.has(Trait.READS):
            return max(operands, Uniformity.PROGRAM)
        if self.is_simdgroup_index(inst):
            return Uniformity.SIMDGROUP
        return operands

    def across_lanes(self, inst: Inst) -> Uniformity:
        """What lanes of one simdgroup get from each other."""
        name, lane_value = inst.op.name, self.join(inst.operands[0])
        if name.startswith("simd_prefix"):  # a prefix sum of ones counts the lanes
            return Uniformity.VARYING
        if name == "simd_broadcast" or inst.op.has(Trait.IDEMPOTENT):
            return min(lane_value, Uniformity.SIMDGROUP)
        if name.startswith("simd_shuffle"):  # any lane's value is that of its simdgroup, or its own
            return lane_value
        return Uniformity.SIMDGROUP

    def is_simdgroup_index(self, inst: Inst) -> bool:
        """Whether this is `tid // (32 * n)` or `tid >> (5 + n)`."""
        if inst.op.name not in ("floordiv", "truncdiv", "shr"):
            return False
        position, count = (self.producer.get(v) for v in inst.operands)
        if position is None or count is None or count.op.name != "const":
            return False
        if position.op.name != "local_id" and (
            position.op.name != "tid" or position["start"] % LANES
        ):
            return False
        n = count["value"]
        return bool(n >= 5) if inst.op.name == "shr" else bool(n > 0 and n % LANES == 0)
