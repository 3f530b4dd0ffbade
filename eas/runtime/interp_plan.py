"""How the interpreter runs a module: the IR compiled, once, to a list of Python closures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from eas.base.errors import EasError
from eas.base.types import Shape
from eas.ir import Inst, IRModule, Region, Value
from eas.ops import Call, Trait, apply
from eas.ops.table import Combine
from eas.runtime import Grid
from eas.runtime.checked_program import CheckedProgram, Report

Step = Callable[[], None]

# The instructions without operands that differ between launches; the others are constants.
_LAUNCH_IDS = ("program_id", "num_programs", "programs_left", "is_joined")


class ProgramOrder:
    """Which programs run one after another, and which together, where a schedule says that some do."""

    def __init__(self, module: IRModule) -> None:
        joined: tuple[int, int] | None = module.attr("joined")
        self.axis, self.together = joined or (int(bool(module.attr("axis_1_first"))), 1)
        is_walk = module.attr("scheduled") == "loops" and module.attr("rows")
        self.walk: int = module.attr("walk") if is_walk else 0
        self.is_plain = joined is None and not is_walk

    def over(self, grid: Grid) -> Iterator[tuple[Grid, int, bool]]:
        """The ids of programs, how many are left beside each, and whether the next ones run with it."""
        if self.is_plain:
            for z, y, x in product(*map(range, reversed(grid))):
                yield (x, y, z), 1, False
            return
        size, rest = grid[self.axis], [k for k in range(3) if k != self.axis]
        for third, second in product(range(grid[rest[1]]), range(grid[rest[0]])):
            first = 0
            while first < size:
                ids = {self.axis: first, rest[0]: second, rest[1]: third}
                is_joined = first + self.together <= size
                yield (ids[0], ids[1], ids[2]), size - first, is_joined
                first += self.walk or (self.together if is_joined else 1)


class Plan:
    """A module as a list of steps over numbered slots.

    Constants are computed once, here; what depends on nothing but them and the arguments, once per
    launch. A plan serves one launch at a time.
    """

    def __init__(self, module: IRModule) -> None:
        self.program = self.machine(module)
        self.order = ProgramOrder(module)
        self.env: list[Any] = []  # what each value is now
        self.slots: dict[Value, int] = {}
        self.known = {a.value for a in module.args}  # the same for all programs
        self.args = self.define(a.value for a in module.args)
        self.setup: list[Step] = []
        with np.errstate(all="ignore"):
            self.steps = self.block(module.body, self.setup)
        self.fresh = list(self.env)

    def launch(self, args: Sequence[Any], grid: Grid, out: Report) -> None:
        """Run every program of the grid."""
        program, steps = self.program, self.steps
        program.pid, program.grid, program.out = (0, 0, 0), grid, out
        assign(self.env, self.args, args)
        with np.errstate(all="ignore"):
            for step in self.setup:
                step()
            for program.pid, program.left, program.joined in self.order.over(grid):
                for step in steps:
                    step()

    def machine(self, module: IRModule) -> CheckedProgram:
        """What the programs of a module run on."""
        return CheckedProgram(module.name)

    def forget(self) -> None:
        """Let go of the buffers and values of the last launch."""
        self.env[:] = self.fresh
        self.program.out = print

    def define(self, values: Iterable[Value]) -> list[int]:
        """New slots for values."""
        slots = []
        for value in values:
            self.slots[value] = len(self.env)
            slots.append(len(self.env))
            self.env.append(None)
        return slots

    def uses(self, values: Sequence[Value]) -> list[int]:
        return [self.slots[v] for v in values]

    def block(self, region: Region, setup: list[Step] | None = None) -> list[Step]:
        """The steps of a region; those that can move go to `setup`. Define its parameters first."""
        steps: list[Step] = []
        for inst in region.body[:-1]:
            if _is_constant(inst):
                self.keep_constant(inst)
            elif setup is not None and self.is_invariant(inst):
                self.known.update(inst.outs)
                setup.append(self.step(inst))
            else:
                steps.append(self.step(inst))
        return steps

    def is_invariant(self, inst: Inst) -> bool:
        """Whether an instruction gives every program the same; it must not be one that can fail."""
        moves = inst.op.has(Trait.ELEMENTWISE) or inst.op.has(Trait.SHAPE)
        return inst.op.is_pure and moves and self.known.issuperset(inst.operands)

    def keep_constant(self, inst: Inst) -> None:
        results = apply(inst.op, call_of(inst), ())
        for slot, result in zip(self.define(inst.outs), results, strict=True):
            result.flags.writeable = False
            self.env[slot] = result
        self.known.update(inst.outs)

    def step(self, inst: Inst) -> Step:
        if inst.op.reference is None:
            assert inst.op.has(Trait.CONTROL), f"op {inst.op.name} has no reference"
            return self.control(inst)
        make = self.region if inst.op.has(Trait.SCHEDULED) else self.combine
        combine = make(inst.regions[0]) if inst.regions else None
        return self.plain(inst, call_of(inst, self.program, combine), self.define(inst.outs))

    def control(self, inst: Inst) -> Step:
        return {"for": self.for_, "while": self.while_, "if": self.if_}[inst.op.name](inst)

    def plain(self, inst: Inst, call: Call, outs: Sequence[int]) -> Step:
        """Evaluate one row; what goes wrong gets the kernel line."""
        env, op, loc, operands = self.env, inst.op, inst.loc, self.uses(inst.operands)

        def run() -> None:
            try:
                results = apply(op, call, [env[i] for i in operands])
            except EasError as error:
                error.at(loc)
                raise
            for slot, result in zip(outs, results, strict=True):
                env[slot] = result

        return run

    def for_(self, inst: Inst) -> Step:
        (region,) = inst.regions
        env, (start, end, stride, *initial) = self.env, self.uses(inst.operands)
        (index, *params), body = self.define(region.params), self.block(region)
        yields, outs = self.uses(region.yields), self.define(inst.outs)
        dtype = region.params[0].dtype.np_compute

        def run() -> None:
            carried = [env[i] for i in initial]
            by = int(env[stride])
            for i in range(int(env[start]), int(env[end]), by) if by else ():
                env[index] = np.asarray(i, dtype)
                assign(env, params, carried)
                for step in body:
                    step()
                carried = [env[y] for y in yields]
            assign(env, outs, carried)

        return run

    def while_(self, inst: Inst) -> Step:
        test, region = inst.regions
        env, initial = self.env, self.uses(inst.operands)
        test_params, tests = self.define(test.params), self.block(test)
        (condition,) = self.uses(test.yields)
        params, body = self.define(region.params), self.block(region)
        yields, outs = self.uses(region.yields), self.define(inst.outs)

        def run() -> None:
            carried = [env[i] for i in initial]
            while True:
                assign(env, test_params, carried)
                for step in tests:
                    step()
                if not env[condition]:
                    break
                assign(env, params, carried)
                for step in body:
                    step()
                carried = [env[y] for y in yields]
            assign(env, outs, carried)

        return run

    def if_(self, inst: Inst) -> Step:
        env, (condition,) = self.env, self.uses(inst.operands)
        then, other = ((self.block(r), self.uses(r.yields)) for r in inst.regions)
        outs = self.define(inst.outs)

        def run() -> None:
            steps, yields = then if env[condition] else other
            for step in steps:
                step()
            assign(env, outs, [env[y] for y in yields])

        return run

    def region(self, region: Region) -> Combine:
        """The region as a function of what its parameters are."""
        params, body = self.define(region.params), self.block(region)
        env, yields = self.env, self.uses(region.yields)

        def run(*values: Any) -> tuple[Any, ...]:
            assign(env, params, values)
            for step in body:
                step()
            return tuple(env[y] for y in yields)

        return run

    def combine(self, region: Region) -> Combine:
        """The region as a function of arrays."""
        params = self.define(region.params)
        if not _is_lanewise(region):
            return self.combine_each(region, params)
        for inst in region.body[:-1]:
            if _is_constant(inst):
                self.keep_constant(inst)
            else:
                self.define(inst.outs)
        env, yields = self.env, self.uses(region.yields)
        steps_of: dict[Shape, list[Step]] = {}

        def combine(*blocks: np.ndarray) -> tuple[np.ndarray, ...]:
            shape = np.shape(blocks[0])
            if shape not in steps_of:
                steps_of[shape] = self.lanewise(region, shape)
            assign(env, params, [np.asarray(b) for b in blocks])
            for step in steps_of[shape]:
                step()
            return tuple(np.broadcast_to(env[y], shape) for y in yields)

        return combine

    def lanewise(self, region: Region, shape: Shape) -> list[Step]:
        """The steps of a scalar region, each on whole arrays of one shape."""
        steps = []
        for inst in region.body[:-1]:
            if _is_constant(inst):
                continue
            call = call_of(inst, self.program)
            if inst.operands:
                call.outs = tuple(t.with_shape(shape) for t in call.outs)
            steps.append(self.plain(inst, call, self.uses(inst.outs)))
        return steps

    def combine_each(self, region: Region, params: Sequence[int]) -> Combine:
        """For regions with control flow or memory: one element after another."""
        body, env = self.block(region), self.env
        yields = self.uses(region.yields)
        dtypes = [v.dtype.np_compute for v in region.yields]

        def combine(*blocks: np.ndarray) -> tuple[np.ndarray, ...]:
            results = tuple(np.empty(np.shape(blocks[0]), d) for d in dtypes)
            for at in np.ndindex(np.shape(blocks[0])):
                assign(env, params, [np.asarray(b[at]) for b in blocks])
                for step in body:
                    step()
                for result, y in zip(results, yields, strict=True):
                    result[at] = env[y]
            return results

        return combine




def assign(env: list[Any], slots: Sequence[int], values: Sequence[Any]) -> None:
    """Put values into slots."""
    for slot, value in zip(slots, values, strict=True):
        env[slot] = value


def call_of(
    inst: Inst, program: CheckedProgram | None = None, combine: Combine | None = None, lanes: int = 1
) -> Call:
    """What the reference of an instruction may look at."""
    operands, outs = (tuple(v.type for v in values) for values in (inst.operands, inst.outs))
    return Call(operands, outs, dict(inst.attrs), program, combine, lanes)


def _is_constant(inst: Inst) -> bool:
    return inst.op.is_pure and not inst.operands and inst.op.name not in _LAUNCH_IDS


def _is_lanewise(region: Region) -> bool:
    """Whether every instruction works as well on arrays as on scalars."""
    return all(
        inst.op.is_pure
        and (inst.op.has(Trait.ELEMENTWISE) or not inst.operands)
        and all(v.type.is_scalar for v in inst.outs)
        for inst in region.body[:-1]
    )
