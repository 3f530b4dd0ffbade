"""Small constructors for the syntax that the rewrite inserts into a kernel."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

HOOKS = "__eas__"
HIDDEN = "__eas_"

Node = TypeVar("Node", bound=ast.AST)
Shape: TypeAlias = "str | tuple[Shape, ...] | None"


class HiddenNames:
    """Numbers the names that the rewrite invents, in source order, so that output is repeatable."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def new(self, kind: str) -> str:
        """A name of this kind that no user name and no earlier hidden name equals."""
        self._counts[kind] += 1
        return f"{HIDDEN}{kind}{self._counts[kind]}"


def is_hidden(name: str) -> bool:
    """Whether the rewrite invented this name."""
    return name.startswith(HIDDEN)


def located(node: Node, at: ast.AST) -> Node:
    """Give the node the position of `at`, and every part of it that has none the same."""
    ast.copy_location(node, at)
    for part in ast.iter_child_nodes(node):
        if getattr(part, "end_lineno", None) is None:
            located(part, at)
    return node


def copied(tree: Node) -> Node:
    """A copy to edit; `copy.deepcopy` would need a Python frame or more per level."""
    copies: dict[ast.AST, ast.AST] = {node: type(node)() for node in ast.walk(tree)}

    def part(value: object) -> object:
        if isinstance(value, list):
            return [part(item) for item in value]
        return copies[value] if isinstance(value, ast.AST) else value

    for node, copy in copies.items():
        for name, value in vars(node).items():
            setattr(copy, name, part(value))
    return cast(Node, copies[tree])


class LeftFirst(ast.NodeVisitor):
    """Visits a long chain such as `a + b + c` from its innermost part on: each part then finds its left side done."""

    def __init__(self) -> None:
        self._done: dict[ast.AST, object] = {}

    def visit(self, node: ast.AST) -> Any:
        if node in self._done:
            return self._done.pop(node)
        for inner in reversed(_left_spine(node)):
            self._done[inner] = self.visit_one(inner)
        return self.visit_one(node)

    def visit_one(self, node: ast.AST) -> Any:
        """Visit a node whose left side is done."""
        return super().visit(node)


def _left_spine(node: ast.AST) -> list[ast.AST]:
    """The left sides below a node, the outermost first."""
    spine: list[ast.AST] = []
    while True:
        match node:
            case ast.BinOp(left=inner) | ast.Call(func=inner) | ast.Attribute(value=inner) | ast.Subscript(value=inner):
                spine.append(inner)
                node = inner
            case _:
                return spine


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def negated(value: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), value)


def literal(shape: Shape) -> ast.expr:
    """A string, None, or tuples of these."""
    if isinstance(shape, tuple):
        return ast.Tuple([literal(part) for part in shape], ast.Load())
    return ast.Constant(shape)


def values(names: Iterable[str]) -> ast.expr:
    return ast.Tuple([load(name) for name in names], ast.Load())


def hook(method: str, *args: ast.expr) -> ast.Call:
    """`__eas__.method(args)`"""
    return ast.Call(ast.Attribute(load(HOOKS), method, ast.Load()), list(args), [])


def flatten_hooks(tree: ast.AST) -> None:
    """Give each `__eas__.method` one line: CPython reports a method call at its name's last line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_hook(node):
            node.end_lineno, node.end_col_offset = node.lineno, node.col_offset


def is_hook(node: ast.AST) -> bool:
    """Whether a node is `__eas__.method`."""
    return isinstance(node, ast.Attribute) and _is_hooks(node.value)


def _is_hooks(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == HOOKS


def deferred(value: ast.expr) -> ast.Lambda:
    """`lambda: value`"""
    return ast.Lambda(_arguments(()), value)


def function(name: str, params: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    """`def name(params): body`"""
    made = ast.FunctionDef(name, _arguments(params), body, [])
    made.type_params = []  # type: ignore[attr-defined, unused-ignore]  # a field since 3.12
    return made


def parameters(args: ast.arguments) -> list[str]:
    """Every name that the arguments bind."""
    named = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return [arg.arg for arg in (*named, args.vararg, args.kwarg) if arg is not None]


def first_parameter(args: ast.arguments) -> str | None:
    """The name that a zero-argument `super()` would read."""
    positional = [*args.posonlyargs, *args.args]
    return positional[0].arg if positional else None


def _arguments(params: Sequence[str]) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[],
        args=[ast.arg(param) for param in params],
        vararg=None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=[],
    )
