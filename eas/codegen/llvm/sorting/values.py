"""The numbers of one row in order, by sorting networks over the numbers themselves, without positions.

A number is a word of 32 or 64 bits: a signed integer that is to others as the number is. That is exact where equal numbers
are the same bits; a row with NaN or a zero below 0 is left to `sort_rows`, which keeps the order of what is equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from eas.base.dtypes import DType
from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.sorting.networks import Network
from eas.codegen.llvm.text import Reg, bits_of, scratch_type, vector
from eas.ir import Inst


def sort_values(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> Reg:
    """A call of a helper function; whether it did it."""
    dtype, lanes, t = inst.operands[0].dtype, inst["lanes"], emitter.t
    registers = min(inst["registers"], inst["size"] // lanes)
    symbol = f"sort_{dtype.name}_{'down' if inst['descending'] else 'up'}_{registers}"
    if symbol not in t.helpers:
        bits = max(32, bits_of(scratch_type(dtype)))
        many = f"<{lanes} x i{bits}>"
        for op in ("smin", "smax"):
            t.declare(f"@llvm.{op}.v{lanes}i{bits}", f"declare {many} @llvm.{op}.v{lanes}i{bits}({many}, {many})")
        t.declare(f"@llvm.vector.reduce.or.v{lanes}i1", f"declare i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1>)")
        t.helpers[symbol] = _functions(Network(symbol, 1, lanes, registers, bits), Keys(dtype, bits, inst["descending"]))
    args = ", ".join(map(str, operands))
    return t.let(f"call i1 @{symbol}({args}, i64 {inst['n']}, i64 {inst['size']})", "i1", 1)


class Keys:
    """Numbers of a dtype as signed integers in the same order, or in the opposite one, and back."""

    def __init__(self, dtype: DType, bits: int, descending: bool) -> None:
        self.dtype, self.bits, self.descending = dtype, bits, descending
        self.element, self.word = scratch_type(dtype), f"i{bits}"
        self._turns = not dtype.is_float and not dtype.is_signed and bits_of(self.element) == bits  # the sign bit

    def of(self, net: Network, value: str, lanes: int) -> str:
        kind, given = vector(self.word, lanes), vector(self.element, lanes)
        if self.dtype.is_float:
            key = self._ordered(net, net.let(f"bitcast {given} {value} to {kind}"), lanes)
        elif self.element != self.word:
            key = net.let(f"{'sext' if self.dtype.is_signed else 'zext'} {given} {value} to {kind}")
        else:
            key = value
        if self._turns:
            key = net.let(f"xor {kind} {key}, {self._splat(-(1 << self.bits - 1), lanes)}")
        return net.let(f"xor {kind} {key}, {self._splat(-1, lanes)}") if self.descending else key

    def back(self, net: Network, key: str, lanes: int) -> str:
        kind, wanted = vector(self.word, lanes), vector(self.element, lanes)
        if self.descending:
            key = net.let(f"xor {kind} {key}, {self._splat(-1, lanes)}")
        if self._turns:
            key = net.let(f"xor {kind} {key}, {self._splat(-(1 << self.bits - 1), lanes)}")
        if self.dtype.is_float:
            return net.let(f"bitcast {kind} {self._ordered(net, key, lanes)} to {wanted}")
        return key if self.element == self.word else net.let(f"trunc {kind} {key} to {wanted}")

    def _ordered(self, net: Network, raw: str, lanes: int) -> str:
        """The bits of a float, all but the sign turned where it is negative; twice gives them back."""
        kind = vector(self.word, lanes)
        sign = net.let(f"ashr {kind} {raw}, {self._splat(self.bits - 1, lanes)}")
        return net.let(f"xor {kind} {raw}, {net.let(f'lshr {kind} {sign}, {self._splat(1, lanes)}')}")

    def is_strange(self, net: Network, value: str, lanes: int) -> str:
        """Whether numbers are equal to others of different bits, or to nothing."""
        if not self.dtype.is_float:
            return "zeroinitializer" if lanes > 1 else "false"
        kind, given, flags = vector(self.word, lanes), vector(self.element, lanes), vector("i1", lanes)
        raw = net.let(f"bitcast {given} {value} to {kind}")
        is_below_zero = net.let(f"icmp eq {kind} {raw}, {self._splat(-(1 << self.bits - 1), lanes)}")
        return net.let(f"or {flags} {is_below_zero}, {net.let(f'fcmp uno {given} {value}, {value}')}")

    def _splat(self, number: int, lanes: int) -> str:
        return str(number) if lanes == 1 else "<" + ", ".join([f"{self.word} {number}"] * lanes) + ">"


def _functions(net: Network, keys: Keys) -> str:
    text = net.text()
    net.lines.clear()
    _fill(net, keys)
    _read(net, keys)
    return "\n".join([text, *net.lines, _SORT_VALUES.format(symbol=net.symbol)])


def _fill(net: Network, keys: Keys) -> None:
    """Words of n numbers, then the largest words up to `size`; whether a number was strange."""
    lanes, add = net.lanes, net.lines.append
    names = {"symbol": net.symbol, "lanes": lanes, "element": keys.element, "word": keys.word, "vector": vector(keys.element, lanes), "align": net.align}
    add(_FILL_VECTORS.format(**names))
    add(f"  store {net.vector} {keys.of(net, '%value', lanes)}, ptr %place, align {net.align}")
    add(f"  %odd1 = or <{lanes} x i1> %odd, {keys.is_strange(net, '%value', lanes)}")
    add(_FILL_SINGLES.format(**names))
    add(f"  store {keys.word} {keys.of(net, '%one', 1)}, ptr %place2, align {net.align}")
    add(f"  %strange1 = or i1 %strange, {keys.is_strange(net, '%one', 1)}")
    add(_FILL_PADS.format(**names, most=(1 << keys.bits - 1) - 1))


def _read(net: Network, keys: Keys) -> None:
    """The numbers of the first n words."""
    lanes, add, element = net.lanes, net.lines.append, keys.element
    names = {"symbol": net.symbol, "lanes": lanes, "element": element, "word": keys.word, "many": net.vector, "align": net.align}
    add(_READ_VECTORS.format(**names))
    add(f"  store {vector(element, lanes)} {keys.back(net, '%v', lanes)}, ptr %q, align 1")
    add(_READ_SINGLES.format(**names))
    add(f"  store {element} {keys.back(net, '%v1', 1)}, ptr %q1, align 1")
    add(_READ_END)


_FILL_VECTORS = """\
define internal i1 @{symbol}_fill(ptr %keys, ptr %work, i64 %n, i64 %size) noinline nounwind {{
entry:
  %whole = and i64 %n, -{lanes}
  br label %vectors
vectors:
  %i = phi i64 [ 0, %entry ], [ %i1, %some ]
  %odd = phi <{lanes} x i1> [ zeroinitializer, %entry ], [ %odd1, %some ]
  %has_vector = icmp slt i64 %i, %whole
  br i1 %has_vector, label %some, label %fold
some:
  %from = getelementptr {element}, ptr %keys, i64 %i
  %value = load {vector}, ptr %from, align 1
  %place = getelementptr {word}, ptr %work, i64 %i"""
_FILL_SINGLES = """\
  %i1 = add i64 %i, {lanes}
  br label %vectors
fold:
  %strange0 = call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> %odd)
  br label %singles
singles:
  %j = phi i64 [ %i, %fold ], [ %j1, %single ]
  %strange = phi i1 [ %strange0, %fold ], [ %strange1, %single ]
  %has_single = icmp slt i64 %j, %n
  br i1 %has_single, label %single, label %pads
single:
  %from2 = getelementptr {element}, ptr %keys, i64 %j
  %one = load {element}, ptr %from2, align 1
  %place2 = getelementptr {word}, ptr %work, i64 %j"""
_FILL_PADS = """\
  %j1 = add i64 %j, 1
  br label %singles
pads:
  %k = phi i64 [ %j, %singles ], [ %k1, %pad ]
  %has_pad = icmp slt i64 %k, %size
  br i1 %has_pad, label %pad, label %done
pad:
  %place3 = getelementptr {word}, ptr %work, i64 %k
  store {word} {most}, ptr %place3, align {align}
  %k1 = add i64 %k, 1
  br label %pads
done:
  ret i1 %strange
}}"""
_READ_VECTORS = """\
define internal void @{symbol}_read(ptr %work, ptr %to, i64 %n) noinline nounwind {{
entry:
  %whole = and i64 %n, -{lanes}
  br label %vectors
vectors:
  %i = phi i64 [ 0, %entry ], [ %i1, %some ]
  %has_vector = icmp slt i64 %i, %whole
  br i1 %has_vector, label %some, label %singles
some:
  %p = getelementptr {word}, ptr %work, i64 %i
  %v = load {many}, ptr %p, align {align}
  %q = getelementptr {element}, ptr %to, i64 %i"""
_READ_SINGLES = """\
  %i1 = add i64 %i, {lanes}
  br label %vectors
singles:
  %j = phi i64 [ %i, %vectors ], [ %j1, %single ]
  %has_single = icmp slt i64 %j, %n
  br i1 %has_single, label %single, label %done
single:
  %p1 = getelementptr {word}, ptr %work, i64 %j
  %v1 = load {word}, ptr %p1, align {align}
  %q1 = getelementptr {element}, ptr %to, i64 %j"""
_READ_END = """\
  %j1 = add i64 %j, 1
  br label %singles
done:
  ret void
}"""
_SORT_VALUES = """\
define internal i1 @{symbol}(ptr %keys, ptr %to, ptr %work, i64 %n, i64 %size) noinline nounwind {{
  %is_strange = call i1 @{symbol}_fill(ptr %keys, ptr %work, i64 %n, i64 %size)
  br i1 %is_strange, label %no, label %yes
no:
  ret i1 false
yes:
  call void @{symbol}_sort(ptr %work, i64 0, i64 %size)
  call void @{symbol}_read(ptr %work, ptr %to, i64 %n)
  ret i1 true
}}"""
