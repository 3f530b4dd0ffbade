"""What is known of combine regions: their neutral elements, and which of them may change the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eas.dtypes import DType
from eas.ir import Region, Value
from eas.schedule.elements import Emitter

IDENTITIES: dict[str, Callable[[DType], Any]] = {
    "add": lambda d: -0.0 if d.is_float else 0,
    "mul": lambda d: 1.0 if d.is_float else 1,
    "max": lambda d: float("-inf") if d.is_float else d.min,
    "min": lambda d: float("inf") if d.is_float else d.max,
    "and": lambda d: True if d.is_bool else (-1 if d.is_signed else d.max),
    "or": lambda d: False if d.is_bool else 0,
    "xor": lambda d: False if d.is_bool else 0,
}


def identity(combine: Region) -> Any:
    """The neutral element of a combine region that is one known instruction, else None."""
    if len(combine.params) != 2 or len(combine.body) != 2:
        return None
    inst = combine.body[0]
    if set(inst.operands) != set(combine.params) or inst.op.name not in IDENTITIES:
        return None
    return IDENTITIES[inst.op.name](inst.out.dtype)


def may_reorder(combine: Region) -> bool:
    """One known instruction; narrow floats round after each, so their sums stay in order."""
    if identity(combine) is None:
        return False
    made = combine.body[0]
    is_narrow = made.out.dtype.is_float and made.out.dtype.bits < 32
    return not made.out.dtype.is_bool and (not is_narrow or made.op.name in ("max", "min"))


def inline(emitter: Emitter, combine: Region, arguments: Sequence[Value]) -> list[Value]:
    """The instructions of a combine region on given values."""
    values = dict(zip(combine.params, arguments, strict=True))
    for inst in combine.body[:-1]:
        operands = [values.get(v, v) for v in inst.operands]
        values.update(
            zip(inst.outs, emitter.inst(inst.op.name, operands, dict(inst.attrs)).outs, strict=True)
        )
    return [values.get(v, v) for v in combine.yields]
