"""Programs side by side that read the same blocks run together: one more axis, beside the lanes.

A convolution that makes one output channel per program reads all pixels again for each of them. Four such programs
are one tile whose rows share their loads (`sums.py`); what is left of an axis that is no multiple of four runs alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from eas.analysis import dependents, producers
from eas.analysis.effects import Memory
from eas.base.types import Type
from eas.ir import Inst, IRModule, Region, Trait, Value, make, walk
from eas.ir.rewriting import clone_region

TOGETHER = 4  # programs
_LIKE_ELEMENTS = frozenset({"load", "store", "addptr"})


def join_programs(module: IRModule, loops: Collection[Inst]) -> IRModule:
    """Where one of the loops, which add up what they read, reads the same in neighbouring programs, the kernel does several or one.

    In textbooks: unroll-and-jam over the grid.

        %pid = program_id {axis=0}; for ... { load %pixels; load (%filter + %pid) }
        ->
        if is_joined {count=4} { %pid = program_id + arange 4; one tile of 4 rows }
        else { as before }
    """
    tops = [inst for inst in module.body.body if inst in loops]
    if not tops or not _is_known(module):
        return module
    axis = next((a for a in (0, 1, 2) if _is_shared(module, tops, a)), None)
    if axis is None:
        return module
    joined = _Joined(module, axis).region(module.body)
    if joined is None:
        return module
    choice = make("is_joined", (), {"count": TOGETHER}, loc=module.loc)
    several = Region((), (*joined.body[:-1], make("yield")))
    both = make("if", [choice.out], {}, [several, clone_region(module.body)], module.loc)
    body = Region((), (choice, both, make("yield")))
    return module.with_body(body).with_attrs(joined=(axis, TOGETHER))


def _is_known(module: IRModule) -> bool:
    """Whether nothing is read that the kernel writes, so that programs may run in any order and at once."""
    memory, made = Memory(module), producers(module)
    insts = list(walk(module.body))
    loads = [inst for inst in insts if inst.op.name == "load"]
    plain = (i for i in insts if i.op.name not in ("for", "yield", *_LIKE_ELEMENTS))
    return all(i.op.is_pure and not i.regions for i in plain) and all(memory.is_stable(memory.place(i.operands[0], made)) for i in loads)


def _is_shared(module: IRModule, loops: Sequence[Inst], axis: int) -> bool:
    """Whether all blocks that the loops read, but not what they add up, are the same in neighbouring programs along an axis."""
    moving = _moving(module, axis)
    loads = [inst for loop in loops for inst in walk(loop.regions[0]) if inst.op.name == "load"]
    blocks = [inst for inst in loads if inst.out.shape]
    return bool(blocks) and all(i.out not in moving for i in blocks) and any(i.out in moving for i in loads) and all(o in moving for loop in loops for o in loop.outs)


def _moving(module: IRModule, axis: int) -> frozenset[Value]:
    """The values that depend on a program id."""
    return dependents(module, (i.out for i in walk(module.body) if i.op.name == "program_id" and i["axis"] == axis))


class _Joined:
    """The body of several programs: what differs between them has one more axis in front of its last."""

    def __init__(self, module: IRModule, axis: int) -> None:
        self.axis, self.moving = axis, _moving(module, axis)
        self.new: dict[Value, Value] = {}
        self.body: list[Inst] = []

    def region(self, region: Region, carried: Sequence[Value] = ()) -> Region | None:
        """The region for several programs, which yields what is carried; None where an instruction has no such form."""
        outer, self.body = self.body, []
        params = tuple(self._param(p) for p in region.params)
        done = all(self._inst(inst) for inst in region.body[:-1])
        if done:
            self.body.append(make("yield", [self._used(v, p in self.moving) for v, p in zip(region.yields, carried, strict=True)]))
        made, self.body = Region(params, tuple(self.body)), outer
        return made if done else None

    def _param(self, value: Value) -> Value:
        self.new[value] = Value(_wide(value.type) if value in self.moving else value.type, value.hint)
        return self.new[value]

    def _emit(self, name: str, *operands: Value, **attrs: object) -> Value:
        self.body.append(make(name, operands, attrs))
        return self.body[-1].out

    def _used(self, value: Value, wide: bool, shape: Sequence[int] = ()) -> Value:
        """A value as it is used by something of several programs, or of one."""
        new = self.new.get(value, value)
        if not wide or value in self.moving:
            return new
        if not value.shape:
            return self._emit("broadcast", new, shape=(TOGETHER, 1))
        rank = len(value.shape)
        return self._emit("broadcast", self._emit("expand_dims", new, axis=rank - 1), shape=_wide(value.type).shape)

    def _inst(self, inst: Inst) -> bool:
        name = inst.op.name
        if inst.outs and not any(out in self.moving for out in inst.outs) and not inst.regions:
            self._copy(inst, [self._used(v, False) for v in inst.operands], {})
            return True
        if name == "program_id":
            self.body.append(replace(inst, outs=(own := Value(inst.out.type, inst.out.hint),)))
            first = self._emit("broadcast", own, shape=(TOGETHER, 1))
            numbers = self._emit("cast", self._emit("arange", start=0, end=TOGETHER), type=Type(inst.out.dtype, (TOGETHER,)))
            self.new[inst.out] = self._emit("add", first, self._emit("expand_dims", numbers, axis=1))
            return True
        if name == "for":
            return self._for(inst)
        if name == "broadcast":
            shape = tuple(inst["shape"])
            self._copy(inst, [self._used(inst.operands[0], True)], {"shape": _wide(Type(inst.out.dtype, shape)).shape})
            return True
        if name == "expand_dims":
            rank = len(inst.out.shape)
            if not inst.operands[0].shape or inst["axis"] % rank == rank - 1:
                return False
            self._copy(inst, [self._used(inst.operands[0], True)], {"axis": inst["axis"] % rank})
            return True
        is_moving = any(v in self.moving for v in inst.operands)
        if not is_moving or inst.regions or not (name in _LIKE_ELEMENTS or inst.op.has(Trait.ELEMENTWISE)):
            return False
        attrs = {"type": _wide(inst["type"])} if inst.attr("type") else {}
        self._copy(inst, [self._used(v, True) for v in inst.operands], attrs)
        return True

    def _for(self, inst: Inst) -> bool:
        region = self.region(inst.regions[0], inst.regions[0].params[1:])
        if region is None or any(v in self.moving for v in inst.operands[:3]):
            return False
        starts = [self._used(v, p in self.moving) for v, p in zip(inst.operands[3:], inst.regions[0].params[1:], strict=True)]
        self._copy(inst, [*(self._used(v, False) for v in inst.operands[:3]), *starts], {}, [region])
        return True

    def _copy(self, inst: Inst, operands: Sequence[Value], attrs: Mapping[str, object], regions: Sequence[Region] = ()) -> None:
        new = make(inst.op.name, operands, {**dict(inst.attrs), **attrs}, regions, inst.loc, [out.hint for out in inst.outs])
        self.body.append(new)
        self.new.update(zip(inst.outs, new.outs, strict=True))


def _wide(kind: Type) -> Type:
    """The type of a value of several programs."""
    shape = kind.shape or (1,)
    return kind.with_shape((*shape[:-1], TOGETHER, shape[-1]))


__all__ = ["TOGETHER", "join_programs"]
