"""Lanes that share few elements as LLVM text: registers of neighbours, permuted by what each lane asks for."""

from __future__ import annotations

from eas.codegen.llvm.text import Reg, Text, vector

WIDE = 8  # elements of four bytes that one instruction permutes


def can_permute(element: str, lanes: int) -> bool:
    """Whether such elements fill registers."""
    return element in ("float", "i32") and lanes % WIDE == 0


def near(t: Text, element: str, pointer: Reg, ahead: Reg, align: int) -> Reg:
    """Lane l holds pointer[ahead[l]]; from lane to lane `ahead` stays or grows by one."""
    parts = []
    for k in range(0, ahead.lanes, WIDE):
        first, last = t.extract(ahead, k), t.extract(ahead, k + WIDE - 1)
        at = t.let(f"getelementptr {element}, {pointer}, {first}", "ptr", 1)
        window = _window(t, element, at, t.op("sub", last, first), align)
        parts.append(_permuted(t, window, t.op("sub", _piece(t, ahead, k), t.splat(first, WIDE))))
    return t.join(parts)


def table(t: Text, element: str, pointer: Reg, index: Reg, count: Reg, align: int) -> Reg:
    """Lane l holds pointer[index[l]], where the indices are all of those below a count of at most `WIDE`."""
    window = _window(t, element, pointer, t.op("sub", count, t.like(1, count)), align)
    return t.join([_permuted(t, window, _piece(t, index, k)) for k in range(0, index.lanes, WIDE)])


def _window(t: Text, element: str, pointer: Reg, last: Reg, align: int) -> Reg:
    """The elements from a pointer on, as far as somebody asks for them."""
    numbers = Reg("<" + ", ".join(f"i32 {i}" for i in range(WIDE)) + ">", "i32", WIDE)
    mask = t.compare("icmp sle", numbers, t.splat(last, WIDE))
    nothing = Reg("zeroinitializer", element, WIDE)
    return t.masked_load(pointer, align, mask, nothing)


def _permuted(t: Text, window: Reg, order: Reg) -> Reg:
    kind = vector(window.element, WIDE)
    symbol = "@llvm.x86.avx2.permps" if window.element == "float" else "@llvm.x86.avx2.permd"
    t.declare(symbol, f"declare {kind} {symbol}({kind}, <{WIDE} x i32>)")
    return t.let(f"call {kind} {symbol}({window}, {order})", window.element, WIDE)


def _piece(t: Text, value: Reg, first: int) -> Reg:
    return value if value.lanes == WIDE else t.shuffle(value, None, range(first, first + WIDE))
