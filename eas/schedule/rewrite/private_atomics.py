"""Buffers that a kernel only changes, always by the same atomic, and never asks what was there before."""

from __future__ import annotations

import math
from collections.abc import Iterator

from eas.analysis import PointerBases, uses
from eas.ir import Arg, Inst, IRModule, Trait, walk

_KINDS = frozenset(f"atomic_{kind}" for kind in ("add", "max", "min", "and", "or", "xor"))  # in any order


def private_buffers(module: IRModule) -> tuple[tuple[int, str, int], ...]:
    """(argument, kind of its atomics, elements that a program changes at least) of each such buffer.

    What a thread does to a copy of it can be done to the buffer afterwards. Integers give the same
    result in any order, and the order of float atomics is not defined; narrow floats would round less often.
    """
    bases, used = PointerBases(module), uses(module)
    by_base: dict[Arg, list[Inst]] = {}
    for inst in walk(module.body):
        for base in {b for v in inst.operands if v.type.is_pointer and isinstance(b := bases[v], Arg)}:
            by_base.setdefault(base, []).append(inst)
    has_addresses = any(inst.op.name == "int_to_ptr" for inst in walk(module.body))
    is_alone = sum(a.is_buffer for a in module.args) == 1
    found = []
    for i, arg in enumerate(module.args):
        if not has_addresses and arg in by_base and (is_alone or arg.attr("noalias")) and _can_be_copied(arg):
            atomics = [inst for inst in by_base[arg] if not _passes_on(inst)]
            kinds = {inst.op.name for inst in atomics}
            is_asked = any(used[out] for inst in atomics for out in inst.outs)
            if len(kinds) == 1 and kinds <= _KINDS and not is_asked:
                found.append((i, kinds.pop().removeprefix("atomic_"), sum(_sizes(atomics))))
    return tuple(found)


def _passes_on(inst: Inst) -> bool:
    """Whether an instruction only makes pointers of pointers, or carries them."""
    is_formula = inst.op.is_pure and bool(inst.outs) and all(out.type.is_pointer for out in inst.outs)
    return is_formula or inst.op.name in ("for", "while", "if", "yield")


def _can_be_copied(arg: Arg) -> bool:
    dtype = arg.type.dtype
    return not dtype.is_bool and (not dtype.is_float or dtype.nbytes >= 4)


def _sizes(atomics: list[Inst]) -> Iterator[int]:
    for inst in atomics:
        assert inst.op.has(Trait.ATOMIC)
        yield math.prod(inst.operands[0].shape)
