"""Bitonic sorting networks as LLVM text: elements in vector registers, and loops over memory around them.

An element is a word, or a word and another one that decides between equal words; no two elements are equal. All
comparisons put the smaller element first: the first step of a merge compares an element with its mirror image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Element = tuple[str, ...]  # the vectors that hold the words of some elements


class Network:
    """The functions that sort: `sort_chunk`, `merge_chunk` and `sort`, named after `symbol`."""

    def __init__(self, symbol: str, words: int, lanes: int, registers: int, bits: int = 64) -> None:
        self.symbol, self.words, self.lanes, self.registers = symbol, words, lanes, registers
        self.word, self.align = f"i{bits}", bits // 8
        self.vector = f"<{lanes} x {self.word}>"
        self.chunk = lanes * registers
        self.lines: list[str] = []
        self._count = 0

    def let(self, text: str) -> str:
        self._count += 1
        self.lines.append(f"  %n{self._count} = {text}")
        return f"%n{self._count}"

    # --- registers ----------------------------------------------------------------------------

    def load(self, base: str, offset: str) -> Element:
        return tuple(self.let(f"load {self.vector}, ptr {p}, align {self.align}") for p in self._places(base, offset))

    def store(self, value: Element, base: str, offset: str) -> None:
        for word, place in zip(value, self._places(base, offset), strict=True):
            self.lines.append(f"  store {self.vector} {word}, ptr {place}, align {self.align}")

    def _places(self, base: str, offset: str) -> list[str]:
        first = self.let(f"getelementptr {self.word}, ptr {base}, i64 {offset}")
        return [first] + [self.let(f"getelementptr {self.word}, ptr {first}, i64 %far")] * (self.words - 1)

    def shuffle(self, value: Element, order: Sequence[int]) -> Element:
        mask = ", ".join(f"i32 {i}" for i in order)
        return tuple(self.let(f"shufflevector {self.vector} {w}, {self.vector} poison, <{self.lanes} x i32> <{mask}>") for w in value)

    def reverse(self, value: Element) -> Element:
        return self.shuffle(value, range(self.lanes - 1, -1, -1))

    def exchange(self, a: Element, b: Element) -> tuple[Element, Element]:
        """The smaller and the larger elements of two registers."""
        if self.words == 1:
            low, high = (self.let(f"call {self.vector} @llvm.{op}.v{self.lanes}{self.word}({self.vector} {a[0]}, {self.vector} {b[0]})") for op in ("smin", "smax"))
            return (low,), (high,)
        swaps = self._is_after(a, b)
        return self._select(swaps, b, a), self._select(swaps, a, b)

    def exchange_lanes(self, a: Element, distance: int) -> Element:
        """Lanes compared with lane ^ distance; the lower of two lanes keeps the smaller element."""
        top = 1 << distance.bit_length() - 1
        is_high = [bool(lane & top) for lane in range(self.lanes)]
        b = self.shuffle(a, [lane ^ distance for lane in range(self.lanes)])
        if self.words == 1:
            low, high = self.exchange(a, b)
            order = ", ".join(f"i32 {lane + self.lanes * up}" for lane, up in enumerate(is_high))
            return (self.let(f"shufflevector {self.vector} {low[0]}, {self.vector} {high[0]}, <{self.lanes} x i32> <{order}>"),)
        flags = ", ".join(f"i1 {'true' if up else 'false'}" for up in is_high)
        takes = self.let(f"xor <{self.lanes} x i1> {self._is_after(a, b)}, <{flags}>")
        return self._select(takes, b, a)

    def _is_after(self, a: Element, b: Element) -> str:
        """Whether elements of `a` belong behind those of `b`."""
        after, ties, later = (
            self.let(f"icmp {op} {self.vector} {x}, {y}") for op, x, y in (("sgt", a[0], b[0]), ("eq", a[0], b[0]), ("sgt", a[1], b[1]))
        )
        lanes = f"<{self.lanes} x i1>"
        return self.let(f"or {lanes} {after}, {self.let(f'and {lanes} {ties}, {later}')}")

    def _select(self, flags: str, a: Element, b: Element) -> Element:
        return tuple(self.let(f"select <{self.lanes} x i1> {flags}, {self.vector} {x}, {self.vector} {y}") for x, y in zip(a, b, strict=True))

    # --- a chunk in registers -----------------------------------------------------------------

    def _mirror(self, rows: list[Element], size: int) -> None:
        """Compare each element with its mirror image in runs of `size` elements."""
        if size <= self.lanes:
            rows[:] = [self.exchange_lanes(row, size - 1) for row in rows]
            return
        flip = size // self.lanes - 1
        for i in range(len(rows)):
            if i < i ^ flip:
                rows[i], high = self.exchange(rows[i], self.reverse(rows[i ^ flip]))
                rows[i ^ flip] = self.reverse(high)

    def _merge(self, rows: list[Element], distance: int) -> None:
        """Sort runs of 2 * distance elements, whose halves are the smaller and the larger ones of them, half by half."""
        while distance >= 1:
            if distance < self.lanes:
                rows[:] = [self.exchange_lanes(row, distance) for row in rows]
            else:
                step = distance // self.lanes
                for i in range(len(rows)):
                    if not i & step:
                        rows[i], rows[i + step] = self.exchange(rows[i], rows[i + step])
            distance //= 2

    def _on_chunk(self, name: str, work: Callable[[list[Element]], None]) -> None:
        self.lines.append(f"define internal void @{self.symbol}_{name}(ptr %p, i64 %far) noinline nounwind {{")
        rows = [self.load("%p", str(i * self.lanes)) for i in range(self.registers)]
        work(rows)
        for i, row in enumerate(rows):
            self.store(row, "%p", str(i * self.lanes))
        self.lines += ["  ret void", "}"]

    def _sort_rows(self, rows: list[Element]) -> None:
        size = 2
        while size <= self.chunk:
            self._mirror(rows, size)
            self._merge(rows, size // 4)
            size *= 2

    # --- memory -------------------------------------------------------------------------------

    def text(self) -> str:
        """All functions; `sort` sorts `n` elements, which is a power of two and a multiple of a chunk."""
        self._on_chunk("sort_chunk", self._sort_rows)
        self._on_chunk("merge_chunk", lambda rows: self._merge(rows, self.chunk // 2))
        self._pass("mirror", self._mirror_step)
        self._pass("part", self._part_step)
        self.lines.append(_SORT.format(symbol=self.symbol, word=self.word, chunk=self.chunk, twice=2 * self.chunk))
        return "\n".join(self.lines)

    def _pass(self, name: str, step: Callable[[], None]) -> None:
        """A loop over the first half of a run of `%size` elements."""
        self.lines += [
            f"define internal void @{self.symbol}_{name}(ptr %p, i64 %far, i64 %size) noinline nounwind {{",
            "entry:", "  %half = lshr i64 %size, 1", "  br label %loop", "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        ]  # fmt: skip
        step()
        self.lines += [
            f"  %next = add i64 %i, {self.lanes}", "  %more = icmp slt i64 %next, %half",
            "  br i1 %more, label %loop, label %done", "done:", "  ret void", "}",
        ]  # fmt: skip

    def _mirror_step(self) -> None:
        mirrored = self.let(f"sub i64 {self.let(f'sub i64 %size, {self.lanes}')}, %i")
        low, high = self.exchange(self.load("%p", "%i"), self.reverse(self.load("%p", mirrored)))
        self.store(low, "%p", "%i")
        self.store(self.reverse(high), "%p", mirrored)

    def _part_step(self) -> None:
        other = self.let("add i64 %i, %half")
        low, high = self.exchange(self.load("%p", "%i"), self.load("%p", other))
        self.store(low, "%p", "%i")
        self.store(high, "%p", other)


# sort(p, n): chunks, then runs of 2, 4, ... chunks. merge(p, n): a run whose halves are the smaller and the larger elements.
_SORT = """\
define internal void @{symbol}_merge(ptr %p, i64 %far, i64 %n) noinline nounwind {{
entry:
  br label %sizes
sizes:
  %size = phi i64 [ %n, %entry ], [ %smaller, %parted ]
  %is_large = icmp sgt i64 %size, {chunk}
  br i1 %is_large, label %run, label %chunks
run:
  %i = phi i64 [ 0, %sizes ], [ %next, %run ]
  %q = getelementptr {word}, ptr %p, i64 %i
  call void @{symbol}_part(ptr %q, i64 %far, i64 %size)
  %next = add i64 %i, %size
  %more = icmp slt i64 %next, %n
  br i1 %more, label %run, label %parted
parted:
  %smaller = lshr i64 %size, 1
  br label %sizes
chunks:
  %j = phi i64 [ 0, %sizes ], [ %next_j, %chunks ]
  %r = getelementptr {word}, ptr %p, i64 %j
  call void @{symbol}_merge_chunk(ptr %r, i64 %far)
  %next_j = add i64 %j, {chunk}
  %more_j = icmp slt i64 %next_j, %n
  br i1 %more_j, label %chunks, label %done
done:
  ret void
}}
define internal void @{symbol}_sort(ptr %p, i64 %far, i64 %n) noinline nounwind {{
entry:
  br label %chunks
chunks:
  %j = phi i64 [ 0, %entry ], [ %next_j, %chunks ]
  %r = getelementptr {word}, ptr %p, i64 %j
  call void @{symbol}_sort_chunk(ptr %r, i64 %far)
  %next_j = add i64 %j, {chunk}
  %more_j = icmp slt i64 %next_j, %n
  br i1 %more_j, label %chunks, label %sizes
sizes:
  %size = phi i64 [ {twice}, %chunks ], [ %larger, %merged ]
  %is_small = icmp sle i64 %size, %n
  br i1 %is_small, label %run, label %done
run:
  %i = phi i64 [ 0, %sizes ], [ %next, %run ]
  %q = getelementptr {word}, ptr %p, i64 %i
  call void @{symbol}_mirror(ptr %q, i64 %far, i64 %size)
  %half = lshr i64 %size, 1
  call void @{symbol}_merge(ptr %q, i64 %far, i64 %half)
  %second = getelementptr {word}, ptr %q, i64 %half
  call void @{symbol}_merge(ptr %second, i64 %far, i64 %half)
  %next = add i64 %i, %size
  %more = icmp slt i64 %next, %n
  br i1 %more, label %run, label %merged
merged:
  %larger = shl i64 %size, 1
  br label %sizes
done:
  ret void
}}"""
