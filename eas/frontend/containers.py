"""Refuses lists, dicts and objects that a runtime loop or branch changes in place: the IR cannot carry that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from eas.errors import EscapedValue
from eas.frontend.builder import current
from eas.frontend.state import NOT_THE_USERS, is_same

_DEPTH = 3


@contextmanager
def unchanged(what: str, body: Callable[..., Any] | None) -> Iterator[None]:
    """What `body` sees of its enclosing function must hold the same things afterwards."""
    before = [(name, value, _picture(value)) for name, value in _closure(body) if _is_container(value)]
    yield
    for name, value, picture in before:
        if not _holds(picture, value):
            builder = current()
            place = builder.changes.get(id(value)) or builder.here()
            raise EscapedValue(f"the {type(value).__name__} `{name}` is changed inside a runtime {what}", hint="assign a new number, block, tuple, list or dataclass to a variable instead: those are carried", loc=place)


def _closure(body: Callable[..., Any] | None) -> list[tuple[str, Any]]:
    """The variables of the enclosing function that a body made by the rewrite uses."""
    while isinstance(body, partial):
        body = body.func
    code = getattr(body, "__code__", None)
    cells = zip(code.co_freevars, getattr(body, "__closure__", None) or (), strict=True) if code else ()
    found = []
    for name, cell in cells:
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # not assigned yet
            continue
    return found


def _is_container(x: Any) -> bool:
    return isinstance(x, (list, dict, set)) or _attributes(x) is not None


def _attributes(x: Any) -> dict[str, Any] | None:
    """The attributes of a plain object; modules, classes and functions have more than data."""
    if type(x).__module__.partition(".")[0] in NOT_THE_USERS or callable(x):
        return None
    own = getattr(x, "__dict__", None)
    return own if isinstance(own, dict) else None


def _picture(x: Any, depth: int = _DEPTH) -> Any:
    """A copy to compare with later, down to things that cannot change in place."""
    if depth == 0:
        return x
    if isinstance(x, (list, tuple)):
        return [_picture(v, depth - 1) for v in x]
    if isinstance(x, set):
        return frozenset(map(id, x)), list(x)
    table = x if isinstance(x, dict) else _attributes(x)
    return x if table is None else {k: _picture(v, depth - 1) for k, v in table.items()}


def _holds(picture: Any, x: Any, depth: int = _DEPTH) -> bool:
    """Whether x is as it was. New keys and attributes are no change: caches add them, and nobody saw them before."""
    if depth == 0:
        return is_same(picture, x)
    if isinstance(x, (list, tuple)):
        return isinstance(picture, list) and len(picture) == len(x) and all(_holds(p, v, depth - 1) for p, v in zip(picture, x, strict=True))
    if isinstance(x, set):
        return isinstance(picture, tuple) and frozenset(map(id, x)) == picture[0]
    table = x if isinstance(x, dict) else _attributes(x)
    if table is None:
        return is_same(picture, x)
    return isinstance(picture, dict) and all(k in table and _holds(p, table[k], depth - 1) for k, p in picture.items())
