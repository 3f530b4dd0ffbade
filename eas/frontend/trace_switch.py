"""Traces long chains of `elif`: the number of the first test that holds, then branches by binary search, so that nothing nests deeply."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from eas.base import dtypes
from eas.frontend.block import Block
from eas.frontend.builder import Scope, current
from eas.frontend.containers import unchanged
from eas.frontend.values import condition, constant, emit
from eas.ops import Trait

State = tuple[Any, ...]
Thunk = Callable[[], Any]
Body = Callable[..., State]


def trace_switch(if_: Callable[..., State], tests: Sequence[Thunk], bodies: Sequence[Body], names: Sequence[str], state: State) -> State:
    """The state after the first body whose test holds, or after the last body, which has none."""
    first, kept, last = _First(len(tests)), list[Body](), bodies[-1]
    for test, body in zip(tests, bodies, strict=False):
        answer = first.add(test, len(kept))
        if isinstance(answer, Block):
            kept.append(body)
        elif answer:
            last = body
            break
    return _dispatch(if_, first.number(), [*kept, last], 0, names, state) if kept else tuple(last(*state))


class _First:
    """The number of the first test that holds, of those that are known at run time only."""

    def __init__(self, none: int) -> None:
        self.none = none  # if none does
        self.found: list[Block] = []  # the least of these

    def add(self, test: Thunk, number: int) -> Any:
        """What a test gives where none before it holds."""
        builder = current()
        with builder.scope("if") as scope:
            answer = test()
            found = emit("select", condition(answer), _index(number), _index(self.none)) if isinstance(answer, Block) else None
        if not self.found or all(_may_run(scope)):
            builder.commit(scope)
            self.found += [] if found is None else [found]
            return answer
        chosen = self.number()
        with builder.scope("if") as other:
            pass
        regions = [builder.close(scope, [(chosen if found is None else found).value]), builder.close(other, [chosen.value])]
        is_open = emit("eq", chosen, _index(self.none))
        self.found = [Block(builder.emit("if", [is_open.value], {}, regions).out)]
        return answer

    def number(self) -> Block:
        """The least, by a tree: LLVM takes time with the square of a chain."""
        while len(self.found) > 1:
            pairs = [self.found[i : i + 2] for i in range(0, len(self.found), 2)]
            self.found = [emit("min", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return self.found[0]


def _may_run(scope: Scope) -> list[bool]:
    """Of each instruction, whether it may run although nobody asks for its result."""
    return [inst.op.is_pure and not inst.op.has(Trait.PARTIAL) and not inst.regions for inst in scope.body]


def _dispatch(if_: Callable[..., State], chosen: Block, bodies: Sequence[Body], first: int, names: Sequence[str], state: State) -> State:
    """The state after the body of a number; `first` is that of the first body, and the last one takes all behind it."""
    if len(bodies) == 1:
        with unchanged("if", bodies[0]):
            return tuple(bodies[0](*state))
    half = len(bodies) // 2
    sides = [functools.partial(_side, if_, chosen, part, start, names) for part, start in ((bodies[:half], first), (bodies[half:], first + half))]
    return if_(emit("lt", chosen, _index(first + half)), *sides, names, state)


def _side(if_: Callable[..., State], chosen: Block, bodies: Sequence[Body], first: int, names: Sequence[str], *state: Any) -> State:
    return _dispatch(if_, chosen, bodies, first, names, state)


def _index(number: int) -> Block:
    return constant(number, dtypes.i32, ())


__all__ = ["trace_switch"]
