"""Short blocks in which a loop goes along a row: it takes longer ones, the same elements in fewer iterations.

`for first in range(0, n, 64)` with `first + arange(0, 64)` finds out in every iteration how many of few elements are
inside, and folds the lanes of what it adds up. How a row is cut into blocks does not matter if all that a block is
made of depends on the sum of the counter and the position in the block alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from eas.analysis import Producers, uses
from eas.analysis.combines import identity, may_reorder
from eas.analysis.effects import Memory
from eas.analysis.motion import STILL, Direction, motion_of
from eas.base import dtypes
from eas.base.trampoline import Definition, evaluate, every
from eas.base.types import Type
from eas.ir import Inst, IRModule, Region, Trait, Value, make, walk
from eas.ir.rewriting import Rewriter, clone_region, rewrite

_SHORT = 256  # elements: a block that is too short
_LONG = 2048


def lengthen_blocks(module: IRModule) -> IRModule:
    """Let loops that go along a row in short blocks take long ones.

    In textbooks: strip-mining by a longer strip.

        for %first = 0, %n, 64 { %c = %first + arange 64; ... %c < %n ... }
        ->
        for %first = 0, %n, 2048 { %c = %first + arange 2048
                                   ... %c < %n ... }
    """
    loops = [inst for inst in walk(module.body) if inst.op.name == "for" and _short_block(inst)]
    if not loops:
        return module
    facts = _Facts(module)
    rows = {row.counter: row for row in (_Row(loop, facts) for loop in loops) if row.may_be_cut_anyhow()}

    def rule(inst: Inst, rw: Rewriter) -> Sequence[Value] | None:
        row = rows.get(inst.regions[0].params[0]) if inst.op.name == "for" else None
        return None if row is None else _Longer(row, rw).loop(inst)

    return rewrite(module, rule) if rows else module


def _short_block(loop: Inst) -> int:
    """The extent of the blocks that a loop stores or reduces, if it is the same short one; else 0."""
    shapes = {i.operands[0].shape for i in loop.regions[0].body if i.op.name in ("store", "reduce")}
    shape = shapes.pop() if len(shapes) == 1 else ()
    is_short = len(shape) == 1 and shape[0] <= _SHORT and _LONG % shape[0] == 0
    return shape[0] if is_short else 0


class _Facts:
    """What is known of a module."""

    def __init__(self, module: IRModule) -> None:
        self.motion = motion_of(module)
        self.made: Producers = self.motion.made
        self.used: Mapping[Value, int] = uses(module)
        self.memory = Memory(module)

    def literal(self, value: Value) -> int:
        """The number of a constant, and -1 for what is none."""
        inst = self.made.get(value)
        return int(inst["value"]) if inst is not None and inst.op.name == "const" else -1

    def may_overlap(self, a: Value, b: Value) -> bool:
        return self.memory.may_overlap(self.memory.place(a, self.made), self.memory.place(b, self.made))


class _Row:
    """A loop that may go along a row, in blocks of `block` elements."""

    def __init__(self, loop: Inst, facts: _Facts) -> None:
        self.facts, self._loop, region = facts, loop, loop.regions[0]
        self.block, self._insts = _short_block(loop), region.body[:-1]
        self.counter, *self._carried = region.params
        self._inner = {out for inst in self._insts for out in inst.outs}
        self._back = facts.motion.along(Direction({self.counter: 1}, self._inner | set(region.params), through_loads=True, is_exact=True))

    def may_be_cut_anyhow(self) -> bool:
        """Whether other blocks of the row do the same."""
        first, _, step = (self.facts.literal(v) for v in self._loop.operands[:3])
        goes_along = first >= 0 and step == self.block and self.counter.dtype is dtypes.i32
        return goes_along and all(map(self._is_even, self._insts)) and self._carries_sums() and not self._overlaps()

    def _is_even(self, inst: Inst) -> bool:
        """Whether an instruction does the same to an element in whatever block that is."""
        name = inst.op.name
        if any(v.shape not in ((), (self.block,)) for v in (*inst.operands, *inst.outs)):
            return False
        if name not in ("load", "store", "reduce"):
            return inst.op.is_pure and not inst.regions and not inst.op.has(Trait.CONVERGENT)
        if inst.operands[0].shape != (self.block,) or not all(map(self._stays, inst.operands)):
            return False
        if name == "store":  # no element twice
            return bool(self.facts.motion.step(inst.operands[0], 0)) or self.facts.motion.grows(inst.operands[0], 0)
        return name == "load" or (len(inst.operands) == 1 and may_reorder(inst.regions[0]))

    def _carries_sums(self) -> bool:
        """Whether each reduction is combined with something carried, and nothing else is made of either."""
        made, used = self.facts.made, self.facts.used
        sums = {inst.out: inst for inst in self._insts if inst.op.name == "reduce"}
        for old, new in zip(self._carried, self._loop.regions[0].yields, strict=True):
            inst = made.get(new)
            if inst is None or new not in self._inner or len(inst.operands) != 2 or old not in inst.operands:
                return False
            reduced = sums.pop(inst.operands[inst.operands[0] is old], None)
            if reduced is None or reduced.regions[0].body[0].op is not inst.op or {used[old], used[new], used[reduced.out]} != {1}:
                return False
        return not sums

    def _overlaps(self) -> bool:
        """Whether an element that is stored may be another one that is read or stored."""
        touching = [inst for inst in self._insts if inst.op.name in ("load", "store")]
        return any(
            "store" in (a.op.name, b.op.name) and a.operands[0] is not b.operands[0] and self.facts.may_overlap(a.operands[0], b.operands[0])
            for a, b in combinations(touching, 2)
        )

    def is_inner(self, value: Value) -> bool:
        """Whether the loop makes a value."""
        return value in self._inner

    def _stays(self, value: Value) -> bool:
        """Whether a value is the same an element further in the loop and a position back, so that it depends on the sum of both alone."""
        return self._back.move(value, (-1,) * len(value.shape)) == STILL


class _Longer:
    """Writes a loop once more, with long blocks: what short ones do not have is masked off."""

    def __init__(self, row: _Row, rw: Rewriter) -> None:
        self._row, self._rw = row, rw
        self._made = row.facts.made
        self._body: list[Inst] = []
        self._new: dict[Value, Value] = {}

    def loop(self, loop: Inst) -> tuple[Value, ...]:
        """The results of the new loop."""
        region, (first, stop, _, *inits) = loop.regions[0], loop.operands
        step = self._rw.const(_LONG, self._row.counter.type)
        params = tuple(Value(p.type, p.hint) for p in region.params)
        self._new = dict(zip(region.params, params, strict=True))
        inside = self._inside(params[0], stop)
        for inst in region.body[:-1]:
            if inst.op.name in ("load", "store", "reduce"):
                self._write(inst, inside)
        end = make("yield", [self._at(v) for v in region.yields], loc=region.body[-1].loc)
        long = make("for", [first, stop, step, *inits], dict(loop.attrs), [Region(params, (*self._body, end))], loop.loc, [v.hint for v in loop.outs])
        return self._rw.append(long).outs

    def _inside(self, counter: Value, stop: Value) -> Value:
        """Which elements are part of a short block that begins before the end."""
        block, kind = self._row.block, counter.type
        left = self._emit("min", self._emit("sub", stop, counter), self._emit("const", value=_LONG, type=kind))
        up = self._emit("add", left, self._emit("const", value=block - 1, type=kind))
        limit = self._emit("and", up, self._emit("const", value=-block, type=kind))
        return self._emit("lt", self._emit("arange", start=0, end=_LONG), self._emit("broadcast", limit, shape=(_LONG,)))

    def _write(self, inst: Inst, inside: Value) -> None:
        """What touches memory, and sums; all else follows when it is asked for."""
        operands, attrs = [self._at(v) for v in inst.operands], dict(inst.attrs)
        if inst.op.name == "reduce":
            neutral = self._emit("const", value=identity(inst.regions[0]), type=operands[0].type)
            regions = [clone_region(inst.regions[0])]
            self._new[inst.out] = self._emit("reduce", self._emit("select", inside, operands[0], neutral), regions=regions, like=inst, **attrs)
            return
        at = 1 if inst.op.name == "load" else 2
        operands[at : at + 1] = [self._emit("and", operands[at], inside) if len(operands) > at else inside]
        made = make(inst.op.name, operands, attrs, (), inst.loc, [v.hint for v in inst.outs])
        self._body.append(made)
        self._new.update(zip(inst.outs, made.outs, strict=True))

    def _at(self, value: Value) -> Value:
        """What stands for a value of the loop, or for a block that is made before it."""
        return evaluate(self._copy, value, self._new)

    def _copy(self, value: Value) -> Definition[Value, Value]:
        inst = self._made.get(value)
        if inst is None or (not value.shape and not self._row.is_inner(value)):
            return self._rw.use(value)
        attrs = {key: self._longer(part) for key, part in inst.attrs}
        if inst.op.name == "arange":
            attrs["end"] = inst["start"] + _LONG
        operands: list[Value] = yield from every(inst.operands)
        made = make(inst.op.name, operands, attrs, (), inst.loc, [v.hint for v in inst.outs])
        self._body.append(made)
        return made.outs[inst.outs.index(value)]

    def _longer(self, attr: object) -> object:
        short = (self._row.block,)
        if isinstance(attr, Type):
            return attr.with_shape((_LONG,)) if attr.shape == short else attr
        return (_LONG,) if attr == short else attr

    def _emit(self, name: str, *operands: Value, regions: Sequence[Region] = (), like: Inst | None = None, **attrs: object) -> Value:
        self._body.append(make(name, operands, attrs, regions, like.loc if like else None, [v.hint for v in like.outs] if like else ()))
        return self._body[-1].out


__all__ = ["lengthen_blocks"]
