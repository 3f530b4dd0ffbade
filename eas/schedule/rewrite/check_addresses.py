"""With `EAS_CHECK_BOUNDS=1`, accesses through pointers that are made from integers: what can be said without knowing their buffers."""

from __future__ import annotations

from collections.abc import Sequence

from eas.analysis import PointerBases, producers
from eas.base import dtypes
from eas.base.types import Type
from eas.ir import Arg, Inst, IRModule, Value, make, walk
from eas.ir.rewriting import Rewriter, rewrite
from eas.ops.machine import LOWEST_ADDRESS


def check_addresses(module: IRModule) -> IRModule:
    """Each access through a pointer that was made from an integer asserts that it is not null and that it is aligned.

    In textbooks: bounds checking.

        %p = int_to_ptr %i {dtype=f32}; %x = load %p
        ->
        %p = int_to_ptr %i {dtype=f32}; device_assert %is_address
        %x = load %p, %is_address
    """
    made = producers(module)
    if not any(inst.op.name == "int_to_ptr" for inst in walk(module.body)):
        return module
    bases = PointerBases(module)

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        if "mask?" not in inst.op.operands or not inst.operands[0].type.is_pointer:
            return None
        pointer, base = inst.operands[0], bases[inst.operands[0]]
        if isinstance(base, Arg) or made[base].op.name != "int_to_ptr":
            return None
        at = [name.strip() for name in inst.op.operands.split(",")].index("mask?")
        mask = list(inst.operands[at : at + 1])
        good = _is_address(rw, pointer)
        rw.append(make("device_assert", [good, *mask], {"message": f"a pointer made from an integer is null, or no multiple of the {pointer.dtype.nbytes} bytes of {pointer.dtype}"}, loc=inst.loc))
        held = rw.emit("and", good, mask[0]) if mask else good
        return rw.append(make(inst.op.name, [*inst.operands[:at], held, *inst.operands[at + 1 :]], dict(inst.attrs), (), inst.loc)).outs

    return rewrite(module, rule)


def _is_address(rw: Rewriter, pointer: Value) -> Value:
    address = rw.emit("ptr_to_int", pointer)
    lowest, rest, zero = (rw.const(n, Type(dtypes.i64, pointer.shape)) for n in (LOWEST_ADDRESS, pointer.dtype.nbytes - 1, 0))
    return rw.emit("and", rw.emit("ge", address, lowest), rw.emit("eq", rw.emit("and", address, rest), zero))


__all__ = ["check_addresses"]
