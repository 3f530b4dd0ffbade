"""The facts about a launch that would make some memory access of a kernel faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from eas.analysis.indexing.accesses import Access, IndexInfo, analyse
from eas.analysis.indexing.linear import Linear
from eas.analysis.program import HINTS, reads, source_of, writes
from eas.base import dtypes
from eas.base.facts import EQUALS, NEAR, Fact, FactKind
from eas.base.trampoline import Definition, evaluate, every
from eas.ir import Arg, Inst, IRModule, Value, walk

_LINEAR = frozenset({"add", "sub", "mul", "cast", "addptr", *HINTS})
_KINDS: tuple[FactKind, ...] = get_args(FactKind)


def launch_facts(module: IRModule) -> tuple[Fact, ...]:
    """The facts that some memory access asks for, by kind and argument order."""
    info = analyse(module)
    asked = dict.fromkeys(fact for access in info.accesses for fact in _asked(access, info))
    written = writes(module)
    if written and sum(arg.is_buffer for arg in module.args) > 1:
        asked[Fact("disjoint")] = None
        blocks = (a for a in info.accesses if module.mode == "thread" or not a.pointer.type.is_scalar)
        if any(a.kind == "load" for a in blocks):
            asked[Fact("in_place")] = None
    asked.update(dict.fromkeys(_small_numbers(module, info)))
    changed = set(written) & set(reads(module))
    for access in info.accesses:
        if isinstance(access.base, Arg) and access.base.name in changed:
            asked.update((Fact("positive", arg.name), None) for arg in _factors(access, info))
    asked.update((Fact("positive", arg.name), None) for arg in _halved(info))
    position = {arg.name: i for i, arg in enumerate(module.args)}
    return tuple(sorted(asked, key=lambda f: (_KINDS.index(f.kind), position.get(f.arg, -1))))


def _asked(access: Access, info: IndexInfo) -> Iterator[Fact]:
    if access.range.hi > dtypes.i32.max or access.range.lo < dtypes.i32.min:
        yield Fact("fits_32")
    form = access.form
    arguments = {arg.value: arg for arg in info.module.args}
    if info.module.mode == "thread":
        threads = _ThreadStrides(info.forms.origin, arguments)
        threads.visit(access.pointer)
        yield from (Fact(kind, arg.name) for arg in threads.found for kind in EQUALS)
    if form is None or access.pointer.type.is_scalar:
        return
    strides = [t.stride for t in form.terms]
    for arg in _arguments(strides, arguments):
        yield Fact("equals_1", arg.name)
    limits = [b.limit for b in access.box.bounds]
    for arg in _arguments([form.offset, *strides, *limits], arguments):
        yield Fact("divisible_16", arg.name)
    for term in form.terms:
        if term.vector is not None:
            for arg in _divisors(term.vector.value, info, arguments):
                yield Fact("divisible_16", arg.name)
    may_be_dense = any(s.literal == 1 or s.symbols() for s in strides)
    if isinstance(access.base, Arg) and may_be_dense:
        yield Fact("aligned_64", access.base.name)


def _small_numbers(module: IRModule, info: IndexInfo) -> Iterator[Fact]:
    """Facts of the arguments that say how far neighbours of a row are apart, or that positions are divided by.

    A product of matrices makes copies, which are read as often as it is large.
    """
    insts, arguments = list(walk(module.body)), {arg.value: arg for arg in module.args}
    if any(inst.op.name == "dot" for inst in insts):
        return
    for access in info.accesses:
        last = len(access.pointer.shape) - 1
        strides = [t.stride for t in access.form.terms if t.axis == last] if access.form is not None else []
        for arg in _arguments(strides, arguments):
            yield from (Fact(kind, arg.name) for kind in ("equals_0", *NEAR))
    for inst in insts:
        if inst.op.name in ("floordiv", "mod") and (module.mode == "thread" or inst.operands[0].shape):
            found = arguments.get(source_of(inst.operands[1], info.forms.origin))
            yield from (Fact(kind, found.name) for kind in ("positive", *NEAR) if found is not None)
    inner = [i for loop in insts if loop.op.name == "for" for i in walk(loop.regions[0]) if i.op.name == "for"]
    for inst in inner:  # the taps of a small filter
        found = arguments.get(inst.operands[1]) if any(out.shape for out in inst.outs) or module.mode == "thread" else None
        yield from (Fact(kind, found.name) for kind in NEAR if found is not None)


class _ThreadStrides:
    """Collects the arguments that an address of a thread multiplies its own number with."""

    def __init__(self, origin: Mapping[Value, Inst], arguments: Mapping[Value, Arg]) -> None:
        self.origin, self.arguments = origin, arguments
        self.found: dict[Arg, None] = {}
        self._varies: dict[Value, bool] = {}

    def visit(self, value: Value) -> bool:
        """Whether threads of a threadgroup differ in a value, as far as sums and products tell."""
        return evaluate(self._visit, value, self._varies)

    def _visit(self, value: Value) -> Definition[Value, bool]:
        inst = self.origin.get(value)
        if inst is None or inst.op.name not in _LINEAR:
            return inst is not None and inst.op.name == "tid"
        varies: list[bool] = yield from every(inst.operands)
        if inst.op.name == "mul" and sum(varies) == 1:
            factor = self.arguments.get(inst.operands[varies.index(False)])
            if factor is not None:
                self.found[factor] = None
        return any(varies)


def _factors(access: Access, info: IndexInfo) -> Iterator[Arg]:
    """The arguments that, if 0, let all elements of a block meet in one place."""
    if access.form is not None:
        strides = [t.stride for t in access.form.terms]
        yield from _arguments(strides, {arg.value: arg for arg in info.module.args})


def _halved(info: IndexInfo) -> Iterator[Arg]:
    """The arguments that a flat index is taken apart by: what is left of it, and what was taken."""
    arguments = {arg.value: arg for arg in info.module.args}
    found: dict[str, set[Value]] = {"floordiv": set(), "mod": set()}
    for inst in walk(info.module.body):
        if inst.op.name in found and inst.out.dtype.is_int and (inst.out.shape or info.module.mode == "thread"):
            form = info.forms.of(inst.operands[1])
            if form is not None and form.is_uniform:
                found[inst.op.name].update(s.value for s in form.offset.symbols())
    if found["mod"]:
        yield from (arguments[v] for v in arguments if v in found["floordiv"] | found["mod"])


def _arguments(formulas: list[Linear], arguments: dict[Value, Arg]) -> Iterator[Arg]:
    """The scalar arguments that formulas name."""
    for formula in formulas:
        for symbol in formula.symbols():
            if symbol.value in arguments and symbol.kind == "value":
                yield arguments[symbol.value]


def _divisors(vector: Value, info: IndexInfo, arguments: dict[Value, Arg]) -> Iterator[Arg]:
    """M of `rows % M`: a vector counts up between its multiples."""
    inst = info.forms.origin.get(vector)
    if inst is not None and inst.op.name in ("mod", "truncmod"):
        form = info.forms.of(inst.operands[1])
        if form is not None and form.is_uniform:
            yield from _arguments([form.offset], arguments)
