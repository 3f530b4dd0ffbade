"""Runs a kernel's Python function once on traced values and returns the IR it asked for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType, TracebackType
from typing import Any

from eas.base.errors import CompileError, ModeMismatch
from eas.base.types import Type
from eas.frontend.advice import advise_on_module
from eas.frontend.block import Block
from eas.frontend.builder import Builder
from eas.frontend.constexpr import Static
from eas.frontend.hooks import HOOKS
from eas.frontend.our_frames import is_our_frame
from eas.frontend.reads.globals_read import Dependencies
from eas.frontend.syntax.rewrite import rewrite
from eas.frontend.syntax.source import SourceSpot, find_definition, head_of, spot_of
from eas.frontend.values import Undefined
from eas.ir import IRModule, Loc


@dataclass(frozen=True, eq=False)
class Traced:
    """The IR of a kernel, and everything outside of its arguments that it depends on."""

    module: IRModule
    dependencies: Dependencies


def trace(fn: Callable[..., Any], arguments: Mapping[str, Type | Static], math: str = "safe") -> Traced:
    """Trace `fn`; a `Type` makes a runtime argument, a `Static` is passed as it is."""
    dependencies = Dependencies.of(fn)
    for given in arguments.values():
        if isinstance(given, Static):
            dependencies.add_value(given.value)
    hooks = getattr(fn, "__eas_hooks__", HOOKS)  # of its language
    rewritten = rewrite(fn, hooks)
    builder = Builder(fn.__name__, math)
    code = _function(fn).__code__
    if not rewritten.rewritten:
        builder.not_rewritten[code] = rewritten.reason
    builder.helper = hooks.call
    builder.on_helper = lambda helper: dependencies.add(helper, is_made_here=helper in builder.made)
    with builder.active():
        values = {name: a.value if isinstance(a, Static) else Block(builder.add_arg(name, a)) for name, a in arguments.items()}
        positional = [values.pop(name) for name in code.co_varnames[: code.co_posonlyargcount] if name in values]
        try:
            result = rewritten.fn(*positional, **values)
        except RecursionError as error:
            raise CompileError(f"kernel {fn.__name__} recurses without end while it is traced", hint="end the recursion by a trace-time condition, or write a loop", loc=_innermost(error.__traceback__)) from None
    if result is not None and not isinstance(result, Undefined):  # undefined: only some paths return
        raise CompileError(f"kernel {fn.__name__} returns a value; kernels return nothing", hint="write results with mk.store", loc=_return_of(_function(fn)))
    if builder.mode == "thread" and not builder.threads:
        raise ModeMismatch(f"kernel {fn.__name__} uses {builder.mode_word} but never says how many threads a threadgroup has", hint="call mk.tid(0, BLOCK)", loc=builder.mode_loc)
    module = builder.finish()
    if hooks is HOOKS:  # the advice is about `mk`
        advise_on_module(module, head_of(_function(fn)))
    return Traced(module, dependencies)


def _function(fn: Callable[..., Any]) -> FunctionType:
    inner = fn.__func__ if isinstance(fn, MethodType) else fn
    assert isinstance(inner, FunctionType), fn
    return inner


def _innermost(tb: TracebackType | None) -> Loc | None:
    """The last line of the user's that a traceback went through."""
    place = None
    while tb is not None:
        if not is_our_frame(tb.tb_frame):
            place = Loc(((tb.tb_frame.f_code, tb.tb_lasti),))
        tb = tb.tb_next
    return place


def _return_of(fn: FunctionType) -> SourceSpot | None:
    """The first `return` of a function that gives a value."""
    found = find_definition(fn)
    returns = [n for n in ast.walk(found.node) if isinstance(n, ast.Return) and n.value is not None] if found else []
    return spot_of(min(returns, key=lambda n: n.lineno), fn.__code__.co_filename) if returns else None
