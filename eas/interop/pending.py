"""Memory that lazy graphs have yet to read: whoever writes it first leaves the graphs a copy."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from eas.interop.memory import stored
from eas.runtime import synchronize

PENDING: set[weakref.ref[Any]] = set()
"""Leaves of graphs that are not realised, or results that later graphs may read; each has `memory`, an array."""


def pin(leaf: Any) -> weakref.ref[Any]:
    """Until it dies, this leaf keeps the values that its memory has now."""
    made = weakref.ref(leaf, PENDING.discard)
    PENDING.add(made)
    return made


def before_write(memory: Any) -> None:
    """Somebody is about to write this array: leaves on the same bytes take a copy of their own."""
    for ref in list(PENDING):
        leaf = ref()
        if leaf is not None and np.may_share_memory(leaf.memory, memory):
            PENDING.discard(ref)
            synchronize()  # launches that are under way may still write what is copied
            is_private = leaf.device.host is not None  # the CPU does not see it
            leaf.memory = leaf.device.cloned(leaf.memory) if is_private else stored(leaf.memory, leaf.dtype, leaf.device)


def keep_for_readers(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any], written: Collection[str]) -> None:
    """A launch is about to write those of its arguments."""
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        memory = value if type(value) is np.ndarray else getattr(value, "_memory", None)
        if name in written and type(memory) is np.ndarray:
            before_write(memory)
