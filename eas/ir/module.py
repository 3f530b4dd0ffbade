"""A whole kernel in IR, its text, and the rules that it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from eas.base.errors import InvalidIR
from eas.ir.inst import Arg, AttrItems, Loc, Region, Value, sorted_attrs
from eas.ir.printing import LocTable, Printer
from eas.ops import Trait

LaunchMode = Literal["spmd", "thread"]


@dataclass(frozen=True, slots=True, eq=False)
class IRModule:
    """A whole kernel. `attrs`: `math`, `threads` (thread mode), and what passes record."""

    name: str
    args: tuple[Arg, ...]
    body: Region
    mode: LaunchMode = "spmd"
    attrs: AttrItems = ()
    loc: Loc | None = field(default=None, repr=False)

    def attr(self, name: str, default: Any = None) -> Any:
        return next((v for k, v in self.attrs if k == name), default)

    def with_attrs(self, **new: Any) -> IRModule:
        return replace(self, attrs=sorted_attrs({**dict(self.attrs), **new}))

    def with_body(self, body: Region) -> IRModule:
        return replace(self, body=body)

    def arg(self, name: str) -> Arg:
        return next(a for a in self.args if a.name == name)

    def __str__(self) -> str:
        return print_module(self)


def print_module(module: IRModule, locs: LocTable | None = None) -> str:
    """The module as text; with `locs`, every instruction ends with `@ place`."""
    return "\n".join(Printer(locs).kernel(module.name, module.args, module.mode, module.attrs, module.body)) + "\n"


def verify(module: IRModule) -> IRModule:
    """Raise `InvalidIR` unless every rule of the IR holds; returns the module."""
    visible: set[Value] = set()
    for arg in module.args:
        _define(visible, arg.value, f"argument {arg.name}")
    if module.body.params:
        raise InvalidIR(f"{module.name}: the kernel body takes no parameters")
    _verify_region(module.body, visible, module)
    return module


def _define(visible: set[Value], value: Value, what: str) -> None:
    if value in visible:
        raise InvalidIR(f"{what}: {value!r} is defined twice")
    visible.add(value)


def _verify_region(region: Region, outer: set[Value], module: IRModule) -> None:
    visible = set(outer)
    for param in region.params:
        _define(visible, param, "region parameter")
    if not region.body or not region.body[-1].op.has(Trait.TERMINATOR):
        raise InvalidIR(f"{module.name}: a region does not end with yield")
    for inst in region.body:
        if inst.op.has(Trait.TERMINATOR) and inst is not region.body[-1]:
            raise InvalidIR(f"{module.name}: yield in the middle of a region").at(inst.loc)
        for operand in inst.operands:
            if operand not in visible:
                raise InvalidIR(f"{inst.op.name} uses {operand!r} before its definition").at(inst.loc)
        if inst.op.has(Trait.THREAD) and module.mode != "thread" and not module.attr("spread"):
            raise InvalidIR(f"{inst.op.name} outside of thread mode").at(inst.loc)
        if len(inst.regions) != inst.op.regions:
            raise InvalidIR(f"{inst.op.name} has {len(inst.regions)} regions, needs {inst.op.regions}").at(inst.loc)
        for inner in inst.regions:
            _verify_region(inner, visible, module)
        attrs = dict(inst.attrs)
        try:
            inst.op.check_attrs(attrs)
        except InvalidIR as error:
            raise error.at(inst.loc) from None
        types = inst.op.rule([v.type for v in inst.operands], attrs, [r.signature for r in inst.regions])
        if types != tuple(v.type for v in inst.outs):
            raise InvalidIR(f"{inst.op.name} results are {[str(v.type) for v in inst.outs]}, its rule says {[str(t) for t in types]}").at(inst.loc)
        for out in inst.outs:
            _define(visible, out, inst.op.name)
