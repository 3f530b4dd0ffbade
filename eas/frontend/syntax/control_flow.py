"""Rewrites statements: every `if` and loop becomes a call of a hook with its state in and out."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from eas.frontend.syntax.expressions import Expressions, named, target_shape
from eas.frontend.syntax.jumps import straighten
from eas.frontend.syntax.liveness import States, assigned, states
from eas.frontend.syntax.nodes import (
    HIDDEN,
    HiddenNames,
    assign,
    deferred,
    function,
    hook,
    literal,
    load,
    located,
    negated,
    parameters,
    values,
)
from eas.frontend.syntax.switches import Switch


def make_functional(fn: ast.FunctionDef, hidden: HiddenNames) -> None:
    """Replace the body of a function by its functional form."""
    docs = fn.body[: ast.get_docstring(fn, clean=False) is not None]
    straight = straighten(fn.body[len(docs) :], hidden)
    scope = _ControlFlow(fn.args, hidden)
    scope.states, scope.stops = states(straight), straight.stops
    body = scope.block(straight.body, parameters(fn.args))
    fn.body = [*docs, *body] or [located(ast.Pass(), fn)]


class _ControlFlow(Expressions):
    """Rewrites the statements of one function scope; `depth` counts the bodies around a statement."""

    def __init__(self, args: ast.arguments, hidden: HiddenNames) -> None:
        super().__init__(args)
        self.hidden = hidden
        self.states: States = {}
        self.stops: dict[ast.stmt, str] = {}
        self.depth = 0

    def block(self, stmts: Sequence[ast.stmt], params: Sequence[str]) -> list[ast.stmt]:
        """Statements of one Python function; state without a value yet starts as undefined."""
        bound = set(params)
        missing: dict[str, ast.stmt] = {}
        for stmt in stmts:
            state = self.states.get(stmt)
            if state is not None:
                missing |= {name: stmt for name in state if name not in bound}
            bound.update(assigned(stmt) if state is None else state)
        undefined = [
            located(assign(name, hook("undefined", ast.Constant(name))), _head(stmt))
            for name, stmt in missing.items()
        ]
        return [*undefined, *(part for stmt in stmts for part in self.stmt(stmt))]

    def stmt(self, stmt: ast.stmt) -> list[ast.stmt]:
        made = self.visit(stmt)
        return made if isinstance(made, list) else [made]

    def body(
        self, kind: str, at: ast.stmt, stmts: Sequence[ast.stmt], item: Sequence[str] = ()
    ) -> ast.FunctionDef:
        """`def body(*item, *state): stmts; return state`"""
        self.depth += 1
        inside = self.block(stmts, self.states[at])
        self.depth -= 1
        leave = ast.Return(values(self.states[at]))
        inside.append(located(leave, inside[-1] if inside else _head(at)))
        return self.over_state(kind, at, inside, item)

    def over_state(
        self, kind: str, at: ast.stmt, stmts: list[ast.stmt], item: Sequence[str] = ()
    ) -> ast.FunctionDef:
        """A function of the state. It sets the variables themselves, which nested functions may read."""
        state = self.states[at]
        params = {name: f"{HIDDEN}in_{name}" for name in state}
        entry: list[ast.stmt] = [ast.Nonlocal(list(state))] if state else []
        entry += [assign(name, load(param)) for name, param in params.items()]
        entry = [located(stmt, _head(at)) for stmt in entry]
        made = function(self.hidden.new(kind), [*item, *params.values()], [*entry, *stmts])
        return located(made, _head(at))

    def outcome(self, at: ast.stmt, method: str, *args: ast.expr) -> ast.stmt:
        """`state = __eas__.method(args)`"""
        call = hook(method, *args)
        state = self.states[at]
        if not state:
            return located(ast.Expr(call), _head(at))
        target = ast.Tuple([ast.Name(name, ast.Store()) for name in state], ast.Store())
        return located(ast.Assign([target], call), _head(at))

    def carried(self, loop: ast.stmt) -> list[ast.expr]:
        """The last arguments of a loop hook: names, values, and the index of the flag that stops it."""
        state, stop = self.states[loop], self.stops.get(loop)
        index = ast.Constant(None if stop is None else state.index(stop))
        return [literal(state), values(state), index]

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        test = self.expr(node.test)
        made: list[ast.stmt] = [then := self.body("then", node, node.body)]
        other: ast.expr = ast.Constant(None)
        if node.orelse:
            made.append(orelse := self.body("else", node, node.orelse))
            other = load(orelse.name)
        state = self.states[node]
        branches = [load(then.name), other, literal(state), values(state)]
        return [*made, self.outcome(node, "if_", test, *branches)]

    def visit_Switch(self, node: Switch) -> list[ast.stmt]:
        tests: list[ast.expr] = [located(deferred(self.expr(case.test)), case.test) for case in node.cases]
        made: list[ast.stmt] = []
        for block in node.blocks:
            made.append(self.body("case", node, block))
        bodies = ast.Tuple([load(branch.name) for branch in made if isinstance(branch, ast.FunctionDef)], ast.Load())
        state = self.states[node]
        return [*made, self.outcome(node, "switch", ast.Tuple(tests, ast.Load()), bodies, literal(state), values(state))]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        test = node.test
        if stop := self.stops.get(node):
            test = located(ast.BoolOp(ast.And(), [negated(load(stop)), test]), test)
        answer = located(ast.Return(self.expr(test)), node.test)
        tester = self.over_state("test", node, [answer])
        body = self.body("body", node, node.body)
        functions = [load(tester.name), load(body.name)]
        return [tester, body, self.outcome(node, "while_", *functions, *self.carried(node))]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        item = self.hidden.new("item")
        take = located(ast.Assign([node.target], load(item)), node.target)
        iterable = self.expr(node.iter)
        body = self.body("body", node, [take, *node.body], [item])
        return [body, self.outcome(node, "for_", iterable, load(body.name), *self.carried(node))]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        made = located(hook("made").func, node)
        node.decorator_list = [*(self.expr(decorator) for decorator in node.decorator_list), made]
        self.defaults(node.args)
        make_functional(node, self.hidden)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        shapes = [target_shape(target) for target in node.targets]
        node.value = named(next(filter(None, shapes), None), self.expr(node.value))
        node.targets = [self.expr(target) for target in node.targets]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        # Without the annotation, which a local variable never evaluates and `nonlocal` forbids.
        if node.value is None:
            return located(ast.Pass(), node)
        return self.visit_Assign(located(ast.Assign([node.target], node.value), node))

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return [node]
        name = node.target.id
        return [node, located(assign(name, named(name, located(load(name), node))), node)]

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = located(deferred(self.expr(node.msg)), node.msg) if node.msg else None
        check = hook("assert_", self.expr(node.test), message or ast.Constant(None))
        return located(ast.Expr(check), node)

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        self.generic_visit(node)
        if not self.depth:
            return [node]
        return [located(ast.Expr(hook("raise_")), node), node]


def _head(stmt: ast.stmt) -> ast.AST:
    """The part of a statement that an error about its control flow should point at."""
    if isinstance(stmt, ast.If | ast.While):
        return stmt.test
    if isinstance(stmt, Switch):
        return stmt.cases[0].test
    return stmt.iter if isinstance(stmt, ast.For) else stmt
