"""The register-blocked product of two matrices in memory, as LLVM text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eas.codegen.llvm.counted_loops import Loops, number
from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.matrix.transpose import transpose_lanes
from eas.codegen.llvm.text import LOOP_FUNCTION, Reg, Text, bits_of, scratch_type, vector
from eas.ir import Inst
from eas.schedule.target import CpuTarget

_ROWS = 6  # of a block of c; by two vectors of 16 registers, or four of 32, fma is kept busy
_UNROLL = 4


def contract(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    """A call of a helper function that computes c += a @ b; numbers known here are built into it."""
    element, out = (scratch_type(inst.operands[i].dtype) for i in (0, 2))
    numbers = [_as_i64(emitter.t, r) for r in operands[3:6]]
    known = [r.text if r.is_literal else "x" for r in numbers]
    shape, column, target = inst["shape"], inst["a_column"], emitter.target
    ahead = {
        side: Ahead(f"%next_{side}", inst.operands[6 + 2 * i].dtype.nbytes)
        for i, side in enumerate(inst["ahead"])
    }
    names = "_".join(str(n) for n in (*shape, column, *known, *ahead)) + "_t" * inst["b_transposed"]
    symbol = f"contract_{element}_{out}_{names}"
    if symbol not in emitter.t.helpers:
        signed = inst.operands[0].dtype.is_signed
        helper = _Contract(element, out, shape, column, target, signed, ahead)
        helper.b_transposed = inst["b_transposed"]
        emitter.t.helpers[symbol] = helper.function(symbol, numbers, emitter.t)
    arguments = ", ".join(str(r) for r in (*operands[:3], *numbers, *operands[6:]))
    emitter.t.line(f"call void @{symbol}({arguments})")
    return ()


def _as_i64(t: Text, value: Reg) -> Reg:
    if value.is_literal:
        return Reg(value.text, "i64")
    return value if value.element == "i64" else t.convert("sext", value, "i64")


@dataclass(frozen=True)
class Ahead:
    """Memory that the next block of an operand will be read from."""

    pointer: str
    nbytes: int  # of an element


class _Contract(Loops):
    """Panels of b (as many columns as a row of the block) stay in L1 while all rows of a pass by."""

    def __init__(
        self,
        element: str,
        out: str,
        shape: tuple[int, int, int],
        a_column: int,
        target: CpuTarget,
        signed: bool,
        ahead: Mapping[str, Ahead],
    ) -> None:
        super().__init__()
        self.element, self.out = element, out
        self.m, self.n, self.most_k = shape
        self.a_column, self.signed = a_column, signed
        self.wide = max(1, target.vector_nbytes * 8 // bits_of(out))
        self.vectors = target.panel_vectors
        self.strip, self.line = target.panel_steps(self.vectors), target.caches.line
        self.ahead = ahead
        self.b_transposed = False

    def function(self, symbol: str, numbers: Sequence[Reg], module: Text) -> str:
        t = self.t
        names = ("%k", "%a_row", "%b_row")
        self.k, self.a_row, self.b_row = (
            given if given.is_literal else Reg(name, "i64")
            for name, given in zip(names, numbers, strict=True)
        )
        # A number of steps that is only known at run time is a multiple of nothing.
        self.unroll = 1 if self.k.text == "%k" else _unroll(int(self.k.text))
        steps = {side: self._distance(rows.pointer) for side, rows in self.ahead.items()}
        self.next_rows = steps
        strip = min(self.most_k, self.strip)
        size = strip * self.vectors * self.wide
        panel = t.let(f"alloca [{size} x {self.out}], align 64", "ptr", 1, "panel")
        if self.most_k <= self.strip:
            self._strip(Reg("%a", "ptr"), Reg("%b", "ptr"), self.k, panel)
        else:
            self.loop("strip", number(0), self.k, number(self.strip), (), lambda at, _: self._strip_at(at, panel))
        t.line("ret void")
        module.declare_all(t.declarations)
        ahead = "".join(f", ptr {r.pointer}, ptr {r.pointer}_row" for r in self.ahead.values())
        head = f"define internal void @{symbol}(ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, i64 %k, i64 %a_row, i64 %b_row{ahead}) noinline {LOOP_FUNCTION} {{\nentry:"
        return "\n".join([head, *t.lines, "}"])

    def _strip_at(self, at: Reg, panel: Reg) -> Sequence[Reg]:
        left = self.at(Reg("%a", "ptr"), self._mul(at, self.a_column), self.element)
        right = self.at(Reg("%b", "ptr"), self.times(at, self.b_row), self.element)
        rest = self.t.op("sub", self.k, at)
        full = number(self.strip)
        steps = self.t.select(self.t.compare("icmp slt", rest, full), rest, full)
        self._strip(left, right, steps, panel)
        return ()

    def _strip(self, a: Reg, b: Reg, k: Reg, panel: Reg) -> None:
        """All of c, for some steps of k: panel by panel."""
        size, column = self.vectors * self.wide, 0
        whole = self.n // size
        packs = self.m > _ROWS and whole > 0
        if whole:
            self.loop(
                "panel",
                number(0),
                number(whole),
                number(1),
                (),
                lambda i, _: self._panel(a, b, k, panel if packs else None, self._mul(i, size)),
            )
            column = whole * size
        for lanes, vectors in _rest(self.n - column, self.wide):
            first = number(column)
            source = (self.at(b, first, self.element), self.b_row, self.element)
            self._rows(a, source, k, first, lanes, vectors)
            column += lanes * vectors

    def _panel(self, a: Reg, b: Reg, k: Reg, panel: Reg | None, first: Reg) -> Sequence[Reg]:
        """Columns from `first` on; copied so that they are contiguous, where rows enough profit."""
        column = self.times(first, self.b_row) if self.b_transposed else first
        b = self.at(b, column, self.element)
        source = (b, self.b_row, self.element)
        if panel is not None:
            step, pack = (self.wide, self._turn) if self.b_transposed else (1, self._pack)
            self.loop("pack", number(0), k, number(step), (), lambda i, _: pack(b, panel, i))
            source = (panel, number(self.vectors * self.wide), self.out)
        self._rows(a, source, k, first, self.wide, self.vectors)
        return ()

    def _pack(self, b: Reg, panel: Reg, i: Reg) -> Sequence[Reg]:
        source = self.at(b, self.times(i, self.b_row), self.element)
        target = self.at(panel, self._mul(i, self.vectors * self.wide), self.out)
        for v in range(self.vectors):
            at = number(v * self.wide)
            value = self._load(self.at(source, at, self.element), self.element, self.wide)
            self.t.line(f"store {value}, {self.at(target, at, self.out)}, align 4")
        return ()

    def _turn(self, b: Reg, panel: Reg, i: Reg) -> Sequence[Reg]:
        """As `_pack`, for as many steps of k as a vector has lanes, from columns in memory."""
        wide, width = self.wide, self.vectors * self.wide
        for v in range(self.vectors):
            columns = [
                self.at(b, self._mul(self.b_row, v * wide + lane), self.element)
                for lane in range(wide)
            ]
            lines = [self._load(self.at(c, i, self.element), self.element, wide) for c in columns]
            for u, line in enumerate(transpose_lanes(self.t, lines)):
                row = self.t.op("add", i, number(u))
                at = self.t.op("add", self._mul(row, width), number(v * wide))
                self.t.line(f"store {line}, {self.at(panel, at, self.out)}, align 4")
        return ()

    def _rows(
        self, a: Reg, b: tuple[Reg, Reg, str], k: Reg, first: Reg, lanes: int, vectors: int
    ) -> None:
        row = 0
        for height, repeats in _row_blocks(self.m):

            def block(
                i: Reg, _: Sequence[Reg], row: int = row, height: int = height
            ) -> Sequence[Reg]:
                top = self.t.op("add", self._mul(i, height), number(row))
                left = self.at(a, self.times(top, self.a_row), self.element)
                corner = self.t.op("add", self._mul(top, self.n), first)
                cells = self.at(Reg("%c", "ptr"), corner, self.out)
                if height == _ROWS and lanes * vectors == self.wide * self.vectors:
                    self._prefetch(i, first)
                self._block(left, b, cells, k, (height, vectors, lanes))
                return ()

            self.loop("rows", number(0), number(repeats), number(1), (), block)
            row += height * repeats

    def _block(
        self, a: Reg, b: tuple[Reg, Reg, str], c: Reg, k: Reg, size: tuple[int, int, int]
    ) -> None:
        """One block of c stays in registers for all steps of k."""
        t = self.t
        height, vectors, lanes = size
        cells = [
            self.at(c, number(i * self.n + v * lanes), self.out)
            for i in range(height)
            for v in range(vectors)
        ]
        kind = vector(self.out, lanes)
        start = [t.let(f"load {kind}, {cell}, align 4", self.out, lanes) for cell in cells]
        rows = [self.at(a, self._mul(self.a_row, i), self.element) for i in range(height)]

        def steps(at: Reg, accs: Sequence[Reg]) -> Sequence[Reg]:
            for u in range(self.unroll):
                step = t.op("add", at, number(u))
                accs = self._step(rows, b, step, accs, lanes)
            return accs

        done = self.loop("k", number(0), k, number(self.unroll), start, steps)
        for cell, value in zip(cells, done, strict=True):
            t.line(f"store {value}, {cell}, align 4")

    def _step(
        self, rows: Sequence[Reg], b: tuple[Reg, Reg, str], k: Reg, accs: Sequence[Reg], lanes: int
    ) -> list[Reg]:
        base, b_row, element = b
        vectors = len(accs) // len(rows)
        line = self.at(base, self.times(k, b_row), element)
        right = [
            self._load(self.at(line, number(v * lanes), element), element, lanes)
            for v in range(vectors)
        ]
        column = self._mul(k, self.a_column)
        new: list[Reg] = []
        for i, row in enumerate(rows):
            value = self._load(self.at(row, column, self.element), self.element, 1)
            left = self.t.splat(value, lanes)
            new += [self.t.multiply_add(left, right[v], accs[i * vectors + v]) for v in range(vectors)]
        return new

    # --- what comes next ------------------------------------------------------------------------

    def _prefetch(self, block: Reg, first: Reg) -> None:
        """Ask for a share of the next operands: rows of a for this panel, of b for this block."""
        width = self.vectors * self.wide
        if "a" in self.ahead:
            nbytes = self.ahead["a"].nbytes
            lines = max(1, self.most_k * nbytes // self.line * width // self.n)
            column = self._mul(first, max(1, lines * self.line // width))
            for i in range(_ROWS):
                row = self.t.op("add", self._mul(block, _ROWS), number(i))
                self._touch("a", row, column, lines)
        if "b" in self.ahead:
            nbytes = self.ahead["b"].nbytes
            per_block = -(-self.most_k * _ROWS // self.m)
            column = self._mul(first, nbytes)
            for i in range(per_block):
                row = self.t.op("add", self._mul(block, per_block), number(i))
                self._touch("b", row, column, max(1, width * nbytes // self.line))

    def _touch(self, side: str, row: Reg, column: Reg, lines: int) -> None:
        self.t.declare("@llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        base = Reg(self.ahead[side].pointer, "ptr")
        offset = self.t.op("add", self.times(row, self.next_rows[side]), column)
        for line in range(lines):
            at = self.t.op("add", offset, number(line * self.line))
            here = self.t.let(f"getelementptr i8, {base}, {at}", "ptr", 1)
            self.t.line(f"call void @llvm.prefetch.p0({here}, i32 0, i32 2, i32 1)")

    def _distance(self, pointer: str) -> Reg:
        """Bytes between two rows."""
        a, b = (
            self.t.let(f"ptrtoint ptr {p} to i64", "i64", 1) for p in (pointer, f"{pointer}_row")
        )
        return self.t.op("sub", b, a)

    # --- spelling -------------------------------------------------------------------------------

    def _mul(self, a: Reg, factor: int) -> Reg:
        return a if factor == 1 else self.times(a, number(factor))

    def _load(self, at: Reg, element: str, lanes: int) -> Reg:
        align = min(4, max(1, bits_of(element) // 8))
        raw = self.t.let(f"load {vector(element, lanes)}, {at}, align {align}", element, lanes)
        if element == self.out:
            return raw
        return self.t.convert("sext" if self.signed else "zext", raw, self.out)


def _unroll(k: int) -> int:
    return next(u for u in (_UNROLL, 2, 1) if k % u == 0)


def _rest(n: int, wide: int) -> list[tuple[int, int]]:
    """(lanes, vectors) of the columns that fill no panel: whole vectors, then ever smaller ones."""
    blocks, vectors = [], 2
    while n >= wide:
        vectors = 2 if n >= 2 * wide else 1
        blocks.append((wide, vectors))
        n -= wide * vectors
    lanes = wide
    while n:
        while lanes > n:
            lanes //= 2
        blocks.append((lanes, 1))
        n -= lanes
    return blocks


def _row_blocks(m: int) -> list[tuple[int, int]]:
    """(height, repeats): blocks of six, and a rest in which none is too low to hide fma's latency."""
    whole, rest = divmod(m, _ROWS)
    if 0 < rest < 4 and whole:
        low = (_ROWS + rest) // 2
        tail = [(_ROWS + rest - low, 1), (low, 1)]
        return [*([(_ROWS, whole - 1)] if whole > 1 else []), *tail]
    return [*([(_ROWS, whole)] if whole else []), *([(rest, 1)] if rest else [])]
