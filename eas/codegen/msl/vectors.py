"""Vectors of registers: `float4` access, a thread's arrays of vectors, folding a vector into one value."""

from __future__ import annotations

from dataclasses import replace

from eas.base import dtypes
from eas.codegen.msl.emitter import MslEmitter
from eas.codegen.msl.fragments import element as matrix_element
from eas.codegen.msl.fragments import elements, holds_matrices, quotient
from eas.codegen.msl.text import (
    ADD,
    ATOM,
    MUL,
    Expr,
    call,
    choose,
    gathered,
    index,
    infix,
    named,
    with_guard,
)
from eas.codegen.msl.types import SPACES, literal, type_name
from eas.ir import Inst, Value

AXES = "xyzw"
# One path for whole vectors, one for the lanes that are left: not a branch per element in the text.
_MASKED_LOAD = """\
inline {t}{n} masked_load({space} const {t} *from, bool{n} mask, {t}{n} other) {{
    if (all(mask)) return {whole};
    return {t}{n}({parts});
}}"""
_MASKED_STORE = """\
inline void masked_store({space} {t} *to, {t}{n} value, bool{n} mask) {{
    if (all(mask)) {{
        *({space} {v} *)to = {value};
    }} else {{
{parts}
    }}
}}"""


def width(m: MslEmitter, inst: Inst) -> int:
    """The lanes of a vector: said by the instruction, or those of the loop around it."""
    lanes: int = inst["lanes"] or m.lanes
    return lanes


def lane(m: MslEmitter, inst: Inst) -> None:
    n = width(m, inst)
    numbers = ", ".join(map(str, range(n)))
    m.exprs[inst.out] = literal(0, inst.out.dtype) if n == 1 else Expr(f"int{n}({numbers})", lanes=n)


def scratch(m: MslEmitter, inst: Inst) -> None:
    """The thread's own array; of whole vectors where that is how all of it is used."""
    size, kind = inst["size"], type_name(inst["dtype"])
    name = m.scope.claim(inst.out.hint or "held")
    m.exprs[inst.out] = named(name)
    lanes = inst["vector"] or 1
    if size == 1:
        m.singles.add(inst.out)
    kind = kind if lanes == 1 else f"{kind}{lanes}"
    m.lines.add(f"{kind} {name};" if size == lanes else f"{kind} {name}[{size // lanes}];")


def _vector_type(m: MslEmitter, inst: Inst) -> str:
    """The type of a whole access: packed unless the schedule knows that it is aligned."""
    dtype = inst.operands[0].dtype
    if dtype.is_bool:  # Metal has no packed bools, and theirs are bytes of 0 and 1
        return f"packed_uchar{width(m, inst)}"
    packed = "" if inst["aligned"] else "packed_"
    return f"{packed}{type_name(dtype, width(m, inst))}"


def _whole(m: MslEmitter, inst: Inst, pointer: Value) -> Expr:
    """The vector behind a pointer, to be read or assigned."""
    if holds_matrices(m, pointer):
        return Expr(elements(m, pointer), ATOM, width(m, inst), 1, True)
    if array_of_vectors(m, pointer)[0] > 1:
        return _in_array(m, pointer)
    at = m.address(pointer)
    const = "const " if inst.op.name == "vload" else ""
    text = f"*({SPACES[pointer.type.space]} {const}{_vector_type(m, inst)} *)({at.text})"
    made = gathered(text, ADD, (at,))
    return Expr(made.text, ATOM - 1, width(m, inst), made.weight, True, made.changing)


def array_of_vectors(m: MslEmitter, pointer: Value) -> tuple[int, int]:
    """The lanes of the vectors of an array that a pointer points into, and their number; (1, 0) for other memory."""
    base = m.bases[pointer]
    made = m.origin[base] if isinstance(base, Value) else None
    lanes = (made["vector"] or 1) if made is not None and made.op.name == "scratch" else 1
    return (lanes, made["size"] // lanes) if made is not None and lanes > 1 else (1, 0)


def lane_in_array(m: MslEmitter, pointer: Value, base: Expr, offset: Expr | None) -> str:
    """One element of an array of vectors."""
    lanes, count = array_of_vectors(m, pointer)
    at = Expr("0") if offset is None else offset
    if count == 1:
        return f"{base.text}[{at.text}]"
    if at.text.isdigit():
        return f"{base.text}[{int(at.text) // lanes}][{int(at.text) % lanes}]"
    return f"{base.text}[{at.at(MUL)} / {lanes}][{at.at(MUL)} % {lanes}]"


def element(m: MslEmitter, value: Value, mask: Value | None = None) -> Expr:
    """What a pointer points to, as an expression that reads it or can be assigned."""
    base, offset = m.pointer(value, mask)
    if m.bases[value] in m.singles:
        return replace(base, reads=True)
    parts = (base,) if offset is None else (base, offset)
    if holds_matrices(m, value):
        text = matrix_element(base, offset)
    elif array_of_vectors(m, value)[0] > 1:
        text = lane_in_array(m, value, base, offset)
    else:
        text = f"{base.at(ATOM)}[{'0' if offset is None else offset.text}]"
    return replace(gathered(text, ATOM, parts), reads=True)


def _in_array(m: MslEmitter, pointer: Value) -> Expr:
    """A vector of an array of vectors."""
    lanes, count = array_of_vectors(m, pointer)
    base, offset = m.pointer(pointer)
    if count == 1:
        return Expr(base.text, ATOM, lanes, reads=True)
    where = quotient(offset, lanes)
    changing = frozenset() if offset is None else offset.changing
    return Expr(f"{base.text}[{where}]", ATOM, lanes, 1, True, changing)


def vload(m: MslEmitter, inst: Inst) -> None:
    pointer, *rest = inst.operands
    n, t = width(m, inst), type_name(inst.out.dtype)
    if not rest:
        m.define(inst, _as_vector(inst, _whole(m, inst, pointer)))
        return
    mask = m.use(rest[0])
    other = m.use(rest[1]) if len(rest) > 1 else literal(0, inst.out.dtype)
    other = other if other.lanes == n else Expr(f"{t}{n}({other.text})", lanes=n)
    if mask.lanes == 1:  # all lanes or none
        whole = _as_vector(inst, _whole(m, inst, pointer))
        held = rest[0] in m.held
        m.define(inst, whole if held else with_guard(choose(mask, whole, other), rest[0], whole))
        return
    space = SPACES[pointer.type.space]
    read = f"*({space} const {_vector_type(m, inst)} *)from"
    read = f"{t}{n}({read})" if "packed_" in read else read
    parts = ", ".join(f"mask.{a} ? from[{i}] : other.{a}" for i, a in enumerate(AXES[:n]))
    text = _MASKED_LOAD.format(t=t, n=n, space=space, whole=read, parts=parts)
    made = call(_helper(m, "masked_load", inst, space, t, text), m.address(pointer), mask, other)
    m.define(inst, Expr(made.text, lanes=n, weight=made.weight, reads=True, changing=made.changing))


def _as_vector(inst: Inst, whole: Expr) -> Expr:
    if "packed_" not in whole.text:
        return whole
    text = f"{type_name(inst.operands[0].dtype, whole.lanes)}({whole.text})"
    return Expr(text, ATOM, whole.lanes, whole.weight, True, whole.changing)


def _helper(m: MslEmitter, name: str, inst: Inst, space: str, t: str, text: str) -> str:
    """Aligned and packed forms of one type and space have different names."""
    name = name if inst["aligned"] else f"{name}_packed"
    return m.library.add(f"{name}:{space}:{t}{width(m, inst)}", text.replace(f" {name.removesuffix('_packed')}(", f" {name}(", 1))


def vstore(m: MslEmitter, inst: Inst) -> None:
    pointer, value, *rest = inst.operands
    n, t, v = width(m, inst), type_name(value.dtype), _vector_type(m, inst)
    what = m.use(value).under(rest[0] if rest else None)
    if what.lanes != n:
        what = Expr(f"{t}{n}({what.text})", lanes=n)
    mask = m.use(rest[0]) if rest else None
    if mask is None or mask.lanes == 1:
        whole = _whole(m, inst, pointer)
        said = f"{v}({what.text})" if "packed_" in whole.text else what.text
        m.lines.add(f"{'' if mask is None else f'if ({mask.text}) '}{whole.text} = {said};")
        return
    space = SPACES[pointer.type.space]
    parts = "\n".join(f"        if (mask.{a}) to[{i}] = value.{a};" for i, a in enumerate(AXES[:n]))
    said = "value" if v == f"{t}{n}" else f"{v}(value)"
    text = _MASKED_STORE.format(t=t, n=n, space=space, v=v, value=said, parts=parts)
    name = _helper(m, "masked_store", inst, space, t, text)
    m.lines.add(f"{name}({m.address(pointer).text}, {what.text}, {mask.text});")


def vgather(m: MslEmitter, inst: Inst) -> None:
    """The elements one by one: Metal has no vectors of addresses."""
    base, offset = m.pointer(inst.operands[0])
    n, at = width(m, inst), literal(0, dtypes.i32) if offset is None else offset
    steps = [literal(lane * inst["stride"], dtypes.i32) for lane in range(n)]
    places = [index(base, at if step.text == "0" else step if at.text == "0" else infix("+", at, step)) for step in steps]
    m.define(inst, replace(call(type_name(inst.out.dtype, n), *places), lanes=n, reads=True))


def vextract(m: MslEmitter, inst: Inst) -> None:
    vector, number = (m.use(v) for v in inst.operands)
    m.define(inst, vector if vector.lanes == 1 else replace(index(vector, number), lanes=1))


def hreduce(m: MslEmitter, inst: Inst) -> None:
    """The lanes of a vector, combined two by two."""
    (region,) = inst.regions
    (vector,) = inst.operands
    held = m.use(vector)
    if held.level != ATOM or held.weight:
        m.declare(vector, held, m.origin.get(vector))
        held = m.exprs[vector]
    if held.lanes == 1:  # the same in all lanes
        parts = [held] * inst["lanes"]
    else:
        parts = [Expr(f"{held.text}.{axis}", ATOM, changing=held.changing) for axis in AXES[: inst["lanes"]]]
    while len(parts) > 1:
        parts = [_combined(m, region, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    m.define(inst, parts[0])


def _combined(m: MslEmitter, region: object, a: Expr, b: Expr) -> Expr:
    from eas.ir import Region

    assert isinstance(region, Region)
    m.exprs.update(zip(region.params, (a, b), strict=True))
    for step in region.body[:-1]:
        made = m.spell(step, [m.exprs[v] for v in step.operands])
        if len(region.body) == 2:
            return made
        m.declare(step.out, made, step)  # others may look at it twice
    return m.exprs[region.yields[0]]
