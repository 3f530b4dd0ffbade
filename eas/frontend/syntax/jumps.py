"""Removes `return`, `break` and `continue`: what they skip moves into a branch or behind a flag."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from eas.frontend.syntax.nodes import HiddenNames, assign, is_hidden, load, located, negated
from eas.frontend.syntax.switches import Switch

Loop = ast.For | ast.While


@dataclass
class Straight:
    """A function body without jumps, except one `return` at its very end."""

    body: list[ast.stmt]
    stops: dict[ast.stmt, str] = field(default_factory=dict)  # loop -> the flag that ends it


class _Exits(NamedTuple):
    """How control leaves some statements: past their end, and by which jumps."""

    falls: bool
    jumps: frozenset[str]


class _Flags(NamedTuple):
    """The flags of one loop: it has ended, and this turn of it has."""

    ended: str
    turn: str


class _Leave(ast.Return):
    """A `return` that continues in the next loop outwards: value and flag are already set."""


def straighten(body: list[ast.stmt], hidden: HiddenNames) -> Straight:
    """The same statements without jumps."""
    if not body:
        return Straight([])
    *before, last = body
    if isinstance(last, ast.Return) and "return" not in _exits(before).jumps:
        falls = _exits(before).falls  # asked first: lowering takes the jumps out of these statements
        lowering = _Lowering(hidden, gives_value=False)
        done = lowering.finish(lowering.block(before, None))
        if falls:
            done.append(last)
        return Straight(done, lowering.stops)
    falls, jumps = _exits(body)
    gives_value = "return" in jumps and any(map(_gives_value, _returns(body)))
    lowering = _Lowering(hidden, gives_value)
    if gives_value and falls:
        body = [*body, located(ast.Return(ast.Constant(None)), last)]
    done = lowering.finish(lowering.block(body, None))
    if gives_value:
        done.append(located(ast.Return(load(lowering.value)), last))
    return Straight(done, lowering.stops)


class _Lowering:
    def __init__(self, hidden: HiddenNames, gives_value: bool) -> None:
        self.hidden = hidden
        self.gives_value = gives_value
        self.returned = hidden.new("ret")
        self.value = hidden.new("value")
        self.stops: dict[ast.stmt, str] = {}

    def finish(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Start the return flag, and drop the flags that nobody reads."""
        if not body:
            return body
        started = located(assign(self.returned, ast.Constant(False)), body[0])
        kept = _DropUnread(body, {self.value, *self.stops.values()})
        return kept.block([started, *body])

    def block(self, stmts: Sequence[ast.stmt], loop: _Flags | None) -> list[ast.stmt]:
        """Lower statements such that a jump out of them is to reach their end."""
        done: list[ast.stmt] = []
        left = list(stmts)[::-1]
        while left:
            stmt = left.pop()
            if isinstance(stmt, ast.Return | ast.Break | ast.Continue):
                return done + self.jump(stmt, loop)
            if isinstance(stmt, ast.If) and _exits([stmt]).jumps:
                return done + self.branch(stmt, left[::-1], loop)
            if isinstance(stmt, Switch) and _exits([stmt]).jumps:
                return done + self.switch(stmt, left[::-1], loop)
            if isinstance(stmt, ast.For | ast.While):
                lowered, after = self.loop(stmt)
                done += lowered
                left += reversed(after)
                continue
            if isinstance(stmt, ast.If):
                stmt.body = self.block(stmt.body, loop)
                stmt.orelse = self.block(stmt.orelse, loop)
            if isinstance(stmt, Switch):
                self.cases(stmt, (), loop)
            done.append(stmt)
            if isinstance(stmt, ast.Raise):
                return done
        return done

    def jump(self, stmt: ast.stmt, loop: _Flags | None) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        flags: list[str] = []
        if isinstance(stmt, ast.Return) and not isinstance(stmt, _Leave):
            flags.append(self.returned)
            if self.gives_value:
                made.append(assign(self.value, stmt.value or ast.Constant(None)))
        if loop is not None:
            flags += [loop.turn] if isinstance(stmt, ast.Continue) else [loop.turn, loop.ended]
        made += [assign(flag, ast.Constant(True)) for flag in flags]
        return [located(part, stmt) for part in made]

    def branch(self, stmt: ast.If, rest: Sequence[ast.stmt], loop: _Flags | None) -> list[ast.stmt]:
        """An `if` with a jump: only a way that falls through it goes on with the rest."""
        body, orelse = _exits(stmt.body), _exits(stmt.orelse)
        if not (body.falls and orelse.falls):
            then = self.block([*stmt.body, *(rest if body.falls else ())], loop)
            other = self.block([*stmt.orelse, *(rest if orelse.falls else ())], loop)
            return _choice(stmt, then, other)
        chosen = _choice(stmt, self.block(stmt.body, loop), self.block(stmt.orelse, loop))
        guarded = self.block(rest, loop)
        if not guarded:
            return chosen
        return [*chosen, self.guard(stmt.test, guarded, body.jumps | orelse.jumps, loop)]

    def switch(self, stmt: Switch, rest: Sequence[ast.stmt], loop: _Flags | None) -> list[ast.stmt]:
        """As `branch`, with many ways: where only one falls through, the rest moves there."""
        exits = [_exits(block) for block in stmt.blocks]
        if sum(e.falls for e in exits) <= 1:
            self.cases(stmt, rest, loop)
            return [stmt]
        self.cases(stmt, (), loop)
        guarded = self.block(rest, loop)
        jumps = frozenset[str]().union(*(e.jumps for e in exits))
        return [stmt, self.guard(stmt.cases[0].test, guarded, jumps, loop)] if guarded else [stmt]

    def cases(self, stmt: Switch, rest: Sequence[ast.stmt], loop: _Flags | None) -> None:
        """Lower every case; those that fall through go on with the rest."""
        lowered = [self.block([*block, *(rest if _exits(block).falls else ())], loop) for block in stmt.blocks]
        *bodies, stmt.orelse = lowered
        for case, body in zip(stmt.cases, bodies, strict=True):
            case.body = body

    def guard(
        self, test: ast.expr, rest: list[ast.stmt], jumps: frozenset[str], loop: _Flags | None
    ) -> ast.If:
        """`if not flag: rest`, the flag being one that all these jumps set."""
        flag = self.returned
        if loop is not None:
            flag = loop.turn if "continue" in jumps else loop.ended
        return located(ast.If(negated(load(flag)), rest, []), test)

    def loop(self, stmt: Loop) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """The loop without jumps, and what must run after it ahead of the statements that follow."""
        flags = _Flags(self.hidden.new("brk"), self.hidden.new("cnt"))
        jumps = _exits(stmt.body).jumps
        turn = located(assign(flags.turn, ast.Constant(False)), stmt.body[0])
        stmt.body = [turn, *self.block(stmt.body, flags)]
        after = self.after(stmt, jumps, flags)
        stmt.orelse = []
        if not jumps & {"break", "return"}:
            return [stmt], after
        self.stops[stmt] = flags.ended
        return [_at_head(assign(flags.ended, ast.Constant(False)), stmt), stmt], after

    def after(self, stmt: Loop, jumps: frozenset[str], flags: _Flags) -> list[ast.stmt]:
        leave = _at_head(_Leave(None), stmt)
        if _is_endless(stmt, jumps):
            return [leave]
        after: list[ast.stmt] = []
        if "return" in jumps:
            after.append(_at_head(ast.If(load(self.returned), [leave], []), stmt))
        if "break" not in jumps or not stmt.orelse:
            return after + stmt.orelse
        unbroken = ast.If(negated(load(flags.ended)), stmt.orelse, [])
        return [*after, _at_head(unbroken, stmt)]


def _choice(stmt: ast.If, then: list[ast.stmt], other: list[ast.stmt]) -> list[ast.stmt]:
    """`if test: then else: other`; a test of a flag of ours goes when it decides nothing."""
    ours = isinstance(stmt.test, ast.Name) and is_hidden(stmt.test.id)
    if ours and not then:
        if not other:
            return []
        stmt.test, then, other = located(negated(stmt.test), stmt.test), other, []
    stmt.body, stmt.orelse = then, other
    return [stmt]


class _DropUnread:
    """Removes assignments to flags that are neither read in these statements nor in `kept`."""

    def __init__(self, body: list[ast.stmt], kept: set[str]) -> None:
        names = (n for stmt in body for n in ast.walk(stmt) if isinstance(n, ast.Name))
        self.read = kept | {n.id for n in names if isinstance(n.ctx, ast.Load)}

    def block(self, stmts: list[ast.stmt]) -> list[ast.stmt]:
        kept = [stmt for stmt in stmts if not self.is_unread(stmt)]
        for stmt in kept:
            if isinstance(stmt, ast.If | ast.For | ast.While):
                stmt.body = self.block(stmt.body)
                stmt.orelse = self.block(stmt.orelse)
            if isinstance(stmt, Switch):
                stmt.orelse = self.block(stmt.orelse)
                for case in stmt.cases:
                    case.body = self.block(case.body)
        return kept

    def is_unread(self, stmt: ast.stmt) -> bool:
        if not isinstance(stmt, ast.Assign) or not isinstance(stmt.targets[0], ast.Name):
            return False
        name = stmt.targets[0].id
        return is_hidden(name) and name not in self.read


def _exits(stmts: Sequence[ast.stmt]) -> _Exits:
    jumps: frozenset[str] = frozenset()
    for stmt in stmts:
        falls, more = _exits_of(stmt)
        jumps |= more
        if not falls:
            return _Exits(False, jumps)
    return _Exits(True, jumps)


def _exits_of(stmt: ast.stmt) -> _Exits:
    match stmt:
        case ast.Return() | ast.Break() | ast.Continue():
            name = "return" if isinstance(stmt, ast.Return) else type(stmt).__name__.lower()
            return _Exits(False, frozenset({name}))
        case ast.Raise():
            return _Exits(False, frozenset())
        case ast.If():
            body, orelse = _exits(stmt.body), _exits(stmt.orelse)
            return _Exits(body.falls or orelse.falls, body.jumps | orelse.jumps)
        case Switch():
            sides = [_exits(block) for block in stmt.blocks]
            return _Exits(any(s.falls for s in sides), frozenset[str]().union(*(s.jumps for s in sides)))
        case ast.For() | ast.While():
            jumps = _exits(stmt.body).jumps
            if _is_endless(stmt, jumps):
                return _Exits(False, jumps & {"return"})
            orelse = _exits(stmt.orelse)
            return _Exits(orelse.falls or "break" in jumps, jumps & {"return"} | orelse.jumps)
    return _Exits(True, frozenset())


def _is_endless(stmt: Loop, jumps: frozenset[str]) -> bool:
    """Whether a loop can only be left by `return` or an exception."""
    if not isinstance(stmt, ast.While) or not isinstance(stmt.test, ast.Constant):
        return False
    return bool(stmt.test.value) and "break" not in jumps


def _returns(stmts: Sequence[ast.stmt]) -> list[ast.Return]:
    found: list[ast.Return] = []
    for stmt in stmts:
        if isinstance(stmt, ast.Return):
            found.append(stmt)
        elif isinstance(stmt, ast.If | ast.For | ast.While):
            found += _returns([*stmt.body, *stmt.orelse])
        elif isinstance(stmt, Switch):
            found += _returns([inner for block in stmt.blocks for inner in block])
    return found


def _gives_value(stmt: ast.Return) -> bool:
    return not (
        stmt.value is None or (isinstance(stmt.value, ast.Constant) and stmt.value.value is None)
    )


def _at_head(node: ast.stmt, loop: Loop) -> ast.stmt:
    return located(node, loop.iter if isinstance(loop, ast.For) else loop.test)
