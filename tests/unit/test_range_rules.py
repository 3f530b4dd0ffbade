"""The rules behind value ranges, each against every element of random blocks: what a rule says of its result is true.

A block is described truly, often by less than is true of it; the op's own reference makes the result.
"""

from __future__ import annotations

import itertools
import random
from math import gcd

import numpy as np
import pytest

from eas.analysis.ranges import _choice
from eas.analysis.ranges.conditions import implied
from eas.analysis.ranges.intervals import Contiguity, Range, fit, join, tidy
from eas.analysis.ranges.transfer import decide, transfer
from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Value, make
from eas.ops import Call, evaluate
from tests.unit.test_ranges import check

TWO = ("add", "sub", "mul", "floordiv", "truncdiv", "mod", "truncmod", "min", "max", "shl", "shr", "and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge")
ONE = ("neg", "abs", "sign", "not", "popcount", "clz", "ctz")
LENGTHS = (1, 2, 3, 4, 6, 8, 8, 12, 16, 16)


def block(rng: random.Random, n: int, lo: int, hi: int) -> np.ndarray:
    """Numbers with the structure that ranges speak of: runs, equal groups, multiples, or none."""
    base = np.arange(n)
    group = rng.choice([g for g in (1, 3, 4, 4, 8, 8, n) if g <= n])
    kind = rng.choice((0, 1, 1, 1, 2, 2, 3, 4, 5))
    starts = np.array([rng.randint(-3, 6) for _ in range(n)]) * rng.choice((1, 4, 8, 16))
    x = {0: base + starts[0], 1: base % group + starts[base // group], 2: starts[base // group], 3: starts, 4: base * rng.choice((-2, 2, 3, 4)), 5: np.full(n, starts[0])}[kind]
    return np.clip(x, lo, hi).astype(np.int64)


def described(rng: random.Random, x: np.ndarray) -> Range:
    """A range that holds of x; not always all that does."""
    if not x.shape:
        x = x.reshape(1)
        return _row(rng, x, ())
    return _row(rng, x, (_contiguity(rng, x),))


def _row(rng: random.Random, x: np.ndarray, axes: tuple[Contiguity, ...]) -> Range:
    common = gcd(*map(int, x))
    slack = rng.choice((0, 0, 1, 5))
    lo, hi = int(x.min()) - slack * rng.randrange(2), int(x.max()) + slack
    multiple = common if lo == hi else rng.choice([d for d in range(1, max(common, 8) + 1) if common % d == 0])
    return Range(lo, hi, multiple, axes)


def _contiguity(rng: random.Random, x: np.ndarray) -> Contiguity:
    n, at = len(x), np.arange(len(x))
    runs = [r for r in range(1, n + 1) if (n % r == 0) and (x == x[at - at % r] + at % r).all()]
    constancies = [c for c in range(1, n + 1) if n % c == 0 and (x == x[at - at % c]).all()]
    run = rng.choice((1, max(runs), max(runs), rng.choice(runs)))
    common = gcd(*map(int, x[::run]))
    multiple = rng.choice((1, common, common, *(d for d in (2, 3, 4, 8, 16) if common % d == 0)))
    return Contiguity(run, multiple, rng.choice((1, max(constancies), rng.choice(constancies))))


@pytest.mark.parametrize("name", [*TWO, *ONE])
def test_rules_of_ops(name):
    rng = random.Random(name)
    for trial in range(250):
        dtype = rng.choice((dtypes.i32, dtypes.i32, dtypes.u8))
        n = rng.choice(LENGTHS)
        lo, hi = (-120, 120) if dtype is dtypes.i32 else (0, 200 if name in ONE else 14)
        shape = () if trial % 5 == 0 else (n,)
        xs = [block(rng, n, lo, hi) for _ in range(1 + (name in TWO))]
        if name in ("shl", "shr"):
            xs[1] = np.clip(xs[1], 0, 4)
        if name == "sub" and dtype is dtypes.u8:
            xs = [np.maximum(*xs), np.minimum(*xs)]
        if name == "neg" and dtype is dtypes.u8:
            continue
        xs = [x[0] if not shape else x for x in map(np.asarray, xs)]
        operands = [Value(Type(dtype, shape)) for _ in xs]
        ranges = [described(rng, np.asarray(x)) for x in xs]
        inst = make(name, operands, {})
        call = Call(tuple(v.type for v in operands), (inst.out.type,), {})
        (made,) = evaluate(inst.op, call, [np.asarray(x).astype(dtype.np_compute) for x in xs])
        claimed = transfer(inst, ranges, inst.out.type)
        for claim in (claimed, tidy(claimed, shape), fit(claimed, inst.out.type, False)[0]):
            assert holds(np.asarray(made).astype(np.int64), claim), f"{name} of {xs} with {ranges}: {made} is not {claim}"


def holds(x: np.ndarray, claim: Range) -> bool:
    try:
        check(x if claim.axes else x.reshape(-1), claim)
    except AssertionError:
        return False
    return True


def test_what_holds_whichever_of_two_a_value_is():
    rng = random.Random(1)
    for _ in range(900):
        n = rng.choice(LENGTHS)
        x, y = (block(rng, n, -999, 999) for _ in range(2))
        a, b = described(rng, x), described(rng, y)
        both = join(a, b, (n,))
        assert holds(x, both), (x, a, b, both)
        assert holds(y, both), (y, a, b, both)
        inst = make("select", [Value(Type(dtypes.bool_, (n,))), *(Value(Type(dtypes.i32, (n,))) for _ in range(2))], {})
        condition = block(rng, n, 0, 1)
        chosen = transfer(inst, [described(rng, condition), a, b], inst.out.type)
        assert holds(np.where(condition, x, y), chosen), (condition, x, y, a, b, chosen)


def test_numbers_that_wrap_keep_what_powers_of_two_divide():
    rng = random.Random(2)
    for _ in range(600):
        dtype, n = rng.choice((dtypes.i8, dtypes.u8)), rng.choice(LENGTHS)
        x = block(rng, n, -999, 999) * rng.choice((1, 3, 8, 16)) + rng.choice((0, 0, 48, 96))
        r, is_exact = fit(described(rng, x), Type(dtype, (n,)), False)
        wrapped = x.astype(dtype.np_compute).astype(np.int64)
        assert holds(wrapped, r), (x, wrapped, r)
        assert not is_exact or (wrapped == x).all()


def test_moved_elements_keep_their_neighbours():
    rng = random.Random(3)
    for _ in range(150):
        n, m = rng.choice(LENGTHS[1:]), rng.choice((1, 2, 4))
        row = block(rng, n, -999, 999)
        x = row + rng.choice((0, 1, 8)) * np.arange(m)[:, None]
        r = _row(rng, x.ravel(), tuple(_of_axis(rng, np.moveaxis(x, k, 0)) for k in range(2)))
        source = Value(Type(dtypes.i32, x.shape))
        moves = {
            "permute": ({"order": (1, 0)}, x.T), "expand_dims": ({"axis": 1}, x[:, None]), "broadcast": ({"shape": (3, *x.shape)}, np.broadcast_to(x, (3, *x.shape))),
            "reshape": ({"shape": (m, 1, n)}, x[:, None]), "flip": ({"axis": 1}, x[:, ::-1]),
        }  # fmt: skip
        for name, (attrs, want) in moves.items():
            inst = make(name, [source], attrs)
            moved = transfer(inst, [r], inst.out.type)
            assert holds(want, moved), (name, x, r, moved)


def _of_axis(rng: random.Random, rows: np.ndarray) -> Contiguity:
    """What holds along the first axis, for all others at once."""
    found = [Contiguity(1, 1, 1)]
    for c in (_contiguity(rng, rows[:, 0]) for _ in range(4)):
        if holds(rows, Range(int(rows.min()), int(rows.max()), 1, (c, *(Contiguity(),) * (rows.ndim - 1)))):
            found.append(c)
    return rng.choice(found)


def test_comparisons_that_are_decided():
    """Every interval of a few numbers, with every divisor."""
    some = [Range(lo, hi, m) for lo, hi in itertools.combinations_with_replacement(range(-3, 5), 2) for m in (1, 2, 3) if lo < hi or lo % m == 0]
    compare = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}
    numbers = {r: [n for n in range(r.lo, r.hi + 1) if n % r.multiple == 0] for r in some}
    for a, b in itertools.product(some[::2], some):
        for name, word in compare.items():
            known = decide(name, a, b)
            answers = {getattr(x, word)(y) for x in numbers[a] for y in numbers[b]}
            assert known is None or answers <= {known}, (name, a, b)


@pytest.mark.parametrize("truth", [True, False])
def test_conditions_say_only_what_is_true(truth):
    """Every pair of numbers for which a condition holds lies in what it says of both."""
    i32 = Type(dtypes.i32)
    intervals = list(itertools.combinations_with_replacement(range(-2, 4), 2))
    compare = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}
    for name, word in compare.items():
        a, b = Value(i32), Value(i32)
        inst = make(name, [a, b], {})
        for first, second in itertools.product(intervals, repeat=2):
            known = {a: Range(*first), b: Range(*second)}
            said = dict(implied(inst.out, truth, {inst.out: inst}, known.__getitem__))
            for x, y in itertools.product(range(first[0], first[1] + 1), range(second[0], second[1] + 1)):
                if getattr(x, word)(y) is truth:
                    assert holds(np.array(x), said.get(a, known[a])), (name, first, second, x, y)
                    assert holds(np.array(y), said.get(b, known[b])), (name, first, second, x, y)


def test_choices_that_are_made_are_what_the_op_gives():
    """Every pair of small intervals: an operand that a result is said to be, it always is."""
    i32 = Type(dtypes.i32)
    intervals = [Range(lo, hi) for lo, hi in itertools.combinations_with_replacement(range(-3, 5), 2)]
    for name in ("min", "max", "mod", "truncmod"):
        inst = make(name, [Value(i32), Value(i32)], {})
        for a, b in itertools.product(intervals, repeat=2):
            chosen = _choice(inst, [a, b])
            if chosen is not None:
                pairs = np.array(list(itertools.product(range(a.lo, a.hi + 1), range(b.lo, b.hi + 1))), np.int32).T
                block = Type(dtypes.i32, pairs[0].shape)
                assert (evaluate(inst.op, Call((block, block), (block,), {}), list(pairs))[0] == pairs[chosen]).all(), (name, a, b)
    bool_ = Type(dtypes.bool_)
    for name, (x, y) in itertools.product(("and", "or"), itertools.product([(0, 0), (1, 1), (0, 1)], repeat=2)):
        inst = make(name, [Value(bool_), Value(bool_)], {})
        chosen = _choice(inst, [Range(*x), Range(*y)])
        for pair in itertools.product(range(x[0], x[1] + 1), range(y[0], y[1] + 1)):
            assert chosen is None or pair[chosen] == (min if name == "and" else max)(pair)
