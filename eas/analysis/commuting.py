"""Which combine regions may be applied in any order: those that only compare, proved on all orders of three elements.

A region of comparisons, logic and choices cannot tell numbers of the same order apart. So it commutes and associates
everywhere if it does on as many different numbers as three elements can have, beside NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from eas.base.dtypes import DType
from eas.base.types import Type
from eas.ir import Inst, Region, Value
from eas.ops.table import Call, evaluate

_COMPARES = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "isnan", "min", "max", "select"})
_LOGIC = frozenset({"and", "or", "xor", "not"})  # of bools: bits of numbers are more than their order
_MOST = 1 << 18  # triples of elements

Element = tuple[Any, ...]  # one number of each component


def neutral_element(combine: Region) -> list[Any] | None:
    """What changes nothing, of a region that only compares and may be applied in any order; else None."""
    kinds = [p.dtype for p in combine.params[: len(combine.params) // 2]]
    body = combine.body[:-1]
    known = {*combine.params, *(out for inst in body for out in inst.outs)}
    if not all(map(_only_compares, body)) or not known.issuperset(combine.yields):
        return None
    if any(v not in known for inst in body for v in inst.operands):
        return None
    elements = _elements(kinds, _related(combine))
    if elements is None or not _is_any_order(combine, elements):
        return None
    candidates = product(*map(_extremes, kinds))
    return next((list(e) for e in candidates if _is_neutral(combine, e, elements)), None)


def _extremes(dtype: DType) -> tuple[Any, Any]:
    if dtype.is_bool:
        return False, True
    return (-math.inf, math.inf) if dtype.is_float else (dtype.min, dtype.max)


def _only_compares(inst: Inst) -> bool:
    is_logic = inst.op.name in _LOGIC and inst.out.dtype.is_bool
    return (inst.op.name in _COMPARES or is_logic) and not inst.attrs


def _related(combine: Region) -> list[set[int]]:
    """The components whose numbers meet in one instruction, in sets."""
    n = len(combine.params) // 2
    sets = [{k} for k in range(n)]
    source: dict[Value, set[int]] = {p: {i % n} for i, p in enumerate(combine.params)}
    for inst in combine.body[:-1]:
        meet = [source[v] for v in inst.operands if not v.dtype.is_bool]
        source[inst.out] = set() if inst.out.dtype.is_bool else set().union(*meet)
        for a, b in combinations(set().union(*meet), 2):
            joined = next(s for s in sets if a in s) | next(s for s in sets if b in s)
            sets = [s for s in sets if not s & joined] + [joined]
    return sets


def _elements(kinds: Sequence[DType], related: Sequence[set[int]]) -> list[np.ndarray] | None:
    """All elements of as many numbers as three can have; None if those are too many."""
    size = {k: 3 * len(group) for group in related for k in group}
    columns = [_numbers(d, size[k]) for k, d in enumerate(kinds)]
    count = int(np.prod([len(c) for c in columns]))
    if count**3 > _MOST:
        return None
    return [grid.ravel() for grid in np.meshgrid(*columns, indexing="ij")]


def _numbers(dtype: DType, count: int) -> np.ndarray:
    """The lowest, the highest, some between, and NaN."""
    if dtype.is_bool:
        return np.array([False, True])
    between = list(range(1, count - 1))
    nan = [math.nan] if dtype.is_float else []
    return np.array([*between, *_extremes(dtype), *nan], dtype.np_compute)


def _apply(combine: Region, a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> list[np.ndarray]:
    shape = np.broadcast_shapes(*(x.shape for x in (*a, *b)))
    values = dict(zip(combine.params, (np.broadcast_to(x, shape) for x in (*a, *b)), strict=True))
    for inst in combine.body[:-1]:
        operands = tuple(Type(v.dtype, shape) for v in inst.operands)
        call = Call(operands, (Type(inst.out.dtype, shape),), {})
        (values[inst.out],) = evaluate(inst.op, call, [values[v] for v in inst.operands])
    return [values[v] for v in combine.yields]


def _same(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(x, np.broadcast_to(y, x.shape), equal_nan=x.dtype.kind == "f") for x, y in zip(a, b, strict=True))


def _is_any_order(combine: Region, elements: Sequence[np.ndarray]) -> bool:
    a, b = [e[:, None] for e in elements], [e[None, :] for e in elements]
    if not _same(_apply(combine, a, b), _apply(combine, b, a)):
        return False
    a, b, c = ([e.reshape(np.roll((-1, 1, 1), k)) for e in elements] for k in range(3))
    return _same(_apply(combine, _apply(combine, a, b), c), _apply(combine, a, _apply(combine, b, c)))


def _is_neutral(combine: Region, neutral: Element, elements: Sequence[np.ndarray]) -> bool:
    one = [np.array([x]).astype(e.dtype) for x, e in zip(neutral, elements, strict=True)]
    return _same(_apply(combine, one, elements), elements)
