"""Which CPU lowering each instruction that looks across elements has."""

from __future__ import annotations

from collections.abc import Callable

from eas.base.errors import Unsupported
from eas.ir import Inst
from eas.schedule.cpu import matrices, order_rows, rows, simdgroups
from eas.schedule.cpu.lowering import Lowering


def lower_cut(p: Lowering, inst: Inst) -> None:
    """Emit loops for one instruction whose operands are blocks."""
    is_simd = inst.op.name.startswith("simd_")
    lowering = simdgroups.simd if is_simd else _CUTS.get(inst.op.name)
    if lowering is None:
        raise Unsupported(f"the CPU schedule has no lowering of {inst.op.name}", loc=inst.loc)
    lowering(p, inst)


_CUTS: dict[str, Callable[[Lowering, Inst], None]] = {
    "contraction": matrices.contraction,
    "dot": matrices.dot,
    "mma": matrices.mma,
    "mma_select": matrices.mma_select,
    "mma_store": matrices.mma_store,
    "mma_zero": matrices.mma_zero,
    "device_print": rows.device_print,
    "scan": rows.scan,
    "sort": order_rows.sort,
    "topk": order_rows.topk,
}
