"""Warnings about kernels that compile and probably do not mean what they say: once per line, at that line."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from types import BuiltinMethodType, MethodType
from typing import Any

from eas.analysis import constant_behind
from eas.analysis.ranges import value_ranges
from eas.base.errors import KernelWarning, SourcePlace, source_line
from eas.frontend.builder import current
from eas.frontend.syntax.source import SourceSpot, spot_of
from eas.ir import Inst, IRModule, Loc, Trait, Value, walk

_told: set[tuple[str, int, str]] = set()


def advise(message: str, hint: str, place: SourcePlace | None) -> None:
    """Warn at a line of a kernel, unless this was said of it before."""
    if not isinstance(place, Loc | SourceSpot):
        return
    filename, line = place.place[:2] if isinstance(place, Loc) else (place.filename, place.line)
    if (filename, line, message) not in _told:
        _told.add((filename, line, message))
        warnings.warn_explicit(f"{message}; {hint}", KernelWarning, filename, line)


# --- in the source ----------------------------------------------------------------------------------


def advise_on_comparison(node: ast.Compare, filename: str) -> None:
    """`i < N & i > 2`, which Python reads as i < (N & i) > 2."""
    for operand in node.comparators[:-1]:
        if not (isinstance(operand, ast.BinOp) and isinstance(operand.op, ast.BitAnd | ast.BitOr)):
            continue
        before = source_line(filename, operand.lineno).encode()[: operand.col_offset].decode(errors="replace")
        if not before.rstrip().endswith("("):
            advise(f"`{_BITS[type(operand.op)]}` binds more tightly than a comparison", _PARENTHESES, spot_of(node, filename))


_BITS = {ast.BitAnd: "&", ast.BitOr: "|"}
_PARENTHESES = "put each comparison in parentheses: (i < N) & (i > 2)"


# --- while tracing ----------------------------------------------------------------------------------


def advise_on_bits(sign: str, a: Any, b: Any) -> None:
    """`mask & i < N`, which Python reads as (mask & i) < N: bits of a truth value and of a number."""
    kinds = [x.dtype for x in (a, b)]
    if kinds[0].is_bool != kinds[1].is_bool and all(k.is_bool or k.is_int for k in kinds):
        advise(f"`{sign}` of {a.type} and {b.type} works on the bits of numbers", _PARENTHESES, current().here())


_CHANCE = ("random", "secrets", "uuid")
_CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "now", "utcnow", "today")


def advise_on_call(fn: Callable[..., Any]) -> None:
    """A number that is drawn, or a clock that is read, while the kernel is traced."""
    owner = fn.__self__ if isinstance(fn, BuiltinMethodType | MethodType) else None
    kind = owner if isinstance(owner, type) else type(owner)
    home, name = str(getattr(fn, "__module__", None) or kind.__module__), getattr(fn, "__name__", "")
    if home in _CHANCE or home.startswith("numpy.random") or (home.startswith("torch") and name.startswith("rand")) or name == "urandom":
        advise(f"{name}() runs once, when the kernel is traced: every launch then uses the same number", "use mk.rand(seed, offsets), or pass the number as an argument", current().here())
    elif home in ("time", "datetime") and name in _CLOCKS:
        advise(f"{name}() runs once, when the kernel is traced: every launch then uses the same number", "pass it as an argument", current().here())


def advise_on_text(word: str, text: str) -> None:
    """An f-string in which a traced value has become the description of itself."""
    shown = next((each for each in current().shown if each in text), None)
    if shown is not None:
        advise(f"{word} got the text {text!r}, in which {shown} stands for a value that nobody knows yet", f'pass values after the text: mk.{word}("x", x)' if word == "device_print" else "leave the value out of the text, and print it with mk.device_print", current().here())


# --- in the IR ----------------------------------------------------------------------------------------


def advise_on_module(module: IRModule, head: SourceSpot) -> None:
    """What the whole kernel shows: nothing is written, or a product was computed in 32 bits before it was widened."""
    if not any(inst.op.has(Trait.WRITES) or inst.op.name in ("device_print", "device_assert") for inst in walk(module.body)):
        advise(f"kernel {module.name} writes nothing", "store its results with mk.store(buffer, offsets, value)", head)
    made = {out: inst for inst in walk(module.body) for out in inst.outs}
    widened = [inst for inst in walk(module.body) if _widens(inst)]
    products = [(inst, p) for inst in widened if (p := _product(inst.operands[0], made)) is not None]
    if not products:
        return
    ranges = value_ranges(module)
    for inst, product in products:
        ends = [(ranges[v].lo, ranges[v].hi) for v in made[product].operands]
        corners = [a * b for a in ends[0] for b in ends[1]]  # addresses count as exact, so the product itself tells nothing
        if not product.dtype.min <= min(corners) <= max(corners) <= product.dtype.max:
            advise(f"a product is computed in {product.dtype} and becomes {inst.out.dtype} afterwards: it has lost its upper bits if it was too large", "widen a factor first: a.to(mk.i64) * b", inst.loc)


def _widens(inst: Inst) -> bool:
    if inst.op.name != "cast" or not inst.operands[0].type.is_value:
        return False
    before, after = inst.operands[0].dtype, inst.out.dtype
    return before.is_int and after.is_int and before.bits == 32 and after.bits == 64


_KEEPS = ("add", "sub", "broadcast", "reshape", "expand_dims", "permute")


def _product(value: Value, made: dict[Value, Inst]) -> Value | None:
    """The product of two runtime values that this sum has, if it has one."""
    inst = made.get(value)
    if inst is None:
        return None
    if inst.op.name == "mul":
        return None if any(constant_behind(v, made) for v in inst.operands) else value
    if inst.op.name not in _KEEPS:
        return None
    return next((p for v in inst.operands if (p := _product(v, made)) is not None), None)


