"""Rows that read and write one memory cell as a single step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eas.base import dtypes, numerics
from eas.base.dtypes import DType
from eas.base.errors import TypeMismatch
from eas.base.types import Type
from eas.ops.machine import Pointer
from eas.ops.memory import need_element, need_mask, need_pointer
from eas.ops.rules import FLOATS, INTS, need_dtype
from eas.ops.table import Attrs, Call, Op, RegionSig, Rule, Trait, register

FOREVER = (1 << 64) - 1
"""The timeout of a poll that has none."""


def number_of_values(op: Op) -> int:
    """How many numbers an atomic takes, beside its pointer and mask."""
    return op.operands.count(",") - 1


def _rule(name: str, allowed: tuple[DType, ...], values: int) -> Rule:
    def rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
        pointer = types[0]
        need_pointer(name, pointer)
        need_dtype(name, Type(pointer.dtype), allowed)
        for t in types[1 : 1 + values]:
            need_element(name, t, pointer)
        if len(types) > 1 + values:
            need_mask(name, types[1 + values], pointer.shape)
        return (Type(pointer.dtype, pointer.shape),)

    return rule


def _sequential(update: Callable[..., Any], values: int) -> Callable[..., np.ndarray]:
    """Lanes one after another; each returns what it found."""

    def reference(call: Call, pointer: Pointer, *rest: Any) -> np.ndarray:
        world = call.world
        mask = np.broadcast_to(rest[values] if len(rest) > values else True, pointer.shape)
        operands = [np.broadcast_to(v, pointer.shape) for v in rest[:values]]
        found = np.zeros(pointer.shape, call.out.dtype.np_compute)
        for i in np.ndindex(pointer.shape):
            if not mask[i]:
                continue
            cell = Pointer(pointer.buffer, np.asarray(pointer.offsets[i]))
            found[i] = old = world.load(cell, None, None)
            new = np.asarray(update(old, *(np.asarray(v[i]) for v in operands))).astype(found.dtype)
            world.store(cell, numerics.round_to(new, call.dtype) if call.dtype.is_float else new, None)
        return found

    return reference


def _poll_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    pointer, expected, timeout, *mask = types
    _rule("atomic_poll", INTS, 1)((pointer, expected, *mask), attrs, regions)
    if timeout != Type(dtypes.u64, pointer.shape):
        raise TypeMismatch(f"atomic_poll got a timeout of {timeout}", hint="pass nanoseconds as an integer")
    return (Type(dtypes.bool_, pointer.shape),)


def _poll(call: Call, pointer: Pointer, expected: np.ndarray, timeout: np.ndarray, mask: Any = None) -> np.ndarray:
    """Programs run one after another here: who does not find the number at once never will."""
    on = np.ones(pointer.shape, np.bool_) if mask is None else mask
    found = (call.world.load(pointer, on, None) == expected) & on
    if (~found & on & (timeout == np.uint64(FOREVER))).any():
        call.world.fail("atomic_poll waits forever: no program before this one has written the number, and programs run one after another here; wait for programs with smaller ids only")
    return np.asarray(found)


_UPDATES: tuple[tuple[str, Callable[..., Any], tuple[DType, ...], str], ...] = (
    ("add", np.add, INTS + FLOATS, "old + value"),
    ("max", np.maximum, INTS + FLOATS, "max(old, value), NaN propagates"),
    ("min", np.minimum, INTS + FLOATS, "min(old, value), NaN propagates"),
    ("and", np.bitwise_and, INTS, "old & value"),
    ("or", np.bitwise_or, INTS, "old | value"),
    ("xor", np.bitwise_xor, INTS, "old ^ value"),
    ("xchg", lambda old, value: value, INTS + FLOATS, "value"),
)
_TRAITS = Trait.READS | Trait.WRITES | Trait.ATOMIC
for _name, _update, _allowed, _text in _UPDATES:
    register(Op(f"atomic_{_name}", "atomic", "ptr, value, mask?", _rule(f"atomic_{_name}", _allowed, 1), f"memory = {_text}; returns the old value (0 on masked-off lanes).", _TRAITS, _sequential(_update, 1), dtypes=_allowed))
_CAS = INTS + FLOATS
register(Op("atomic_cas", "atomic", "ptr, expected, value, mask?", _rule("atomic_cas", _CAS, 2), "memory = value where it holds exactly the bits of `expected`; returns the old value.", _TRAITS, _sequential(lambda old, expected, value: value if old.tobytes() == expected.tobytes() else old, 2), dtypes=_CAS))
register(Op("atomic_poll", "atomic", "ptr, expected, timeout, mask?", _poll_rule, f"Wait until memory holds `expected`, for `timeout` nanoseconds at most ({FOREVER}: for as long as it takes); whether it did.", Trait.READS | Trait.EFFECT | Trait.ATOMIC, _poll, dtypes=INTS))
