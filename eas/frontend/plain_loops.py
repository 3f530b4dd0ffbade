"""Long loops over known ranges: one whose body needs no trace-time values stays a loop, any other is unrolled."""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from eas.base.errors import EasError
from eas.frontend.block import Block
from eas.frontend.builder import NeedsTraceTime, current
from eas.frontend.containers import ChangedInPlace
from eas.frontend.loops import Carried, RuntimeRange, trace_plain_for
from eas.frontend.values import is_number

LONGEST_UNROLLED = 16  # iterations
_CHANGES = frozenset({"STORE_ATTR", "DELETE_SUBSCR", "DELETE_ATTR", "STORE_SLICE"})
_ELEMENTS = frozenset({"STORE_SUBSCR"})
State = tuple[Any, ...]


def trace_plain_loop(items: range, body: Callable[..., State], names: Sequence[str], state: State) -> State | None:
    """The state after a loop of the kernel; None if the body has to be unrolled to mean the same."""
    carried = Carried(names, state)
    if len(items) <= LONGEST_UNROLLED or _changes_objects(body) or not all(_is_plain(leaf.value) for leaf in carried.leaves):
        return None
    ends = (items[0], items[-1], items.stop)
    if not all(-(2**31) <= n < 2**31 for n in ends):
        return None
    builder = current()
    builder.on_trial += 1
    changes = dict(builder.changes)
    try:
        with builder.retracing():
            return trace_plain_for(RuntimeRange(items.start, items.stop, items.step), (min(ends[:2]), max(ends[:2])), body, carried)
    except (NeedsTraceTime, ChangedInPlace, EasError, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        builder.changes = changes  # unrolled, the body does not fail, or tells its own error
        return None
    finally:
        builder.on_trial -= 1


def _is_plain(value: object) -> bool:
    """Whether a variable cannot be changed in place."""
    return isinstance(value, Block) or is_number(value) or value is None or isinstance(value, str)


def _changes_objects(body: Any) -> bool:
    """Whether a body assigns to attributes, or to elements of what a trial could not give back."""
    stored, names = _stores(body.__code__)
    if stored & _CHANGES:
        return True
    return bool(stored & _ELEMENTS) and any(isinstance(body.__globals__.get(name), (list, dict)) for name in names)


@lru_cache(maxsize=256)
def _stores(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The instructions that change objects, and the names that code and the functions in it mention."""
    found = {i.opname for i in dis.get_instructions(code)} & (_CHANGES | _ELEMENTS)
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            inner, more = _stores(const)
            found, names = found | inner, names | more
    return frozenset(found), frozenset(names)


__all__ = ["LONGEST_UNROLLED", "trace_plain_loop"]
