"""Repeated loops of long kernels as one function each (procedural abstraction): LLVM then compiles a loop once, not a thousand times.

Two loops repeat each other if they differ in the values from outside and in numbers alone. Numbers that LLVM needs to know,
such as divisors and strides, must agree; others that differ are parameters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eas.base.types import Type
from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.free_names import AROUND, defined_names, free_names
from eas.codegen.llvm.text import LOOP_FUNCTION, Reg, function, register_type
from eas.ir import Inst, Region, Value, walk

_FEWEST = 4  # loops that are worth a function
_MOST_PASSED = 24  # parameters of one
_LOOPS = frozenset({"loop", "for", "while", "find"})
# What is spelled alike with a number and with a register.
_TAKE_REGISTERS = frozenset(
    {"add", "sub", "mul", "fma", "min", "max", "and", "or", "xor", "lt", "le", "gt", "ge", "eq", "ne", "select", "addptr", "vstore", "store", "atomic_add", "loop"}
)  # fmt: skip


@dataclass(slots=True)
class _Leaf:
    """A value that a loop reads and does not compute; `number` is (value,) of a constant that may as well be a register."""

    value: Value
    number: tuple[Any, ...]


class _Group:
    """Loops that repeat each other."""

    def __init__(self) -> None:
        self.numbers: list[list[object]] = []  # of the leaves of each loop
        self.types: list[Type] = []  # of the leaves, which are those of every loop

    def add(self, leaves: Sequence[_Leaf]) -> None:
        self.types = [leaf.value.type for leaf in leaves]
        self.numbers.append([_exact(leaf.number) for leaf in leaves])

    @cached_property
    def parameters(self) -> dict[int, int]:
        """The leaves that are passed, to the first ones of their type that always have the same number; asked when all loops are known."""
        first: dict[tuple[Type, tuple[object, ...]], int] = {}
        found = dict[int, int]()
        for k, column in enumerate(zip(*self.numbers, strict=True)):
            if column[0] is None:
                found[k] = k
            elif any(number != column[0] for number in column):
                found[k] = first.setdefault((self.types[k], column), k)
        return found

    @cached_property
    def is_shared(self) -> bool:
        """Whether one function is worth it."""
        return len(self.numbers) >= _FEWEST and len(set(self.parameters.values())) <= _MOST_PASSED


@dataclass(frozen=True, slots=True)
class _Loop:
    key: object
    leaves: list[_Leaf]
    group: _Group


@dataclass(frozen=True, slots=True)
class _Made:
    """A function; `outs` are its results, or what was passed to it, or literals."""

    symbol: str
    around: tuple[Reg, ...]
    results: tuple[Reg, ...]
    outs: tuple[Reg, ...]


class Repeats:
    """The groups of a module, and the functions written so far."""

    def __init__(self, emitter: LlvmEmitter, symbol: str) -> None:
        self.emitter, self.t, self.symbol = emitter, emitter.t, symbol
        self.numbers = {i.out: (i["value"],) for i in walk(emitter.module.body) if i.op.name == "const"}
        self.loops: dict[Inst, _Loop] = {}
        self.made: dict[object, _Made] = {}
        self.num_repeated = 0
        if not emitter.check_bounds:  # whose reports name the line of each access
            self._collect(emitter.module.body)

    def _collect(self, region: Region) -> None:
        """Group the outermost loops, and those inside of loops that nothing repeats."""
        regions = [region]
        while regions:
            groups = defaultdict[object, _Group](_Group)
            found = [inst for r in regions for inst in _outermost(r)]
            alike = Counter(map(_outline, found))
            for inst in found:
                if alike[_outline(inst)] >= _FEWEST:
                    key, leaves = _Description(self.numbers).of(inst)
                    self.loops[inst] = _Loop(key, leaves, groups[key])
                    groups[key].add(leaves)
            regions = [r for inst in found if inst not in self.loops or not self.loops[inst].group.is_shared for r in inst.regions]

    def emit(self, inst: Inst) -> bool:
        """Call the function of a loop that others repeat, if it is one."""
        loop = self.loops.get(inst)
        if loop is None or not loop.group.is_shared:
            return False
        leaves = [loop.leaves[k] for k in sorted(set(loop.group.parameters.values()))]
        regs = [self._reg(leaf) for leaf in leaves]
        passes = [bool(leaf.number) or not reg.is_literal for leaf, reg in zip(leaves, regs, strict=True)]
        known = [(r.type, passed or r.text, self._copy(leaf.value)) for leaf, r, passed in zip(leaves, regs, passes, strict=True)]
        key = (loop.key, self.emitter.lanes, tuple(known))
        made = self.made.get(key)
        self.num_repeated += made is not None
        if made is None:
            before = self._numbered()
            made = self._write(inst, [leaf.value for leaf, passed in zip(leaves, passes, strict=True) if passed], loop)
            if self._numbered() == before:  # else it reports as itself
                self.made[key] = made
        self._call(inst, made, [reg for reg, passed in zip(regs, passes, strict=True) if passed])
        return True

    def _reg(self, leaf: _Leaf) -> Reg:
        """What is passed for a leaf; numbers inside of the loop have no register yet."""
        if leaf.number:
            self.emitter.regs[leaf.value] = self.t.number(leaf.number[0], register_type(leaf.value.dtype))
        return self.emitter.regs[leaf.value]

    def _copy(self, pointer: Value) -> int | None:
        """The buffer of a pointer, where threads have copies of some: their atomics are others."""
        return self.emitter.bases.get(pointer) if self.emitter.private else None

    def _numbered(self) -> tuple[int, ...]:
        return len(self.emitter.places), len(self.emitter.logs), len(self.emitter.shared)

    def _call(self, inst: Inst, made: _Made, given: Sequence[Reg]) -> None:
        """What the function returns has new names here."""
        results = [Reg(self.t.name("r"), r.element, r.lanes) for r in made.results]
        self.t.call_function(made.symbol, [*given, *made.around], results)
        names = {r.text: got for r, got in zip(made.results, results, strict=True)} | {f"%given{i}": got for i, got in enumerate(given)}
        self.emitter.regs.update(zip(inst.outs, (names.get(r.text, r) for r in made.outs), strict=True))
        if inst.op.name in _LOOPS:
            self.emitter.same_bases(inst.operands[len(inst.operands) - len(inst.outs) :], inst.outs)

    def _write(self, inst: Inst, passed: Sequence[Value], loop: _Loop) -> _Made:
        """The function of a loop, which stands for all that repeat it."""
        emitter, t = self.emitter, self.t
        outer, t.lines, t.block = (t.lines, t.block, t.weight), [], "entry"
        regs, emitter.regs = emitter.regs, dict(emitter.regs)
        params = [Reg(f"%given{i}", regs[v].element, regs[v].lanes) for i, v in enumerate(passed)]
        emitter.given = dict(zip(passed, params, strict=True))
        for k, first in loop.group.parameters.items():
            if k != first:
                emitter.given[loop.leaves[k].value] = emitter.given[loop.leaves[first].value]
        emitter.regs.update(emitter.given)
        emitter.inst(inst)
        outs = tuple(emitter.regs[v] for v in inst.outs)
        written, emitter.regs, emitter.given = "\n".join(t.lines), regs, {}
        t.lines, t.block, t.weight = outer
        names = {p.text for p in params}
        around = tuple(r for r in self._around(written) if r.text not in names)
        defined = defined_names(written)
        results = tuple({r.text: r for r in outs if r.text in defined}.values())
        symbol = f"{self.symbol}_loop{len(t.helpers)}"
        t.helpers[symbol] = function(symbol, f"noinline {LOOP_FUNCTION}", [*params, *around], [written], results)
        return _Made(symbol, around, results, outs)

    def _around(self, written: str) -> list[Reg]:
        """What a text reads of the function around all programs."""
        regs = (self.emitter.regs[a.value] for a in self.emitter.module.args)
        kinds = AROUND | {r.text: r for r in regs}
        return [kinds[name] for name in free_names(written) if name in kinds]


class _Description:
    """A loop as a key that its repetitions have too, and its leaves in the order of their first use."""

    def __init__(self, numbers: Mapping[Value, tuple[Any, ...]]) -> None:
        self.numbers = numbers
        self.local: dict[Value, int] = {}
        self.leaves: list[_Leaf] = []

    def of(self, inst: Inst) -> tuple[object, list[_Leaf]]:
        return self._inst(inst), self.leaves

    def _inst(self, inst: Inst) -> tuple[object, ...]:
        takes_registers = inst.op.name in _TAKE_REGISTERS
        operands = tuple([self._operand(v, takes_registers) for v in inst.operands])
        attrs = tuple([(k, _exact((v,))) for k, v in inst.attrs])
        return (inst.op.name, operands, attrs, tuple([v.type for v in inst.outs]), tuple([self._region(r) for r in inst.regions]))

    def _region(self, region: Region) -> tuple[object, ...]:
        self._define(region.params)
        parts: list[object] = [tuple([p.type for p in region.params])]
        for inst in region.body:
            if inst.op.name != "const":
                parts.append(self._inst(inst))
                self._define(inst.outs)
        return tuple(parts)

    def _define(self, values: Sequence[Value]) -> None:
        for v in values:
            self.local[v] = len(self.local)

    def _operand(self, value: Value, takes_registers: bool) -> object:
        number = self.numbers.get(value, ())
        if number and not takes_registers:
            return (value.type, _exact(number))
        known = self.local.get(value)
        if known is None:
            self._define([value])
            self.leaves.append(_Leaf(value, number))
            known = self.local[value]
        return (known, value.type, bool(number))


def _exact(number: tuple[Any, ...]) -> object:
    """Equal for equal numbers of one type; -0.0 and 0.0 differ."""
    return tuple([(type(v), v.hex() if isinstance(v, float) else v) for v in number]) or None


def _outline(inst: Inst) -> object:
    """Equal for loops that may repeat each other; quick to find."""
    return (inst.op.name, inst.attrs, tuple([tuple([i.op.name for i in r.body if i.op.name != "const"]) for r in inst.regions]))


def _outermost(region: Region) -> Iterator[Inst]:
    """The outermost loops of a region, and branches that hold loops."""
    for inst in region.body:
        if inst.op.name in _LOOPS or (inst.op.name == "if" and any(i.op.name in _LOOPS for r in inst.regions for i in walk(r))):
            yield inst
        else:
            for inner in inst.regions:
                yield from _outermost(inner)


__all__ = ["Repeats"]
