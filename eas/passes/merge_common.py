"""Compute the same thing once."""

from __future__ import annotations

from collections.abc import Hashable

from eas.analysis.effects import Memory, is_commutative, is_load, is_movable, writes
from eas.ir import Inst, IRModule, Trait, Value
from eas.ir.rewriting import Rewriter, ScopedDict, rewrite


def merge_common(module: IRModule) -> IRModule:
    """Of equal instructions in a block and those around it one is left; loads part at writes.

    In textbooks: common subexpression elimination, value numbering.

        %a = mul %x, %y; %b = mul %x, %y
        %c = add %a, %b
        ->
        %a = mul %x, %y; %c = add %a, %a
    """
    seen = ScopedDict[Hashable, tuple[Value, ...]]()
    memory = Memory(module)
    epoch = 1  # grows with every write, so that loads before and after it are not equal

    def enter(inst: Inst, rw: Rewriter) -> None:
        nonlocal epoch
        if inst.op.has(Trait.LOOP) and writes(inst):
            epoch += 1  # the second round of a loop sees what the first one wrote

    def rule(inst: Inst, rw: Rewriter) -> tuple[Value, ...] | None:
        nonlocal epoch
        if is_movable(inst.op):
            key = _key(inst)
        elif is_load(inst.op):
            is_stable = memory.is_stable(memory.place(inst.operands[0], rw.producer))
            key = (0 if is_stable else epoch, inst.key())
        else:
            epoch += writes(inst)
            return None
        first = seen.setdefault(key, inst.outs)
        return None if first is inst.outs else first

    return rewrite(module, rule, [seen], enter)


def _key(inst: Inst) -> Hashable:
    """The instruction's key, the same for both orders of operands that commute bit for bit."""
    name, operands, *rest = inst.key()
    if not is_commutative(inst.op):
        return name, operands, *rest
    if inst.out.dtype.is_float and name not in ("add", "mul"):
        return name, operands, *rest  # min(0.0, -0.0) may differ from min(-0.0, 0.0)
    return name, frozenset(inst.operands), *rest
