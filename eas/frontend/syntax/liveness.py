"""Finds the names that each `if` and loop must take in and give back."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from eas.frontend.syntax.jumps import Straight
from eas.frontend.syntax.switches import Switch

_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LATER = (ast.FunctionDef, ast.Lambda, ast.GeneratorExp)

States = Mapping[ast.stmt, tuple[str, ...]]


def states(straight: Straight) -> States:
    """For each `if` and loop: the names it assigns that are read later, or before, in first-use order.

    A name that lives and dies within one turn of a body is left out: it is local to that body.
    """
    # A nested function may run at any time, so what it reads is live everywhere.
    captured = {name for node in _later(straight.body) for name in _loads(node)}
    flow = _Liveness(straight.stops, frozenset(captured))
    flow.block(straight.body, flow.captured)
    return flow.states


def assigned(*nodes: ast.AST) -> dict[str, None]:
    """The names that these statements bind in their own scope, as an ordered set."""
    return dict.fromkeys(name for node in nodes for name in _stores(node))


class _Liveness:
    """Walks backwards; each method maps the names live after to the names live before."""

    def __init__(self, stops: Mapping[ast.stmt, str], captured: frozenset[str]) -> None:
        self.stops = stops
        self.captured = captured
        self.states: dict[ast.stmt, tuple[str, ...]] = {}

    def block(self, stmts: Sequence[ast.stmt], live: frozenset[str]) -> frozenset[str]:
        for stmt in reversed(stmts):
            live = self.stmt(stmt, live) | self.captured
        return live

    def stmt(self, stmt: ast.stmt, live: frozenset[str]) -> frozenset[str]:
        match stmt:
            case ast.If():
                body, orelse = self.block(stmt.body, live), self.block(stmt.orelse, live)
                self.record(stmt, assigned(*stmt.body, *stmt.orelse), live | body | orelse)
                return body | orelse | _loads(stmt.test)
            case Switch():
                before = frozenset[str]().union(*(self.block(block, live) for block in stmt.blocks))
                self.record(stmt, assigned(*(inner for block in stmt.blocks for inner in block)), live | before)
                return before.union(*(_loads(case.test) for case in stmt.cases))
            case ast.While():
                return self.loop(stmt, live | _loads(stmt.test), {})
            case ast.For():
                turn = self.loop(stmt, live | _loads(stmt.target), assigned(stmt.target))
                return turn | _loads(stmt.iter)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                return live - {name} | _loads(stmt)
            case ast.Assign(targets=[ast.Tuple() as target]):
                return live - set(assigned(target)) | _loads(stmt)
            case ast.AugAssign(target=ast.Name(id=name)):
                return live | {name} | _loads(stmt)
        return live | _loads(stmt)

    def loop(
        self, stmt: ast.For | ast.While, live: frozenset[str], target: dict[str, None]
    ) -> frozenset[str]:
        if stop := self.stops.get(stmt):
            live |= {stop}
        while True:
            more = live | (self.block(stmt.body, live) - set(target)) | self.captured
            if more == live:
                break
            live = more
        self.record(stmt, target | assigned(*stmt.body), live)
        return live

    def record(self, stmt: ast.stmt, names: dict[str, None], live: frozenset[str]) -> None:
        self.states[stmt] = tuple(name for name in names if name in live)


def _loads(node: ast.AST) -> frozenset[str]:
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return frozenset(n.id for n in names if isinstance(n.ctx, ast.Load))


def _stores(tree: ast.AST) -> Iterator[str]:
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif not isinstance(node, _SCOPES):
            left += reversed(list(ast.iter_child_nodes(node)))


def _later(stmts: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    return (node for stmt in stmts for node in ast.walk(stmt) if isinstance(node, _LATER))
