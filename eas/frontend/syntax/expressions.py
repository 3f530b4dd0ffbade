"""Rewrites expressions: what Python decides by truth, iteration or a call is left to the hooks."""

from __future__ import annotations

import ast

from eas.frontend.syntax.nodes import (
    LeftFirst,
    Shape,
    deferred,
    first_parameter,
    hook,
    is_hidden,
    is_hook,
    literal,
    load,
    located,
)

# These look at the frame that calls them, so nothing may stand between.
_FRAME_BUILTINS = {"super", "locals", "globals", "vars", "dir", "eval", "exec"}
_BOOL_HOOKS = {ast.And: "and_", ast.Or: "or_"}
_SPELLING = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


class Expressions(LeftFirst, ast.NodeTransformer):
    """Rewrites the expressions of one function scope in place."""

    def __init__(self, args: ast.arguments) -> None:
        super().__init__()
        self.first = first_parameter(args)

    def expr(self, node: ast.expr) -> ast.expr:
        made = self.visit(node)
        assert isinstance(made, ast.expr)
        return made

    def later(self, node: ast.expr) -> ast.expr:
        """`lambda: node`"""
        return located(deferred(self.expr(node)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        operands = [self.later(value) for value in node.values]
        return located(hook(_BOOL_HOOKS[type(node.op)], *operands), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        node.operand = self.expr(node.operand)
        return located(hook("not_", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.value, node.slice = self.expr(node.value), self.expr(node.slice)
        is_plain = isinstance(node.slice, ast.Constant) or any(isinstance(part, ast.Slice | ast.Starred) for part in [node.slice, *getattr(node.slice, "elts", ())])
        return node if is_plain or not isinstance(node.ctx, ast.Load) else located(hook("item", node.value, node.slice), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test = self.expr(node.test)
        return located(hook("ifexp", test, self.later(node.body), self.later(node.orelse)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left = self.expr(node.left)
        if len(node.ops) > 1:
            links = [
                ast.Tuple([ast.Constant(_SPELLING[type(op)]), self.later(value)], ast.Load())
                for op, value in zip(node.ops, node.comparators, strict=True)
            ]
            return located(hook("compare", left, ast.Tuple([*links], ast.Load())), node)
        right = self.expr(node.comparators[0])
        if isinstance(node.ops[0], ast.In):
            return located(hook("in_", left, right), node)
        if isinstance(node.ops[0], ast.NotIn):
            return located(hook("not_", hook("in_", left, right)), node)
        node.left, node.comparators = left, [right]
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        callee = node.func
        if isinstance(callee, ast.Name) and callee.id in _FRAME_BUILTINS:
            if callee.id == "super" and not node.args and self.first is not None:
                # In a nested body, super() would take that body's first argument for self.
                node.args = [located(load(n), node) for n in ("__class__", self.first)]
                return node
            self.generic_visit(node)
            return node
        self.generic_visit(node)
        if is_hook(callee):
            return node
        _start_at_method_name(node, callee)
        node.func = located(hook("call", node.func), callee)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        self.defaults(node.args)
        saved, self.first = self.first, first_parameter(node.args)
        node.body = self.expr(node.body)
        self.first = saved
        return located(hook("made", node), node)

    def defaults(self, args: ast.arguments) -> None:
        """Rewrite the defaults of a nested function, which are evaluated in this scope."""
        args.defaults = [self.expr(value) for value in args.defaults]
        args.kw_defaults = [value and self.expr(value) for value in args.kw_defaults]

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        node.target = self.expr(node.target)
        node.iter = located(hook("iterate", self.expr(node.iter)), node.iter)
        node.ifs = [located(hook("filter_", self.expr(test)), test) for test in node.ifs]
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        node.value = named(node.target.id, self.expr(node.value))
        return node


def named(shape: Shape, value: ast.expr) -> ast.expr:
    """`__eas__.named(shape, value)`; hidden names and targets without a name stay as they are."""
    if shape is None or (isinstance(shape, str) and is_hidden(shape)):
        return value
    return located(hook("named", literal(shape), value), value)


def target_shape(target: ast.expr) -> Shape:
    """The names of a target: "x", ("a", ("b", "*c"), None), or None if it has no name."""
    match target:
        case ast.Name(id=name):
            return name
        case ast.Starred(value=ast.Name(id=name)):
            return f"*{name}"
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            shapes = tuple(map(target_shape, parts))
            return shapes if any(shapes) else None
    return None


def _start_at_method_name(call: ast.Call, callee: ast.expr) -> None:
    # CPython reports a.b() that spans lines at b; through the hook it is no method call any more.
    if not isinstance(callee, ast.Attribute) or callee.lineno == callee.end_lineno:
        return
    if callee.end_lineno is not None and callee.end_col_offset is not None:
        call.lineno = callee.end_lineno
        call.col_offset = max(0, callee.end_col_offset - len(callee.attr))
