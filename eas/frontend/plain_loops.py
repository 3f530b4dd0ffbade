"""Long loops over known ranges: one whose body needs no trace-time values stays a loop, any other is unrolled."""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from eas.errors import EasError
from eas.frontend.builder import NeedsTraceTime, current
from eas.frontend.loops import Carried, RuntimeRange, trace_plain_for
from eas.frontend.values import Block, is_number

LONGEST_UNROLLED = 16  # iterations
_CHANGES = frozenset({"STORE_SUBSCR", "STORE_ATTR", "DELETE_SUBSCR", "DELETE_ATTR", "STORE_SLICE"})
State = tuple[Any, ...]


def trace_plain_loop(items: range, body: Callable[..., State], names: Sequence[str], state: State) -> State | None:
    """The state after a loop of the kernel; None if the body has to be unrolled to mean the same."""
    carried = Carried(names, state)
    if len(items) <= LONGEST_UNROLLED or _changes_objects(body.__code__) or not all(_is_plain(leaf.value) for leaf in carried.leaves):
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
    except (NeedsTraceTime, EasError, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        builder.changes = changes  # unrolled, the body does not fail, or tells its own error
        return None
    finally:
        builder.on_trial -= 1


def _is_plain(value: object) -> bool:
    """Whether a variable cannot be changed in place."""
    return isinstance(value, Block) or is_number(value) or value is None or isinstance(value, str)


@lru_cache(maxsize=256)
def _changes_objects(code: CodeType) -> bool:
    """Whether a body assigns to elements or attributes of Python objects: a trial would already change them."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return any(i.opname in _CHANGES for i in dis.get_instructions(code)) or any(map(_changes_objects, inner))


__all__ = ["LONGEST_UNROLLED", "trace_plain_loop"]
