"""What is known of combine regions: their neutral elements, and which of them may change the order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eas.analysis.commuting import neutral_element
from eas.analysis.program import made_by
from eas.base.dtypes import DType
from eas.ir import Inst, Region, Trait, Value, make

IDENTITIES: dict[str, Callable[[DType], Any]] = {
    "add": lambda d: -0.0 if d.is_float else 0,
    "mul": lambda d: 1.0 if d.is_float else 1,
    "max": lambda d: float("-inf") if d.is_float else d.min,
    "min": lambda d: float("inf") if d.is_float else d.max,
    "and": lambda d: True if d.is_bool else (-1 if d.is_signed else d.max),
    "or": lambda d: False if d.is_bool else 0,
    "xor": lambda d: False if d.is_bool else 0,
}

_LONGEST = 32  # instructions: more than any way to write argmax has


def only_op(combine: Region) -> str | None:
    """The name of the known instruction that a combine region is, None if it does more."""
    if len(combine.params) != 2 or len(combine.body) != 2:
        return None
    inst = combine.body[0]
    return inst.op.name if set(inst.operands) == set(combine.params) and inst.op.name in IDENTITIES else None


def is_idempotent(combine: Region) -> bool:
    """Whether combining with the same value again is known to change nothing."""
    return only_op(combine) is not None and combine.body[0].op.has(Trait.IDEMPOTENT)


def identity(combine: Region) -> Any:
    """The neutral element of a combine region that is one known instruction, else None."""
    name = only_op(combine)
    return None if name is None else IDENTITIES[name](combine.body[0].out.dtype)


def neutrals(combine: Region) -> list[Any] | None:
    """The neutral elements of a combine region that may be applied in any order, else None."""
    known = identity(combine)
    if known is not None:
        return [known]
    kind = indexed_extreme(combine)
    if kind is not None:
        value, index = (p.dtype for p in combine.params[:2])
        return [IDENTITIES[kind](value), index.max]
    found: dict[int, Any] = {}
    for components, part in _independent(combine):
        known = identity(part)
        values = neutral_element(part) if known is None else [known]
        if values is None:
            return None
        found.update(zip(components, values, strict=True))
    return [found[k] for k in range(len(combine.yields))]


def _independent(combine: Region) -> list[tuple[list[int], Region]]:
    """Combines that do not ask for each other, each with the components that it combines."""
    n = len(combine.yields)
    source = {p: frozenset({i % n}) for i, p in enumerate(combine.params)}
    for inst in combine.body[:-1]:
        together = frozenset[int]().union(*(source.get(v, frozenset()) for v in inst.operands))
        source.update(dict.fromkeys(inst.outs, together))
    sets = [{k} for k in range(n)]
    for k, value in enumerate(combine.yields):
        joined = {k}.union(*(s for s in sets if s & {k, *source.get(value, ())}))
        sets = [s for s in sets if not s & joined] + [joined]
    return [(members := sorted(s), _part(combine, members)) for s in sets]


def _part(combine: Region, components: Sequence[int]) -> Region:
    """The region that combines these components alone."""
    n, needed = len(combine.yields), {combine.yields[k] for k in components}
    body: list[Inst] = []
    for inst in reversed(combine.body[:-1]):
        if needed.intersection(inst.outs):
            body.insert(0, inst)
            needed.update(inst.operands)
    params = tuple(combine.params[k + side] for side in (0, n) for k in components)
    return Region(params, (*body, make("yield", [combine.yields[k] for k in components])))


def indexed_extreme(combine: Region) -> str | None:
    """"max" or "min" of the region of argmax or argmin: the better value with its index, of equals the lower index."""
    if len(combine.params) != 4 or not combine.params[1].dtype.is_int or len(combine.body) > _LONGEST:
        return None
    made = made_by(combine.body)
    a, i, b, j = (("param", k) for k in range(4))
    yields = tuple(_tree(v, combine.params, made) for v in combine.yields)
    for kind, better in (("max", "gt"), ("min", "lt")):
        first = _pair("or", (better, a, b), _pair("and", _pair("eq", a, b), ("lt", i, j)))
        if combine.params[0].dtype.is_float:
            wins = _pair("or", ("not", ("isnan", b)), ("lt", i, j))
            first = _pair("or", first, _pair("and", ("isnan", a), wins))
        if yields == (("select", first, a, b), ("select", first, i, j)):
            return kind
    return None


_Tree = tuple[Any, ...]


def _tree(value: Value, params: Sequence[Value], made: Mapping[Value, Inst]) -> _Tree:
    """What a value is computed from, whoever shares parts of it; operands that commute in one order."""
    inst = made.get(value)
    if inst is None or inst.attrs:
        return ("param", list(params).index(value)) if value in params else ("other", id(value))
    parts = [_tree(v, params, made) for v in inst.operands]
    return _pair(inst.op.name, *parts) if inst.op.has(Trait.COMMUTATIVE) else (inst.op.name, *parts)


def _pair(name: str, *parts: _Tree) -> _Tree:
    return (name, *sorted(parts, key=repr))


def may_reorder(combine: Region) -> bool:
    """One known instruction; narrow floats round after each, so their sums stay in order."""
    if identity(combine) is None:
        return False
    made = combine.body[0]
    is_narrow = made.out.dtype.is_float and made.out.dtype.bits < 32
    return not made.out.dtype.is_bool and (not is_narrow or made.op.name in ("max", "min"))
