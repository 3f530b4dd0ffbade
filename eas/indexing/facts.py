"""The facts about a launch that would make some memory access of a kernel faster."""

from __future__ import annotations

from collections.abc import Iterator

from eas import dtypes
from eas.analysis import writes
from eas.facts import Fact, FactKind
from eas.indexing.accesses import Access, IndexInfo, analyse
from eas.indexing.linear import Linear
from eas.ir import Arg, IRModule, Value

_KINDS: tuple[FactKind, ...] = (
    "equals_1",
    "positive",
    "divisible_16",
    "aligned_64",
    "disjoint",
    "fits_32",
)


def launch_facts(module: IRModule) -> tuple[Fact, ...]:
    """The facts that some memory access asks for, by kind and argument order; never `positive`."""
    info = analyse(module)
    asked = dict.fromkeys(fact for access in info.accesses for fact in _asked(access, info))
    if writes(module) and sum(arg.is_buffer for arg in module.args) > 1:
        asked[Fact("disjoint")] = None
    position = {arg.name: i for i, arg in enumerate(module.args)}
    return tuple(sorted(asked, key=lambda f: (_KINDS.index(f.kind), position.get(f.arg, -1))))


def _asked(access: Access, info: IndexInfo) -> Iterator[Fact]:
    if access.range.hi > dtypes.i32.max or access.range.lo < dtypes.i32.min:
        yield Fact("fits_32")
    form = access.form
    if form is None or access.pointer.type.is_scalar:
        return
    arguments = {arg.value: arg for arg in info.module.args}
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
