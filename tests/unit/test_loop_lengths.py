"""Loops run as often as Python's `range` says, wherever that is computed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from eas.analysis.range_length import range_length
from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Inst, Value, make, walk
from eas.ops import Call, evaluate
from eas.passes import fold_constants, hoist_invariants
from tests.unit.ir_texts import kernel

LOOP = """
%a = const {} : i32
%b = const {} : i32
%c = const {} : i32
%r = for %a, %b, %c, %n : i32 (%i: i32, %s: i32) {{
  %x = mul %n, %n : i32
  store %p, %i
  %t = load %q : i32
  %u = add %t, %x : i32
  yield %u
}}
store %p, %r
"""


def test_a_loop_is_dropped_only_if_it_never_runs():
    for start, end, step in itertools.product(range(-3, 4), (-4, -1, 0, 1, 3, 7), (-8, -3, -1, 0, 1, 2, 5, 9)):
        module = kernel("%n: i32, %p: ptr<i32>, %q: ptr<i32>", LOOP.format(start, end, step))
        runs = bool(step) and len(range(start, end, step)) > 0
        for run in (fold_constants, lambda m: fold_constants(hoist_invariants(m))):
            loops = [inst for inst in walk(run(module).body) if inst.op.name == "for"]
            assert len(loops) == runs, (start, end, step)


@pytest.mark.parametrize("dtype", [dtypes.i8, dtypes.i32, dtypes.i64], ids=str)
@pytest.mark.parametrize("is_known", [False, True])
def test_length_as_instructions(dtype, is_known):
    ends = sorted({dtype.min, dtype.min + 1, -5, -1, 0, 1, 2, 7, 100, dtype.max - 1, dtype.max})
    steps = sorted({dtype.min, -100, -3, -1, 0, 1, 2, 3, 100, dtype.max})
    for step in steps if is_known else (None,):
        triples = np.array([t for t in itertools.product(ends, ends, steps) if step is None or t[2] == step], dtype.np_compute)
        known: dict[Value, np.ndarray] = {Value(Type(dtype, (len(triples),))): triples[:, k].copy() for k in range(3)}

        def emit(name: str, *operands: Value, known: dict[Value, np.ndarray] = known, shape: tuple[int, ...] = (len(triples),), **attrs: object) -> Value:
            if name in ("const", "bitcast"):
                attrs["type"] = Type(attrs["type"].dtype, shape)  # type: ignore[attr-defined]
            inst: Inst = make(name, operands, attrs)
            (known[inst.out],) = evaluate(inst.op, Call(tuple(v.type for v in operands), (inst.out.type,), dict(inst.attrs)), [known[v] for v in operands])
            return inst.out

        got = known[range_length(emit, *known, step)]
        want = [max(0, -((a - b) // c)) if c else 0 for a, b, c in triples.tolist()]  # len() takes no such long range
        assert got.tolist() == want
