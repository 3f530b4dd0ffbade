"""Small structural facts of a module: who reads and writes what, bases of pointers, loop steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from eas.base.errors import Unsupported
from eas.base.trampoline import reached
from eas.base.types import Shape
from eas.ir import Arg, Inst, IRModule, Loc, Region, Trait, Value, walk
from eas.ir.text import Names
from eas.ops import Op

Producers = Mapping[Value, Inst]
HINTS = frozenset({"multiple_of", "max_contiguous", "max_constancy"})
"""Ops that are their operand, and say something of it."""
SPREADS = HINTS | {"broadcast", "expand_dims", "reshape", "permute"}
"""Ops that make all elements from one, or leave each as it is."""


def made_by(insts: Iterable[Inst]) -> dict[Value, Inst]:
    """The results of instructions, each with the one that makes it."""
    return {out: inst for inst in insts for out in inst.outs}


def producers(module: IRModule) -> Producers:
    """The instruction that each value is a result of; arguments and parameters have none."""
    return made_by(walk(module.body))


def source_of(value: Value, made: Mapping[Value, Inst], through: Container[str] = SPREADS) -> Value:
    """What a value is a view of; of a block whose elements are all equal, the scalar that they are."""
    while (inst := made.get(value)) is not None and inst.op.name in through:
        value = inst.operands[0]
    return value


def constant_behind(value: Value, made: Mapping[Value, Inst], through: Container[str] = SPREADS) -> Any:
    """The number that a constant, or each element of a view of one, is; else None."""
    inst = made.get(source_of(value, made, through))
    return inst["value"] if inst is not None and inst.op.name == "const" else None


def users_of(module: IRModule) -> dict[Value, list[Inst]]:
    """The instructions that have each value as an operand, yields included, once for each time they do."""
    users: dict[Value, list[Inst]] = {}
    for inst in walk(module.body):
        for operand in inst.operands:
            users.setdefault(operand, []).append(inst)
    return users


def uses(module: IRModule) -> Mapping[Value, int]:
    """How many operands each value is, yields included; a value nobody uses counts 0."""
    return Counter(v for inst in walk(module.body) for v in inst.operands)


def definitions(module: IRModule) -> Iterator[Value]:
    """Every value in the order in which the printer names them."""
    for arg in module.args:
        yield arg.value
    yield from region_definitions(module.body)


def region_definitions(region: Region) -> Iterator[Value]:
    """Every value that a region and those inside of it define, parameters first."""
    yield from region.params
    for inst in region.body:
        for inner in inst.regions:
            yield from region_definitions(inner)
        yield from inst.outs


def value_names(module: IRModule) -> Mapping[Value, str]:
    """The names that the module's text shows, without the percent sign."""
    names = Names()
    return {v: names.define(v) for v in definitions(module)}


def program_axes(module: IRModule) -> tuple[int, ...]:
    """Grid axes whose position the kernel asks for, ascending."""
    return _axes(module, "program_id")


def num_programs_axes(module: IRModule) -> tuple[int, ...]:
    """Grid axes whose size the kernel asks for, ascending."""
    return _axes(module, "num_programs")


def _axes(module: IRModule, name: str) -> tuple[int, ...]:
    return tuple(sorted({inst["axis"] for inst in walk(module.body) if inst.op.name == name}))


def block_lengths(module: IRModule) -> tuple[int, ...]:
    """Distinct lengths of `arange` and `tid`, in order of appearance."""
    counting = (inst for inst in walk(module.body) if inst.op.name in ("arange", "tid") and not inst.attr("is_inner"))
    return tuple(dict.fromkeys(inst["end"] - inst["start"] for inst in counting))


# --- memory -----------------------------------------------------------------------------------


def with_inner(inst: Inst) -> Iterator[Inst]:
    """An instruction and those in its regions."""
    yield inst
    for region in inst.regions:
        yield from walk(region)


def touches_memory(inst: Inst) -> bool:
    return inst.op.has(Trait.READS) or inst.op.has(Trait.WRITES)


def mask_of(inst: Inst) -> Value | None:
    """The mask operand of an instruction that has one."""
    at = _mask_position(inst.op)
    return inst.operands[at] if at is not None and at < len(inst.operands) else None


@cache
def _mask_position(op: Op) -> int | None:
    names = [name.strip(" ?") for name in op.operands.split(",")]
    return names.index("mask") if "mask" in names else None


def writes(module: IRModule) -> tuple[str, ...]:
    """Names of the buffers that the kernel writes, in the order of the arguments."""
    writers = (i for i in walk(module.body) if i.op.has(Trait.WRITES))
    return _named(module, [i.operands[0] for i in writers])


def reads(module: IRModule) -> tuple[str, ...]:
    """Names of the buffers that the kernel reads, in the order of the arguments."""
    readers = (i for i in walk(module.body) if i.op.has(Trait.READS))
    return _named(module, [v for i in readers for v in i.operands if v.type.is_pointer])


def _named(module: IRModule, pointers: Sequence[Value]) -> tuple[str, ...]:
    bases = PointerBases(module)
    found = {base.name for v in pointers if isinstance(base := bases[v], Arg)}
    return tuple(arg.name for arg in module.args if arg.name in found)


class PointerBases:
    """The buffer that each pointer points into: an argument, the result of an `alloc_tg`, or of an `int_to_ptr`, which may be any."""

    def __init__(self, module: IRModule) -> None:
        self._bases: dict[Value, Arg | Value] = {a.value: a for a in module.args if a.is_buffer}
        self._region(module.body)

    def __getitem__(self, pointer: Value) -> Arg | Value:
        return self._bases[pointer]

    def _region(self, region: Region) -> None:
        for inst in region.body:
            if inst.regions:
                self._enter(inst)
                for inner in inst.regions:
                    self._region(inner)
            if inst.outs:
                self._leave(inst)

    def _enter(self, inst: Inst) -> None:
        # A carried pointer has the base of its initial value; `_leave` checks what comes back.
        initial = _initial(inst)
        for region in inst.regions:
            params = region.params[len(region.params) - len(initial) :]
            for param, init in zip(params, initial, strict=False):
                self._flow(param, (init,), inst.loc)

    def _leave(self, inst: Inst) -> None:
        if inst.op.has(Trait.ALLOCATES) or inst.op.name == "int_to_ptr":
            self._bases[inst.out] = inst.out
        elif inst.regions:
            for out, sources in _result_flows(inst):
                self._flow(out, sources, inst.loc)
        else:
            for out in inst.outs:
                if out.type.is_pointer:
                    self._flow(out, [v for v in inst.operands if v.type.is_pointer], inst.loc)

    def _flow(self, value: Value, sources: Sequence[Value], loc: Loc | None) -> None:
        if not value.type.is_pointer:
            return
        first, *others = (self._bases[v] for v in sources)
        if any(base is not first for base in others):
            raise Unsupported(
                "a pointer may point into two different buffers",
                hint="select offsets, not pointers",
                loc=loc,
            )
        self._bases[value] = first


def _initial(inst: Inst) -> Sequence[Value]:
    """The operands that a loop carries."""
    return inst.operands[3:] if inst.op.name == "for" else inst.operands if inst.op.name == "while" else ()


def _result_flows(inst: Inst) -> Iterator[tuple[Value, tuple[Value, ...]]]:
    """Each result of a loop or branch, with the values that it may be."""
    if inst.op.has(Trait.LOOP):
        yield from zip(
            inst.outs, zip(_initial(inst), inst.regions[-1].yields, strict=True), strict=True
        )
    elif inst.op.name == "if":
        then, other = inst.regions
        yield from zip(inst.outs, zip(then.yields, other.yields, strict=True), strict=True)


def flows(module: IRModule) -> Mapping[Value, tuple[Value, ...]]:
    """The values that a loop parameter or a result of control flow may be.

    A loop counter stands for its start, end and step.
    """
    found: dict[Value, tuple[Value, ...]] = {}
    for inst in walk(module.body):
        found.update(_result_flows(inst))
        if inst.op.name == "for":
            found[inst.regions[0].params[0]] = inst.operands[:3]
        if inst.op.has(Trait.LOOP):
            carried = len(inst.outs)
            for region in inst.regions:
                params = region.params[len(region.params) - carried :]
                found.update(zip(params, (found[out] for out in inst.outs), strict=True))
    return found


def dependents(module: IRModule, roots: Iterable[Value]) -> frozenset[Value]:
    """The values that are computed from some others, in loops and branches too; those themselves are among them."""
    behind: dict[Value, list[Value]] = {}
    for inst in walk(module.body):
        is_control = inst.op.name in ("for", "while", "if")
        for v in inst.operands[: 3 if inst.op.name == "for" else 1] if is_control else inst.operands:
            behind.setdefault(v, []).extend(inst.outs)
    for value, sources in flows(module).items():
        for v in sources:
            behind.setdefault(v, []).append(value)
    return frozenset(reached(roots, lambda v: behind.get(v, ())))


# --- address arithmetic -----------------------------------------------------------------------

# Through these an overflow reaches the address as a wrong place. `%`, `&`, `^`, `>>` are left out:
# hash functions wrap on purpose before them. `where` is too: the lane may not be chosen.
_CARRIES_OVERFLOW = HINTS | {"add", "sub", "mul", "neg", "shl", "min", "max", "floordiv", "truncdiv", "addptr"}
_LOGIC = frozenset(("and", "or", "xor", "not", "select"))


def address_values(module: IRModule) -> frozenset[Value]:
    """Integers that become offsets, or are compared for masks: they do not wrap.

    An overflow there is an error of the kernel; checked modes raise.
    """
    origin, flow = producers(module), flows(module)
    found: dict[Value, None] = {}
    pending = [v for inst in walk(module.body) for v in _address_roots(inst)]
    while pending:
        value = pending.pop()
        if value not in found:
            found[value] = None
            pending += flow.get(value, ()) or _address_operands(origin.get(value))
    return frozenset(found)


def _address_roots(inst: Inst) -> tuple[Value, ...]:
    if inst.op.name == "addptr":
        return inst.operands[1:]
    mask = mask_of(inst) if touches_memory(inst) else None
    return (mask,) if mask is not None else ()


def _address_operands(inst: Inst | None) -> tuple[Value, ...]:
    if inst is None:
        return ()
    name = inst.op.name
    if name == "cast":
        (x,) = inst.operands
        widens = x.dtype.is_int and x.dtype.is_signed and inst.out.dtype.is_int
        return (
            (x,)
            if widens and inst.out.dtype.bits >= x.dtype.bits and inst.out.dtype.is_signed
            else ()
        )
    is_mask = inst.outs[0].dtype.is_bool and (name in _LOGIC or inst.op.has(Trait.COMPARE))
    if name in _CARRIES_OVERFLOW or inst.op.has(Trait.SHAPE) or is_mask:
        return inst.operands
    return ()


# --- shapes -----------------------------------------------------------------------------------


def moved_axes(inst: Inst) -> tuple[int, ...] | None:
    """For each axis of the operand of a shape op, where it goes; -1 for a dropped axis of extent 1.

    None when the op does not move whole axes.
    """
    rank = inst.operands[0].type.rank
    match inst.op.name:
        case "broadcast":
            return tuple(i + inst.out.type.rank - rank for i in range(rank))
        case "permute":
            return tuple(inst["order"].index(i) for i in range(rank))
        case "expand_dims":
            axis = inst["axis"] % (rank + 1)
            return tuple(i + (i >= axis) for i in range(rank))
        case "reshape":
            return _reshaped_axes(inst.operands[0].shape, inst.out.shape)
    return None


def _reshaped_axes(source: Shape, target: Shape) -> tuple[int, ...] | None:
    wide = [i for i, n in enumerate(source) if n != 1]
    places = [i for i, n in enumerate(target) if n != 1]
    if [source[i] for i in wide] != [target[i] for i in places]:
        return None
    where = dict(zip(wide, places, strict=True))
    return tuple(where.get(i, -1) for i in range(len(source)))


# --- loops ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """What one iteration adds to a carried value: the sum of sign * value, all loop-invariant."""

    terms: tuple[tuple[int, Value], ...]


def carried_steps(loop: Inst, origin: Producers) -> tuple[Step | None, ...]:
    """The step of each value that a `for` carries; None where it is not a fixed increment."""
    (body,) = loop.regions
    inside = frozenset(region_definitions(body))
    pairs = zip(body.params[1:], body.yields, strict=True)
    return tuple(_step(param, after, inside, origin) for param, after in pairs)


def _step(param: Value, after: Value, inside: frozenset[Value], origin: Producers) -> Step | None:
    terms: list[tuple[int, Value]] = []
    while after is not param:
        inst = origin.get(after)
        if inst is None or inst.op.name not in ("add", "sub", "addptr") or inst.out not in inside:
            return None
        left, right = inst.operands
        if inst.op.name == "add" and is_invariant(left, inside, origin):
            left, right = right, left
        if not is_invariant(right, inside, origin):
            return None
        terms.append((-1 if inst.op.name == "sub" else 1, right))
        after = left
    return Step(tuple(reversed(terms)))


def is_invariant(value: Value, inside: frozenset[Value], origin: Producers) -> bool:
    """Whether a value is the same in every iteration of the loop that defines `inside`."""
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        if current not in inside:
            continue
        inst = origin.get(current)
        if inst is None or not inst.op.is_pure or inst.regions:
            return False
        pending += [v for v in inst.operands if v not in seen]
        seen.update(inst.operands)
    return True
