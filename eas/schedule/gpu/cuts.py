"""Which Metal lowering each instruction that looks across elements has."""

from __future__ import annotations

from collections.abc import Callable

from eas.base.errors import Unsupported
from eas.ir import Inst
from eas.schedule.gpu import matrices
from eas.schedule.gpu import rows as lane_rows
from eas.schedule.gpu import scan as lane_scan
from eas.schedule.gpu.lanes import Lanes


def lower_cut(p: Lanes, inst: Inst) -> None:
    """Emit the code of one instruction whose operands are blocks."""
    lowering = _CUTS.get(inst.op.name)
    if lowering is None:
        raise Unsupported(f"the Metal schedule has no lowering of {inst.op.name}", loc=inst.loc)
    lowering(p, inst)


_CUTS: dict[str, Callable[[Lanes, Inst], None]] = {
    "device_print": lane_rows.device_print,
    "dot": matrices.dot,
    "dot_direct": matrices.dot,
    "histogram": lane_rows.histogram,
    "scan": lane_scan.scan,
    "sort": lane_rows.sort,
    "topk": lane_rows.topk,
}
