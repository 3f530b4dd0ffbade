"""Writes the body of one LLVM function: Python arithmetic on `Value`s becomes lines of SSA text."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

FLOATS = ("float", "double")
INT_OF = {"float": "i32", "double": "i64"}
FLOAT_OF = {"i32": "float", "i64": "double"}


@dataclass(frozen=True, eq=False)
class Value:
    """An SSA name or a constant; operators emit one instruction each."""

    ssa: Ssa
    elem: str
    text: str

    def __add__(self, other: Operand) -> Value:
        return self.ssa.binary("add", self, other)

    def __sub__(self, other: Operand) -> Value:
        return self.ssa.binary("sub", self, other)

    def __mul__(self, other: Operand) -> Value:
        return self.ssa.binary("mul", self, other)

    def __truediv__(self, other: Operand) -> Value:
        return self.ssa.binary("div", self, other)

    def __radd__(self, other: float) -> Value:
        return self.ssa.constant(other, self.elem) + self

    def __rsub__(self, other: float) -> Value:
        return self.ssa.constant(other, self.elem) - self

    def __rmul__(self, other: float) -> Value:
        return self.ssa.constant(other, self.elem) * self

    def __rtruediv__(self, other: float) -> Value:
        return self.ssa.constant(other, self.elem) / self

    def __and__(self, other: Operand) -> Value:
        return self.ssa.binary("and", self, other)

    def __or__(self, other: Operand) -> Value:
        return self.ssa.binary("or", self, other)

    def __xor__(self, other: Operand) -> Value:
        return self.ssa.binary("xor", self, other)

    def __lshift__(self, count: int) -> Value:
        return self.ssa.binary("shl", self, count)

    def __rshift__(self, count: int) -> Value:
        """Logical: zeros come in from the left."""
        return self.ssa.binary("lshr", self, count)

    def __neg__(self) -> Value:
        return self.ssa.emit(self.elem, f"fneg {self.ssa.type(self.elem)} {self.text}")

    def __invert__(self) -> Value:
        return self ^ -1

    def __lt__(self, other: Operand) -> Value:
        return self.ssa.compare("lt", self, other)

    def __le__(self, other: Operand) -> Value:
        return self.ssa.compare("le", self, other)

    def __gt__(self, other: Operand) -> Value:
        return self.ssa.compare("gt", self, other)

    def __ge__(self, other: Operand) -> Value:
        return self.ssa.compare("ge", self, other)

    def equals(self, other: Operand) -> Value:
        return self.ssa.compare("eq", self, other)


Operand = Value | float


class Ssa:
    """Lines of one function over vectors of `lanes` elements; `elem` is its float type."""

    def __init__(self, elem: str, lanes: int) -> None:
        self.elem, self.int_elem, self.lanes = elem, INT_OF[elem], lanes
        self.is_f32 = elem == "float"
        self.width, self.fraction_bits, self.bias = (32, 23, 127) if self.is_f32 else (64, 52, 1023)
        self.sign_mask = 1 << (self.width - 1)
        self.lines: list[str] = []
        self.declared: set[str] = set()  # of other functions
        self.companions: list[str] = []  # whole functions that this one calls
        self._count = 0

    def type(self, elem: str) -> str:
        return elem if self.lanes == 1 else f"<{self.lanes} x {elem}>"

    def constant(self, value: float, elem: str) -> Value:
        """The same number in every lane; a float is rounded to `elem` here."""
        if elem not in FLOATS:
            bits = int(elem[1:])
            number = int(value) & ((1 << bits) - 1)
            text = str(number - (1 << bits) if number >> (bits - 1) else number)
        else:
            rounded = struct.unpack("f", struct.pack("f", value))[0] if elem == "float" else value
            text = f"0x{struct.unpack('Q', struct.pack('d', rounded))[0]:016X}"
        return Value(self, elem, text if self.lanes == 1 else f"splat ({elem} {text})")

    def operand(self, v: Operand, elem: str | None = None) -> Value:
        return v if isinstance(v, Value) else self.constant(v, elem or self.elem)

    def name(self) -> str:
        self._count += 1
        return f"%t{self._count}"

    def emit(self, elem: str, text: str) -> Value:
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return Value(self, elem, name)

    def binary(self, op: str, a: Value, b: Operand) -> Value:
        opcode = f"f{op}" if a.elem in FLOATS else op
        return self.emit(
            a.elem, f"{opcode} {self.type(a.elem)} {a.text}, {self.operand(b, a.elem).text}"
        )

    def compare(self, how: str, a: Value, b: Operand) -> Value:
        """Floats: false if either is NaN (except `uno`). Integers are signed."""
        if a.elem in FLOATS:
            test = f"fcmp {how if how == 'uno' else 'o' + how}"
        else:
            test = f"icmp {how if how == 'eq' else 's' + how}"
        return self.emit(
            "i1", f"{test} {self.type(a.elem)} {a.text}, {self.operand(b, a.elem).text}"
        )

    def select(self, where: Value, a: Operand, b: Operand) -> Value:
        elem = next((v.elem for v in (a, b) if isinstance(v, Value)), self.elem)
        chosen = ", ".join(f"{self.type(elem)} {self.operand(v, elem).text}" for v in (a, b))
        return self.emit(elem, f"select {self.type('i1')} {where.text}, {chosen}")

    def at_most(self, x: Value, limit: float) -> Value:
        """min(x, limit), NaN kept: the operand order that is one `minps` on x86."""
        return self.select(self.constant(limit, x.elem) < x, limit, x)

    def at_least(self, x: Value, limit: float) -> Value:
        return self.select(self.constant(limit, x.elem) > x, limit, x)

    def convert(self, opcode: str, x: Value, elem: str) -> Value:
        return self.emit(elem, f"{opcode} {self.type(x.elem)} {x.text} to {self.type(elem)}")

    def bits(self, x: Value) -> Value:
        return self.convert("bitcast", x, INT_OF[x.elem])

    def floats(self, x: Value) -> Value:
        return self.convert("bitcast", x, FLOAT_OF[x.elem])

    def sign(self, x: Value) -> Value:
        """The sign bit alone, as an integer."""
        return self.bits(x) & self.sign_mask

    def with_sign(self, magnitude: Value, sign: Value) -> Value:
        """`magnitude`, whose sign bit is clear, with the bits of `sign`."""
        return self.floats(self.bits(magnitude) | sign)

    def flip_sign(self, x: Value, sign: Value) -> Value:
        return self.floats(self.bits(x) ^ sign)

    def intrinsic(self, name: str, *args: Operand) -> Value:
        """`llvm.<name>` on operands that all have the type of the result."""
        elem = next((v.elem for v in args if isinstance(v, Value)), self.elem)
        ty = self.type(elem)
        short = {"float": "f32", "double": "f64"}[elem]
        symbol = (
            f"@llvm.{name}.{short}" if self.lanes == 1 else f"@llvm.{name}.v{self.lanes}{short}"
        )
        self.declared.add(f"declare {ty} {symbol}({', '.join([ty] * len(args))})")
        return self.emit(
            elem,
            f"call {ty} {symbol}({', '.join(f'{ty} {self.operand(v, elem).text}' for v in args)})",
        )

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        return self.intrinsic("fma", a, b, c)

    def sqrt(self, x: Value) -> Value:
        return self.intrinsic("sqrt", x)

    def abs(self, x: Value) -> Value:
        return self.intrinsic("fabs", x)

    def horner(self, x: Value, coefficients: Sequence[float]) -> Value:
        """c[0] + c[1] x + ...: fewest instructions and registers, one long chain."""
        *rest, top = coefficients
        # Many CPUs add beside their multipliers: a last coefficient of 1 costs less.
        value = x + rest.pop() if top == 1.0 and rest else self.constant(top, x.elem)
        for c in reversed(rest):
            value = self.fma(value, x, c)
        return value

    def horner_of_pairs(self, x: Value, square: Value, coefficients: Sequence[float]) -> Value:
        """The same by the square of x: hardly more instructions, half the chain."""
        pairs = [coefficients[i : i + 2] for i in range(0, len(coefficients), 2)]
        terms = [self.fma(x, p[1], p[0]) if len(p) == 2 else self.constant(p[0], x.elem) for p in pairs]
        value = terms[-1]
        for term in reversed(terms[:-1]):
            value = self.fma(value, square, term)
        return value

    def estrin(self, x: Value, coefficients: Sequence[float]) -> Value:
        """The same by pairs of pairs: a chain of log2(n) steps, for long polynomials."""
        level: list[Operand] = list(coefficients)
        while len(level) > 1:
            pairs = [self.fma(x, level[i + 1], level[i]) for i in range(0, len(level) - 1, 2)]
            level = [*pairs, *level[len(level) & ~1 :]]
            x = x * x if len(level) > 1 else x
        return self.operand(level[0])

    def libm(self, symbol: str, *args: Value) -> Value:
        """A C function of doubles, called lane by lane."""
        wide = [v if v.elem == "double" else self.convert("fpext", v, "double") for v in args]
        self.declared.add(f"declare double @{symbol}({', '.join(['double'] * len(args))})")
        whole = Value(self, "double", "poison")
        for i in range(self.lanes):
            lanes = ", ".join(f"double {self._lane(v, i)}" for v in wide)
            result = self.emit("double", f"call double @{symbol}({lanes})")
            if self.lanes == 1:
                whole = result
            else:
                whole = self.emit(
                    "double",
                    f"insertelement {self.type('double')} {whole.text}, double {result.text}, i32 {i}",
                )
        return whole if self.elem == "double" else self.convert("fptrunc", whole, self.elem)

    def _lane(self, x: Value, i: int) -> str:
        if self.lanes == 1:
            return x.text
        return self.emit(x.elem, f"extractelement {self.type(x.elem)} {x.text}, i32 {i}").text

    def replace_rarely(self, where: Value, usual: Value, rare: Callable[[], Value]) -> Value:
        """`usual`, or `rare()` in the lanes where `where` holds: a branch skips it when none does.

        Once per function: the labels are fixed.
        """
        test = where.text
        if self.lanes > 1:
            reduction = f"@llvm.vector.reduce.or.v{self.lanes}i1({self.type('i1')}"
            self.declared.add(f"declare i1 {reduction})")
            test = self.emit("i1", f"call i1 {reduction} {where.text})").text
        self.lines += [f"  br i1 {test}, label %rare, label %done", "rare:"]
        mended = self.select(where, rare(), usual)
        self.lines += ["  br label %done", "done:"]
        return self.emit(
            usual.elem,
            f"phi {self.type(usual.elem)} [ {usual.text}, %entry ], [ {mended.text}, %rare ]",
        )
