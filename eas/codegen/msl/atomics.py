"""Atomic updates: Metal's own where it has them, loops of compare-and-exchange elsewhere."""

from __future__ import annotations

from typing import Any

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.base.errors import Unsupported
from eas.base.types import Space
from eas.codegen.msl.emitter import MslEmitter
from eas.codegen.msl.text import Expr, call
from eas.codegen.msl.types import SPACES, literal, type_name, unsigned_name
from eas.ir import Inst, Value
from eas.ops.atomic import FOREVER, number_of_values

_RELAXED = "memory_order_relaxed"
_FETCH = {"add": "fetch_add", "max": "fetch_max", "min": "fetch_min", "and": "fetch_and", "or": "fetch_or", "xor": "fetch_xor", "xchg": "exchange"}


def atomic(m: MslEmitter, inst: Inst) -> None:
    """The old value; masked-off lanes touch nothing and get 0."""
    kind = inst.op.name.removeprefix("atomic_")
    values = number_of_values(inst.op)
    mask = inst.operands[1 + values] if len(inst.operands) > 1 + values else None
    xs = [m.use(v).under(mask) for v in inst.operands[1 : 1 + values]]
    done = _update(m, inst, kind, xs, mask)
    if mask is None or mask in m.held:
        if m.is_used(inst.out):
            m.declare(inst.out, done, inst)
        else:
            m.lines.add(f"{done.text};")
        return
    condition = m.use(mask)
    if not m.is_used(inst.out):
        m.lines.add(f"if ({condition.text}) {done.text};")
        return
    m.declare(inst.out, literal(0, inst.out.dtype), inst)
    m.lines.add(f"if ({condition.text}) {m.exprs[inst.out].text} = {done.text};")


def _update(m: MslEmitter, inst: Inst, kind: str, xs: list[Expr], mask: Value | None) -> Expr:
    pointer = inst.operands[0]
    dtype, space = pointer.dtype, pointer.type.space
    if dtype.bits == 64 and not (space is Space.DEVICE and m.target.has_ulong_atomics):
        return _wide(m, inst, kind, xs[0], mask)
    word = _native_word(kind, dtype, space, m)
    if word is not None:
        at = m.address(pointer, mask)
        target = f"({SPACES[space]} atomic_{word} *){at.text if at.is_leaf else f'({at.text})'}"
        value = _as(xs[0], dtype, word)
        made = Expr(f"atomic_{_FETCH[kind]}_explicit({target}, {value}, {_RELAXED})", weight=1)
        return Expr(_back(made.text, dtype, word), weight=1)
    return _by_exchange(m, inst, kind, xs, mask)


def _native_word(kind: str, dtype: DType, space: Space, m: MslEmitter) -> str | None:
    """The atomic type that Metal updates in one step, or None."""
    if kind in ("cas", "poll") or dtype.bits < 32:
        return None
    if dtype in (dtypes.i32, dtypes.u32):
        return type_name(dtype)
    if dtype is dtypes.f32:
        # Threadgroup memory has no float addition before Metal 4.1.
        return "float" if kind == "add" and space is Space.DEVICE else "uint" if kind == "xchg" else None
    if dtype is dtypes.i64 and kind in ("max", "min"):
        return None
    return "ulong"


def _as(x: Expr, dtype: DType, word: str) -> str:
    """A value as the words that are exchanged."""
    if word == type_name(dtype):
        return x.text
    return f"as_type<{word}>({x.text})" if dtype.is_float else f"{word}({x.text})"


def _back(text: str, dtype: DType, word: str) -> str:
    if word == type_name(dtype):
        return text
    return f"as_type<{type_name(dtype)}>({text})" if dtype.is_float else f"{type_name(dtype)}({text})"


def _wide(m: MslEmitter, inst: Inst, kind: str, x: Expr, mask: Value | None) -> Expr:
    """What a target without all 64-bit atomics has: min and max of unsigned numbers, whose old value nobody gets."""
    pointer = inst.operands[0]
    dtype, space = pointer.dtype, pointer.type.space
    what = f"{m.target.name} has no 64-bit {inst.op.name}"
    if not (m.target.has_ulong_min_max and kind in ("min", "max")) or space is not Space.DEVICE:
        where = "" if space is Space.DEVICE else " on threadgroup memory"
        raise Unsupported(what + where, hint="use a 32-bit dtype, or reduce in the kernel and add up on the host", loc=inst.loc)
    if dtype is not dtypes.u64:
        raise Unsupported(f"{what} of signed numbers", hint="use mk.u64: add 2**63 to keep the order", loc=inst.loc)
    if m.is_used(inst.out):
        raise Unsupported(f"{what} that returns the old value", hint="do not use its result, or use a 32-bit dtype", loc=inst.loc)
    at = m.address(pointer, mask)
    target = f"(device atomic_ulong *){at.text if at.is_leaf else f'({at.text})'}"
    return Expr(f"atomic_{kind}_explicit({target}, {x.text}, {_RELAXED})", weight=1)


def _by_exchange(m: MslEmitter, inst: Inst, kind: str, xs: list[Expr], mask: Value | None) -> Expr:
    """A call of a helper that retries until nobody came between."""
    pointer = inst.operands[0]
    if kind == "poll" and _constant(m, inst.operands[2]) not in (0, FOREVER):
        raise Unsupported("Metal has no clock for the timeout of atomic_poll", hint="leave out timeout_ns, or pass 0 to look once", loc=inst.loc)
    dtype, space = pointer.dtype, SPACES[pointer.type.space]
    name = f"atomic_{kind}_{dtype.name}"
    ours = m.library.add(f"{name}:{space}", _loop(name, kind, dtype, space))
    if dtype.bits >= 32:
        return call(ours, m.address(pointer, mask), *xs)
    base, offset = m.pointer(pointer, mask)
    return call(ours, base, offset if offset is not None else literal(0, dtypes.i32), *xs)


_WHOLE = """\
inline {result} {name}({space} {t} *at, {params}) {{
    {space} atomic_{u} *word = ({space} atomic_{u} *)at;
    {u} seen = atomic_load_explicit(word, memory_order_relaxed);
    while (true) {{
        {t} old = {from_seen};
        {rest}
    }}
}}"""

# A narrow element lives in the 32-bit word around it.
_PART = """\
inline {result} {name}({space} {t} *base, long offset, {params}) {{
{locate}
    uint seen = atomic_load_explicit(word, memory_order_relaxed);
    while (true) {{
        {t} old = {from_seen};
        {rest}
    }}
}}"""
_EXCHANGE = """\
{stop}{u} wanted = {to_word};
        if (atomic_compare_exchange_weak_explicit(word, &seen, wanted, memory_order_relaxed, memory_order_relaxed)) return old;"""
_POLL = """\
if (old == expected) return true;
        if (timeout == 0) return false;
        seen = atomic_load_explicit(word, memory_order_relaxed);"""
_LOCATE = {
    # A device buffer may start in the middle of a word.
    "device": """\
    ulong at = ulong(base + offset);
    device atomic_uint *word = (device atomic_uint *)(at & ~3ul);
    uint shift = uint(at & 3) * 8;""",
    # Ours start at one.
    "threadgroup": """\
    uint at = uint(offset) * {nbytes};
    threadgroup atomic_uint *word = (threadgroup atomic_uint *)base + at / 4;
    uint shift = (at & 3) * 8;""",
}


def _loop(name: str, kind: str, dtype: DType, space: str) -> str:
    t, u = type_name(dtype), unsigned_name(dtype)
    bits = f"as_type<{u}>" if dtype.is_float else u
    is_narrow = dtype.bits < 32
    ones = "0xFFFFu" if dtype.bits == 16 else "0xFFu"
    part = f"{u}(seen >> shift)" if is_narrow else "seen"
    if kind == "poll":
        rest = _POLL
    else:
        new = "value" if kind in ("cas", "xchg") else _combined(kind, dtype)
        stop = f"if ({bits}(old) != {bits}(expected)) return old;\n        " if kind == "cas" else ""
        to_word = f"(seen & ~({ones} << shift)) | (uint({bits}({new})) << shift)" if is_narrow else new if t == u else f"as_type<{u}>({new})"
        rest = _EXCHANGE.format(stop=stop, u="uint" if is_narrow else u, to_word=to_word)
    return (_PART if is_narrow else _WHOLE).format(
        t=t, u=u, name=name, space=space, result="bool" if kind == "poll" else t, rest=rest, from_seen=part if t == u else f"as_type<{t}>({part})",
        params={"cas": f"{t} expected, {t} value", "poll": f"{t} expected, ulong timeout"}.get(kind, f"{t} value"),
        locate=_LOCATE[space].format(nbytes=dtype.nbytes) if is_narrow else "",
    )  # fmt: skip


def _constant(m: MslEmitter, value: Value) -> Any:
    made = m.origin.get(value)
    return made["value"] if made is not None and made.op.name == "const" else None


def _combined(kind: str, dtype: DType) -> str:
    """The new value, of the same type."""
    t = type_name(dtype)
    if dtype.is_float:
        a, b = ("old", "value") if dtype is dtypes.f32 else ("float(old)", "float(value)")
        if kind == "add":
            return f"{t}({a} + {b})"
        order = ">" if kind == "max" else "<"
        return f"(isnan({a}) || {a} {order} {b} ? old : value)"
    if kind in ("max", "min"):
        return f"{kind}(old, value)"
    operator = {"add": "+", "and": "&", "or": "|", "xor": "^"}[kind]
    if dtype.is_signed and dtype.bits >= 32 and kind == "add":
        u = unsigned_name(dtype)
        return f"{t}({u}(old) + {u}(value))"
    return f"{t}(old {operator} value)"
