"""A module for launches of which some facts hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from eas.analysis import uses, writes
from eas.base.facts import EQUALS, Fact
from eas.ir import Arg, IRModule, Region, make, sorted_attrs, walk
from eas.ir.rewriting import Rewriter


def specialise(module: IRModule, facts: Iterable[Fact]) -> IRModule:
    """Facts become attributes of arguments and module; arguments equal to a number become constants."""
    may_overlap = any(inst.op.name == "int_to_ptr" for inst in walk(module.body))  # what an integer points to may be an argument
    held = sorted(fact for fact in facts if not (may_overlap and fact.kind in ("disjoint", "in_place")))
    if not held:
        return module
    written = writes(module)
    args = tuple(_with_facts(arg, held, arg.name in written) for arg in module.args)
    module = replace(module, args=args, body=_with_constants(module, args))
    return module.with_attrs(offsets32=True) if Fact("fits_32") in held else module


def _with_facts(arg: Arg, facts: list[Fact], is_written: bool) -> Arg:
    new: dict[str, Any] = {}
    for fact in facts:
        if fact.arg == arg.name:
            new.update(_attributes(fact, arg))
    if is_written and Fact("disjoint") in facts:
        new["noalias"] = True
    elif is_written and Fact("in_place") in facts:
        new["in_place"] = True
    return replace(arg, attrs=sorted_attrs({**dict(arg.attrs), **new})) if new else arg


def _attributes(fact: Fact, arg: Arg) -> Mapping[str, Any]:
    match fact.kind:
        case kind if kind in EQUALS:
            return {"equals": EQUALS[kind]}
        case "positive":
            return {"range": (1, arg.type.dtype.max)}
        case "divisible_16":
            return {"divisible": 16}
        case "aligned_64":
            return {"align": 64}
    return {}


def _with_constants(module: IRModule, args: Iterable[Arg]) -> Region:
    """The body with a constant in place of each argument that is known."""
    used, constants, rewriter = uses(module), [], Rewriter()
    for arg in args:
        equals = arg.attr("equals")
        if equals is not None and not arg.is_buffer and used[arg.value]:
            constant = make("const", attrs={"value": equals, "type": arg.type}, loc=module.loc)
            constants.append(constant)
            rewriter.replaced[arg.value] = constant.out
    body = rewriter.region(module.body, lambda inst, rw: None)
    return replace(body, body=(*constants, *body.body)) if constants else module.body
