"""Barriers of the schedule: on every way through random programs, whoever touches memory comes after those that wrote it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from eas.base import dtypes
from eas.base.types import Space, Type
from eas.ir import Arg, Inst, IRModule, Region, Value, make, walk
from eas.schedule.gpu.barriers import place_barriers

I32, BOOL = Type(dtypes.i32), Type(dtypes.bool_)


class Program:
    """Loads and stores of three places, in loops and branches that all threads follow, and in some that they do not."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        device = Type(dtypes.i32, (), Space.DEVICE)
        self.args = [Arg("x", Value(device, "x")), Arg("y", Value(device, "y"), (("noalias", True),)), Arg("z", Value(device, "z"))]
        shared = [make("alloc_tg", (), {"size": 8, "dtype": dtypes.i32, "name": f"t{k}"}) for k in range(2)]
        self.number, self.condition = make("const", (), {"value": 1, "type": I32}), make("const", (), {"value": True, "type": BOOL})
        self.pointers = [*(a.value for a in self.args), *(inst.out for inst in shared)]
        body = self.region(depth=0, size=self.draw.randint(3, 6))
        self.module = IRModule("k", tuple(self.args), Region((), (*shared, self.number, self.condition, *body.body)), "spmd", (("threads", 64),))

    def region(self, depth: int, size: int, params: tuple[Value, ...] = (), yields: tuple[Value, ...] = ()) -> Region:
        body = [self.statement(depth) for _ in range(size)]
        return Region(params, (*body, make("yield", yields)))

    def statement(self, depth: int) -> Inst:
        kind = self.draw.choice(("load", "store", "load", "store", "for", "while", "if") if depth < 2 else ("load", "store"))
        pointer = self.draw.choice(self.pointers)
        if kind == "load":
            return make("load", [pointer])
        if kind == "store":
            return make("store", [pointer, self.number.out])
        size = self.draw.randint(0, 2)
        if kind == "for":
            made = make("for", [self.number.out] * 3, {}, [self.region(depth + 1, size, (Value(I32),))])
        elif kind == "while":
            made = make("while", [], {}, [self.region(depth + 1, size, (), (self.condition.out,)), self.region(depth + 1, size)])
        else:
            made = make("if", [self.condition.out], {}, [self.region(depth + 1, size), self.region(depth + 1, self.draw.randint(0, 2))])
        # Where threads part there are no barriers: what is inside counts as one statement.
        return made.with_attrs(uniform=True) if self.draw.random() < 0.8 else made


def ways(region: Region, draw: random.Random) -> Iterator[Inst]:
    """What one random way through a region meets; control flow that threads part at as a whole."""
    for inst in region.body:
        if not inst.attr("uniform"):
            yield inst
        elif inst.op.name == "if":
            yield from ways(draw.choice(inst.regions), draw)
        else:
            for _ in range(draw.randint(0, 2)):
                for inner in inst.regions:
                    yield from ways(inner, draw)
            if inst.op.name == "while":
                yield from ways(inst.regions[0], draw)


def check_way(module: IRModule, draw: random.Random) -> int:
    """The number of barriers met; fails where memory is touched too early."""
    unaliased = {a.value: bool(a.attr("noalias")) for a in module.args}
    read: set[object] = set()
    written: set[object] = set()
    met = 0
    for inst in ways(module.body, draw):
        if inst.op.name == "sync":
            met += 1
            ordered = {p for p in read | written if ("device" if p == "any" or p in unaliased else "threadgroup") in inst["spaces"]}
            read, written = read - ordered, written - ordered
            continue
        parts = [part for part in (inst, *(w for r in inst.regions for w in walk(r))) if part.op.name in ("load", "store")]
        places = [("any" if unaliased.get(p.operands[0]) is False else p.operands[0], p.op.name == "store") for p in parts]
        for place, is_write in places:
            assert place not in written, f"{inst.op.name} of {place} too early\n{module}"
            assert not (is_write and place in read), f"{place} is overwritten too early\n{module}"
        read |= {place for place, is_write in places if not is_write}
        written |= {place for place, is_write in places if is_write}
    return met


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_no_way_through_a_program_meets_memory_too_early(first):
    met = 0
    for seed in range(first, first + 50):
        module = place_barriers(Program(seed).module)
        draw = random.Random(seed)
        met += sum(check_way(module, draw) for _ in range(12))
    assert met > 100


def test_a_program_without_conflicts_has_no_barriers():
    """Several loads, and stores to places of their own."""
    x, y = (Arg(n, Value(Type(dtypes.i32, (), Space.DEVICE), n), (("noalias", True),)) for n in "xy")
    number = make("const", (), {"value": 1, "type": I32})
    body = [number, make("load", [x.value]), make("store", [y.value, number.out]), make("load", [x.value]), make("yield")]
    module = IRModule("k", (x, y), Region((), tuple(body)), "spmd", (("threads", 64),))
    assert not any(inst.op.name == "sync" for inst in walk(place_barriers(module).body))
