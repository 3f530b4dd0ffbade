"""Puts the kernel author's own words into hints, and a place on refusals that have none yet."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from eas.base.errors import EasError, Unsupported
from eas.frontend.builder import current
from eas.ir import Loc

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=EasError)


def checked(rule: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a rule that knows no source place; its refusal gets the current line."""
    try:
        return rule(*args, **kwargs)
    except EasError as error:
        raise fill_hint(error.at(current().here())) from None


def need_choice(word: str, option: str, given: object, allowed: tuple[object, ...], hint: str = "") -> None:
    """Refuse a trace-time option that is none of the allowed ones."""
    if not any(type(given) is type(known) and given == known for known in allowed):
        known = ", ".join(repr(each) for each in allowed)
        raise Unsupported(f"mk.{word} got {option}={given!r}; it takes {known}", hint=hint or f"leave out {option}", loc=current().here())


def fill_hint(error: E) -> E:
    """Replace `{0}` in the hint by the source of the first argument of the failing call."""
    if "{0}" in error.hint:
        error.hint = error.hint.replace("{0}", first_argument(error.loc))
    return error


def first_argument(place: object) -> str:
    """The text of a call's first argument (of a method call: its object), else "x"."""
    if not isinstance(place, Loc):
        return "x"
    text = place.source()
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError:
        return "x"
    if not isinstance(call, ast.Call):
        return "x"
    found = _operand(call)
    return (ast.get_source_segment(text, found) if found is not None else None) or "x"


def _operand(call: ast.Call) -> ast.expr | None:
    given = [*call.args, *(k.value for k in call.keywords)]
    first = given[0] if given else None
    if isinstance(first, ast.Starred):
        return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_module = isinstance(owner, ast.Name) and owner.id == "mk"
    # x.sum(0) and x.exp() mean x; mk.exp(x) means its argument.
    if owner is not None and not is_module and (first is None or isinstance(first, ast.Constant)):
        return owner
    return first
