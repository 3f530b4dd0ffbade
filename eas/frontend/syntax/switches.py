"""Long chains of `elif` as one statement: as Python's nested ifs they would need its stack at every step of the compiler."""

from __future__ import annotations

import ast

from eas.frontend.syntax.nodes import located

_LONGEST = 64  # branches of a chain that stays nested


class Case(ast.AST):
    """One branch of a `Switch`."""

    _fields = ("test", "body")

    def __init__(self, test: ast.expr, body: list[ast.stmt]) -> None:
        super().__init__()
        self.test, self.body = test, body


class Switch(ast.stmt):
    """The first case whose test holds, or `orelse`; tests are evaluated in order, as far as they are needed."""

    _fields = ("cases", "orelse")

    def __init__(self, cases: list[Case], orelse: list[ast.stmt]) -> None:
        super().__init__()
        self.cases, self.orelse = cases, orelse

    @property
    def blocks(self) -> list[list[ast.stmt]]:
        """The statements of each branch, the last one without a test."""
        return [*(case.body for case in self.cases), self.orelse]


def fold_chains(tree: ast.AST) -> None:
    """Replace long chains of `elif` by switches."""
    left = [tree]
    while left:
        node = left.pop()
        for _, value in ast.iter_fields(node):
            if isinstance(value, list):
                value[:] = [_folded(item) if isinstance(item, ast.If) else item for item in value]
        left += ast.iter_child_nodes(node)


def _folded(first: ast.If) -> ast.stmt:
    chain = [first]
    while len(chain[-1].orelse) == 1 and isinstance(chain[-1].orelse[0], ast.If):
        chain.append(chain[-1].orelse[0])
    assigns = any(isinstance(node, ast.NamedExpr) for link in chain for node in ast.walk(link.test))  # a test is a lambda
    if len(chain) <= _LONGEST or assigns:
        return first
    return located(Switch([Case(link.test, link.body) for link in chain], chain[-1].orelse), first)


__all__ = ["Case", "Switch", "fold_chains"]
