"""Rows with regions (loops, branches), messages to the host, hints, and target text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eas.base.errors import InvalidIR, TypeMismatch
from eas.base.types import Type
from eas.ops.rules import ARITHMETIC, BOOL, INTS, need_dtype, need_scalar, need_value, nothing
from eas.ops.table import Attrs, Call, Op, RegionSig, Trait, register


def _for_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    for what, t in zip(("start", "end", "step"), types, strict=False):
        need_scalar("for", f"the range's {what}", t)
    carried = tuple(types[3:])
    (body,) = regions
    if body.params != (types[0], *carried) or body.yields != carried or len(set(types[:3])) != 1:
        raise InvalidIR(f"for carries {[str(t) for t in carried]} but its body takes {[str(t) for t in body.params]} and yields {[str(t) for t in body.yields]}")
    return carried


def _while_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    test, body = regions
    carried = tuple(types)
    if test.params != carried or body.params != carried or body.yields != carried:
        raise InvalidIR("while: test, body and carried values have different types")
    (condition,) = test.yields
    need_scalar("while", "the condition", condition, BOOL)
    return carried


def _if_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_scalar("if", "the condition", types[0], BOOL)
    then, other = regions
    if then.yields != other.yields or then.params or other.params:
        raise InvalidIR("if: the branches yield different types")
    return then.yields


def _map_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    (body,) = regions
    shape = types[0].shape
    if any(t.shape != shape for t in types) or body.params != tuple(Type(t.dtype) for t in types):
        raise InvalidIR(f"map of {[str(t) for t in types]} by a function of {[str(t) for t in body.params]}")
    for t in body.yields:
        if t.is_pointer or t.shape:
            raise TypeMismatch(f"the function of map_elementwise returned {t}", hint="return numbers")
    return tuple(t.with_shape(shape) for t in body.yields)


def _check_assert(types: Sequence[Type], attrs: Attrs) -> None:
    for t in types:
        need_dtype("device_assert", t, BOOL)


def _assert(call: Call, condition: np.ndarray, mask: Any = True) -> None:
    if not np.all(condition | ~np.asarray(mask)):
        call.world.fail(call.attrs["message"])


def _check_print(types: Sequence[Type], attrs: Attrs) -> None:
    for t in types:
        need_value("device_print", t)


def print_text(prefix: str, values: Sequence[np.ndarray]) -> str:
    """What `device_print` says of values in compute form; every backend prints this."""
    text = [np.array2string(np.asarray(v), threshold=64, floatmode="maxprec") for v in values]
    return " ".join([prefix, *text]).rstrip()


def _print(call: Call, *values: np.ndarray) -> None:
    call.world.report(print_text(call.attrs["prefix"], values))


def _hint_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    if not types[0].is_pointer:
        need_dtype("hint", types[0], INTS)
    if attrs["n"] < 1:
        raise TypeMismatch(f"a hint needs a positive number, got {attrs['n']}")
    return (types[0],)


def _check_assume(types: Sequence[Type], attrs: Attrs) -> None:
    need_scalar("assume", "the condition", types[0], BOOL)


def _assume(call: Call, condition: np.ndarray) -> None:
    if not condition:
        call.world.fail("mk.assume was told something that does not hold")


def _inline_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    for t in types:
        need_dtype("inline_target", t, ARITHMETIC)
    return (attrs["type"],)


def _inline(call: Call, *values: np.ndarray) -> Any:
    texts = dict(call.attrs["texts"])
    if "numpy" not in texts:
        raise TypeMismatch("inline_target has no numpy text", hint="give numpy='...' so that the interpreter can judge it")
    # One dictionary: a comprehension in the text sees globals only.
    return eval(texts["numpy"], {"np": np} | {f"a{i}": v for i, v in enumerate(values)})


_REGION = Trait.EFFECT  # what a region does is asked of the region
register(Op("for", "control", "start, end, step, *carried", _for_rule, "Python's range loop; a step of 0 runs no iteration.", _REGION | Trait.CONTROL | Trait.LOOP, attrs="uniform?: bool", regions=1))
register(Op("while", "control", "*carried", _while_rule, "Test region, then body region, until the test is false.", _REGION | Trait.CONTROL | Trait.LOOP, attrs="uniform?: bool, each?: bool", regions=2))
register(Op("if", "control", "cond", _if_rule, "One of two regions.", _REGION | Trait.CONTROL, attrs="uniform?: bool", regions=2))
register(Op("map", "control", "x, *xs", _map_rule, "A function of scalars, which may branch and loop, of every element; no backend has it: it becomes arithmetic and masks before anything else.", _REGION, regions=1))
register(Op("yield", "control", "*values", nothing(), "Ends a region.", Trait.TERMINATOR | Trait.EFFECT))
register(Op("device_print", "control", "*values", nothing(_check_print), "Print a line per program (thread mode: per threadgroup).", Trait.EFFECT | Trait.CUT | Trait.ORDERED, _print, attrs="prefix: str"))
register(Op("device_assert", "control", "cond, mask?", nothing(_check_assert), "The launch fails with the kernel line when a lane is false.", Trait.EFFECT | Trait.ORDERED | Trait.ONE_BY_ONE | Trait.ELEMENTWISE, _assert, attrs="message: str"))
register(Op("assume", "control", "cond", nothing(_check_assume), "The compiler may rely on the condition; the interpreter checks it.", Trait.EFFECT, _assume))
for _name, _doc in (
    ("multiple_of", "Every element (of a block: the first along each contiguous run) is a multiple of n."),
    ("max_contiguous", "Runs of n elements are consecutive integers."),
    ("max_constancy", "Runs of n elements are equal."),
):
    register(Op(_name, "control", "x", _hint_rule, _doc, Trait.PURE | Trait.ELEMENTWISE | Trait.CHEAP | Trait.HINT, lambda call, x: x, attrs="n: int", cost=0))
register(Op("inline_target", "control", "*xs", _inline_rule, "Text of the target's own language per target; `numpy` is what the interpreter runs.", Trait.PURE | Trait.ONE_BY_ONE | Trait.ELEMENTWISE, _inline, attrs="type: type, texts: texts", cost=8))
