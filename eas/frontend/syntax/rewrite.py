"""Rebuilds a Python function in functional form, with its own globals, cells and source positions."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CellType, CodeType, FunctionType, MethodType
from typing import Protocol

from eas.base.errors import UnsupportedPython
from eas.frontend.syntax.control_flow import make_functional
from eas.frontend.syntax.long_chains import cut_long_chains
from eas.frontend.syntax.nodes import (
    HOOKS,
    HiddenNames,
    flatten_hooks,
    function,
    is_hidden,
    located,
)
from eas.frontend.syntax.refusals import refuse_unsupported, too_deep
from eas.frontend.syntax.source import (
    Definition,
    SourceSpot,
    find_definition,
    forget_if_edited,
    is_compiled_from_source,
)
from eas.frontend.syntax.switches import fold_chains

__all__ = ["Hooks", "Rewritten", "SourceSpot", "rewrite"]

State = tuple[object, ...]
Names = tuple[str, ...]
Thunk = Callable[[], object]
Body = Callable[..., State]
Spelling = Callable[[ast.FunctionDef], None]

_SUSPENDS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_FUTURES = 0x1FE0000  # CO_FUTURE_DIVISION .. CO_FUTURE_ANNOTATIONS, which compile() takes as flags
_OUTER = "__eas_outer__"


class Hooks(Protocol):
    """What rewritten code calls. Bodies map state to state; `stop` indexes a flag in the state."""

    @property
    def spell(self) -> Spelling | None:
        """What the language does to a function's syntax before its control flow is rewritten."""

    def if_(
        self, test: object, then: Body, orelse: Body | None, names: Names, state: State
    ) -> State: ...
    def switch(self, tests: tuple[Thunk, ...], bodies: tuple[Body, ...], names: Names, state: State) -> State: ...
    def while_(
        self, test: Callable[..., object], body: Body, names: Names, state: State, stop: int | None
    ) -> State: ...
    def for_(
        self, items: object, body: Body, names: Names, state: State, stop: int | None
    ) -> State: ...
    def undefined(self, name: str) -> object: ...
    def named(self, shape: object, value: object) -> object: ...
    def call(self, fn: object) -> Callable[..., object]: ...
    def and_(self, *operands: Thunk) -> object: ...
    def or_(self, *operands: Thunk) -> object: ...
    def not_(self, value: object) -> object: ...
    def ifexp(self, test: object, then: Thunk, orelse: Thunk) -> object: ...
    def compare(self, left: object, links: tuple[tuple[str, Thunk], ...]) -> object: ...
    def in_(self, item: object, container: object) -> object: ...
    def item(self, container: object, index: object) -> object: ...
    def iterate(self, items: object) -> object: ...
    def filter_(self, test: object) -> object: ...
    def assert_(self, test: object, message: Thunk | None) -> None: ...
    def raise_(self) -> None: ...
    def made(self, fn: FunctionType) -> FunctionType: ...


@dataclass(frozen=True)
class Rewritten:
    """A function that can be traced; if `rewritten` is false, `reason` says why it is the original."""

    fn: Callable[..., object]
    rewritten: bool = True
    reason: str = ""


@dataclass(frozen=True)
class _Compiled:
    live: weakref.ref[CodeType]  # keeps nothing alive; its death removes the cache entry
    code: CodeType | None
    reason: str = ""
    refusal: UnsupportedPython | None = None


# By identity, since code objects of equal text in different files compare equal, and by language.
_compiled: dict[tuple[int, Spelling | None], _Compiled] = {}


def rewrite(fn: Callable[..., object], hooks: Hooks) -> Rewritten:
    """The function in functional form; compiled once per code object, so a repeat is cheap."""
    if isinstance(fn, MethodType) and isinstance(fn.__func__, FunctionType):
        inner = rewrite(fn.__func__, hooks)
        bound = MethodType(inner.fn, fn.__self__) if inner.rewritten else fn
        return Rewritten(bound, inner.rewritten, inner.reason)
    if not isinstance(fn, FunctionType):
        return Rewritten(fn, False, "not a Python function")
    if HOOKS in fn.__code__.co_freevars:
        return Rewritten(fn)
    known = _compiled.get((id(fn.__code__), hooks.spell)) or _remember(fn, hooks.spell)
    if known.refusal is not None:
        raise UnsupportedPython(
            known.refusal.message, hint=known.refusal.hint, loc=known.refusal.loc
        )
    if known.code is None:
        return Rewritten(fn, False, known.reason)
    return Rewritten(_rebuild(fn, known.code, hooks))


def _remember(fn: FunctionType, spell: Spelling | None) -> _Compiled:
    key = (id(fn.__code__), spell)
    forget = _compiled.pop  # bound now: at exit the module may be gone
    live = weakref.ref(fn.__code__, lambda _: forget(key, None))
    try:
        known = _Compiled(live, *_compile(fn, spell))
    except UnsupportedPython as refusal:
        known = _Compiled(live, None, refusal=refusal.with_traceback(None))
    return _compiled.setdefault(key, known)


def _compile(fn: FunctionType, spell: Spelling | None) -> tuple[CodeType | None, str]:
    live = fn.__code__
    if live.co_name == "<lambda>":
        return None, "a lambda is traced as it is"
    if live.co_flags & _SUSPENDS:
        return None, "a generator or async function is called as it is"
    found, reason = _trusted_definition(fn)
    if found is None:
        return None, reason
    error = too_deep(found.node, live.co_filename)  # now: the steps below change the tree
    try:
        code = _named_as_user_wrote(_functional(found, live, spell), live.co_name)
    except RecursionError:
        raise error from None
    return code.replace(co_qualname=live.co_qualname), ""


def _functional(found: Definition, live: CodeType, spell: Spelling | None) -> CodeType:
    """The code of a definition after its control flow became calls of hooks."""
    fold_chains(found.node)
    refuse_unsupported(found.node, live.co_filename)
    if spell is not None:
        spell(found.node)
    hidden = HiddenNames()
    make_functional(found.node, hidden)
    cut_long_chains(found.node, hidden)
    flatten_hooks(found.node)
    return _code_of(found, live)


def _trusted_definition(fn: FunctionType) -> tuple[Definition | None, str]:
    """The definition in the source, if compiling it gives the code that the function has."""
    reason = "its source is not available"
    for _ in range(2):
        if found := find_definition(fn):
            if is_compiled_from_source(fn):
                return found, ""
            reason = "its source changed after it was imported"
        forget_if_edited(fn.__code__.co_filename)
    return None, reason


def _code_of(found: Definition, live: CodeType) -> CodeType:
    """Compile a definition where its free variables, private names and `__class__` mean the same."""
    node, owner = found.node, found.owner
    _strip_header(node)
    path = [node.name]
    inside: ast.stmt = node
    if owner is not None:
        inside = ast.ClassDef(name=owner, bases=[], keywords=[], body=[node], decorator_list=[])
        inside.type_params = []  # type: ignore[attr-defined, unused-ignore]  # a field since 3.12
        path.insert(0, owner)
    body: list[ast.stmt] = [inside]
    if path[0] not in live.co_freevars:
        # Else the name that the statement binds would hide the global of that name.
        body.insert(0, ast.Global([path[0]]))
    outer = located(function(_OUTER, [HOOKS, *live.co_freevars], body), node)
    flags = live.co_flags & _FUTURES
    tree = ast.Module([outer], [])
    code: CodeType = compile(tree, live.co_filename, "exec", flags=flags, dont_inherit=True)
    for name in (_OUTER, *path):
        code = next(c for c in _nested(code) if c.co_name == name)
    return code


def _strip_header(node: ast.FunctionDef) -> None:
    """Drop what is evaluated when the `def` runs, but keep its lines: the code starts at the first."""
    node.decorator_list = [located(ast.Constant(None), d) for d in node.decorator_list]
    node.args.defaults = [located(ast.Constant(None), d) for d in node.args.defaults]
    node.args.kw_defaults = [d and located(ast.Constant(None), d) for d in node.args.kw_defaults]
    node.returns = None
    node.type_params = []  # type: ignore[attr-defined, unused-ignore]  # a field since 3.12
    for arg in ast.walk(node.args):
        if isinstance(arg, ast.arg):
            arg.annotation = None


def _named_as_user_wrote(code: CodeType, name: str) -> CodeType:
    """Let tracebacks show the bodies that we made under the name of the function they are in."""
    consts: list[object] = []
    for const in code.co_consts:
        if isinstance(const, CodeType):
            inner = name if is_hidden(const.co_name) else const.co_name
            const = _named_as_user_wrote(const, inner).replace(co_name=inner)
        consts.append(const)
    return code.replace(co_consts=tuple(consts))


def _nested(code: CodeType) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType))


def _rebuild(fn: FunctionType, code: CodeType, hooks: Hooks) -> FunctionType:
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    cells[HOOKS] = CellType(hooks)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__qualname__ = fn.__qualname__
    made.__doc__ = fn.__doc__
    made.__dict__.update(fn.__dict__)
    return made
