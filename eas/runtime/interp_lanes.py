"""How the interpreter runs scheduled IR: threads in lockstep, a vector for the lanes of a loop.

A scalar is an array [threads, lanes], as `eas.ops.lane_references` says. Threads that a branch or the end of a loop
leaves out stay inactive: they touch no memory, and keep the values that they have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eas.base.errors import EasError
from eas.base.types import Shape, Type
from eas.ir import Inst, IRModule, walk
from eas.ops import Call, Op, Trait, apply
from eas.ops.atomic import number_of_values
from eas.ops.machine import Pointer
from eas.runtime import Grid
from eas.runtime.checked_program import CheckedProgram, Report
from eas.runtime.interp_plan import Plan, Step, assign, call_of

_IDS = ("tid", "lane_id", "sg_id")


def is_lanes(module: IRModule) -> bool:
    """Whether a module has loops over lanes or arrays of a thread's own: that of a CPU, or the code of one thread that a schedule made."""
    scheduled = module.attr("scheduled")
    # What a schedule left of a thread kernel is as its author wrote it: `spread_threads` knows such code.
    return scheduled == "loops" or (scheduled == "lanes" and any(inst.op.has(Trait.SCHEDULED) for inst in walk(module.body)))


class LaneProgram(CheckedProgram):
    """A program or threadgroup of scheduled IR."""

    def __init__(self, kernel: str, threads: int) -> None:
        super().__init__(kernel)
        self.threads = threads
        self.active: np.ndarray | None = None  # [threads, 1]; None: all

    def active_threads(self) -> np.ndarray:
        return super().active_threads() if self.active is None else self.active[:, 0]

    def load(self, pointer: Pointer, mask: Any, other: Any) -> np.ndarray:
        mask = self.masked(mask) if pointer.offsets.ndim else None  # a single cell: that of a thread that takes part
        if mask is None:
            return super().load(pointer, None, None)
        wide = widest([pointer, mask, *([] if other is None else [other])])
        return super().load(Pointer(pointer.buffer, np.broadcast_to(pointer.offsets, wide)), mask, other)

    def store(self, pointer: Pointer, value: np.ndarray, mask: Any) -> None:
        if not pointer.offsets.ndim:
            super().store(pointer, value, None)
            return
        mask = self.masked(mask)
        wide = widest([pointer, value, *([] if mask is None else [mask])])
        super().store(Pointer(pointer.buffer, np.broadcast_to(pointer.offsets, wide)), np.broadcast_to(value, wide), mask)

    def masked(self, mask: Any) -> Any:
        """A mask that is off for threads that do not take part."""
        if self.active is None:
            return mask
        return self.active if mask is None else mask & self.active


class LanePlan(Plan):
    """A scheduled module as a list of steps."""

    program: LaneProgram

    def __init__(self, module: IRModule) -> None:
        self.lanes = 1  # of the loop around what is being planned
        super().__init__(module)

    def machine(self, module: IRModule) -> LaneProgram:
        is_of_threads = module.attr("scheduled") == "lanes"  # else a CPU runs them as a block
        return LaneProgram(module.name, module.attr("threads") if is_of_threads else 1)

    def launch(self, args: Sequence[Any], grid: Grid, out: Report) -> None:
        self.program.active = None  # an earlier launch may have failed in a branch
        super().launch([_square(a) for a in args], grid, out)

    def keep_constant(self, inst: Inst) -> None:
        (slot,) = self.define(inst.outs)
        if inst.op.name in _IDS:
            threads = np.arange(self.program.threads, dtype=np.int32)[:, None]
            self.env[slot] = {"tid": threads + inst.attr("start", 0), "lane_id": threads % 32, "sg_id": threads // 32}[inst.op.name]
        else:
            (self.env[slot],) = _results(inst.op, call_of(inst, lanes=self.lanes), ())
        self.known.update(inst.outs)

    def step(self, inst: Inst) -> Step:
        outer = self.lanes
        if inst.op.name in ("loop", "find"):
            self.lanes = inst["lanes"]
        made = super().step(inst)
        self.lanes = outer
        return made

    def plain(self, inst: Inst, call: Call, outs: Sequence[int]) -> Step:
        env, op, loc, operands = self.env, inst.op, inst.loc, self.uses(inst.operands)
        call.lanes = self.lanes
        evaluate = self.evaluation(op, call)

        def run() -> None:
            try:
                results = evaluate([env[i] for i in operands])
            except EasError as error:
                error.at(loc)
                raise
            for slot, result in zip(outs, results, strict=True):
                env[slot] = result

        return run

    def evaluation(self, op: Op, call: Call) -> Any:
        """A function from operands to results, by what an op does with the lanes of its operands."""
        if op.has(Trait.SCHEDULED) or not call.operands:
            return lambda values: _results(op, call, values)
        if op.has(Trait.ATOMIC):
            return self.atomic(op, call)
        if op.has(Trait.READS) or op.has(Trait.WRITES):
            return lambda values: _results(op, call, values)
        if op.has(Trait.CONVERGENT):
            return self.simdgroup(op, call)
        if op.name == "device_assert":
            return lambda values: apply(op, call, [values[0], self.everybody(self.program.masked(values[1] if len(values) > 1 else None))])
        return _elementwise(op, call)

    def everybody(self, mask: Any) -> Any:
        return np.ones((1, 1), np.bool_) if mask is None else mask

    def atomic(self, op: Op, call: Call) -> Any:
        """Each thread and lane on its own, also where all do the same."""
        program, lanes, numbers = self.program, self.lanes, number_of_values(op)

        def run(values: list[Any]) -> tuple[Any, ...]:
            mask = self.everybody(program.masked(values[1 + numbers] if len(values) > 1 + numbers else None))
            _, across = widest([*values, mask])
            shape = program.threads, max(lanes, across)
            pointer = Pointer(values[0].buffer, np.broadcast_to(values[0].offsets, shape))
            return _results(op, _shaped(call, shape), [pointer, *values[1 : 1 + numbers], mask], block=True)

        return run

    def simdgroup(self, op: Op, call: Call) -> Any:
        """Lane by lane of vectors; the reference is about one value per thread."""
        threads = self.program.threads
        narrow = _shaped(call, (threads,))

        def run(values: list[Any]) -> tuple[Any, ...]:
            _, across = widest(values)
            wide = [np.broadcast_to(v, (threads, across)) for v in values]
            columns = [apply(op, narrow, [v[:, lane] for v in wide]) for lane in range(across)]
            return tuple(np.stack(parts, axis=1) for parts in zip(*columns, strict=True))

        return run

    # --- control ----------------------------------------------------------------------------------

    def condition(self, flags: np.ndarray) -> bool | np.ndarray:
        """What a branch depends on, if all threads that take part agree; else per thread."""
        program = self.program
        taking_part = flags if program.active is None or flags.shape[0] == 1 else flags[program.active[:, 0]]
        if taking_part.all():
            return True
        if not taking_part.any():
            return False
        if (taking_part != taking_part[:, :1]).any():
            program.fail("lanes disagree about a branch")
        return flags[:, :1]

    def if_(self, inst: Inst) -> Step:
        env, (condition,), program = self.env, self.uses(inst.operands), self.program
        then, other = ((self.block(r), self.uses(r.yields)) for r in inst.regions)
        outs, is_uniform = self.define(inst.outs), inst["uniform"]

        def side(steps: Sequence[Step], yields: Sequence[int]) -> list[Any]:
            for step in steps:
                step()
            return [env[y] for y in yields]

        def run() -> None:
            chosen = self.condition(env[condition])
            if isinstance(chosen, bool):
                assign(env, outs, side(*(then if chosen else other)))
                return
            if is_uniform:
                program.fail("threads disagree about a branch that the schedule calls uniform")
            outer = program.active
            program.active = program.masked(chosen)
            left = side(*then)
            program.active = outer
            program.active = program.masked(~chosen)
            right = side(*other)
            program.active = outer
            assign(env, outs, [_merged(chosen, a, b) for a, b in zip(left, right, strict=True)])

        return run

    def for_(self, inst: Inst) -> Step:
        (region,) = inst.regions
        env, (start, end, stride, *initial), program = self.env, self.uses(inst.operands), self.program
        (index, *params), body = self.define(region.params), self.block(region)
        yields, outs = self.uses(region.yields), self.define(inst.outs)
        dtype = region.params[0].dtype.np_compute

        def run() -> None:
            carried, outer = [env[i] for i in initial], program.active
            first, last, by = (env[i][:, :1].astype(object) for i in (start, end, stride))
            trips = np.vectorize(lambda a, b, c: len(range(a, b, c)) if c else 0, otypes=[np.int64])(first, last, by)
            for k in range(int(np.max(trips if outer is None or trips.size == 1 else trips[outer], initial=0))):
                if trips.size > 1:
                    program.active = outer
                    program.active = program.masked(k < trips)
                env[index] = np.asarray(first + k * by).astype(dtype)
                assign(env, params, carried)
                for step in body:
                    step()
                new = [env[y] for y in yields]
                carried = new if trips.size == 1 else [_merged(k < trips, a, b) for a, b in zip(new, carried, strict=True)]
            program.active = outer
            assign(env, outs, carried)

        return run

    def while_(self, inst: Inst) -> Step:
        test, region = inst.regions
        env, initial, program = self.env, self.uses(inst.operands), self.program
        test_params, tests = self.define(test.params), self.block(test)
        (condition,) = self.uses(test.yields)
        params, body = self.define(region.params), self.block(region)
        yields, outs = self.uses(region.yields), self.define(inst.outs)

        def run() -> None:
            carried, outer = [env[i] for i in initial], program.active
            while True:
                assign(env, test_params, carried)
                for step in tests:
                    step()
                goes_on = self.condition(env[condition])
                if goes_on is False:
                    break
                if goes_on is not True:
                    program.active = program.masked(goes_on)
                assign(env, params, carried)
                for step in body:
                    step()
                new, active = [env[y] for y in yields], program.active
                carried = new if active is None else [_merged(active, a, b) for a, b in zip(new, carried, strict=True)]
            program.active = outer
            assign(env, outs, carried)

        return run


def widest(values: Sequence[Any]) -> tuple[int, int]:
    """Threads and lanes of values together."""
    shapes = [v.shape for v in values]
    return max(s[0] for s in shapes), max(s[1] for s in shapes)


def _square(value: Any) -> Any:
    if isinstance(value, Pointer):
        return Pointer(value.buffer, _square(value.offsets))
    return value.reshape(1, 1) if value.ndim == 0 else value


def _results(op: Op, call: Call, values: Sequence[Any], block: bool = False) -> tuple[Any, ...]:
    """What a reference gives, in compute form, with as many threads and lanes as it has."""
    if block:
        return apply(op, call, values)
    assert op.reference is not None
    got = op.reference(call, *values)
    got = () if got is None else got if isinstance(got, tuple) else (got,)
    return tuple(_conform(x, t) for x, t in zip(got, call.outs, strict=True))


def _conform(x: Any, t: Type) -> Any:
    return _square(x if isinstance(x, Pointer) else np.asarray(x).astype(t.dtype.np_compute, copy=False))


def _shaped(call: Call, shape: Shape) -> Call:
    return Call(call.operands, tuple(t.with_shape(shape) for t in call.outs), call.attrs, call.machine, call.combine, call.lanes)


def _elementwise(op: Op, call: Call) -> Any:
    calls: dict[Shape, Call] = {}

    def run(values: list[Any]) -> tuple[Any, ...]:
        shape = widest(values)
        if shape not in calls:
            calls[shape] = _shaped(call, shape)
        return apply(op, calls[shape], values)

    return run


def _merged(mask: np.ndarray, a: Any, b: Any) -> Any:
    """What some threads have, and what the others have."""
    if a is b:
        return a
    if isinstance(a, Pointer):
        assert a.buffer is b.buffer, "threads point into different buffers"
        return Pointer(a.buffer, np.where(mask, a.offsets, b.offsets))
    return np.where(mask, a, b)


__all__ = ["LanePlan", "LaneProgram", "is_lanes"]
