"""Refuses lanes that are asked to meet where not all of them arrive."""

from __future__ import annotations

from eas.analysis.uniformity import Levels, Uniformity, decision, uniformity
from eas.base.errors import Unsupported
from eas.ir import Inst, IRModule, Region, Trait


def check_convergence(module: IRModule) -> IRModule:
    """Refuse a barrier or simd op that only part of its threadgroup or simdgroup may reach."""
    _check(module.body, uniformity(module), ())
    return module


def _check(region: Region, levels: Levels, path: tuple[Inst, ...]) -> None:
    for inst in region.body:
        if inst.op.name == "alloc_tg" and path:
            raise Unsupported(
                "mk.alloc_tg inside of a loop or branch",
                hint="allocate threadgroup memory at the top level of the kernel",
                loc=inst.loc,
            )
        if inst.op.has(Trait.CONVERGENT):
            _check_reached(inst, levels, path)
        for inner in inst.regions:
            _check(inner, levels, (*path, inst))


def _check_reached(inst: Inst, levels: Levels, path: tuple[Inst, ...]) -> None:
    is_barrier = inst.op.name == "barrier"
    needed = Uniformity.PROGRAM if is_barrier else Uniformity.SIMDGROUP
    culprit = next((c for c in path if decision(c, levels) > needed), None)
    if culprit is None:
        return
    rule = (
        "a barrier must be reached by every thread of the threadgroup"
        if is_barrier
        else f"{inst.op.name} must be reached by every lane of the simdgroup"
    )
    raise Unsupported(f"{rule}, {_why(culprit)}", hint=_hint(inst, culprit), loc=inst.loc)


def _why(culprit: Inst) -> str:
    if culprit.op.name == "if":
        place = "under an `if` (or after an early return) that threads decide differently"
        return f"but this one is {place}"
    return f"but this one is in a `{culprit.op.name}` loop that threads leave at different times"


def _hint(inst: Inst, culprit: Inst) -> str:
    if inst.op.name == "barrier":
        fix = (
            "move it out of the branch"
            if culprit.op.name == "if"
            else "give the loop the same trip count in every thread"
        )
        return f"{fix} and mask the loads and stores instead"
    if inst.op.is_pure:
        return "call it outside, where every lane arrives, and choose with mk.where"
    return (
        "decide by what all lanes of a simdgroup agree on, such as mk.sg_id() or mk.simd_any(...)"
    )
