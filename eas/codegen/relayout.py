"""The transpose of a square block between two places in scratch, in registers, as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eas.codegen.llvm_text import Reg, Text, scratch_type, vector
from eas.ir import Inst

if TYPE_CHECKING:
    from eas.codegen.llvm import Emitter


def relayout(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    """Rows in, rows of the transpose out; strides are in elements."""
    t, size = emitter.t, inst["size"]
    source, target = operands
    element = scratch_type(inst.operands[0].dtype)
    rows = [
        t.let(f"load {vector(element, size)}, {_row(t, element, source, i * inst['source_row'])}, align 1", element, size)
        for i in range(size)
    ]  # fmt: skip
    for i, row in enumerate(transposed(t, rows)):
        t.line(f"store {row}, {_row(t, element, target, i * inst['target_row'])}, align 1")
    return ()


def _row(t: Text, element: str, base: Reg, offset: int) -> Reg:
    return t.let(f"getelementptr {element}, {base}, i64 {offset}", "ptr", 1)


def transposed(t: Text, rows: list[Reg]) -> list[Reg]:
    """Swap off-diagonal quarters of blocks of 2, 4, 8, ... rows."""
    n = len(rows)
    step = 1
    while step < n:
        # Lanes i with bit `step` clear come from the upper row, the others from the lower one.
        upper = [i if not i & step else n + i - step for i in range(n)]
        lower = [i + step if not i & step else n + i for i in range(n)]
        swapped = list(rows)
        for i in range(n):
            if not i & step:
                swapped[i] = _shuffle(t, rows[i], rows[i + step], upper)
                swapped[i + step] = _shuffle(t, rows[i], rows[i + step], lower)
        rows = swapped
        step *= 2
    return rows


def _shuffle(t: Text, a: Reg, b: Reg, lanes: Sequence[int]) -> Reg:
    order = ", ".join(f"i32 {i}" for i in lanes)
    return t.let(f"shufflevector {a}, {b}, <{len(lanes)} x i32> <{order}>", a.element, a.lanes)
