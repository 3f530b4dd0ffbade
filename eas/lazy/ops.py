"""One table of lazy ops: what kind of node a row makes, its dtype rule, and what it costs to compute again."""

from __future__ import annotations

from dataclasses import dataclass

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import TypeMismatch


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One op. `rule` names how operands promote; `cost` counts simple operations per element."""

    name: str
    kind: str
    """map, move, reduce, scan, matmul, index, random, gather, call or buffer."""
    rule: str = ""
    cost: int = 1

    def __repr__(self) -> str:
        return self.name


def _rows(kind: str, rule: str, cost: int, names: str) -> dict[str, Row]:
    return {name: Row(name, kind, rule, cost) for name in names.split()}


MAP = {
    **_rows("map", "arith", 1, "add sub mul min max neg abs sign"),
    **_rows("map", "arith", 8, "floordiv mod"),
    **_rows("map", "ints", 8, "truncdiv truncmod mulhi"),
    **_rows("map", "ints", 4, "popcount clz ctz bit_reverse"),
    **_rows("map", "float", 4, "div sqrt fmod"),
    **_rows("map", "float", 1, "copysign fmin fmax fma"),
    **_rows("map", "rounding", 1, "floor ceil trunc round"),
    **_rows("map", "float", 16, "exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc lgamma rsqrt cbrt sigmoid pow atan2 hypot"),
    **_rows("map", "bits", 1, "and or xor not"),
    **_rows("map", "shift", 1, "shl shr"),
    **_rows("map", "compare", 1, "eq ne lt le gt ge"),
    **_rows("map", "predicate", 1, "isnan isinf isfinite signbit"),
    **_rows("map", "select", 1, "select"),
    **_rows("map", "cast", 1, "cast bitcast"),
}  # fmt: skip
MOVE = _rows("move", "", 0, "reshape permute expand slice pad")
REDUCE = _rows("reduce", "", 1000, "sum prod max min any all argmax argmin")
BUFFER = Row("buffer", "buffer", cost=0)
INDEX = Row("index", "index")
RANDOM = _rows("random", "", 40, "uniform normal")
GATHER = Row("gather", "gather", cost=2)
MATMUL = Row("matmul", "matmul", cost=1000)
CUMSUM = Row("cumsum", "scan", cost=1000)
CALL = Row("call", "call", cost=1000)

CAST, BITCAST, SELECT, FMA = MAP["cast"], MAP["bitcast"], MAP["select"], MAP["fma"]
FIXED = frozenset({0, 1, -1, 2, 0.5, 0.7071067811865476, 0.7978845608028654, 0.044715, float("inf"), -float("inf")})
"""Numbers that are compiled into a kernel; others are arguments of it."""


def dtypes_of(row: Row, a: DType, b: DType | None = None) -> tuple[DType, DType]:
    """(the dtype that operands are cast to, the dtype of the result)."""
    both = a if b is None else dtypes.common(a, b)
    rule = row.rule
    if both.is_storage_only:
        raise TypeMismatch(f"{row.name} of {both}: it is a storage type", hint='x.to("f32")')
    if rule == "arith" or (rule == "rounding" and not both.is_float):
        both = dtypes.i32 if both.is_bool else both
        return both, both
    if rule in ("float", "rounding"):
        both = dtypes.div_type(both)
        return both, both
    if rule == "compare":
        return both, dtypes.bool_
    if rule == "predicate":
        return dtypes.div_type(both), dtypes.bool_
    if both.is_float and rule in ("bits", "shift", "ints"):
        raise TypeMismatch(f"{row.name} needs integers or bools, got {both}", hint='x.to("i32")')
    if rule in ("shift", "ints"):
        both = dtypes.i32 if both.is_bool else both
    return both, both
