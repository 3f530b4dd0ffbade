"""Rows of constants and of the ids that tell programs, threads and elements apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eas.base import dtypes, numerics
from eas.base.errors import ShapeMismatch
from eas.base.types import Type
from eas.ops.rules import fixed
from eas.ops.table import Attrs, Call, Op, RegionSig, Trait, register


def _const_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    return (attrs["type"],)


def _const(call: Call) -> np.ndarray:
    t = call.out
    if t.dtype.is_float:  # once from f64: bf16 and fp8 must not be rounded through f32
        return numerics.round_to(np.full(t.shape, call.attrs["value"], np.float64), t.dtype)
    return np.full(t.shape, call.attrs["value"], t.dtype.np_compute)


def _arange_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    start, end = attrs["start"], attrs["end"]
    if end <= start:
        raise ShapeMismatch(f"arange({start}, {end}) is empty", hint="the end must be larger than the start")
    return (Type(dtypes.i32, (end - start,)),)


_CHEAP = Trait.PURE | Trait.CHEAP
register(Op("const", "index", "", _const_rule, "A number, or a block filled with it.", _CHEAP, _const, attrs="type: type, value: number"))
register(Op("program_id", "index", "", fixed(dtypes.i32), "Position of this program in the grid.", _CHEAP, lambda call: call.world.program_id(call.attrs["axis"]), attrs="axis: int"))
register(Op("num_programs", "index", "", fixed(dtypes.i32), "Size of the grid along an axis.", _CHEAP, lambda call: call.world.num_programs(call.attrs["axis"]), attrs="axis: int"))
register(Op("arange", "index", "", _arange_rule, "The integers start .. end-1 as a block.", _CHEAP, lambda call: np.arange(call.attrs["start"], call.attrs["end"], dtype=np.int32), attrs="start: int, end: int, is_inner?: bool"))
# The thread ids have no reference: `spread_threads` turns them into aranges before anything runs.
register(Op("tid", "index", "", fixed(dtypes.i32), "start + the thread's position in its threadgroup of end - start threads.", _CHEAP | Trait.THREAD, attrs="start: int, end: int"))
register(Op("local_id", "index", "", fixed(dtypes.i32), "The thread's position in its threadgroup along an axis.", _CHEAP | Trait.THREAD, attrs="axis: int, whole?: bool"))
register(Op("lane_id", "index", "", fixed(dtypes.i32), "The thread's position in its simdgroup, 0 .. 31.", _CHEAP | Trait.THREAD))
register(Op("sg_id", "index", "", fixed(dtypes.i32), "The index of the thread's simdgroup in its threadgroup.", _CHEAP | Trait.THREAD))
