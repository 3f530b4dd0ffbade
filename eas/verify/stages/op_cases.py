"""The launches of stage "ops": small kernels that meet every row of the op table in every dtype of the row."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.lib.kernels import constexpr, kernel
from eas.ops import TABLE
from eas.verify.stages.op_values import argument, blank, various

N, BLOCK, TOGETHER = 300, 128, 6
PREDICATES = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "signbit"})
SIGNS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod,
    "truncdiv": mk.div_trunc, "truncmod": mk.rem, "min": mk.minimum, "max": mk.maximum, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "shl": operator.lshift, "shr": operator.rshift, "not": operator.invert, "neg": operator.neg, "eq": operator.eq,
    "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "fmin": lambda a, b: mk.minimum(a, b, propagate_nan=False), "fmax": lambda a, b: mk.maximum(a, b, propagate_nan=False),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A launch, the ops that it is about, and how far each of its outputs may be from the interpreter's."""

    ops: tuple[str, ...]
    dtype: DType
    kernel: Any
    args: tuple[Any, ...]
    outs: dict[int, tuple[DType, float]]
    """Argument -> dtype and ulps."""
    grid: int = 1
    meta: dict[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    """Of the outputs."""

    @property
    def name(self) -> str:
        return f"{self.dtype} {', '.join(self.ops)}"


# --- one element at a time ------------------------------------------------------------------------


@kernel
def unary_kernel(a, o0, o1, o2, o3, o4, o5, n, FS: constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    x = mk.load(a, i, i < n)
    for out, fn in zip((o0, o1, o2, o3, o4, o5), FS, strict=False):
        mk.store(out, i, fn(x), i < n)


@kernel
def binary_kernel(a, b, o0, o1, o2, o3, o4, o5, n, FS: constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    x, y = mk.load(a, i, i < n), mk.load(b, i, i < n)
    for out, fn in zip((o0, o1, o2, o3, o4, o5), FS, strict=False):
        mk.store(out, i, fn(x, y), i < n)


@kernel
def ternary_kernel(a, b, c, o0, o1, o2, o3, o4, o5, n, FS: constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    x, y, z = mk.load(a, i, i < n), mk.load(b, i, i < n), mk.load(c, i, i < n)
    for out, fn in zip((o0, o1, o2, o3, o4, o5), FS, strict=False):
        mk.store(out, i, fn(x, y, z), i < n)


KERNELS = {1: unary_kernel, 2: binary_kernel, 3: ternary_kernel}


def _elementwise(ops: list[str], fns: list[Callable[..., Any]], inputs: list[Any], outs: list[DType], dtype: DType, ulps: list[float]) -> Case:
    arity = len(inputs)
    spare = [np.zeros(1, np.int32)] * (TOGETHER - len(fns))
    args = (*inputs, *(blank(N, d) for d in outs), *spare, N)
    return Case(tuple(dict.fromkeys(ops)), dtype, KERNELS[arity], args, {arity + k: (d, u) for k, (d, u) in enumerate(zip(outs, ulps, strict=True))}, -(-N // BLOCK), {"FS": tuple(fns)}, tuple(ops))


def _arity(op: str) -> int:
    return len(TABLE[op].operands.split(","))


def _spelling(op: str) -> Callable[..., Any]:
    return SIGNS[op] if op in SIGNS else getattr(mk, op)


def _inputs(arity: int, dtype: DType, ops: list[str]) -> list[Any]:
    values = [various(dtype, N, seed) for seed in range(arity)]
    if dtype.is_float and {"floordiv", "mod", "fmod"} & set(ops):  # a quotient that is rounded has no floor of its own
        rng = np.random.default_rng(5)
        values = [rng.integers(-20, 21, N) / 2, rng.choice([-4.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 4.0], N)]
    return [argument(v, dtype) for v in values]


SPECIAL = ("select", "cast", "bitcast")
QUOTIENTS = ("floordiv", "mod", "fmod")


def _plain_cases(known: tuple[DType, ...]) -> Iterator[Case]:
    rows = [op for op, row in TABLE.items() if row.family == "elementwise" and op not in SPECIAL and hasattr(mk, op) | (op in SIGNS)]
    for dtype in known:
        for arity in (1, 2, 3):
            mine = [op for op in rows if _arity(op) == arity and dtype in TABLE[op].dtypes]
            for kind in ([op for op in mine if op not in QUOTIENTS], [op for op in mine if op in QUOTIENTS]):
                for first in range(0, len(kind), TOGETHER):
                    ops = kind[first : first + TOGETHER]
                    outs = [dtypes.bool_ if op in PREDICATES else dtype for op in ops]
                    ulps = [TABLE[op].accuracy.bound(dtype) for op in ops]
                    yield _elementwise(ops, [_spelling(op) for op in ops], _inputs(arity, dtype, ops), outs, dtype, ulps)


def _cast_to(dtype: DType) -> Callable[..., Any]:
    return lambda x: mk.cast(x, dtype)


def _bits_as(dtype: DType) -> Callable[..., Any]:
    return lambda x: mk.cast(x, dtype, bitcast=True)


def _conversion_cases(known: tuple[DType, ...]) -> Iterator[Case]:
    for dtype in known:
        x = [argument(various(dtype, N, 3), dtype)]
        for first in range(0, len(known), TOGETHER):
            to = list(known[first : first + TOGETHER])
            yield _elementwise(["cast"] * len(to), [_cast_to(d) for d in to], x, to, dtype, [0.0] * len(to))
        same = [d for d in known if d.bits == dtype.bits and not d.is_bool and not d.is_float][:TOGETHER]
        if not dtype.is_bool:
            yield _elementwise(["bitcast"] * len(same), [_bits_as(d) for d in same], x, same, dtype, [0.0] * len(same))
        chosen = [argument(various(dtypes.bool_, N, 1), dtypes.bool_), *(argument(various(dtype, N, s), dtype) for s in (2, 3))]
        yield _elementwise(["select"], [mk.where], chosen, [dtype], dtype, [0.0])


def elementwise_cases(known: tuple[DType, ...]) -> list[Case]:
    """Every elementwise row, in those of the dtypes that it has."""
    return [*_plain_cases(known), *_conversion_cases(known)]
