"""The order of one row, or of its first elements, by sorting networks over words of keys and positions.

A word of 64 bits is a key of up to 32 bits above its position, so that equal keys keep their order; longer keys have
their position in a second word. Keys are mapped to signed integers of the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

from eas.base.dtypes import DType
from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.sorting.networks import Network
from eas.codegen.llvm.text import Reg, bits_of, scratch_type, vector
from eas.ir import Inst

_REGISTERS = 8  # that a chunk of a row takes
_MOST = (1 << 31) - 1


def sort_row(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    """A call of a helper function: the positions of the first elements of a row in their order."""
    dtype, lanes = inst.operands[0].dtype, inst["lanes"]
    registers = min(_REGISTERS, inst["size"] // lanes)
    words = 1 if bits_of(scratch_type(dtype)) <= 32 else 2
    symbol = f"order_{dtype.name}_{'down' if inst['descending'] else 'up'}_{registers}"
    if symbol not in emitter.t.helpers:
        many = f"<{lanes} x i64>"
        for op in ("smin", "smax"):
            emitter.t.declare(f"@llvm.{op}.v{lanes}i64", f"declare {many} @llvm.{op}.v{lanes}i64({many}, {many})")
        emitter.t.declare("@llvm.smin.i64", "declare i64 @llvm.smin.i64(i64, i64)")
        emitter.t.declare(f"@llvm.vector.reduce.smin.v{lanes}i64", f"declare i64 @llvm.vector.reduce.smin.v{lanes}i64({many})")
        emitter.t.helpers[symbol] = _functions(Network(symbol, words, lanes, registers), dtype, inst["descending"])
    args = ", ".join(map(str, operands))
    emitter.t.line(f"call void @{symbol}({args}, i64 {inst['n']}, i64 {inst['count']}, i64 {inst['size']})")
    return ()


def _key(net: Network, dtype: DType, value: str, lanes: int, descending: bool) -> str:
    """Signed integers of 64 bits in the order of the keys, NaN last; of short keys they have 32 bits."""
    element, wide = scratch_type(dtype), vector("i64", lanes)
    if dtype.is_float:
        key = _float_key(net, element, value, lanes)
        if element == "float":
            key = net.let(f"sext {vector('i32', lanes)} {key} to {wide}")
    else:
        key = value
        if element != "i64":
            word = "sext" if dtype.is_signed else "zext"
            key = net.let(f"{word} {vector(element, lanes)} {value} to {wide}")
        if dtype.bits >= 32 and not dtype.is_signed:
            key = net.let(f"add {wide} {key}, {_splat(-(1 << dtype.bits - 1), lanes)}")
    return net.let(f"xor {wide} {key}, {_splat(-1, lanes)}") if descending else key


def _float_key(net: Network, element: str, value: str, lanes: int) -> str:
    """The bits of a float, all but the sign turned where it is negative; both zeros are one."""
    bits = bits_of(element)
    kind, floats = vector(f"i{bits}", lanes), vector(element, lanes)
    zero = "zeroinitializer" if lanes > 1 else "0.0"
    one_zero = net.let(f"fadd {floats} {value}, {zero}")
    raw = net.let(f"bitcast {floats} {one_zero} to {kind}")
    sign = net.let(f"ashr {kind} {raw}, {_splat(bits - 1, lanes, bits)}")
    ordered = net.let(f"xor {kind} {raw}, {net.let(f'lshr {kind} {sign}, {_splat(1, lanes, bits)}')}")
    is_nan = net.let(f"fcmp uno {floats} {value}, {zero}")
    return net.let(f"select {vector('i1', lanes)} {is_nan}, {kind} {_splat((1 << bits - 1) - 1, lanes, bits)}, {kind} {ordered}")


def _splat(number: int, lanes: int, bits: int = 64) -> str:
    return str(number) if lanes == 1 else "<" + ", ".join([f"i{bits} {number}"] * lanes) + ">"


def _store_words(net: Network, key: str, position: str, place: str, lanes: int) -> str:
    """Put keys and positions from `position` on to `place`; returns the first words."""
    wide = vector("i64", lanes)
    if lanes > 1:
        first = net.let(f"insertelement {wide} poison, i64 {position}, i32 0")
        spread = net.let(f"shufflevector {wide} {first}, {wide} poison, <{lanes} x i32> zeroinitializer")
        position = net.let(f"add {wide} {spread}, <{', '.join(f'i64 {i}' for i in range(lanes))}>")
    word = key
    if net.words == 1:
        word = net.let(f"or {wide} {net.let(f'shl {wide} {key}, {_splat(32, lanes)}')}, {position}")
    else:
        net.lines.append(f"  store {wide} {position}, ptr {net.let(f'getelementptr i64, ptr {place}, i64 %far')}, align 8")
    net.lines.append(f"  store {wide} {word}, ptr {place}, align 8")
    return word


def _functions(net: Network, dtype: DType, descending: bool) -> str:
    text = net.text()
    net.lines.clear()
    _fill(net, dtype, descending)
    return "\n".join([text, *net.lines, _read(net), _ORDER.format(symbol=net.symbol)])


def _fill(net: Network, dtype: DType, descending: bool) -> None:
    """Words of `count` keys from `start` on, of which there are `n`; what is missing comes last. Returns the least word."""
    lanes, element = net.lanes, scratch_type(dtype)
    many = f"<{lanes} x i64>"
    net.lines.append(_FILL_VECTORS.format(symbol=net.symbol, lanes=lanes, many=many, most=_splat((1 << 63) - 1, lanes), vector=vector(element, lanes), element=element))
    words = _store_words(net, _key(net, dtype, "%value", lanes, descending), "%at", "%place", lanes)
    net.lines.append(f"  %least1 = call {many} @llvm.smin.v{lanes}i64({many} %least, {many} {words})")
    net.lines.append(_FILL_SINGLES.format(lanes=lanes, many=many, element=element))
    word = _store_words(net, _key(net, dtype, "%one", 1, descending), "%at2", "%place2", 1)
    net.lines.append(f"  %low1 = call i64 @llvm.smin.i64(i64 %low, i64 {word})")
    net.lines.append(_FILL_PADS)
    _store_words(net, str(_MOST if net.words == 1 else (1 << 63) - 1), "%at3", "%place3", 1)
    net.lines.append(_FILL_END)


def _read(net: Network) -> str:
    """The positions in the first `count` elements."""
    lanes = net.lanes
    return _READ.format(symbol=net.symbol, lanes=lanes, far="0" if net.words == 1 else "%far", many=f"<{lanes} x i64>", few=f"<{lanes} x i32>")


_FILL_VECTORS = """\
define internal i64 @{symbol}_fill(ptr %keys, ptr %to, i64 %far, i64 %start, i64 %n, i64 %count) noinline nounwind {{
entry:
  %left = sub i64 %n, %start
  %stop = call i64 @llvm.smin.i64(i64 %left, i64 %count)
  %whole = and i64 %stop, -{lanes}
  br label %vectors
vectors:
  %i = phi i64 [ 0, %entry ], [ %i1, %vector ]
  %least = phi {many} [ {most}, %entry ], [ %least1, %vector ]
  %has_vector = icmp slt i64 %i, %whole
  br i1 %has_vector, label %vector, label %fold
vector:
  %at = add i64 %start, %i
  %from = getelementptr {element}, ptr %keys, i64 %at
  %value = load {vector}, ptr %from, align 1
  %place = getelementptr i64, ptr %to, i64 %i"""
_FILL_SINGLES = """\
  %i1 = add i64 %i, {lanes}
  br label %vectors
fold:
  %low0 = call i64 @llvm.vector.reduce.smin.v{lanes}i64({many} %least)
  br label %singles
singles:
  %j = phi i64 [ %i, %fold ], [ %j1, %single ]
  %low = phi i64 [ %low0, %fold ], [ %low1, %single ]
  %has_single = icmp slt i64 %j, %stop
  br i1 %has_single, label %single, label %pads
single:
  %at2 = add i64 %start, %j
  %from2 = getelementptr {element}, ptr %keys, i64 %at2
  %one = load {element}, ptr %from2
  %place2 = getelementptr i64, ptr %to, i64 %j"""
_FILL_PADS = """\
  %j1 = add i64 %j, 1
  br label %singles
pads:
  %k = phi i64 [ %j, %singles ], [ %k1, %pad ]
  %has_pad = icmp slt i64 %k, %count
  br i1 %has_pad, label %pad, label %done
pad:
  %at3 = add i64 %start, %k
  %place3 = getelementptr i64, ptr %to, i64 %k"""
_FILL_END = """\
  %k1 = add i64 %k, 1
  br label %pads
done:
  ret i64 %low
}"""
_READ = """\
define internal void @{symbol}_read(ptr %from, i64 %far, ptr %order, i64 %count) noinline nounwind {{
entry:
  %words = getelementptr i64, ptr %from, i64 {far}
  %whole = and i64 %count, -{lanes}
  br label %vectors
vectors:
  %i = phi i64 [ 0, %entry ], [ %i1, %vector ]
  %has_vector = icmp slt i64 %i, %whole
  br i1 %has_vector, label %vector, label %singles
vector:
  %p = getelementptr i64, ptr %words, i64 %i
  %v = load {many}, ptr %p, align 8
  %t = trunc {many} %v to {few}
  %q = getelementptr i32, ptr %order, i64 %i
  store {few} %t, ptr %q, align 4
  %i1 = add i64 %i, {lanes}
  br label %vectors
singles:
  %j = phi i64 [ %i, %vectors ], [ %j1, %single ]
  %has_single = icmp slt i64 %j, %count
  br i1 %has_single, label %single, label %done
single:
  %p1 = getelementptr i64, ptr %words, i64 %j
  %v1 = load i64, ptr %p1
  %t1 = trunc i64 %v1 to i32
  %q1 = getelementptr i32, ptr %order, i64 %j
  store i32 %t1, ptr %q1
  %j1 = add i64 %j, 1
  br label %singles
done:
  ret void
}}"""
# The first `size` elements are sorted; those behind them, as many at a time, if one of them belongs before the last that is asked for.
_ORDER = """\
define internal void @{symbol}(ptr %keys, ptr %order, ptr %work, i64 %n, i64 %count, i64 %size) noinline nounwind {{
entry:
  %far = shl i64 %size, 1
  %more = getelementptr i64, ptr %work, i64 %size
  %last.i = sub i64 %count, 1
  %last.p = getelementptr i64, ptr %work, i64 %last.i
  %first = call i64 @{symbol}_fill(ptr %keys, ptr %work, i64 %far, i64 0, i64 %n, i64 %size)
  call void @{symbol}_sort(ptr %work, i64 %far, i64 %size)
  br label %parts
parts:
  %start = phi i64 [ %size, %entry ], [ %next, %part ], [ %next, %better ]
  %is_left = icmp slt i64 %start, %n
  br i1 %is_left, label %part, label %done
part:
  %next = add i64 %start, %size
  %least = call i64 @{symbol}_fill(ptr %keys, ptr %more, i64 %far, i64 %start, i64 %n, i64 %size)
  %last = load i64, ptr %last.p
  %is_less = icmp slt i64 %least, %last
  br i1 %is_less, label %better, label %parts
better:
  call void @{symbol}_sort(ptr %more, i64 %far, i64 %size)
  %both = shl i64 %size, 1
  call void @{symbol}_mirror(ptr %work, i64 %far, i64 %both)
  call void @{symbol}_merge(ptr %work, i64 %far, i64 %size)
  br label %parts
done:
  call void @{symbol}_read(ptr %work, i64 %far, ptr %order, i64 %count)
  ret void
}}"""
