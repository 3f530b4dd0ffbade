"""Writing LLVM functions as text: temporaries, vectors, basic blocks. Knows LLVM, not our IR."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from eas.base.dtypes import DType

# Of functions with loops: registers that they put aside lie in lines of their own. Where one crosses into another
# page, it waits for all stores before it, and stores past the cache take long (a loop was 4 times as slow).
LOOP_FUNCTION = "nounwind alignstack(64)"
_BLOCK_WEIGHT = 20  # lines
_MOST_INLINED = 8  # calls of one function in a long kernel
_WORDY = 8  # lines that are worth a function
_REGISTER_LANES = 16  # about: LLVM takes wider vectors apart
_REGISTER = {
    "bool": "i1",
    "f16": "float",
    "bf16": "float",
    "f32": "float",
    "f64": "double",
    "f8e4m3": "float",
    "f8e5m2": "float",
}
_MEMORY = {
    "bool": "i8",
    "f16": "half",
    "bf16": "i16",
    "f32": "float",
    "f64": "double",
    "f8e4m3": "i8",
    "f8e5m2": "i8",
}


def register_type(dtype: DType) -> str:
    """What an element is computed in: narrow floats are floats, rounded after every op."""
    return _REGISTER.get(dtype.name) or f"i{dtype.bits}"


def memory_type(dtype: DType) -> str:
    """What an element of a device buffer is."""
    return _MEMORY.get(dtype.name) or f"i{dtype.bits}"


def scratch_type(dtype: DType) -> str:
    """What an element in scratch is: compute form, bools as bytes."""
    return "i8" if dtype.is_bool else register_type(dtype)


def vector(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def bits_of(element: str) -> int:
    return {"float": 32, "double": 64, "half": 16, "ptr": 64}.get(element) or int(element[1:])


@dataclass(frozen=True, slots=True)
class Reg:
    """A value in a register (or a literal): its text, LLVM element type, and number of lanes."""

    text: str
    element: str
    lanes: int = 1
    number: float | int | None = field(default=None, compare=False)  # in all lanes, where it was written as one

    @property
    def is_literal(self) -> bool:
        return not self.text.startswith("%")

    @property
    def type(self) -> str:
        return vector(self.element, self.lanes)

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


class Text:
    """A function body in the making."""

    def __init__(self, has_f16: bool = True) -> None:
        self.has_f16 = has_f16  # whether the target converts f16
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.calls: Counter[str] = Counter()  # of functions that could be inlined
        self.inlines_all = True
        self.results: dict[str, Sequence[Reg]] = {}  # of helpers
        self.symbols: dict[Hashable, str] = {}  # of helpers, by what they are for
        self.wordy: dict[Hashable, int | None] = {}  # how often what takes many lines was written here; None for what takes few
        self.block = "entry"
        self.mark = ""  # a comment at the end of every line: where it is from
        self.weight = 0  # about what LLVM's time goes with: instructions and blocks
        self._count = 0

    def share(self, other: Text) -> None:
        """Functions of another body of the same module are those of this one, too."""
        self.helpers, self.declarations, self.results, self.symbols = other.helpers, other.declarations, other.results, other.symbols

    def name(self, hint: str = "t") -> str:
        self._count += 1
        return f"%{hint}{self._count}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text + self.mark)
        self.weight += 1

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name
        self.weight += _BLOCK_WEIGHT

    def write(self, *lines: str) -> None:
        """Lines and, with a colon at their end, labels."""
        for line in lines:
            self.label(line[:-1]) if line.endswith(":") else self.line(line)

    def new_label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def let(self, text: str, element: str, lanes: int, hint: str = "t") -> Reg:
        """%t = text"""
        name = self.name(hint)
        self.line(f"{name} = {text}")
        self.weight += lanes // _REGISTER_LANES
        return Reg(name, element, lanes)

    def call_inlined(self, symbol: str, operands: Sequence[Reg]) -> Reg:
        """Call a helper on vectors like its result; in a long kernel the first few calls are inlined, and others stay calls."""
        self.calls[symbol] += 1
        is_inlined = self.inlines_all or self.calls[symbol] <= _MOST_INLINED
        self.weight += self.helpers[symbol].count("\n") if is_inlined else 0
        first = operands[0]
        return self.let(f"call {first.type} {symbol}({', '.join(map(str, operands))}){'' if is_inlined else ' noinline'}", first.element, first.lanes)

    def call_or_write(self, name: str, key: Hashable, operands: Sequence[Reg], body: Callable[..., Sequence[Reg]]) -> Sequence[Reg]:
        """What `body(*operands)` writes here; in a long kernel, where it writes much, only the first few times, and then calls of a function of it.

        Bodies with one key write the same for operands of one type; `name` is for readers.
        """
        if self.inlines_all:
            return body(*operands)
        written = self.wordy.get(key, 0)
        if written is not None and written < _MOST_INLINED:
            before = len(self.lines)
            made = body(*operands)
            self.wordy[key] = written + 1 if len(self.lines) - before >= _WORDY else None
            return made
        if written is None:
            return body(*operands)
        symbol = self.symbols.setdefault(key, f"eas_{name}_{len(self.symbols)}")
        if symbol not in self.helpers:
            self.results[symbol] = self._write_helper(symbol, operands, body)
        named = [Reg(self.name(), r.element, r.lanes) for r in self.results[symbol]]
        self.call_function(symbol, operands, named)
        return named

    def _write_helper(self, symbol: str, operands: Sequence[Reg], body: Callable[..., Sequence[Reg]]) -> Sequence[Reg]:
        """A function of what a body writes for operands like these."""
        params = [Reg(f"%p{i}", r.element, r.lanes) for i, r in enumerate(operands)]
        outer, self.lines, self.block = (self.lines, self.block, self.weight), [], "entry"
        made = body(*params)
        self.helpers[symbol] = function(symbol, "noinline nounwind", params, self.lines, made)
        self.lines, self.block, self.weight = outer
        return made

    def call_helper(self, symbol: str, operands: Sequence[Reg], body: Callable[..., Reg | None], result: Reg | None = None) -> Reg | None:
        """Call a function of this module that does what `body(*operands)` would write here; it is written once.

        `result` is any register of the type of what `body` returns.
        """
        if symbol not in self.helpers:
            self._write_helper(symbol, operands, lambda *params: [made for made in (body(*params),) if made is not None])
        if result is None:
            self.call_function(symbol, operands, [])
            return None
        named = Reg(self.name(), result.element, result.lanes)
        self.call_function(symbol, operands, [named])
        return named

    def call_function(self, symbol: str, operands: Sequence[Reg], results: Sequence[Reg]) -> None:
        """Call a `function`, and give its results their names."""
        given = [Reg(self.convert("bitcast", Reg(r.text, r.type), passed(r).type).text, passed(r).type) if is_mask(r) else r for r in operands]
        kind, call = f"%type.{symbol}", f"@{symbol}({', '.join(map(str, given))})"
        if not results:
            self.line(f"call void {call}")
            return
        found = self.let(f"call {kind} {call}", kind, 1, "made")
        for i, r in enumerate(results):
            self.line(f"{passed(r).text} = extractvalue {found}, {i}")
            if is_mask(r):
                self.line(f"{r.text} = bitcast {passed(r)} to {r.type}")

    def declare(self, symbol: str, signature: str) -> None:
        self.declarations.setdefault(symbol, signature)

    def declare_all(self, declarations: Mapping[str, str]) -> None:
        for symbol, signature in declarations.items():
            self.declare(symbol, signature)

    def declare_lines(self, lines: str) -> None:
        """Declarations as text, one a line."""
        for line in lines.splitlines():
            self.declare(line[line.index("@") : line.index("(")], line)

    # --- common shapes --------------------------------------------------------------------------

    def op(self, word: str, a: Reg, b: Reg) -> Reg:
        return self.let(f"{word} {a}, {b.text}", a.element, a.lanes)

    def compare(self, word: str, a: Reg, b: Reg) -> Reg:
        return self.let(f"{word} {a}, {b.text}", "i1", a.lanes)

    def convert(self, word: str, a: Reg, element: str) -> Reg:
        return self.let(f"{word} {a} to {vector(element, a.lanes)}", element, a.lanes)

    def call(self, intrinsic: str, result: str, *args: Reg, flags: str = "") -> Reg:
        """A call of an overloaded intrinsic, `llvm.sqrt` -> `@llvm.sqrt.v8f32`."""
        first = args[0]
        symbol = f"@{intrinsic}.{mangled(first)}"
        kind = vector(result, first.lanes)
        self.declare(symbol, f"declare {kind} {symbol}({', '.join(a.type for a in args)})")
        return self.let(f"call {flags}{kind} {symbol}({', '.join(map(str, args))})", result, first.lanes)

    def splat(self, value: Reg, lanes: int) -> Reg:
        """The same value in every lane."""
        if value.lanes == lanes:
            return value
        kind = vector(value.element, lanes)
        if value.is_literal:
            return Reg(f"splat ({value})", value.element, lanes, value.number)
        first = self.let(f"insertelement {kind} poison, {value}, i32 0", value.element, lanes)
        return self.let(
            f"shufflevector {first}, {kind} poison, <{lanes} x i32> zeroinitializer",
            value.element,
            lanes,
        )

    def number(self, value: float | int, element: str, lanes: int = 1) -> Reg:
        return self.splat(Reg(literal(value, element), element, 1, value), lanes)

    def like(self, value: float | int, reg: Reg) -> Reg:
        """A number in the type of another value."""
        return self.number(value, reg.element, reg.lanes)

    def select(self, condition: Reg, a: Reg, b: Reg) -> Reg:
        return self.let(f"select {condition}, {a}, {b}", a.element, a.lanes)

    def multiply_add(self, a: Reg, b: Reg, c: Reg) -> Reg:
        """a * b + c, of floats rounded once where the target has an instruction for that."""
        if a.element in ("float", "double"):
            return self.call("llvm.fmuladd", a.element, a, b, c)
        return self.op("add", self.op("mul", a, b), c)

    def shuffle(self, a: Reg, b: Reg | None, lanes: Sequence[int]) -> Reg:
        """Lanes of `a`, and of `b` where the number is past the last of `a`."""
        second = b if b is not None else f"{a.type} poison"
        order = ", ".join(f"i32 {i}" for i in lanes)
        return self.let(f"shufflevector {a}, {second}, <{len(lanes)} x i32> <{order}>", a.element, len(lanes))

    def join(self, parts: Sequence[Reg]) -> Reg:
        """Vectors of one size side by side in one; their number is a power of two."""
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.shuffle(a, b, range(2 * a.lanes)) for a, b in pairs]
        return parts[0]

    def masked_load(self, pointer: Reg, align: int, mask: Reg, other: Reg) -> Reg:
        """Neighbours in memory where the mask is on, `other` elsewhere."""
        symbol = f"@llvm.masked.load.{mangled(other)}.p0"
        self.declare(symbol, f"declare {other.type} {symbol}(ptr, i32 immarg, {mask.type}, {other.type})")
        return self.let(f"call {other.type} {symbol}({pointer}, i32 {align}, {mask}, {other})", other.element, other.lanes)

    def extract(self, value: Reg, lane: int) -> Reg:
        return (
            value
            if value.lanes == 1
            else self.let(f"extractelement {value}, i32 {lane}", value.element, 1)
        )

    def insert(self, into: Reg, value: Reg, lane: int) -> Reg:
        return (
            value
            if into.lanes == 1
            else self.let(f"insertelement {into}, {value}, i32 {lane}", into.element, into.lanes)
        )


def function(symbol: str, attributes: str, params: Sequence[Reg], lines: Sequence[str], results: Sequence[Reg]) -> str:
    """A function of this module, whose results are registers of its lines."""
    kind = f"%type.{symbol}" if results else "void"
    made = [f"{kind} = type {{ {', '.join(passed(r).type for r in results)} }}"] if results else []
    head = f"define internal {kind} @{symbol}({', '.join(str(passed(p)) for p in params)}) {attributes} {{"
    opened = [f"  {p.text} = bitcast {passed(p)} to {p.type}" for p in params if is_mask(p)]
    closed, whole = list[str](), "poison"
    for i, r in enumerate(results):
        if is_mask(r):  # a call in the lines may have named its bits
            closed.append(f"  %bits{i} = bitcast {r} to {passed(r).type}")
        given = f"{passed(r).type} %bits{i}" if is_mask(r) else str(r)
        closed.append(f"  %result{i} = insertvalue {kind} {whole}, {given}, {i}")
        whole = f"%result{i}"
    last = f"  ret {kind} {whole}" if results else "  ret void"
    return "\n".join([*made, head, "entry:", *opened, *lines, *closed, last, "}"])


def is_mask(reg: Reg) -> bool:
    return reg.element == "i1" and reg.lanes > 1


def passed(reg: Reg) -> Reg:
    """What functions give each other for a register: a number for a mask, because LLVM aborts on some of those."""
    return Reg(f"{reg.text}.bits", f"i{reg.lanes}") if is_mask(reg) else reg


def mangled(value: Reg) -> str:
    element = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(
        value.element, value.element
    )
    return element if value.lanes == 1 else f"v{value.lanes}{element}"


def literal(value: float | int, element: str) -> str:
    """A number as LLVM reads it: floats by their bits, so that nothing is rounded twice."""
    if element == "i1":
        return "true" if value else "false"
    if element in ("float", "double"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
    return str(int(value))
