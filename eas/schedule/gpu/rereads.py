"""Vectors that many elements share: a bias, a weight, one side of a matrix times vector.

As a block of its own such a vector would cross threads through threadgroup memory, with two barriers
in a loop. Its readers load the elements that they need instead: neighbours ask for the same ones,
which come from the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from eas.analysis import PointerBases, producers, with_inner, writes
from eas.base.trampoline import reached
from eas.ir import Arg, Inst, IRModule, Region, Trait, Value

_VIEWS = ("expand_dims", "broadcast")
_MOST_READERS = 2


def rereads(module: IRModule) -> dict[Value, Inst]:
    """Results of nests that are better loaded again by those who read them: what makes them, step by step.

    A load of one axis (or a cast of it), of memory that nobody writes, at addresses computed from scalars,
    whose readers are in the same region and see it spread along another axis.
    """
    if not all(module.arg(name).attr("noalias") for name in writes(module)):
        return {}
    finder = _Finder(module)
    return {value: inst for region in _regions(module.body) for value, inst in finder.found(region)}


def _regions(region: Region) -> Iterator[Region]:
    yield region
    for inst in region.body:
        if inst.op.has(Trait.CONTROL):
            for inner in inst.regions:
                yield from _regions(inner)


class _Finder:
    def __init__(self, module: IRModule) -> None:
        self.bases = PointerBases(module)
        self.written = set(writes(module))
        self.made = producers(module)

    def found(self, region: Region) -> Iterator[tuple[Value, Inst]]:
        for nest in region.body:
            if nest.op.name != "nest" or len(nest["shape"]) != 1:
                continue
            (body,) = nest.regions
            for inner, out in zip(body.yields, nest.outs, strict=True):
                inst = self.made[inner]
                load = self.made.get(inst.operands[0]) if inst.op.name == "cast" else inst
                if load is None or load.op.name != "load" or not self._is_plain(load) or not self._is_spread(out, region):
                    continue
                yield out, inst
                if load is not inst:
                    yield load.out, load

    def _is_plain(self, load: Inst) -> bool:
        base = self.bases[load.operands[0]]
        is_stable = isinstance(base, Arg) and base.name not in self.written
        return is_stable and not load.out.dtype.is_bool and all(map(self._is_computed, load.operands))

    def _is_computed(self, value: Value) -> bool:
        """Whether elements follow from scalars: no block in registers or memory is behind them."""
        blocks = reached([value], lambda v: self.made[v].operands if v.shape and v in self.made else ())
        return all(v.type.is_scalar or (v in self.made and _is_formula(self.made[v])) for v in blocks)

    def _is_spread(self, value: Value, region: Region) -> bool:
        """Whether the value is seen only through views that repeat it, and only here."""
        views, readers = {value}, 0
        for inst in region.body:
            used = [part for part in with_inner(inst) if any(v in views for v in part.operands)]
            if not used:
                continue
            if inst.op.has(Trait.CONTROL) or value in [v for part in used for v in part.operands if part.op.name not in _VIEWS]:
                return False
            if inst.op.name in _VIEWS or (inst.op.has(Trait.ELEMENTWISE) and inst.op.name != "nest" and inst.op.is_pure):
                views.update(inst.outs)
            else:
                readers += 1
        return 0 < readers <= _MOST_READERS


def _is_formula(inst: Inst) -> bool:
    return inst.op.is_pure and not inst.regions and inst.op.name != "gather"
