"""Which `while mk.any(...)` loops may stop for each element on its own.

Such a loop runs all elements until none wants to go on. Where an element that wants to stop keeps all
of its carried values, and with them its wish, it makes no difference how long the others go on.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from eas.analysis import made_by
from eas.base.trampoline import Definition, evaluate, every, reached
from eas.ir import Inst, IRModule, Region, Trait, Value, make
from eas.ir.rewriting import Rewriter, clone_region, rewrite

_Number = float | int | bool | None
_Literal = Callable[[Value], _Number]  # the number that a value from anywhere is, if it is one


def mark_element_loops(module: IRModule) -> IRModule:
    """Loops that may stop per element say so by `each`; their test is `any` of one block and no more.

    In textbooks: loop fission by element, as in ispc's `foreach`.

        while any(%z < 4) { %z = select (%z < 4), f(%z), %z }
        ->
        while any(%z < 4) {each} { ... }
    """

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if inst.op.name != "while" or is_each(inst):
            return None

        def literal(value: Value) -> _Number:
            spread = rw.produced_by("broadcast", value)
            return rw.literal(value if spread is None else spread.operands[0])

        test = _one_any(inst, literal)
        if test is None or not _stopped_stay(inst, test, literal):
            return None
        regions = (Region(inst.regions[0].params, test.body), inst.regions[1])
        return rw.append(make("while", inst.operands, {"each": True}, regions, inst.loc, [v.hint for v in inst.outs])).outs

    return rewrite(module, rule)


def is_each(inst: Inst) -> bool:
    """Whether this is such a loop."""
    return inst.op.name == "while" and bool(inst["each"])


def wish(loop: Inst) -> tuple[Value, tuple[Inst, ...]]:
    """The block that says which elements of an `each` loop go on, and the instructions that ask for any."""
    body = loop.regions[0].body[:-1]
    reduce = body[-1]
    flat = [inst for inst in body if inst.outs == reduce.operands and inst.op.name == "reshape"]
    return (flat[0] if flat else reduce).operands[0], (*flat, reduce)


# --- the test -------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Test:
    """A test as one list of pure instructions that ends by asking for any element."""

    body: tuple[Inst, ...]
    asked: Value  # the block that it asks about, without the scalar conditions
    made: dict[Value, Inst]


@dataclass(eq=False)
class _Parts:
    kept: list[Inst] = field(default_factory=list)
    scalars: list[Value] = field(default_factory=list)
    anys: list[Inst] = field(default_factory=list)


def _one_any(loop: Inst, literal: _Literal) -> _Test | None:
    """`any(block)`, possibly with scalar conditions that `and` joins, as `any(block & scalars)`."""
    region, parts = loop.regions[0], _Parts()
    if not _flatten(region, parts, literal) or len(parts.anys) != 1:
        return None
    (reduce,) = parts.anys
    made = made_by(parts.kept)
    asked = reduce.operands[0]
    while (view := made.get(asked)) is not None and view.op.name == "reshape":
        asked = view.operands[0]
    shape = asked.shape
    if any(v.shape and v.shape != shape for v in loop.operands) or any(
        inst.op.has(Trait.SHAPE) and inst.op.name not in ("broadcast", "reshape") for inst in parts.kept
    ):
        return None
    body, go = list(parts.kept), asked

    def add(name: str, *operands: Value, **attrs: object) -> Value:
        body.append(make(name, operands, attrs, (), reduce.loc))
        return body[-1].out

    for scalar in parts.scalars:
        go = add("and", go, add("broadcast", scalar, shape=shape))
    flat = go if len(shape) == 1 else add("reshape", go, shape=(asked.type.size,))
    body.append(make("reduce", [flat], dict(reduce.attrs), [clone_region(reduce.regions[0])], reduce.loc))
    body.append(make("yield", [body[-1].out]))
    return _Test(tuple(body), asked, made)


def _flatten(region: Region, parts: _Parts, literal: _Literal) -> bool:
    """Collect the conditions that a region's only result joins; False where it is anything else."""
    made = made_by(region.body)
    joints: set[int] = set()

    def split(value: Value) -> None:
        left = [value]
        while left:
            value = left.pop()
            inst = made.get(value)
            if inst is not None and inst.op.name == "and":
                left += reversed(inst.operands)
            elif inst is not None and inst.op.name == "if" and literal(inst.regions[1].yields[0]) is False:
                then = inst.regions[0]
                made.update({out: inner for inner in then.body for out in inner.outs})
                left += [then.yields[0], inst.operands[0]]
            elif inst is not None and _is_any(inst):
                parts.anys.append(inst)
            else:
                parts.scalars.append(value)
                continue
            joints.add(id(inst))

    def keep(insts: Sequence[Inst]) -> bool:
        for inst in insts:
            if inst.op.name == "if" and id(inst) in joints:
                if not keep(inst.regions[0].body[:-1]):
                    return False
            elif id(inst) not in joints:
                if not inst.op.is_pure or inst.regions:
                    return False
                parts.kept.append(inst)
        return True

    split(region.yields[0])
    return keep(region.body[:-1])


def _is_any(inst: Inst) -> bool:
    """Whether this is `any` of all elements of a block of one axis."""
    if inst.op.name != "reduce" or len(inst.operands) != 1 or inst.out.shape:
        return False
    region = inst.regions[0]
    first = region.body[0]
    return (
        inst.out.dtype.is_bool
        and len(region.body) == 2
        and first.op.name == "or"
        and set(first.operands) == set(region.params)
        and region.yields == first.outs
    )


# --- the proof ------------------------------------------------------------------------------------


class _Is(enum.Enum):
    """What an element surely is once it has stopped."""

    ZERO = enum.auto()  # or false
    ONE = enum.auto()  # or true


_OPPOSITE = {_Is.ZERO: _Is.ONE, _Is.ONE: _Is.ZERO}
_Fact = _Is | Value | None  # a value: whatever that is


def _stopped_stay(loop: Inst, test: _Test, literal: _Literal) -> bool:
    """Whether an element whose wish is false keeps all its carried blocks, and so its wish, for ever."""
    region, body = loop.regions
    if _leaves(test.asked, test.made) & {p for p in region.params if not p.shape}:
        return False  # a scalar goes on: the wish may come back
    stopped = _Stopped(loop, test, literal)
    for init, param, new in zip(loop.operands, body.params, body.yields, strict=True):
        is_sum_of_zeros = stopped.adds_zero(param, new) and _is_no_negative_zero(literal(init))
        if param.shape and not stopped.keeps(param, new) and not is_sum_of_zeros:
            return False
    return True


def _leaves(value: Value, made: Mapping[Value, Inst]) -> set[Value]:
    """What a value is computed from."""
    return {v for v in reached([value], lambda v: made[v].operands if v in made else ()) if v not in made}


def _is_no_negative_zero(number: _Number) -> bool:
    return number is not None and (number != 0 or math.copysign(1, number) > 0)


class _Stopped:
    """The body of a loop as an element goes through it whose wish is false."""

    def __init__(self, loop: Inst, test: _Test, literal: _Literal) -> None:
        region, body = loop.regions
        self._literal = literal
        self._made = made_by(body.body)
        self._facts: dict[Value, _Fact] = {}
        self._known: dict[Hashable, _Is] = {}
        self._names: dict[Value, Hashable] = {}
        self._expressions: dict[Hashable, int] = {}
        for i, (p, q) in enumerate(zip(region.params, body.params, strict=True)):
            self._names[p] = self._names[q] = i
        self._assume(test.asked, test.made, _Is.ZERO)

    def keeps(self, param: Value, new: Value) -> bool:
        """Whether a carried block stays what it is."""
        after = self._fact(new)
        return after is not None and after == self._fact(param)

    def adds_zero(self, param: Value, new: Value) -> bool:
        """Whether 0 is added to it: no change but to -0.0, which a sum from anything else never becomes."""
        inst = self._made.get(new)
        if inst is None or inst.op.name != "add" or param not in inst.operands:
            return False
        return any(v is not param and self._fact(v) is _Is.ZERO for v in inst.operands)

    def _assume(self, value: Value, made: Mapping[Value, Inst], fact: _Is) -> None:
        left = [(value, fact)]
        while left:
            value, fact = left.pop()
            self._known[self._name(value, made)] = fact
            inst = made.get(value)
            if inst is not None and inst.op.name == "not":
                left.append((inst.operands[0], _OPPOSITE[fact]))
            elif inst is not None and inst.op.name == ("or" if fact is _Is.ZERO else "and"):
                left += [(operand, fact) for operand in reversed(inst.operands)]

    def _name(self, value: Value, made: Mapping[Value, Inst]) -> Hashable:
        """Equal for values of test and body that are the same expression of the carried values."""
        return evaluate(lambda v: self._spelled(v, made), value, self._names)

    def _spelled(self, value: Value, made: Mapping[Value, Inst]) -> Definition[Value, Hashable]:
        inst = made.get(value)
        if inst is None or inst.regions or not inst.op.is_pure:
            return value
        operands: list[Hashable] = yield from every(inst.operands)
        spelling = (inst.op.name, tuple(operands), inst.attrs, value.type, inst.outs.index(value))
        return "expression", self._expressions.setdefault(spelling, len(self._expressions))

    def _fact(self, value: Value) -> _Fact:
        return evaluate(self._derived, value, self._facts)

    def _derived(self, value: Value) -> Definition[Value, _Fact]:
        known = self._known.get(self._name(value, self._made))
        if known is not None:
            return known
        inst = self._made.get(value)
        if inst is None:  # carried, or from around the loop
            return _constant(self._literal(value)) or value
        if inst.op.name == "const":
            return _constant(inst["value"])
        if inst.op.name not in _LAWS:
            return None
        return _LAWS[inst.op.name](value, (yield from every(inst.operands)))


def _constant(value: object) -> _Fact:
    if value == 0 and isinstance(value, (bool, int, float)) and math.copysign(1, value) > 0:
        return _Is.ZERO
    return _Is.ONE if value == 1 else None


def _select(out: Value, facts: Sequence[_Fact]) -> _Fact:
    condition, yes, no = facts
    if isinstance(condition, _Is):
        return yes if condition is _Is.ONE else no
    return yes if yes == no else None


def _without(neutral: _Is) -> Callable[[Value, Sequence[_Fact]], _Fact]:
    """A commutative op of which one operand is neutral."""

    def law(out: Value, facts: Sequence[_Fact]) -> _Fact:
        left, right = facts
        return right if left is neutral else left if right is neutral else None

    return law


def _and(out: Value, facts: Sequence[_Fact]) -> _Fact:
    if _Is.ZERO in facts:
        return _Is.ZERO
    return _without(_Is.ONE)(out, facts) if out.dtype.is_bool else None


def _or(out: Value, facts: Sequence[_Fact]) -> _Fact:
    if out.dtype.is_bool and _Is.ONE in facts:
        return _Is.ONE
    return _without(_Is.ZERO)(out, facts)


def _not(out: Value, facts: Sequence[_Fact]) -> _Fact:
    fact = facts[0]
    return _OPPOSITE[fact] if out.dtype.is_bool and isinstance(fact, _Is) else None


def _add(out: Value, facts: Sequence[_Fact]) -> _Fact:
    return None if out.dtype.is_float else _without(_Is.ZERO)(out, facts)


def _sub(out: Value, facts: Sequence[_Fact]) -> _Fact:
    return facts[0] if facts[1] is _Is.ZERO else None


def _mul(out: Value, facts: Sequence[_Fact]) -> _Fact:
    return _Is.ZERO if _Is.ZERO in facts and not out.dtype.is_float else _without(_Is.ONE)(out, facts)


_LAWS: dict[str, Callable[[Value, Sequence[_Fact]], _Fact]] = {
    "select": _select,
    "and": _and,
    "or": _or,
    "xor": lambda out, facts: _without(_Is.ZERO)(out, facts),
    "not": _not,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "cast": lambda out, facts: facts[0] if isinstance(facts[0], _Is) else None,
    "broadcast": lambda out, facts: facts[0] if isinstance(facts[0], _Is) else None,
}
