"""Names the Python statements that a kernel may not contain, each with one next step."""

from __future__ import annotations

import ast

from eas.base.errors import CompileError, UnsupportedPython
from eas.frontend.advice import advise_on_comparison
from eas.frontend.syntax.nodes import LeftFirst
from eas.frontend.syntax.source import spot_of

_OUTSIDE = "define it outside of the kernel"
_PLAIN = "a kernel is a plain function: return the values instead"
_SCOPE = "pass the value as an argument and return the new one"
_NO_TRY = "test for the condition with if before it can fail"
_NO_WITH = "call what you need directly: a kernel holds nothing that must be released"
_NO_IMPORT = "import at the top of the file"

_REFUSED: dict[str, tuple[str, str]] = {
    "Try": ("try", _NO_TRY),
    "TryStar": ("try", _NO_TRY),
    "With": ("with", _NO_WITH),
    "AsyncWith": ("async with", _NO_WITH),
    "AsyncFor": ("async for", "use for"),
    "AsyncFunctionDef": ("async def", "use def"),
    "Await": ("await", _PLAIN),
    "Yield": ("yield", _PLAIN),
    "YieldFrom": ("yield from", _PLAIN),
    "Global": ("global", _SCOPE),
    "Nonlocal": ("nonlocal", _SCOPE),
    "ClassDef": ("class", _OUTSIDE),
    "TypeAlias": ("type", _OUTSIDE),
    "Import": ("import", _NO_IMPORT),
    "ImportFrom": ("import", _NO_IMPORT),
    "Match": ("match", "use if/elif"),
}
_DEFERS = {ast.And: "and", ast.Or: "or"}


def refuse_unsupported(fn: ast.FunctionDef, filename: str) -> None:
    """Raise `UnsupportedPython` at the first statement of the body that has no functional form."""
    visitor = _Refuser(filename)
    for stmt in fn.body:
        visitor.visit(stmt)


def too_deep(fn: ast.FunctionDef, filename: str) -> CompileError:
    """What to say when Python's stack ends in a walk over a function: the line that is nested most deeply."""
    level: list[ast.AST] = [fn]
    deepest: ast.stmt | ast.expr = fn
    while level:
        deepest = next((node for node in level if isinstance(node, ast.stmt | ast.expr)), deepest)
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return CompileError(
        f"{fn.name} is nested too deeply here for Python's stack",
        hint="write a long chain of elif as ifs that follow each other, and name the parts of a long expression",
        loc=spot_of(deepest, filename),
    )


class _Refuser(LeftFirst):
    """Walks in source order; `inside` names the operand whose evaluation is deferred, if any."""

    def __init__(self, filename: str) -> None:
        super().__init__()
        self.filename = filename
        self.inside: str | None = None

    def visit_one(self, node: ast.AST) -> None:
        if refused := _REFUSED.get(type(node).__name__):
            self.refuse(node, *refused)
        super().visit_one(node)

    def refuse(self, node: ast.AST, what: str, hint: str) -> None:
        assert isinstance(node, ast.stmt | ast.expr)
        message = f"{what} is not supported in a kernel"
        raise UnsupportedPython(message, hint=hint, loc=spot_of(node, self.filename))

    def visit_within(self, node: ast.AST | None, inside: str | None) -> None:
        if node is None:
            return
        saved, self.inside = self.inside, inside
        self.visit(node)
        self.inside = saved

    def visit_Delete(self, node: ast.Delete) -> None:
        if any(isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del) for n in ast.walk(node)):
            self.refuse(node, "del of a name", "give the next value a name of its own")
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        if self.inside is not None:
            hint = f"assign {node.target.id} on a line of its own"
            self.refuse(node, f":= inside {self.inside}", hint)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for value in node.values:
            self.visit_within(value, self.inside or _DEFERS[type(node.op)])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit_within(node.body, self.inside or "a conditional expression")
        self.visit(node.test)
        self.visit_within(node.orelse, self.inside or "a conditional expression")

    def visit_Compare(self, node: ast.Compare) -> None:
        advise_on_comparison(node, self.filename)
        self.visit(node.left)
        inside = "a chained comparison" if len(node.ops) > 1 else None
        for value in node.comparators:
            self.visit_within(value, self.inside or inside)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        self.visit_within(node.msg, "an assert message")

    def visit_While(self, node: ast.While) -> None:
        self.visit_within(node.test, "a while test")
        for stmt in [*node.body, *node.orelse]:
            self.visit(stmt)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self.visit_within(node.body, None)  # the name would be the lambda's own

    def visit_comprehension(self, node: ast.comprehension) -> None:
        if node.is_async:
            self.refuse(node.iter, "async for", "use for")
        self.generic_visit(node)

    def visit_ListComp(self, node: ast.expr) -> None:
        saved, self.inside = self.inside, "a comprehension"
        self.generic_visit(node)
        self.inside = saved

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp
