"""The one loop that passes share: copy a module, replacing instructions by what a rule returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from eas.base.types import Type
from eas.ir.inst import Inst, Loc, Region, Value, make
from eas.ir.module import IRModule

K = TypeVar("K")
V = TypeVar("V")


class ScopedDict(Generic[K, V]):
    """A dictionary whose entries are forgotten when the region they were made in ends."""

    def __init__(self) -> None:
        self._levels: list[dict[K, V]] = [{}]
        self._bottoms = [0]  # the lowest level that can be seen, per level

    def push(self, isolated: bool = False) -> None:
        """Open a scope; an isolated one sees nothing of the scopes around it."""
        self._bottoms.append(len(self._levels) if isolated else self._bottoms[-1])
        self._levels.append({})

    def pop(self) -> None:
        self._levels.pop()
        self._bottoms.pop()

    def get(self, key: K) -> V | None:
        for level in reversed(self._levels[self._bottoms[-1] :]):
            if key in level:
                return level[key]
        return None

    def setdefault(self, key: K, value: V) -> V:
        found = self.get(key)
        if found is None:
            self._levels[-1][key] = value
            return value
        return found


class Rewriter:
    """What a rule works with: emit instructions before the one at hand, look up definitions."""

    def __init__(
        self, scopes: Iterable[ScopedDict[Any, Any]] = (), enter: Enter | None = None
    ) -> None:
        self.replaced: dict[Value, Value] = {}
        self.producer: dict[Value, Inst] = {}
        self.loc: Loc | None = None
        self._blocks: list[list[Inst]] = []
        self._scopes = tuple(scopes)
        self._enter = enter
        self._emitted: set[Value] = set()

    def emit(
        self,
        name: str,
        *operands: Value,
        regions: Sequence[Region] = (),
        hints: Sequence[str] = (),
        **attrs: Any,
    ) -> Value:
        """Append an instruction with one result, at the place of the one being replaced."""
        out = self.append(make(name, operands, attrs, regions, self.loc, hints)).out
        self._emitted.add(out)
        return out

    def append(self, inst: Inst) -> Inst:
        self._blocks[-1].append(inst)
        for out in inst.outs:
            self.producer[out] = inst
        return inst

    def splice(self, region: Region) -> tuple[Value, ...]:
        """Append what an already rewritten region does, in place of it; returns what it yields."""
        self._blocks[-1] += region.body[:-1]
        return region.yields

    def const(self, value: float | int | bool, type: Type) -> Value:
        return self.emit("const", value=value, type=type)

    def literal(self, value: Value) -> float | int | bool | None:
        """The number that a constant (scalar or filled block) holds, else None."""
        inst = self.producer.get(value)
        return inst["value"] if inst is not None and inst.op.name == "const" else None

    def produced_by(self, name: str, value: Value) -> Inst | None:
        """The instruction that made `value`, if it is a `name`."""
        inst = self.producer.get(value)
        return inst if inst is not None and inst.op.name == name else None

    def use(self, value: Value) -> Value:
        """What stands for `value` now."""
        return self.replaced.get(value, value)

    def region(self, region: Region, rule: Rule, isolated: bool = False) -> Region:
        """Rewrite a region in a scope of its own."""
        for scope in self._scopes:
            scope.push(isolated)
        self._blocks.append([])
        for inst in region.body:
            self._visit(inst, rule)
        body = tuple(self._blocks.pop())
        for scope in self._scopes:
            scope.pop()
        # Instructions and values equal only themselves: `==` of tuples compares identities.
        return region if body == region.body else Region(region.params, body)

    def _visit(self, inst: Inst, rule: Rule) -> None:
        regions = self._visit_regions(inst, rule) if inst.regions else ()
        operands = (
            tuple([self.replaced.get(v, v) for v in inst.operands])
            if self.replaced
            else inst.operands
        )
        if operands != inst.operands or regions != inst.regions:
            inst = replace(inst, operands=operands, regions=regions)
        self.loc = inst.loc
        results = rule(inst, self)
        if results is None:
            self.append(inst)
            return
        for old, new in zip(inst.outs, results, strict=True):
            if old is new:
                continue
            self.replaced[old] = new
            if old.hint and not new.hint and new in self._emitted:
                new.hint = (
                    old.hint
                )  # the user's name follows the value; values of the input stay as they are

    def _visit_regions(self, inst: Inst, rule: Rule) -> tuple[Region, ...]:
        if self._enter is not None:
            self._enter(inst, self)
        # The combine region of a reduction is a function: it may not come to use values around it.
        return tuple([self.region(r, rule, isolated=inst.op.is_pure) for r in inst.regions])


Rule = Callable[[Inst, Rewriter], Sequence[Value] | None]
Enter = Callable[[Inst, Rewriter], None]


def rewrite(
    module: IRModule,
    rule: Rule,
    scopes: Iterable[ScopedDict[Any, Any]] = (),
    enter: Enter | None = None,
) -> IRModule:
    """Apply `rule` to every instruction, inner regions first; None keeps it, values replace it.

    A rule that returns the instruction's own results without appending it drops it. `enter` is
    called with an instruction before its regions are visited, its operands not yet replaced.
    """
    body = Rewriter(scopes, enter).region(module.body, rule)
    return module if body is module.body else module.with_body(body)


def clone_region(region: Region, values: Mapping[Value, Value] | None = None) -> Region:
    """A copy with fresh values, as regions share no definitions; `values` are substituted."""
    mapping: dict[Value, Value] = dict(values or {})
    params = tuple(_fresh(p, mapping) for p in region.params)
    return Region(params, tuple(clone_inst(inst, mapping) for inst in region.body))


def clone_inst(inst: Inst, mapping: dict[Value, Value]) -> Inst:
    """A copy of an instruction with fresh results, which are added to `mapping`."""
    operands = tuple(mapping.get(v, v) for v in inst.operands)
    regions = tuple(clone_region(r, mapping) for r in inst.regions)
    outs = tuple(_fresh(v, mapping) for v in inst.outs)
    return replace(inst, operands=operands, regions=regions, outs=outs)


def _fresh(value: Value, mapping: dict[Value, Value]) -> Value:
    mapping[value] = Value(value.type, value.hint)
    return mapping[value]
