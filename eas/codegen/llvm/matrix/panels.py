"""A matrix product over operands in device memory, as LLVM text: panels of b, rows of a as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eas.base.dtypes import DType
from eas.codegen.llvm.casts import cast, decode
from eas.codegen.llvm.counted_loops import Loops, number
from eas.codegen.llvm.emitter import LlvmEmitter
from eas.codegen.llvm.matrix.transpose import transpose_lanes
from eas.codegen.llvm.text import (
    LOOP_FUNCTION,
    Reg,
    Text,
    bits_of,
    memory_type,
    register_type,
    vector,
)
from eas.ir import Inst
from eas.schedule.target import L1_WAY_NBYTES

HEIGHTS = (6, 4)  # rows of the blocks of c that stay in registers
_ENTRY, _FIRST_ENTRY = 6, 8  # words of an entry of the table, and in front of the first one
_UNROLL = 4
_AT_ONCE = 4  # panels that are packed together
_FEW_ROWS = 12  # b is read once or twice then: a copy would not pay
_MANY_STEPS, _MANY_COLUMNS = 96, 128  # whose columns of a pay for a copy of them as rows


def contract_panels(emitter: LlvmEmitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    """A call of a helper function that computes c += a @ b; strides known here are built into it."""
    dtype, out = inst.operands[0].dtype, inst.operands[2].dtype
    numbers = list(operands[6:])
    known = [r.text if r.is_literal else "x" for r in numbers[3:]]
    names = (dtype.name, out.name, *inst["shape"], *known, "fresh" if inst["fresh"] else "add", inst["memo"])
    symbol = "panels_" + "_".join(n.replace("-", "m") for n in map(str, names))
    if symbol not in emitter.t.helpers:
        _Panels(emitter, dtype, out, inst, [Reg(k, "i64") for k in known]).define(symbol)
    arguments = ", ".join(str(r) for r in (*operands[:6], *numbers))
    emitter.t.line(f"call void @{symbol}({arguments})")
    return ()


@dataclass(frozen=True)
class _Rows:
    """Rows of a: where they start, distances of rows and of steps."""

    base: Reg
    row: Reg
    step: Reg
    in_blocks: Reg | None = None  # whether they are copied, with the rows of a block side by side


@dataclass(frozen=True)
class _Strip:
    """Some steps of k."""

    rows: _Rows
    b: Reg
    packed: Reg  # room for its panels
    steps: Reg
    fresh: Reg  # whether c holds nothing yet


class _Panels(Loops):
    """Strips of k; in each, panels of b are copied so that they are contiguous, and met by all rows of a."""

    def __init__(
        self, emitter: LlvmEmitter, dtype: DType, out: DType, inst: Inst, strides: Sequence[Reg]
    ) -> None:
        super().__init__(emitter.target.has_f16)
        self.module, self.dtype, self.out_dtype = emitter.t, dtype, out
        self.unpacked_nbytes = emitter.target.unpacked_nbytes
        self.element, self.out = memory_type(dtype), register_type(out)
        self.columns = inst["shape"][1]
        self.wide, self.vectors, self.strip = inst["wide"], inst["vectors"], inst["strip"]
        self.width = self.vectors * self.wide
        self.is_fresh, self.memo = inst["fresh"], inst["memo"]
        self.entries = (inst["table"] - _FIRST_ENTRY) // _ENTRY
        names = ("%a_row", "%a_step", "%b_step", "%b_column")
        self.a_row, self.a_step, self.b_step, self.b_column = (
            Reg(name, "i64") if r.text == "x" else r for name, r in zip(names, strides, strict=True)
        )
        self.is_narrow = self.element != self.out
        self.takes_b_as_it_is = self.b_column.text == "1" and not self.is_narrow
        self.k, self.m, self.n = (Reg(name, "i64") for name in ("%k", "%m", "%n"))

    def define(self, symbol: str) -> None:
        """Add the function, and those of its blocks, to the module."""
        t = self.t
        self._plan_rows()
        self._plan_strips()
        width = number(self.width)
        self.panels = t.op("udiv", t.op("add", self.n, number(self.width - 1)), width)
        nbytes = t.op("mul", t.op("mul", self.k, self.b_step), number(bits_of(self.element) // 8))
        is_near = t.compare("icmp ule", nbytes, number(self.unpacked_nbytes))
        self.is_few = t.op("or", t.compare("icmp sle", self.m, number(_FEW_ROWS)), is_near)
        if self.memo:
            self._look_up()
        self.loop("strip", number(0), self.end, self.share, (), self._strip)
        t.line("ret void")
        self.module.declare_all(t.declarations)
        pointers = "ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, ptr noalias %copy, ptr noalias %packed, ptr noalias %tags"
        numbers = "i64 %k, i64 %m, i64 %n, i64 %a_row, i64 %a_step, i64 %b_step, i64 %b_column"
        head = f"define internal void @{symbol}({pointers}, {numbers}) noinline {LOOP_FUNCTION} {{\nentry:"
        self.module.helpers[symbol] = "\n".join([head, *t.lines, "}"])

    def _plan_strips(self) -> None:
        """Strips of equal length, so that the last one is not a short one; one even if k is 0."""
        t = self.t
        strips = t.op("udiv", t.op("add", self.k, number(self.strip - 1)), number(self.strip))
        strips = t.select(t.compare("icmp sgt", strips, number(0)), strips, number(1))
        share = t.op("udiv", t.op("add", t.op("sub", self.k, number(1)), strips), strips)
        share = t.op("and", t.op("add", share, number(_UNROLL - 1)), number(-_UNROLL))
        some = t.compare("icmp sgt", self.k, number(0))
        self.share, self.end = (t.select(some, x, number(1)) for x in (share, self.k))

    # --- what is packed already -------------------------------------------------------------------

    def _look_up(self) -> None:
        """Where in `packed` all of b is kept, if it fits, and whether it is there since an earlier program.

        The table is `tags`: how many entries there are, how many elements they take, and from word 8 on
        the entries: the numbers that b is known by, and where its panels start.
        """
        t = self.t
        size = t.op("mul", t.op("mul", self.k, self.panels), number(self.width))
        room = number(self.memo * 8 // bits_of(self.out))
        self.fits = t.compare("icmp sle", size, room)
        if self.takes_b_as_it_is:
            self.fits = t.op("and", self.fits, t.op("xor", self.is_few, Reg("true", "i1")))
        count, used = (t.let(f"load i64, {self._tag(number(i))}, align 8", "i64", 1) for i in (0, 1))
        self.is_packed, self.place = self._find(count)
        fits_still = t.op("and", self.fits, t.compare("icmp sle", t.op("add", used, size), room))
        fits_still = t.op("and", fits_still, t.compare("icmp slt", count, number(self.entries)))
        self.when(self.is_packed, lambda: None, lambda: self._note(fits_still, count, used, size))
        fresh = t.select(fits_still, used, number(0))
        self.place = t.select(self.is_packed, self.place, fresh)

    def _find(self, count: Reg) -> tuple[Reg, Reg]:
        def entry(i: Reg, found: Sequence[Reg]) -> Sequence[Reg]:
            first = self.t.op("add", self.times(i, number(_ENTRY)), number(_FIRST_ENTRY))
            same = self.fits
            for j, value in enumerate(self._numbers_of_b()):
                held = self._held(self.t.op("add", first, number(j)))
                same = self.t.op("and", same, self.t.compare("icmp eq", held, value))
            place = self._held(self.t.op("add", first, number(_ENTRY - 1)))
            return self.t.op("or", found[0], same), self.t.select(same, place, found[1])

        start = (Reg("false", "i1"), number(0))
        is_packed, place = self.loop("entry", number(0), count, number(1), start, entry)
        return is_packed, place

    def _note(self, fits_still: Reg, count: Reg, used: Reg, size: Reg) -> None:
        """Add b to the table; one that is full, or whose panels will be overwritten, starts anew."""
        t = self.t
        at, before = (t.select(fits_still, x, number(0)) for x in (count, used))
        first = t.op("add", self.times(at, number(_ENTRY)), number(_FIRST_ENTRY))
        for j, value in enumerate((*self._numbers_of_b(), before)):
            t.line(f"store {value}, {self._tag(t.op('add', first, number(j)))}, align 8")
        entries, taken = t.op("add", at, number(1)), t.op("add", before, size)
        for j, value in enumerate((entries, taken)):
            t.line(f"store {t.select(self.fits, value, number(0))}, {self._tag(number(j))}, align 8")

    def _numbers_of_b(self) -> tuple[Reg, ...]:
        address = self.t.let("ptrtoint ptr %b to i64", "i64", 1)
        return (address, self.k, self.n, self.b_step, self.b_column)

    def _held(self, i: Reg) -> Reg:
        return self.t.let(f"load i64, {self._tag(i)}, align 8", "i64", 1)

    def _tag(self, i: Reg) -> Reg:
        return self.at(Reg("%tags", "ptr"), i, "i64")

    def _plan_rows(self) -> None:
        """m rows as blocks of 6 and then of 4; of the last block, rows behind the end repeat the last one."""
        t = self.t
        whole, rest = t.op("udiv", self.m, number(6)), t.op("urem", self.m, number(6))
        is_low = t.op("and", t.compare("icmp sgt", rest, number(0)), t.compare("icmp slt", rest, number(3)))
        splits = t.op("and", is_low, t.compare("icmp sgt", whole, number(0)))  # 6 + 1 or 2: two of 4
        fours = t.select(t.compare("icmp eq", rest, number(0)), number(0), number(1))
        fours = t.select(t.compare("icmp eq", rest, number(5)), number(0), fours)
        sixes = t.select(t.compare("icmp eq", rest, number(5)), t.op("add", whole, number(1)), whole)
        self.sixes = t.select(splits, t.op("sub", whole, number(1)), sixes)
        self.fours = t.select(splits, number(2), fours)

    def _strip(self, at: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
        """All of c, for some steps of k."""
        t = self.t
        steps = self.less(t.op("sub", self.k, at), self.share)
        a = self.at(Reg("%a", "ptr"), self.times(at, self.a_step), self.element)
        b = self.at(Reg("%b", "ptr"), self.times(at, self.b_step), self.element)
        fresh = t.compare("icmp eq", at, number(0)) if self.is_fresh else Reg("false", "i1")
        rows = self._rows_of_a(a, steps)
        place = number(0)
        if self.memo:
            before = t.op("mul", t.op("mul", at, self.panels), number(self.width))
            place = t.select(self.fits, t.op("add", self.place, before), number(0))
        strip = _Strip(rows, b, self.at(Reg("%packed", "ptr"), place, self.out), steps, fresh)
        if self.takes_b_as_it_is:
            self.when(self.is_few, lambda: self._few_rows(strip), lambda: self._all_packed(strip))
        else:
            self._all_packed(strip)
        return ()

    def _all_packed(self, strip: _Strip) -> None:
        if self.memo:
            self.when(self.is_packed, lambda: None, lambda: self._pack(strip))
        else:
            self._pack(strip)

        def panel(i: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            b = (self._panel_at(strip, i), number(self.width))
            self._rows(strip, b, self.t.op("mul", i, number(self.width)))
            return ()

        self.loop("panel", number(0), self.panels, number(1), (), panel)

    def _few_rows(self, strip: _Strip) -> None:
        """b as it is, but for the last columns: a copy would not pay."""
        t = self.t
        whole = t.op("udiv", self.n, number(self.width))

        def panel(i: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            first = t.op("mul", i, number(self.width))
            b = (self.at(strip.b, self.times(first, self.b_column), self.element), self.b_step)
            self._rows(strip, b, first)
            return ()

        self.loop("few", number(0), whole, number(1), (), panel)

        def rest(i: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            self._pack_some(strip, i)
            b = (self._panel_at(strip, i), number(self.width))
            self._rows(strip, b, t.op("mul", i, number(self.width)))
            return ()

        self.loop("few_rest", whole, self.panels, number(1), (), rest)

    def _panel_at(self, strip: _Strip, i: Reg) -> Reg:
        size = self.t.op("mul", strip.steps, number(self.width))
        return self.at(strip.packed, self.t.op("mul", i, size), self.out)

    def _rows(self, strip: _Strip, b: tuple[Reg, Reg], first: Reg) -> None:
        """All rows of a against the columns of one panel."""
        for part in self._parts():
            self._blocks(strip, b, first, part)

    def _parts(self) -> list[tuple[int, Reg, Reg]]:
        """(height, first row, end) of the blocks that cover all rows."""
        six, four = HEIGHTS
        sixes = self.t.op("mul nsw", self.sixes, number(six))
        end = self.t.op("add", sixes, self.t.op("mul nsw", self.fours, number(four)))
        return [(six, number(0), sixes), (four, sixes, end)]

    def _blocks(
        self, strip: _Strip, b: tuple[Reg, Reg], first: Reg, part: tuple[int, Reg, Reg]
    ) -> None:
        """Blocks of one height, from a row to another."""
        rows, (height, top, end) = strip.rows, part
        row, step, in_blocks = rows.row, rows.step, rows.in_blocks
        if in_blocks is not None:
            step = number(height) if self.is_narrow else self.t.select(in_blocks, number(height), step)
        symbol = self._block_function(height, step, b[1])

        def block(at: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            left = self.at(rows.base, self.times(at, row), self.out if self.is_narrow else self.element)
            if in_blocks is not None:
                packed = self.at(Reg("%copy", "ptr"), self.times(at, number(self.strip)), self.out)
                left = self.t.select(in_blocks, packed, left)
            corner = self.t.op("add", self.t.op("mul nsw", at, number(self.columns)), first)
            cells = self.at(Reg("%c", "ptr"), corner, self.out)
            last = self.t.op("sub", self.t.op("sub", self.m, number(1)), at)
            arguments = (left, row, step, last, *b, cells, strip.steps, strip.fresh)
            self.t.line(f"call void @{symbol}({', '.join(map(str, arguments))})")
            return ()

        self.loop("rows", top, end, number(height), (), block)

    # --- copies ---------------------------------------------------------------------------------

    def _pack(self, strip: _Strip) -> None:
        """All panels of a strip; several at once, so that a row of b is read in long runs."""
        whole, done = self.t.op("udiv", self.n, number(self.width)), number(0)
        for count in (_AT_ONCE, 1) if self.b_column.text == "1" else (1,):
            end = self.t.op("and", whole, number(-count))

            def some(i: Reg, _: Sequence[Reg], count: int = count) -> Sequence[Reg]:
                self._pack_whole(strip, i, count)
                return ()

            self.loop("pack", done, end, number(count), (), some)
            done = end

        def rest(i: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            self._pack_some(strip, i)
            return ()

        self.loop("pack_rest", whole, self.panels, number(1), (), rest)

    def _pack_whole(self, strip: _Strip, i: Reg, count: int) -> None:
        """Panels without an end inside, row after row."""
        first = self.t.op("mul", i, number(self.width))
        b = self.at(strip.b, self.times(first, self.b_column), self.element)
        panels = [self._panel_at(strip, self.t.op("add", i, number(p))) for p in range(count)]
        steps = strip.steps
        if self.b_column.text == "1":
            self.loop("row", number(0), steps, number(1), (), lambda i, _: self._pack_row(b, panels, i))
        elif self.b_column.text == "2":
            self.loop("row", number(0), steps, number(1), (), lambda i, _: self._pack_every_other(b, panels[0], i))
        elif self.b_step.text == "1":
            whole = self.t.op("and", steps, number(-self.wide))
            self.loop("turn", number(0), whole, number(self.wide), (), lambda i, _: self._turn(b, panels[0], i))
            self._pack_singly(b, panels[0], (whole, steps), number(self.width))
        else:
            self._pack_singly(b, panels[0], (number(0), steps), number(self.width))

    def _pack_row(self, b: Reg, panels: Sequence[Reg], i: Reg) -> Sequence[Reg]:
        source = self.at(b, self.times(i, self.b_step), self.element)
        for p, panel in enumerate(panels):
            for v in range(self.vectors):
                at = self.at(source, number(p * self.width + v * self.wide), self.element)
                self._put(panel, i, v, self._load(at, self.wide))
        return ()

    def _pack_every_other(self, b: Reg, panel: Reg, i: Reg) -> Sequence[Reg]:
        """A row of columns two apart: from pairs of vectors, of which the second ends at the last column needed."""
        source, wide = self.at(b, self.times(i, self.b_step), self.element), self.wide
        lanes = [*range(0, wide, 2), *range(wide + 1, 2 * wide, 2)]
        for v in range(self.vectors):
            starts = (2 * v * wide, 2 * v * wide + wide - 1)
            low, high = (self._load(self.at(source, number(n), self.element), wide) for n in starts)
            self._put(panel, i, v, self.t.shuffle(low, high, lanes))
        return ()

    def _put(self, panel: Reg, row: Reg, v: int, value: Reg) -> None:
        at = self.t.op("add", self.times(row, number(self.width)), number(v * self.wide))
        align = bits_of(self.out) // 8 * self.wide
        self.t.line(f"store {value}, {self.at(panel, at, self.out)}, align {align}")

    def _turn(self, b: Reg, panel: Reg, i: Reg) -> Sequence[Reg]:
        """As many steps of k as a vector has lanes, from columns in memory."""
        for v in range(self.vectors):
            lines = []
            for lane in range(self.wide):
                column = self.times(number(v * self.wide + lane), self.b_column)
                source = self.at(self.at(b, column, self.element), i, self.element)
                lines.append(self._load(source, self.wide))
            for u, line in enumerate(transpose_lanes(self.t, lines)):
                self._put(panel, self.t.op("add", i, number(u)), v, line)
        return ()

    def _pack_some(self, strip: _Strip, i: Reg) -> None:
        """The last panel: some columns and then zeros."""
        first = self.t.op("mul", i, number(self.width))
        b = self.at(strip.b, self.times(first, self.b_column), self.element)
        panel, count = self._panel_at(strip, i), self.t.op("sub", self.n, first)
        if not self.takes_b_as_it_is:
            self._pack_singly(b, panel, (number(0), strip.steps), count)
            return
        lanes = self.t.splat(count, self.wide)
        masks = []
        for v in range(self.vectors):
            ids = ", ".join(f"i64 {v * self.wide + lane}" for lane in range(self.wide))
            masks.append(self.t.compare("icmp sgt", lanes, Reg(f"<{ids}>", "i64", self.wide)))

        def row(i: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            source = self.at(b, self.times(i, self.b_step), self.element)
            for v, mask in enumerate(masks):
                at = self.at(source, number(v * self.wide), self.element)
                self._put(panel, i, v, self._masked(at, mask))
            return ()

        self.loop("pack_some", number(0), strip.steps, number(1), (), row)

    def _masked(self, at: Reg, mask: Reg) -> Reg:
        zeros = Reg("zeroinitializer", self.element, self.wide)
        return self.t.masked_load(at, bits_of(self.element) // 8, mask, zeros)

    def _pack_singly(self, b: Reg, panel: Reg, steps: tuple[Reg, Reg], count: Reg) -> None:
        def row(i: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            for v in range(self.vectors):
                self._put(panel, i, v, Reg("zeroinitializer", self.out, self.wide))
            source = self.at(b, self.times(i, self.b_step), self.element)
            target = self.at(panel, self.times(i, number(self.width)), self.out)

            def element(j: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
                value = self._load(self.at(source, self.times(j, self.b_column), self.element), 1)
                self.t.line(f"store {value}, {self.at(target, j, self.out)}")
                return ()

            self.loop("element", number(0), count, number(1), (), element)
            return ()

        self.loop("pack_singly", *steps, number(1), (), row)

    def _rows_of_a(self, a: Reg, steps: Reg) -> _Rows:
        """Rows as they are in memory, or copied where that pays."""
        t = self.t
        kept = _Rows(a, self.a_row, self.a_step)
        if self.is_narrow:
            pays = Reg("true", "i1")
        elif self.a_step.text == "1":
            return kept
        else:
            apart = t.op("and", t.op("mul", self.a_step, number(bits_of(self.element) // 8)), number(L1_WAY_NBYTES - 1))
            pays = t.compare("icmp eq", apart, number(0))
            for size, many in ((steps, _MANY_STEPS), (self.n, _MANY_COLUMNS)):
                pays = t.op("or", pays, t.compare("icmp sgt", size, number(many)))
            pays = t.op("and", pays, t.compare("icmp sgt", self.m, number(_FEW_ROWS)))
        if self.a_row.text == "1" and self.a_step.text != "1":
            self.when(pays, lambda: self._copy_steps(a, steps), lambda: None)
            return replace(kept, in_blocks=pays)
        self.when(pays, lambda: self._copy_rows(a, steps), lambda: None)
        copied = (Reg("%copy", "ptr"), number(self.strip), number(1))
        if self.is_narrow:
            return _Rows(*copied)
        kept_ones = (kept.base, kept.row, kept.step)
        return _Rows(*(t.select(pays, x, y) for x, y in zip(copied, kept_ones, strict=True)))

    def _copy_steps(self, a: Reg, steps: Reg) -> None:
        """Each block of rows for itself, step after step: a column in memory gives one step of all blocks."""
        t, copy = self.t, Reg("%copy", "ptr")
        parts = []
        for height, top, end in self._parts():
            is_whole = t.compare("icmp sle", end, self.m)
            whole = t.select(is_whole, end, t.op("sub", end, number(height)))
            parts.append((height, top, whole, self.less(end, self.m)))

        def step(k: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            column = self.at(a, self.times(k, self.a_step), self.element)
            for height, top, whole, end in parts:
                row = self.times(k, number(height))

                def block(at: Reg, _: Sequence[Reg], height: int = height, row: Reg = row) -> Sequence[Reg]:
                    place = self.at(copy, t.op("add", self.times(at, number(self.strip)), row), self.out)
                    source = self.at(column, at, self.element)
                    for first, lanes in ((0, 4), (4, height - 4)) if height > 4 else ((0, 4),):
                        self._copier(self.at(source, number(first), self.element), self.at(place, number(first), self.out), lanes)(number(0), ())
                    return ()

                self.loop("block", top, whole, number(height), (), block)
                last = self.at(copy, t.op("add", self.times(whole, number(self.strip)), row), self.out)

                def single(i: Reg, _: Sequence[Reg], whole: Reg = whole, last: Reg = last) -> Sequence[Reg]:
                    target = self.at(last, t.op("sub", i, whole), self.out)
                    self._copier(self.at(column, i, self.element), target, 1)(number(0), ())
                    return ()

                self.loop("single", whole, end, number(1), (), single)
            return ()

        self.loop("copy_steps", number(0), steps, number(1), (), step)

    def _copy_rows(self, a: Reg, steps: Reg) -> None:
        """Rows for this strip in the dtype of c, so that blocks need not convert again."""

        def row(i: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            source = self.at(a, self.times(i, self.a_row), self.element)
            target = self.at(Reg("%copy", "ptr"), self.times(i, number(self.strip)), self.out)
            whole = number(0)
            if self.a_step.text == "1":
                whole = self.t.op("and", steps, number(-self.wide))
                copy = self._copier(source, target, self.wide)
                self.loop("copy", number(0), whole, number(self.wide), (), copy)
            self.loop("copy_rest", whole, steps, number(1), (), self._copier(source, target, 1))
            return ()

        self.loop("copy_rows", number(0), self.m, number(1), (), row)

    def _copier(self, source: Reg, target: Reg, lanes: int) -> Callable[[Reg, Sequence[Reg]], Sequence[Reg]]:
        def copy(j: Reg, _: Sequence[Reg]) -> Sequence[Reg]:
            value = self._load(self.at(source, self.times(j, self.a_step), self.element), lanes)
            self.t.line(f"store {value}, {self.at(target, j, self.out)}, align {bits_of(self.out) // 8}")
            return ()

        return copy

    def _load(self, at: Reg, lanes: int) -> Reg:
        """Elements of an operand, in the dtype of c."""
        align = max(1, bits_of(self.element) // 8)
        raw = self.t.let(f"load {vector(self.element, lanes)}, {at}, align {align}", self.element, lanes)
        value = decode(self.t, raw, self.dtype)
        return value if value.element == self.out else cast(self.t, value, self.dtype, self.out_dtype)

    # --- a block of c ---------------------------------------------------------------------------

    def _block_function(self, height: int, a_step: Reg, b_step: Reg) -> str:
        """The name of the function for blocks of a height, and steps of k that may be known."""
        steps = [r if r.is_literal else Reg("x", "i64") for r in (a_step, b_step)]
        names = (height, f"{self.vectors}x{self.wide}", self.columns, *(r.text for r in steps))
        symbol = f"block_{self.out}_" + "_".join(n.replace("-", "m") for n in map(str, names))
        if symbol not in self.module.helpers:
            block = _Block(self.out, height, self.vectors, self.wide, self.columns)
            self.module.helpers[symbol] = block.function(symbol, steps, self.module)
        return symbol


class _Block(Loops):
    """A block of c that stays in registers for all steps of k."""

    def __init__(self, out: str, height: int, vectors: int, wide: int, columns: int) -> None:
        super().__init__()
        self.out, self.height, self.vectors, self.wide = out, height, vectors, wide
        self.columns = columns

    def function(self, symbol: str, known: Sequence[Reg], module: Text) -> str:
        t = self.t
        a_row, last, k = (Reg(f"%{n}", "i64") for n in ("a_row", "last", "k"))
        a_step, b_step = (
            Reg(f"%{n}", "i64") if r.text == "x" else r
            for n, r in zip(("a_step", "b_step"), known, strict=True)
        )
        a = Reg("%a", "ptr")
        rows = [a] + [
            self.at(a, self.times(self.less(number(i), last), a_row), self.out)
            for i in range(1, self.height)
        ]
        start = self._start()
        whole = t.op("and", k, number(-_UNROLL))

        def steps(count: int) -> Callable[[Reg, Sequence[Reg]], Sequence[Reg]]:
            def body(at: Reg, accs: Sequence[Reg]) -> Sequence[Reg]:
                for u in range(count):
                    step = t.op("add nsw", at, number(u)) if u else at
                    accs = self._step(rows, a_step, (Reg("%b", "ptr"), b_step), step, accs)
                return accs

            return body

        accs: Sequence[Reg] = self.loop("k", number(0), whole, number(_UNROLL), start, steps(_UNROLL))
        accs = self.loop("k_rest", whole, k, number(1), accs, steps(1))
        for cell, value in zip(self._cells(), accs, strict=True):
            t.line(f"store {value}, {cell}, align 4")
        t.line("ret void")
        module.declare_all(t.declarations)
        head = f"define internal void @{symbol}(ptr noalias readonly %a, i64 %a_row, i64 %a_step, i64 %last, ptr noalias readonly %b, i64 %b_step, ptr noalias %c, i64 %k, i1 %fresh) noinline {LOOP_FUNCTION} {{\nentry:"
        return "\n".join([head, *t.lines, "}"])

    def _cells(self) -> list[Reg]:
        places = ((i, v) for i in range(self.height) for v in range(self.vectors))
        return [self.at(Reg("%c", "ptr"), number(i * self.columns + v * self.wide), self.out) for i, v in places]

    def _start(self) -> list[Reg]:
        """What c holds, or zeros where it is fresh."""
        t, kind = self.t, vector(self.out, self.wide)
        before, load, ready = t.block, t.new_label("load"), t.new_label("ready")
        t.line(f"br i1 %fresh, label %{ready}, label %{load}")
        t.label(load)
        held = [t.let(f"load {kind}, {cell}, align 4", self.out, self.wide) for cell in self._cells()]
        t.line(f"br label %{ready}")
        t.label(ready)
        return [
            t.let(f"phi {kind} [ zeroinitializer, %{before} ], [ {h.text}, %{load} ]", self.out, self.wide)
            for h in held
        ]

    def _step(
        self, rows: Sequence[Reg], a_step: Reg, b: tuple[Reg, Reg], k: Reg, accs: Sequence[Reg]
    ) -> list[Reg]:
        base, b_step = b
        line = self.at(base, self.times(k, b_step), self.out)
        right = [self._load(self.at(line, number(v * self.wide), self.out), self.wide) for v in range(self.vectors)]
        column = self.times(k, a_step)
        new: list[Reg] = []
        for i, row in enumerate(rows):
            left = self.t.splat(self._load(self.at(row, column, self.out), 1), self.wide)
            new += [self.t.multiply_add(left, right[v], accs[i * self.vectors + v]) for v in range(self.vectors)]
        return new

    def _load(self, at: Reg, lanes: int) -> Reg:
        return self.t.let(f"load {vector(self.out, lanes)}, {at}, align 4", self.out, lanes)
