"""What values are in lanes past the end of a row, so that reductions need not mask what changes nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eas.base.types import Type
from eas.lazy.emit.scope import operands
from eas.ops.table import TABLE, Call, evaluate

_INFINITE = {"exp": 0.0, "exp2": 0.0}


def lanes_past_the_end(spec: Any, varies: list[bool], identity: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    """(what each load reads there, the value of each instruction there if it is known)."""
    others = _loads(spec, varies, identity)
    known: dict[int, Any] = dict(others)
    for i, inst in enumerate(spec.instructions):
        if inst[0] == "const":
            known[i] = inst[1]
        elif inst[0] == "map":
            value = _mapped(inst, known, varies)
            if value is not None:
                known[i] = value
    return others, known


def _loads(spec: Any, varies: list[bool], identity: Any) -> dict[int, Any]:
    """A load that a reduction takes as it is reads what changes nothing in it."""
    wanted: dict[int, Any] = {}
    for inst in spec.instructions:
        if inst[0] == "reduce":
            source = inst[2]
            while spec.instructions[source][0] == "map" and spec.instructions[source][1] == "cast" and spec.instructions[source][2].is_float:
                source = operands(spec.instructions[source])[0]
            load = spec.instructions[source]
            if load[0] == "load" and (load[2].is_float == inst[3].is_float):
                wanted.setdefault(source, identity(inst[1], load[2]))
    # A load that stays along the last axis is not masked by its end, whatever it does along others.
    last = max(i for i, tag in enumerate(spec.tags) if tag == "r")
    return {i: wanted.get(i, 0) for i, inst in enumerate(spec.instructions) if inst[0] == "load" and varies[i] and inst[3][last] != 0}


def _mapped(inst: Any, known: dict[int, Any], varies: list[bool]) -> Any:
    _, name, operand, result, sources = inst
    values = [known.get(s) for s in sources]
    if name == "cast":
        return values[0] if values[0] is not None and operand.is_float else None
    if name == "sub" and operand.is_float and values[0] == -math.inf and not varies[sources[1]]:
        return -math.inf  # of a finite number; a row with another one has no sum in any case
    if name in _INFINITE and values[0] == -math.inf:
        return _INFINITE[name]
    if any(v is None for v in values) or name in ("select", "bitcast") or operand.is_storage_only:
        return None
    types = tuple([Type(operand)] * len(values))
    made = evaluate(TABLE[name], Call(types, (Type(result),), {}), [np.asarray(v, operand.np_compute) for v in values])
    return made[0].item()
