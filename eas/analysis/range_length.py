"""How often a range loop runs, as instructions."""

from __future__ import annotations

from collections.abc import Callable

from eas.base import dtypes
from eas.ir import Value

Emit = Callable[..., Value]


def range_length(emit: Emit, start: Value, end: Value, by: Value, known: float | None) -> Value:
    """Python's len(range(start, end, by)), unsigned: a distance of two numbers may not fit their type.

    `known` is the step if it is a constant.
    """
    if known is not None and known > 0:
        lo, hi, size, runs = start, end, by, emit("lt", start, end)
    else:
        zero = emit("const", value=0, type=by.type)
        down = emit("lt", by, zero)
        lo, hi = emit("select", down, end, start), emit("select", down, start, end)
        size = emit("select", down, emit("neg", by), by)
        runs = emit("and", emit("lt", lo, hi), emit("ne", by, zero))
    unsigned = by.type.with_dtype(dtypes.parse(f"u{by.dtype.bits}"))
    count = emit("bitcast", emit("sub", hi, lo), type=unsigned)
    if known != 1:
        one = emit("const", value=1, type=unsigned)
        size = emit("bitcast", size, type=unsigned)
        count = emit("add", emit("truncdiv", emit("sub", count, one), size), one)
    return emit("select", runs, count, emit("const", value=0, type=unsigned))
