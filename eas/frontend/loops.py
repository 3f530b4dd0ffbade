"""Traces runtime loops: which variables a loop carries, and as what type, is found by tracing it again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from eas.base import dtypes
from eas.base.errors import CompileError, TypeMismatch
from eas.base.types import Type
from eas.frontend.block import Block, Counter, refuse_if_not_rewritten
from eas.frontend.builder import NeedsTraceTime, Scope, current
from eas.frontend.containers import unchanged
from eas.frontend.hints import checked
from eas.frontend.state import (
    Leaf,
    align,
    fit_to,
    flatten,
    fresh,
    is_dont_care,
    is_runtime,
    is_same,
    join,
)
from eas.frontend.values import (
    Undefined,
    cast_to,
    condition,
    constant,
    emit,
    is_number,
    lanewise,
    plain,
    to_bool,
)
from eas.ir import Region, Value

MAX_ROUNDS = 5  # tuples get their shape, weak -> typed, int -> float, scalar -> block; one confirms
State = tuple[Any, ...]
Body = Callable[..., State]


class RuntimeRange:
    """What `range` gives when a bound is a runtime value, and `mk.range` always."""

    __slots__ = ("end", "start", "step")

    def __init__(self, start: Any, end: Any, step: Any = 1) -> None:
        for x in (start, end, step):
            if isinstance(x, Counter):
                raise NeedsTraceTime("a range")
            if isinstance(x, Undefined):
                x.refuse()
            block = x if isinstance(x, Block) else None
            if (block is None and (not is_number(x) or isinstance(plain(x), float))) or (block is not None and (block.shape or not block.dtype.is_int)):
                raise TypeMismatch(f"range needs integer scalars, got {x!r}", hint="cast with mk.cast(x, mk.i32), or reduce the block to a scalar", loc=current().here())
        if is_number(step) and plain(step) == 0:
            raise TypeMismatch("range step must not be zero", hint="pass a step of 1 or -1", loc=current().here())
        self.start, self.end, self.step = start, end, step

    def __iter__(self) -> Any:
        refuse_if_not_rewritten("loop over a runtime range", ", or use mk.static_range for trace-time bounds")
        raise CompileError("a runtime range can only be used in a for statement", hint="use a plain for loop, or mk.static_range for trace-time bounds", loc=current().here())

    __reversed__ = __len__ = __iter__

    def bounds(self) -> list[Block]:
        """start, end and step in one integer dtype."""
        bounds = (self.start, self.end, self.step)
        typed = [b.dtype for b in bounds if isinstance(b, Block)]
        dtype = functools.reduce(lambda a, b: checked(dtypes.common, a, b), typed) if typed else dtypes.i32
        dtype = dtype if dtype.bits >= 32 else dtypes.i32
        for number in (plain(b) for b in bounds if not isinstance(b, Block)):
            if not dtype.min <= number <= dtype.max:  # such as the -1 at which an unsigned range ends
                dtype = checked(dtypes.common, dtype, dtypes.weak_default(number))
        return [cast_to(b, dtype) if isinstance(b, Block) else constant(plain(b), dtype) for b in bounds]


class MappedRange:
    """A runtime range of counts, each of which stands for what `enumerate`, `zip` or `reversed` gives there."""

    __slots__ = ("counts", "of")

    def __init__(self, counts: RuntimeRange, of: Callable[[Block], Any]) -> None:
        self.counts, self.of = counts, of

    def __iter__(self) -> Any:
        return iter(self.counts)  # which says what is wrong


def trips(items: RuntimeRange) -> Any:
    """How many numbers a runtime range has."""
    start, end, step = items.bounds()
    up = lanewise("floordiv", lanewise("add", lanewise("sub", end, start), lanewise("sub", step, 1)), step)
    down = lanewise("floordiv", lanewise("sub", lanewise("sub", start, end), lanewise("add", step, 1)), lanewise("neg", step))
    if is_number(items.step):
        return lanewise("max", up if plain(items.step) > 0 else down, 0)
    return lanewise("max", emit("select", lanewise("gt", step, 0), up, down), 0)


def nth(items: RuntimeRange, count: Any) -> Block:
    """The number at a place of a runtime range."""
    start, _, step = items.bounds()
    return lanewise("add", start, lanewise("mul", count, step))


class Carried:
    """What is known so far about the variables of a loop: a type for those that the IR must carry."""

    def __init__(self, names: Sequence[str], state: State) -> None:
        self.names = tuple(names)
        self.before = state
        self.leaves, self.rebuild = flatten(names, state)
        self.types: list[Type | None] = [leaf.value.type if isinstance(leaf.value, Block) else None for leaf in self.leaves]
        self.lost: dict[int, Undefined] = {}  # what changes but cannot be carried: reading it is an error

    @property
    def carried(self) -> list[int]:
        return [i for i, t in enumerate(self.types) if t is not None]

    @property
    def carried_types(self) -> list[Type]:
        return [t for t in self.types if t is not None]

    @property
    def hints(self) -> list[str]:
        return [self.leaves[i].name.removeprefix("__eas_") for i in self.carried]

    def inits(self) -> list[Value]:
        return [fit_to(self.leaves[i].value, t).value for i, t in enumerate(self.types) if t is not None]

    def entering(self, params: Sequence[Value]) -> State:
        """The state as the body sees it."""
        values = [leaf.value for leaf in self.leaves]
        for i, param in zip(self.carried, params, strict=True):
            note = "" if isinstance(values[i], Block) else f"`{self.leaves[i].name}` changes in the loop at {current().here()}"
            values[i] = Block(param, note)
        for i, undefined in self.lost.items():
            values[i] = undefined
        return self.rebuild(values)

    def learn(self, entered: State, left: State) -> bool:
        """Take the state after the body into account; whether that changed what is carried."""
        first, second, _ = align(self.names, entered, left)
        if len(first) != len(self.leaves):
            # A container changes its size: it cannot be carried, so it is one opaque leaf.
            self.leaves, _, self.rebuild = align(self.names, self.before, left)
            self.types = [leaf.value.type if isinstance(leaf.value, Block) else None for leaf in self.leaves]
            self.lost.clear()
            return True
        changed = False
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            start, known = self.leaves[i].value, self.types[i]
            is_result = is_dont_care(self.leaves[i])
            if is_same(a.value, b.value) or i in self.lost or (is_result and not isinstance(b.value, Block)):
                continue
            if not (is_runtime(start) or is_result) or not is_runtime(b.value):  # None, a list, ...
                self.types[i], self.lost[i], changed = None, _lost(a), True
                continue
            wanted = join(a.name, start, b.value) if known is None else join(a.name, a.value, b.value)
            if wanted != known:
                self.types[i], changed = wanted, True
        return changed

    def yields(self, left: State) -> list[Value]:
        after, _ = flatten(self.names, left)
        return [fit_to(after[i].value, t).value for i, t in enumerate(self.types) if t is not None]

    def leaving(self, entered: State, left: State, outs: Sequence[Value]) -> State:
        """The state after the loop: carried results, what never changed, and errors-to-be."""
        first, second, rebuild = align(self.names, entered, left)
        results = dict(zip(self.carried, outs, strict=True))
        for out, hint in zip(outs, self.hints, strict=True):
            out.hint = hint
        values: list[Any] = []
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            if i in results:
                values.append(Block(results[i], _note(a.value)))
            elif is_same(a.value, b.value):
                values.append(a.value)
            elif is_dont_care(a):
                values.append(b.value)  # nothing that the IR would have to carry, such as None
            else:
                values.append(self.lost[i])
        return rebuild(values)


def _lost(leaf: Leaf) -> Undefined:
    if isinstance(leaf.value, Undefined):
        return Undefined(leaf.name, leaf.value.reason or "is only assigned inside a runtime loop, which may not run")
    return Undefined(leaf.name, "is changed by a runtime loop in a way that the kernel cannot carry", "a loop carries numbers, blocks, and tuples, lists, dicts and dataclasses of them that keep their size")


def _note(x: Any) -> str:
    return x.note if isinstance(x, Block) else ""


def _settle(carried: Carried, attempt: Callable[[], tuple[State, State]]) -> tuple[State, State]:
    """Trace until the carried types no longer change."""
    builder = current()
    for round in range(MAX_ROUNDS):
        with builder.retracing() if round else nullcontext():
            entered, left = attempt()
        if not carried.learn(entered, left):
            return entered, left
    raise TypeMismatch("the types of the loop's variables do not settle: " + ", ".join(f"`{carried.leaves[i].name}`: {carried.types[i]}" for i in carried.carried), hint="give them their final dtype and shape before the loop", loc=builder.here())


def trace_for(items: RuntimeRange, body: Body, names: Sequence[str], state: State, stop: int | None) -> State:
    """A `for` over a runtime range; one that raises its stop flag becomes a `while`."""
    builder, bounds, carried = current(), items.bounds(), Carried(names, state)
    scope = Scope("for loop", None)

    def attempt() -> tuple[State, State]:
        nonlocal scope
        with builder.scope("for loop", [bounds[0].type, *carried.carried_types], ["", *carried.hints]) as scope, unchanged("for loop", body):
            entered = carried.entering(scope.params[1:])
            return entered, tuple(body(Block(scope.params[0]), *fresh(entered)))

    entered, left = _settle(carried, attempt)
    if stop is not None and left[stop] is not False:
        return _trace_for_with_break(items, body, names, state, stop)
    with builder.inside(scope):
        yields = carried.yields(left)
    region = builder.close(scope, yields)
    inst = builder.emit("for", [b.value for b in bounds] + carried.inits(), {}, [region])
    return carried.leaving(entered, left, inst.outs)


def trace_plain_for(items: RuntimeRange, limits: tuple[int, int], body: Body, carried: Carried) -> State:
    """A `for` whose counter stands for a Python integer, and that changes only what has its final type before it."""
    builder, bounds = current(), items.bounds()
    with builder.scope("for loop", [bounds[0].type, *carried.carried_types], ["", *carried.hints]) as scope, unchanged("for loop", body):
        entered = carried.entering(scope.params[1:])
        left = tuple(body(Counter(scope.params[0], *limits), *fresh(entered)))
        after, _ = flatten(carried.names, left)
        if carried.learn(entered, left) or any(isinstance(leaf.value, Counter) for leaf in after):
            raise NeedsTraceTime("a variable of the loop")
        yields = carried.yields(left)
    region = builder.close(scope, yields)
    inst = builder.emit("for", [b.value for b in bounds] + carried.inits(), {}, [region])
    return carried.leaving(entered, left, inst.outs)


def trace_while(test: Callable[..., Any], body: Body, names: Sequence[str], state: State) -> State:
    """A `while` whose condition is a runtime value."""
    builder, carried = current(), Carried(names, state)
    scopes: list[Scope] = []
    answer: Any = True

    def attempt() -> tuple[State, State]:
        nonlocal answer
        scopes.clear()
        with builder.scope("while loop", carried.carried_types, carried.hints) as scope:
            scopes.append(scope)
            answer = condition(test(*carried.entering(scope.params)))
        with builder.scope("while loop", carried.carried_types, carried.hints) as scope, unchanged("while loop", body):
            scopes.append(scope)
            entered = carried.entering(scope.params)
            return entered, tuple(body(*fresh(entered)))

    entered, left = _settle(carried, attempt)
    with builder.inside(scopes[1]):
        yields = carried.yields(left)
    regions: list[Region] = [builder.close(scopes[0], [answer.value]), builder.close(scopes[1], yields)]
    inst = builder.emit("while", carried.inits(), {}, regions)
    return carried.leaving(entered, left, inst.outs)


def _trace_for_with_break(items: RuntimeRange, body: Body, names: Sequence[str], state: State, stop: int) -> State:
    """A `for` that may end early: a `while` over the loop variable and the stop flag."""
    start, end, step = items.bounds()

    def test(i: Block, *rest: Any) -> Any:
        going_up = plain(items.step) > 0 if is_number(items.step) else lanewise("gt", step, 0)
        if going_up is True:
            more = lanewise("lt", i, end)
        elif going_up is False:
            more = lanewise("gt", i, end)
        else:
            down = lanewise("and", lanewise("lt", step, 0), lanewise("gt", i, end))  # no turn if the step is 0
            more = emit("select", going_up, lanewise("lt", i, end), down)
        flag = rest[stop]
        return more if flag is False else lanewise("and", more, emit("not", to_bool(flag)))

    def step_body(i: Block, *rest: Any) -> State:
        return (lanewise("add", i, step), *body(i, *rest))

    with current().retracing():
        return trace_while(test, step_body, ("i", *names), (start, *state))[1:]

