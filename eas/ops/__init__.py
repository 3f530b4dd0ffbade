"""What every operation means: one row per op, read by the interpreter, passes, tests and docs."""

from eas.ops import (
    atomic,
    control,
    dot,
    elementwise,
    index,
    memory,
    random,
    reduce,
    scheduled,
    shape,
    simd,
)
from eas.ops.table import EXACT, TABLE, Accuracy, Call, Op, RegionSig, Trait, apply, evaluate

__all__ = ["EXACT", "TABLE", "Accuracy", "Call", "Op", "RegionSig", "Trait", "apply", "atomic", "control", "dot", "elementwise", "evaluate", "index", "memory", "random", "reduce",
    "scheduled", "shape", "simd"]
