"""Combines that may be applied in any order: random regions of comparisons, judged on more numbers than the proof looks at."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np

from eas.analysis.commuting import neutral_element
from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Inst, Region, Value, make
from eas.ops import Call, evaluate

BOOL = Type(dtypes.bool_)
NUMBERS = [-3, -1, 0, 1, 2, 4, 9]


def random_region(draw: random.Random) -> Region:
    """One or two numbers on each side, compared, chosen and combined, as users write them and otherwise."""
    kinds = [draw.choice((dtypes.i32, dtypes.f32)) for _ in range(draw.choice((1, 2)))]
    params = [Value(Type(d)) for d in (*kinds, *kinds)]
    body: list[Inst] = []
    flags: list[Value] = []

    def add(name: str, *operands: Value) -> Value:
        body.append(make(name, operands))
        return body[-1].out

    def pick(dtype: dtypes.DType) -> Value:
        return draw.choice([v for v in (*params, *(i.out for i in body)) if v.dtype is dtype])

    for _ in range(draw.randint(1, 3)):
        dtype = draw.choice(kinds)
        flags.append(add(draw.choice(("lt", "le", "gt", "ge", "eq")), pick(dtype), pick(dtype)))
        if len(flags) > 1 and draw.random() < 0.6:
            flags.append(add(draw.choice(("and", "or")), *draw.sample(flags, 2)))
    n = len(kinds)
    yields = []
    for k, dtype in enumerate(kinds):
        a, b = params[k], params[n + k]
        form = draw.random()
        if form < 0.6:
            yields.append(add("select", flags[-1], a, b))
        elif form < 0.85:
            yields.append(add(draw.choice(("min", "max")), a, b))
        else:
            yields.append(add("select", draw.choice(flags), pick(dtype), pick(dtype)))
    return Region(tuple(params), (*body, make("yield", yields)))


def applied(region: Region, a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    values = dict(zip(region.params, (*a, *b), strict=True))
    for inst in region.body[:-1]:
        shape = values[inst.operands[0]].shape
        call = Call(tuple(Type(v.dtype, shape) for v in inst.operands), (Type(inst.out.dtype, shape),), {})
        (values[inst.out],) = evaluate(inst.op, call, [values[v] for v in inst.operands])
    return [values[v] for v in region.yields]


def dominances() -> Iterator[Region]:
    """The pair that beats the other in both numbers, or in one of them, else the better of each: of these some commute only."""
    for first, second, joins, *best in itertools.product(("lt", "gt", "le"), ("lt", "gt", "ge"), ("and", "or"), ("min", "max"), ("min", "max")):
        params = [Value(Type(dtypes.i32)) for _ in range(4)]
        body: list[Inst] = []

        def add(name: str, *operands: Value, body: list[Inst] = body) -> Value:
            body.append(make(name, operands))
            return body[-1].out

        a, b = params[:2], params[2:]
        wins = [add(joins, add(first, x[0], y[0]), add(second, x[1], y[1])) for x, y in ((a, b), (b, a))]
        both = [add(name, a[k], b[k]) for k, name in enumerate(best)]
        found = [add("select", wins[0], a[k], add("select", wins[1], b[k], both[k])) for k in range(2)]
        yield Region(tuple(params), (*body, make("yield", found)))


def test_what_is_said_to_commute_does():
    said = 0
    for seed, region in enumerate([*(random_region(random.Random(seed)) for seed in range(900)), *dominances()]):
        n = len(region.yields)
        neutral = neutral_element(region)
        if neutral is None:
            continue
        said += 1
        elements = list(itertools.product(NUMBERS[:: 2 if n == 2 else 1], repeat=n))
        x, y, z = (np.array(side).reshape(-1, n) for side in zip(*itertools.product(elements, repeat=3), strict=True))
        a, b, c = ([side[:, k].astype(p.dtype.np_compute) for k, p in enumerate(region.params[:n])] for side in (x, y, z))
        for one, other in ((applied(region, a, b), applied(region, b, a)), (applied(region, applied(region, a, b), c), applied(region, a, applied(region, b, c)))):
            assert all(np.array_equal(p, q) for p, q in zip(one, other, strict=True)), f"{seed}: {region}"
        start = [np.full(len(x), v).astype(p.dtype.np_compute) for v, p in zip(neutral, region.params[:n], strict=True)]
        assert all(np.array_equal(p, q) for p, q in zip(applied(region, start, a), a, strict=True)), f"{seed}: {neutral} {region}"
    assert said > 40
