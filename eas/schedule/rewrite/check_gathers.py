"""With `EAS_CHECK_BOUNDS=1`, an index of `mk.gather` outside of its axis fails the launch."""

from __future__ import annotations

from collections.abc import Sequence

from eas.ir import Inst, IRModule, Value, make
from eas.ir.rewriting import Rewriter, rewrite


def check_gathers(module: IRModule) -> IRModule:
    """Each gather asserts that its indices are inside, and reads the first element where they are not.

    In textbooks: bounds checking.

        %y = gather %x, %i {axis=0}
        ->
        device_assert %inside; %j = select %inside, %i, %zero
        %y = gather %x, %j {axis=0}
    """
    return rewrite(module, _rule)


def _rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
    if inst.op.name != "gather":
        return None
    source, index = inst.operands
    extent = source.shape[inst["axis"] % source.type.rank]
    zero, last = (rw.const(n, index.type) for n in (0, min(extent - 1, index.dtype.max)))
    inside = rw.emit("and", rw.emit("ge", index, zero), rw.emit("le", index, last))
    rw.append(make("device_assert", [inside], {"message": f"gather index is outside of an axis of {extent} elements"}, loc=inst.loc))
    return [rw.emit("gather", source, rw.emit("select", inside, index, zero), axis=inst["axis"])]


__all__ = ["check_gathers"]
