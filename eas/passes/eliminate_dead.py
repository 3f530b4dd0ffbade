"""Drop what nobody needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eas.analysis.effects import has_effects
from eas.ir import Inst, IRModule, Region, Trait, Value, walk
from eas.ir.rewriting import Rewriter, rewrite


def eliminate_dead(module: IRModule) -> IRModule:
    """Every pure instruction, load, fence, carried value and branch result is needed by an effect.

    In textbooks: dead code elimination.

        %a = mul %x, %y
        %b = add %x, %y; store %p, %b
        ->
        %b = add %x, %y; store %p, %b
    """
    needed = _Needed(module)

    is_ordered = any(inst.op.has(Trait.ATOMIC) and needed.any_result(inst) for inst in walk(module.body))

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        # Who never looks at what an atomic found cannot tell what was written before it.
        if not needed.inst(inst) or (inst.op.name == "fence" and inst["order"] != "volatile" and not is_ordered):
            return inst.outs
        if inst.op.name not in _SPARSE:
            return None
        keep = [needed.result(inst, i) for i in range(len(inst.outs))]
        if all(keep):
            return None
        rw.append(_trimmed(inst, keep))
        return inst.outs

    return rewrite(module, rule)


# Control flow whose results are needed one by one -> operands before the carried ones.
_SPARSE = {"for": 3, "while": 0, "if": 1}


class _Needed:
    """The values that effects depend on, found from the effects backwards."""

    def __init__(self, module: IRModule) -> None:
        self._made: dict[
            Value, tuple[Inst, int]
        ] = {}  # result or carried parameter -> instruction, position
        self._values: set[Value] = set()
        self._todo = list(module.body.yields)
        for inst in walk(module.body):
            self._define(inst)
            if inst.op.name != "yield" and has_effects(inst):
                self._todo += self._control(inst)
        while self._todo:
            self._need(self._todo.pop())

    def inst(self, inst: Inst) -> bool:
        return has_effects(inst) or self.any_result(inst)

    def any_result(self, inst: Inst) -> bool:
        return any(out in self._values for out in inst.outs)

    def result(self, inst: Inst, i: int) -> bool:
        return inst.outs[i] in self._values

    def _define(self, inst: Inst) -> None:
        for i, out in enumerate(inst.outs):
            self._made[out] = (inst, i)
        if inst.op.name in ("for", "while"):
            for region in inst.regions:
                carried = region.params[1:] if inst.op.name == "for" else region.params
                for i, param in enumerate(carried):
                    self._made[param] = (inst, i)

    def _control(self, inst: Inst) -> tuple[Value, ...]:
        """What an instruction needs in order to run at all."""
        match inst.op.name:
            case "for" | "if":
                return inst.operands[: _SPARSE[inst.op.name]]
            case "while":
                return inst.regions[0].yields
        inner = [v for region in inst.regions for v in region.yields]
        return (*inst.operands, *inner)

    def _need(self, value: Value) -> None:
        if value in self._values:
            return
        self._values.add(value)
        made = self._made.get(value)
        if made is None:
            return  # an argument, or a parameter that is not carried
        inst, i = made
        self._todo += self._control(inst)
        if inst.op.name in _SPARSE:
            self._todo.append(inst.outs[i])  # a carried parameter needs its result's slot, too
            self._todo += self._sources(inst, i)

    def _sources(self, inst: Inst, i: int) -> list[Value]:
        """Where result i of control flow comes from."""
        match inst.op.name:
            case "if":
                return [region.yields[i] for region in inst.regions]
            case "for":
                return [inst.operands[3 + i], inst.regions[0].yields[i]]
        return [inst.operands[i], inst.regions[1].yields[i]]


def _trimmed(inst: Inst, keep: Sequence[bool]) -> Inst:
    """The instruction without the results that are not kept, and without what carries them."""
    skip = _SPARSE[inst.op.name]
    operands = (
        inst.operands
        if inst.op.name == "if"
        else inst.operands[:skip] + _kept(inst.operands[skip:], keep)
    )
    regions = []
    for i, region in enumerate(inst.regions):
        *rest, last = region.body
        is_test = inst.op.name == "while" and i == 0
        params = region.params
        if inst.op.name == "for":
            params = params[:1] + _kept(params[1:], keep)
        elif inst.op.name == "while":
            params = _kept(params, keep)
        last = last if is_test else last.with_operands(_kept(last.operands, keep))
        regions.append(Region(params, (*rest, last)))
    return replace(inst, operands=operands, regions=tuple(regions), outs=_kept(inst.outs, keep))


def _kept(values: tuple[Value, ...], keep: Sequence[bool]) -> tuple[Value, ...]:
    return tuple([v for v, kept in zip(values, keep, strict=True) if kept])
