"""Runs a thread-mode module thread by thread, as a GPU may: the judge of `spread_threads`.

Each thread is a coroutine that runs on its own until lanes must meet. Between meetings the threads
run in random order, one to the end before the next, so a missing barrier shows.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eas.base import numerics
from eas.base.types import Space, Type
from eas.ir import Inst, IRModule, Region, Trait, Value
from eas.ops import Call, apply
from eas.ops.machine import Buffer, Pointer

LANES = 32


@dataclass
class Meeting:
    """A thread waits here, with the values that it brings."""

    inst: Inst
    values: list[Any]


Steps = Generator[Meeting, Any, Any]


class Program:
    """The memory and ids of one threadgroup."""

    def __init__(self, pid: tuple[int, int, int], grid: tuple[int, int, int]) -> None:
        self.pid, self.grid = pid, grid
        self.shared: dict[Inst, Pointer] = {}
        self.calls: dict[tuple[Inst, tuple[int, ...]], Call] = {}

    def program_id(self, axis: int) -> int:
        return self.pid[axis]

    def num_programs(self, axis: int) -> int:
        return self.grid[axis]

    def load(self, pointer: Pointer, mask: Any, other: Any) -> np.ndarray:
        lanes = np.broadcast_to(True if mask is None else mask, pointer.shape)
        found = np.full(
            pointer.shape, 0 if other is None else other, pointer.buffer.dtype.np_compute
        )
        for i in np.ndindex(pointer.shape):
            if lanes[i]:
                found[i] = numerics.decode(
                    pointer.buffer.data[self.inside(pointer, i)], pointer.buffer.dtype
                )
        return found

    def store(self, pointer: Pointer, value: np.ndarray, mask: Any) -> None:
        lanes = np.broadcast_to(True if mask is None else mask, pointer.shape)
        for i in np.ndindex(pointer.shape):
            if lanes[i]:
                pointer.buffer.data[self.inside(pointer, i)] = numerics.encode(
                    np.asarray(value)[i], pointer.buffer.dtype
                )

    def inside(self, pointer: Pointer, i: tuple[int, ...]) -> int:
        at = int(np.asarray(pointer.offsets)[i])
        assert 0 <= at < pointer.buffer.data.size, f"{pointer.buffer.name}[{at}] is out of bounds"
        return at

    def allocate(self, name: str, size: int, dtype: Any) -> Pointer:
        return Pointer(
            Buffer(name, np.zeros(size, dtype.np_storage), dtype), np.zeros((), np.int64)
        )

    def report(self, text: str) -> None:
        pass

    def fail(self, text: str) -> None:
        raise AssertionError(text)


class Thread:
    def __init__(self, program: Program, index: int, env: dict[Value, Any]) -> None:
        self.program, self.index, self.env = program, index, dict(env)

    def region(self, region: Region, params: Sequence[Any] = ()) -> Steps:
        self.env.update(zip(region.params, params, strict=True))
        for inst in region.body[:-1]:
            outs = yield from self.inst(inst, [self.env[v] for v in inst.operands])
            self.env.update(zip(inst.outs, outs, strict=True))
        return [self.env[v] for v in region.yields]

    def inst(self, inst: Inst, values: list[Any]) -> Steps:
        match inst.op.name:
            case "if":
                return (yield from self.region(inst.regions[0 if values[0] else 1]))
            case "for":
                start, end, by = (int(v) for v in values[:3])
                carried = values[3:]
                for i in range(start, end, by) if by else ():
                    iv = np.asarray(i, inst.operands[0].dtype.np_compute)
                    carried = yield from self.region(inst.regions[0], [iv, *carried])
                return carried
            case "while":
                while (yield from self.region(inst.regions[0], values))[0]:
                    values = yield from self.region(inst.regions[1], values)
                return values
            case "alloc_tg":
                if inst not in self.program.shared:
                    self.program.shared[inst] = self.program.allocate(
                        inst["name"], inst["size"], inst["dtype"]
                    )
                return [self.program.shared[inst]]
        if (position := self.position(inst)) is not None:
            return [np.asarray(position, np.int32)]
        if inst.op.has(Trait.CONVERGENT):
            return (yield Meeting(inst, values))
        return run(inst, values, self.program)

    def position(self, inst: Inst) -> int | None:
        match inst.op.name:
            case "tid":
                return int(inst["start"] + self.index)
            case "local_id":
                return self.index if inst["axis"] == 0 else 0
            case "lane_id":
                return self.index % LANES
            case "sg_id":
                return self.index // LANES
        return None


def run(inst: Inst, values: list[Any], program: Program, shape: tuple[int, ...] = ()) -> list[Any]:
    """One instruction over scalars; `shape`: over the lanes of one simdgroup."""
    call = program.calls.get((inst, shape))
    if call is None:
        call = program.calls[inst, shape] = call_of(inst, program, shape)
    return list(apply(inst.op, call, values))


def call_of(inst: Inst, program: Program, shape: tuple[int, ...]) -> Call:
    def sized(t: Type) -> Type:  # a matrix is a stack of one
        return t.with_shape((1, 8, 8) if t.space is Space.SIMDGROUP else shape)

    attrs = dict(inst.attrs)
    if "type" in attrs:
        attrs["type"] = sized(attrs["type"])
    return Call(
        tuple(sized(v.type) for v in inst.operands),
        tuple(sized(v.type) for v in inst.outs),
        attrs,
        program,
    )


def meet(group: Sequence[Meeting], program: Program) -> list[list[Any]]:
    """What each lane of a simdgroup gets."""
    inst = group[0].inst
    assert all(m.inst is inst for m in group), (
        f"lanes meet at {sorted({m.inst.op.name for m in group})}"
    )
    if not inst.op.is_pure:  # a matrix op happens once, as its first lane says
        outs = run(inst, group[0].values, program)
        return [outs] * len(group)
    stacked = [np.stack([m.values[i] for m in group]) for i in range(len(inst.operands))]
    outs = run(inst, stacked, program, (len(group),))
    return [[np.asarray(out[lane]) for out in outs] for lane in range(len(group))]


def run_program(
    module: IRModule, program: Program, env: dict[Value, Any], order: random.Random
) -> None:
    threads = [Thread(program, i, env).region(module.body) for i in range(module.attr("threads"))]
    waiting: dict[int, Meeting] = {}
    ready: dict[int, Any] = dict.fromkeys(range(len(threads)))
    while ready or waiting:
        assert ready, (
            f"threads wait for ever at {sorted({m.inst.op.name for m in waiting.values()})}"
        )
        for i in order.sample(sorted(ready), len(ready)):
            try:
                waiting[i] = threads[i].send(ready.pop(i))
            except StopIteration:
                continue
        ready = released(waiting, len(threads), program)


def released(waiting: dict[int, Meeting], threads: int, program: Program) -> dict[int, Any]:
    """Whoever may go on, with what to tell them."""
    go: dict[int, Any] = {}
    if len(waiting) == threads and all(m.inst.op.name == "barrier" for m in waiting.values()):
        assert len({m.inst for m in waiting.values()}) == 1, "threads wait at different barriers"
        go = {i: [] for i in waiting}
    for first in range(0, threads, LANES):
        lanes = range(first, min(first + LANES, threads))
        if all(i in waiting and waiting[i].inst.op.name != "barrier" for i in lanes):
            go |= zip(lanes, meet([waiting[i] for i in lanes], program), strict=True)
    for i in go:
        del waiting[i]
    return go


def run_threads(
    module: IRModule, args: Sequence[Any], grid: tuple[int, int, int], seed: int = 0
) -> None:
    """Run every program of the grid; `args` as for the interpreter."""
    env: dict[Value, Any] = {}
    for arg, given in zip(module.args, args, strict=True):
        dtype = arg.type.dtype
        is_buffer = arg.is_buffer
        env[arg.value] = (
            Pointer(Buffer(arg.name, given, dtype), np.zeros((), np.int64))
            if is_buffer
            else np.asarray(given, dtype.np_compute)
        )
    order = random.Random(seed)
    with np.errstate(all="ignore"):
        for z, y, x in np.ndindex(grid[::-1]):
            run_program(module, Program((x, y, z), grid), env, order)
