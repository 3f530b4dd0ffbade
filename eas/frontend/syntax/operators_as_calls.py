"""Spells operators, attributes and outer names as calls of hooks, for languages in which they mean other things than in `mk`."""

from __future__ import annotations

import ast

from eas.frontend.syntax.nodes import LeftFirst, hook, is_hook, located, parameters

_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow", ast.MatMult: "matmul",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}


def spell_operators(fn: ast.FunctionDef) -> None:
    """Replace `a + b` by `__eas__.binary("add", a, b)`, `x.dtype` by `__eas__.attribute(x, "dtype")`, and mark what `constexpr` annotates."""
    spelling = _Spelling(fn)
    fn.body = [spelling.visit(stmt) for stmt in fn.body]


class _Spelling(LeftFirst, ast.NodeTransformer):
    def __init__(self, fn: ast.FunctionDef) -> None:
        super().__init__()
        self.locals = set(parameters(fn.args)) | {n.id for n in ast.walk(fn) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return located(hook("binary", ast.Constant(_BINARY[type(node.op)]), node.left, node.right), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) or isinstance(node.operand, ast.Constant):
            return node
        return located(hook("unary", ast.Constant(_UNARY[type(node.op)]), node.operand), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) > 1 or type(node.ops[0]) not in _BINARY:
            return node
        return located(hook("binary", ast.Constant(_BINARY[type(node.ops[0])]), node.left, node.comparators[0]), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        before = located(ast.Name(node.target.id, ast.Load()), node.target)
        value = located(hook("binary", ast.Constant(_BINARY[type(node.op)]), before, node.value), node)
        return located(ast.Assign([node.target], value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return node
        value = self.visit(node.value)
        if ast.unparse(node.annotation).rpartition(".")[2] == "constexpr":
            value = located(hook("constant", value), node.value)
        return located(ast.Assign([node.target], value), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or is_hook(node):
            return node
        return located(hook("attribute", node.value, ast.Constant(node.attr)), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        is_read = isinstance(node.ctx, ast.Load)
        return located(hook("item", node.value, node.slice), node) if is_read else node

    def visit_Slice(self, node: ast.Slice) -> ast.expr:
        self.generic_visit(node)
        return located(hook("part", *(end or ast.Constant(None) for end in (node.lower, node.upper, node.step))), node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_outer = isinstance(node.ctx, ast.Load) and node.id not in self.locals
        return located(hook("outer", node), node) if is_outer else node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        self.locals |= set(parameters(node.args))
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        self.locals |= {node.name, *parameters(node.args)}
        node.body = [self.visit(stmt) for stmt in node.body]
        return node
