"""The transpose of a square block, in registers or between two places in scratch, as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence

from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.matrix.transpose import transpose_lanes
from eas.codegen.llvm.text import Reg, Text, scratch_type, vector
from eas.ir import Inst


def relayout(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    """Rows in, rows of the transpose out; strides are in elements."""
    t, size = emitter.t, inst["size"]
    source, target = operands
    element = scratch_type(inst.operands[0].dtype)
    rows = [
        t.let(f"load {vector(element, size)}, {_row(t, element, source, i * inst['source_row'])}, align 1", element, size)
        for i in range(size)
    ]  # fmt: skip
    for i, row in enumerate(transpose_lanes(t, rows)):
        t.line(f"store {row}, {_row(t, element, target, i * inst['target_row'])}, align 1")
    return ()


def _row(t: Text, element: str, base: Reg, offset: int) -> Reg:
    return t.let(f"getelementptr {element}, {base}, i64 {offset}", "ptr", 1)


def turn(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> list[Reg]:
    """The transpose of a square that is in registers."""
    return transpose_lanes(emitter.t, [emitter.t.splat(r, len(operands)) for r in operands])
