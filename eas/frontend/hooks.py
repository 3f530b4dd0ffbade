"""What rewritten control flow means: Python's own on trace-time values, IR regions on runtime ones."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from eas.base import dtypes
from eas.base.errors import (
    CompileError,
    ShapeMismatch,
    StaticAssertion,
    TypeMismatch,
    UnsupportedPython,
)
from eas.base.types import Type
from eas.frontend.block import Block, BufferShape, Counter
from eas.frontend.builder import TRIAL, Scope, current
from eas.frontend.calls import callee
from eas.frontend.containers import carrying, unchanged
from eas.frontend.lang.tables import element
from eas.frontend.loops import MappedRange, RuntimeRange, trace_for, trace_while
from eas.frontend.plain_loops import trace_plain_loop
from eas.frontend.state import (
    align,
    disagree,
    fit_to,
    fresh,
    is_dont_care,
    is_runtime,
    is_same,
    join,
    shown_name,
)
from eas.frontend.syntax.rewrite import Spelling
from eas.frontend.trace_switch import trace_switch
from eas.frontend.values import (
    Undefined,
    broadcast_to,
    condition,
    emit,
    emit_inst,
    lanewise,
    to_bool,
)
from eas.ops import Trait

MAX_UNROLLED = 10_000
State = tuple[Any, ...]
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "is": operator.is_, "is not": operator.is_not}


class TracingHooks:
    """The hooks of a trace; stateless, the builder is the current one."""

    spell: Spelling | None = None

    # --- branches ---------------------------------------------------------------------------

    def if_(self, test: Any, then: Callable[..., State], orelse: Callable[..., State] | None, names: Sequence[str], state: State) -> State:
        if not isinstance(test, Block):
            return then(*state) if test else orelse(*state) if orelse else state
        chosen = condition(test)
        return carrying(functools.partial(self._branch, chosen), (then, orelse), names, state)

    def _branch(self, chosen: Block, then: Callable[..., State], orelse: Callable[..., State] | None, names: Sequence[str], state: State) -> State:
        builder = current()
        sides: list[tuple[Scope, State]] = []
        for branch in (then, orelse):
            with builder.scope("if") as scope, unchanged("if", branch):
                sides.append((scope, tuple(branch(*fresh(state))) if branch else state))
        (scope, left), (other, right) = sides
        first, second, rebuild = align(names, left, right)
        merged: list[Any] = []
        plan: list[tuple[int, Type]] = []
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            needs_a, needs_b = not is_dont_care(a, first), not is_dont_care(b, second)
            if is_same(a.value, b.value):
                merged.append(a.value)
            elif not (needs_a and needs_b) and not isinstance(known := a.value if needs_a else b.value, Block):
                merged.append(known)
            elif (is_runtime(a.value) or not needs_a) and (is_runtime(b.value) or not needs_b):
                plan.append((i, join(a.name, a.value, b.value)))
                merged.append(None)
            else:
                merged.append(disagree(a.name, a.value, b.value, "if"))
        regions = []
        for side, leaves in ((scope, first), (other, second)):
            with builder.inside(side):
                yields = [fit_to(leaves[i].value, t).value for i, t in plan]
            regions.append(builder.close(side, yields))
        if plan or any(len(r.body) > 1 for r in regions):
            inst = builder.emit("if", [chosen.value], {}, regions)
            for (i, _), out in zip(plan, inst.outs, strict=True):
                out.hint = first[i].name.removeprefix("__eas_")
                merged[i] = Block(out, f"{shown_name(first[i].name)} differs between the paths of the if at {inst.loc}")
        return rebuild(merged)

    def switch(self, tests: Sequence[Callable[[], Any]], bodies: Sequence[Callable[..., State]], names: Sequence[str], state: State) -> State:
        """A long chain of `elif`; the last body has no test."""
        return trace_switch(self.if_, tests, bodies, names, state)

    def ifexp(self, test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        if not isinstance(test, Block):
            return then() if test else orelse()
        builder, chosen = current(), condition(test)
        with builder.scope("if") as scope:
            a = then()
        with builder.scope("if") as other:
            b = orelse()
        if is_runtime(a) and is_runtime(b) and _is_pure(scope) and _is_pure(other) and not _is_pointer(a):
            builder.commit(scope)
            builder.commit(other)
            if is_same(a, b):
                return a
            type = join("the value", a, b)
            return emit("select", broadcast_to(chosen, type.shape), fit_to(a, type), fit_to(b, type))
        # Not pure: each side must run only when it is chosen, so trace it again as a branch.
        with builder.retracing():
            (result,) = self.if_(chosen, lambda _: (then(),), lambda _: (orelse(),), ("value",), (None,))
        return result

    # --- truth ------------------------------------------------------------------------------

    def and_(self, *operands: Callable[[], Any]) -> Any:
        return self._connect("and", operands)

    def or_(self, *operands: Callable[[], Any]) -> Any:
        return self._connect("or", operands)

    def _connect(self, name: str, operands: Sequence[Callable[[], Any]]) -> Any:
        value = operands[0]()
        if len(operands) == 1:
            return value
        if not isinstance(value, Block):
            decided = bool(value) if name == "or" else not value
            return value if decided else self._connect(name, operands[1:])
        builder, left = current(), to_bool(value)
        with builder.scope("if") as scope:
            rest = self._connect(name, operands[1:])
        if not (_is_truth(value) and _is_truth(rest)):
            return self._choose(name, value, lambda: self._connect(name, operands[1:]))
        if left.shape or (isinstance(rest, Block) and rest.shape) or _is_pure(scope):
            builder.commit(scope)
            if not isinstance(rest, Block):
                return left if rest is (name == "and") else rest
            return lanewise(name, left, rest)
        # Python does not evaluate the right side when the left one decides; neither do we.
        with builder.scope("if") as other:
            decided_value = fit_to(name == "or", Type(dtypes.bool_))
        with builder.inside(scope):
            answer = fit_to(rest, Type(dtypes.bool_))
        regions = [builder.close(scope, [answer.value]), builder.close(other, [decided_value.value])]
        if name == "or":
            regions.reverse()
        return Block(builder.emit("if", [left.value], {}, regions).out)

    def _choose(self, name: str, value: Block, rest: Callable[[], Any]) -> Any:
        """`n or 4` is one of its operands, not a truth value."""
        if value.shape:
            raise ShapeMismatch(f"`{name}` of the block {value.type}", hint="use mk.where(cond, a, b), or & and | on blocks of bools", loc=current().here())
        sides = (rest, lambda: value) if name == "and" else (lambda: value, rest)
        with current().retracing():
            return self.ifexp(value, *sides)

    def not_(self, value: Any) -> Any:
        return emit("not", to_bool(value)) if isinstance(value, Block) else not value

    def compare(self, left: Any, links: tuple[tuple[str, Callable[[], Any]], ...]) -> Any:
        """a < b < c, with b evaluated once."""
        known: list[Any] = [left]

        def link(index: int) -> Any:
            word, operand = links[index]
            if len(known) == index + 1:
                known.append(operand())
            a, b = known[index], known[index + 1]
            if word in ("in", "not in"):
                found = self.in_(a, b)
                return found if word == "in" else self.not_(found)
            return self.related(word, a, b)

        return self.and_(*(functools.partial(link, i) for i in range(len(links))))

    def related(self, word: str, a: Any, b: Any) -> Any:
        """One link of a chain of comparisons."""
        return _COMPARE[word](a, b)

    def in_(self, item: Any, container: Any) -> Any:
        if isinstance(container, (Block, RuntimeRange)):
            raise TypeMismatch("`in` needs a Python container", hint="compare elements with == and mk.any", loc=current().here())
        members = list(container) if not isinstance(container, (str, dict, set, frozenset, range)) else container
        if not isinstance(item, Block) and not any(isinstance(m, Block) for m in members):
            return item in container
        result: Any = False
        for member in members:
            equal = item == member
            result = equal if result is False else lanewise("or", to_bool(result), to_bool(equal))
        return result

    # --- loops ------------------------------------------------------------------------------

    def for_(self, items: Any, body: Callable[..., State], names: Sequence[str], state: State, stop: int | None) -> State:
        if isinstance(items, MappedRange):
            return self.for_(items.counts, _Mapped(items.of, body), names, state, stop)
        if isinstance(items, RuntimeRange):
            return carrying(lambda body, names, state: trace_for(items, body, names, state, stop), (body,), names, state)
        if isinstance(items, Undefined | BufferShape):
            items.refuse()
        if isinstance(items, range) and stop is None and (made := trace_plain_loop(items, body, names, state)) is not None:
            return made
        for count, item in enumerate(items):
            _check_unrolled(count, "for")
            flag = state[stop] if stop is not None else False
            if isinstance(flag, Block):
                state = self.if_(self.not_(flag), functools.partial(body, item), None, names, state)
            else:
                state = tuple(body(item, *state))
            if stop is not None and state[stop] is True:
                break
        return state

    def while_(self, test: Callable[..., Any], body: Callable[..., State], names: Sequence[str], state: State, stop: int | None) -> State:
        builder = current()
        count = 0
        while True:
            with builder.scope(TRIAL) as scope:
                answer = test(*state)
            if isinstance(answer, Block):
                return carrying(trace_while, (test, body), names, state)
            builder.commit(scope)
            if not answer:
                return state
            # One step on trial: a runtime break makes the whole loop a runtime loop.
            with builder.scope(TRIAL) as scope:
                after = tuple(body(*state))
                again = test(*after)
            if isinstance(again, Block):
                return carrying(trace_while, (test, body), names, state)
            builder.commit(scope)
            state = after
            count += 1
            _check_unrolled(count, "while")

    def item(self, container: Any, index: Any) -> Any:
        """container[index]; a list or NumPy array with a runtime index is a constant table."""
        if isinstance(container, (list, tuple, np.ndarray)) and any(isinstance(part, Block) and not isinstance(part, Counter) for part in (index if isinstance(index, tuple) else (index,))):
            return element(container, index)
        return container[index]

    def iterate(self, items: Any) -> Any:
        """What a comprehension iterates over."""
        if isinstance(items, RuntimeRange):
            raise UnsupportedPython("a comprehension cannot run over a runtime range", hint="use mk.arange for a block, or a for statement", loc=current().here())
        return items

    def filter_(self, test: Any) -> Any:
        if isinstance(test, Block):
            raise UnsupportedPython("a comprehension cannot filter by a runtime value", hint="use mk.where, or a for statement with if", loc=current().here())
        return test

    # --- names, calls, failures -------------------------------------------------------------

    def undefined(self, name: str) -> Any:
        return Undefined(name)

    def named(self, shape: Any, value: Any) -> Any:
        """Remember the user's name of a value, for readable IR."""
        if isinstance(value, Block):
            if isinstance(shape, str) and not value.value.hint:
                value.value.hint = shape
        elif isinstance(value, BufferShape) and isinstance(shape, tuple):
            return self.named(shape, value.unpacked(len(shape)))
        elif isinstance(value, tuple) and isinstance(shape, tuple) and len(value) == len(shape):
            items = [item if name is None else self.named(name, item) for name, item in zip(shape, value, strict=True)]
            if type(value) is tuple:  # (rows, cols), n = x.shape, len(y)
                return tuple(items)
        return value

    def made(self, fn: FunctionType) -> FunctionType:
        current("a function").made.add(fn)
        return fn

    def call(self, fn: Any) -> Callable[..., Any]:
        """What to call instead: Python helpers are rewritten, a few builtins understand runtime values."""
        made: Callable[..., Any] = callee(fn, self)
        return made

    def assert_(self, test: Any, message: Callable[[], Any] | None) -> None:
        text = str(message()) if message is not None else ""
        if isinstance(test, Block):
            emit_inst("device_assert", to_bool(test), message=text)
        elif not test:
            raise StaticAssertion(text or "an assert on trace-time values failed", loc=current().here())

    def raise_(self) -> None:
        builder = current()
        if builder.depth:
            raise UnsupportedPython("raise under a runtime condition", hint="use mk.device_assert(cond, message)", loc=builder.here())


class _Mapped:
    """The body of a loop over counts, which gets what stands at a count."""

    def __init__(self, of: Callable[[Block], Any], body: Callable[..., State]) -> None:
        self.of, self.func = of, body

    def __call__(self, count: Block, *state: Any) -> State:
        return self.func(self.of(count), *state)


def _check_unrolled(count: int, word: str) -> None:
    if count >= MAX_UNROLLED:
        raise CompileError(f"a {word} loop on trace-time values ran {MAX_UNROLLED} times while tracing", hint="use mk.range(n) for a runtime loop", loc=current().here())


def _is_truth(x: Any) -> bool:
    return x.type.is_value and x.dtype.is_bool if isinstance(x, Block) else isinstance(x, bool)


def _is_pure(scope: Scope) -> bool:
    """Whether everything in the scope may run even when it is not needed."""
    return all(inst.op.is_pure and not inst.op.has(Trait.PARTIAL) and not inst.regions for inst in scope.body)


def _is_pointer(x: Any) -> bool:
    return isinstance(x, Block) and not x.type.is_value


HOOKS = TracingHooks()
