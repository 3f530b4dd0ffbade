"""Cuts expressions such as a sum of a thousand terms: `compile` takes trees that are far less deep than the texts it takes."""

from __future__ import annotations

import ast
from typing import cast

from eas.frontend.syntax.nodes import HiddenNames, load, located

_DEEPEST = 200  # operators below each other
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # in some places := is not allowed there


def cut_long_chains(tree: ast.AST, hidden: HiddenNames) -> None:
    """Write a + b + c + d as (part := a + b, part + c + d)[-1] where that is a long chain: the same steps in the same order."""
    kept = {inner for node in ast.walk(tree) if isinstance(node, _COMPREHENSIONS) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if node in kept:
            continue
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.BinOp):
                setattr(node, name, _cut(value, hidden))
            elif isinstance(value, list):
                value[:] = [_cut(item, hidden) if isinstance(item, ast.BinOp) else item for item in value]


def _cut(chain: ast.BinOp, hidden: HiddenNames) -> ast.expr:
    operators: list[ast.BinOp] = []
    left: ast.expr = chain
    while isinstance(left, ast.BinOp):
        operators.append(left)
        left = left.left
    parts: list[ast.expr] = []
    for inner in operators[::-1][_DEEPEST::_DEEPEST]:
        name = hidden.new("part")
        parts.append(located(ast.NamedExpr(ast.Name(name, ast.Store()), inner.left), inner.left))
        inner.left = located(load(name), inner.left)
    if not parts:
        return chain
    steps = ast.Tuple([*parts, chain], ast.Load())
    return cast(ast.expr, located(ast.Subscript(steps, ast.Constant(-1), ast.Load()), chain))
