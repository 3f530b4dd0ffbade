"""How the interpreter runs a module: the IR compiled, once, to a list of Python closures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
_LAUNCH_IDS = ("program_id", "num_programs")


class Plan:
    """A module as a list of steps over numbered slots.

    Constants are computed once, here; what depends on nothing but them and the arguments, once per
    launch. A plan serves one launch at a time.
    """

    def __init__(self, module: IRModule) -> None:
        self.program = CheckedProgram(module.name)
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
        _assign(self.env, self.args, args)
        with np.errstate(all="ignore"):
            for step in self.setup:
                step()
            for z, y, x in product(*map(range, reversed(grid))):
                program.pid = (x, y, z)
                for step in steps:
                    step()

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
        results = apply(inst.op, _call(inst), ())
        for slot, result in zip(self.define(inst.outs), results, strict=True):
            result.flags.writeable = False
            self.env[slot] = result
        self.known.update(inst.outs)

    def step(self, inst: Inst) -> Step:
        if inst.op.reference is None:
            assert inst.op.name in _CONTROL, f"op {inst.op.name} has no reference"
            return _CONTROL[inst.op.name](self, inst)
        combine = self.combine(inst.regions[0]) if inst.regions else None
        return self.plain(inst, _call(inst, self.program, combine), self.define(inst.outs))

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
                _assign(env, params, carried)
                for step in body:
                    step()
                carried = [env[y] for y in yields]
            _assign(env, outs, carried)

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
                _assign(env, test_params, carried)
                for step in tests:
                    step()
                if not env[condition]:
                    break
                _assign(env, params, carried)
                for step in body:
                    step()
                carried = [env[y] for y in yields]
            _assign(env, outs, carried)

        return run

    def if_(self, inst: Inst) -> Step:
        env, (condition,) = self.env, self.uses(inst.operands)
        then, other = ((self.block(r), self.uses(r.yields)) for r in inst.regions)
        outs = self.define(inst.outs)

        def run() -> None:
            steps, yields = then if env[condition] else other
            for step in steps:
                step()
            _assign(env, outs, [env[y] for y in yields])

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
            _assign(env, params, [np.asarray(b) for b in blocks])
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
            call = _call(inst, self.program)
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
                _assign(env, params, [np.asarray(b[at]) for b in blocks])
                for step in body:
                    step()
                for result, y in zip(results, yields, strict=True):
                    result[at] = env[y]
            return results

        return combine


_CONTROL: dict[str, Callable[[Plan, Inst], Step]] = {
    "for": Plan.for_,
    "while": Plan.while_,
    "if": Plan.if_,
}


def _assign(env: list[Any], slots: Sequence[int], values: Sequence[Any]) -> None:
    for slot, value in zip(slots, values, strict=True):
        env[slot] = value


def _call(
    inst: Inst, program: CheckedProgram | None = None, combine: Combine | None = None
) -> Call:
    operands, outs = (tuple(v.type for v in values) for values in (inst.operands, inst.outs))
    return Call(operands, outs, dict(inst.attrs), program, combine)


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
