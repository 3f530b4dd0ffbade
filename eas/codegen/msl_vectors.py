"""Vectors of registers: `float4` access, a thread's arrays of vectors, folding a vector into one value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eas.codegen.msl_text import ADD, ATOM, MUL, Expr, call, choose, gathered, named, with_guard
from eas.codegen.msl_types import SPACES, literal, type_name
from eas.ir import Inst, Value
from eas.types import Space

if TYPE_CHECKING:
    from eas.codegen.msl import Emitter

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


def lane(m: Emitter, inst: Inst) -> None:
    numbers = ", ".join(map(str, range(m.lanes)))
    m.exprs[inst.out] = literal(0, inst.out.dtype) if m.lanes == 1 else Expr(f"int{m.lanes}({numbers})", lanes=m.lanes)


def scratch(m: Emitter, inst: Inst) -> None:
    """The thread's own array; of whole vectors where that is how all of it is used."""
    size, kind = inst["size"], type_name(inst["dtype"])
    name = m.scope.claim(inst.out.hint or "registers")
    m.exprs[inst.out] = named(name)
    if not dict(inst.attrs).get("vector"):
        if size == 1:
            m.lines.add(f"{kind} {name};")
            m.singles.add(inst.out)
            return
        m.lines.add(f"{kind} {name}[{size}];")
        return
    m.lines.add(f"{kind}4 {name};" if size == 4 else f"{kind}4 {name}[{size // 4}];")


def _vector_type(m: Emitter, inst: Inst) -> str:
    """The type of a whole access: packed unless the schedule knows that it is aligned."""
    dtype = inst.operands[0].dtype
    if dtype.is_bool:  # Metal has no packed bools, and theirs are bytes of 0 and 1
        return f"packed_uchar{m.lanes}"
    packed = "" if dict(inst.attrs).get("aligned") else "packed_"
    return f"{packed}{type_name(dtype, m.lanes)}"


def _whole(m: Emitter, inst: Inst, pointer: Value) -> Expr:
    """The vector behind a pointer, to be read or assigned."""
    base = m.bases[pointer]
    if isinstance(base, Value) and pointer.type.space is Space.SCRATCH:
        allocation = m.origin[base]
        if dict(allocation.attrs).get("vector"):
            return _in_array(m, pointer, allocation["size"])
    at = m.address(pointer)
    const = "const " if inst.op.name == "vload" else ""
    text = f"*({SPACES[pointer.type.space]} {const}{_vector_type(m, inst)} *)({at.text})"
    made = gathered(text, ADD, (at,))
    return Expr(made.text, ATOM - 1, m.lanes, made.weight, True, made.changing)


def _in_array(m: Emitter, pointer: Value, size: int) -> Expr:
    base, offset = m.pointer(pointer)
    if size == 4:
        return Expr(base.text, ATOM, m.lanes, reads=True)
    where = "0" if offset is None else f"{offset.at(MUL)} / 4"
    changing = frozenset() if offset is None else offset.changing
    return Expr(f"{base.text}[{where}]", ATOM, m.lanes, 1, True, changing)


def vload(m: Emitter, inst: Inst) -> None:
    pointer, *rest = inst.operands
    n, t = m.lanes, type_name(inst.out.dtype)
    if not rest:
        m.define(inst, _as_vector(m, inst, _whole(m, inst, pointer)))
        return
    mask = m.use(rest[0])
    other = m.use(rest[1]) if len(rest) > 1 else literal(0, inst.out.dtype)
    other = other if other.lanes == n else Expr(f"{t}{n}({other.text})", lanes=n)
    if mask.lanes == 1:  # all lanes or none
        whole = _as_vector(m, inst, _whole(m, inst, pointer))
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


def _as_vector(m: Emitter, inst: Inst, whole: Expr) -> Expr:
    if "packed_" not in whole.text:
        return whole
    text = f"{type_name(inst.operands[0].dtype, m.lanes)}({whole.text})"
    return Expr(text, ATOM, m.lanes, whole.weight, True, whole.changing)


def _helper(m: Emitter, name: str, inst: Inst, space: str, t: str, text: str) -> str:
    """Aligned and packed forms of one type and space have different names."""
    name = name if dict(inst.attrs).get("aligned") else f"{name}_packed"
    m.library.add(f"{name}:{space}:{t}{m.lanes}", text.replace(f" {name.removesuffix('_packed')}(", f" {name}(", 1))
    return name


def vstore(m: Emitter, inst: Inst) -> None:
    pointer, value, *rest = inst.operands
    n, t, v = m.lanes, type_name(value.dtype), _vector_type(m, inst)
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


def hreduce(m: Emitter, inst: Inst) -> None:
    """The lanes of a vector, combined two by two."""
    (region,) = inst.regions
    (vector,) = inst.operands
    held = m.use(vector)
    if held.level != ATOM or held.weight:
        m.declare(vector, held)
        held = m.exprs[vector]
    parts = [Expr(f"{held.text}.{axis}", ATOM, changing=held.changing) for axis in AXES[: inst["lanes"]]]
    while len(parts) > 1:
        parts = [_combined(m, region, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    m.define(inst, parts[0])


def _combined(m: Emitter, region: object, a: Expr, b: Expr) -> Expr:
    from eas.ir import Region

    assert isinstance(region, Region)
    m.exprs.update(zip(region.params, (a, b), strict=True))
    step = region.body[0]
    return m._spell(step, [m.exprs[v] for v in step.operands])
