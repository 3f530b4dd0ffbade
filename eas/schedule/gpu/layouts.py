"""Layouts: which thread holds which elements of a block in which registers, as linear maps over GF(2).

A thread (lane l of simdgroup s) holds in its register r the element

    e(r, l, s) = xor of register[k], lane[k], simdgroup[k] over the set bits k of r, l and s.

Elements are numbered row-major in the *padded* shape (every extent rounded up to a power of two), so
an element number is its coordinates written bit by bit one after the other. A column of 0 is
replication: that bit does not change the element. Reshape, permute, reduce, join and split only edit
columns, and one small solve says how a block gets from one layout to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from eas.base.types import Shape
from eas.ir import Region, Value, walk

LANE_BITS = 5  # a simdgroup has 32 lanes

Columns = tuple[int, ...]


def bits_of(extent: int) -> int:
    """Bits that count to `extent`: log2, rounded up."""
    return (extent - 1).bit_length()


@dataclass(frozen=True)
class Term:
    """A part of a coordinate: ((thread >> shift) & mask) * scale; terms are combined by xor."""

    shift: int
    mask: int
    scale: int


@dataclass(frozen=True)
class Layout:
    """A block of `shape` spread over registers and threads; see the head of this file."""

    shape: Shape
    register: Columns
    lane: Columns
    simdgroup: Columns

    def __post_init__(self) -> None:
        size = 1 << sum(self.axis_bits)
        columns = (*self.register, *self.lane, *self.simdgroup)
        assert all(0 <= c < size for c in columns), f"a column leaves the block: {self}"
        assert len(_Basis(columns)) == sum(self.axis_bits), f"an element has no place: {self}"
        assert len(self.lane) <= LANE_BITS
        assert not self.simdgroup or len(self.lane) == LANE_BITS

    @cached_property
    def axis_bits(self) -> tuple[int, ...]:
        return tuple(bits_of(extent) for extent in self.shape)

    @cached_property
    def axis_shifts(self) -> tuple[int, ...]:
        """Where the bits of each axis start in an element number."""
        return tuple(sum(self.axis_bits[axis + 1:]) for axis in range(len(self.shape)))

    @property
    def padded(self) -> Shape:
        return tuple(1 << bits for bits in self.axis_bits)

    @property
    def thread(self) -> Columns:
        """The columns of the bits of 32 * simdgroup + lane."""
        return self.lane + self.simdgroup

    @property
    def threads(self) -> int:
        return 1 << len(self.thread)

    @property
    def num_registers(self) -> int:
        return 1 << len(self.register)

    @property
    def replicated_threads(self) -> int:
        """Bits of the thread number that do not matter: effects run where they are all 0."""
        return sum(1 << k for k, column in enumerate(self.thread) if not column)

    @property
    def is_permutation(self) -> bool:
        """Whether columns are single bits, each at most once: then xor is addition."""
        used = [c for c in (*self.register, *self.thread) if c]
        return all(c & (c - 1) == 0 for c in used) and len(set(used)) == len(used)

    # What it maps

    def elements(self) -> np.ndarray:
        """[registers, threads]: the padded element number."""
        return np.asarray(_span(self.register)[:, None] ^ _span(self.thread)[None, :])

    def coordinates(self) -> np.ndarray:
        """[rank, registers, threads]: the coordinates of each element; some leave the shape."""
        elements = self.elements()
        axes = [(elements >> s) & ((1 << b) - 1) for s, b in zip(self.axis_shifts, self.axis_bits, strict=True)]
        return np.stack(axes) if axes else np.zeros((0, *elements.shape), np.int64)

    def is_inside(self) -> np.ndarray:
        """bool [registers, threads]: whether the element exists in the shape that is not padded."""
        extents = np.asarray(self.shape, np.int64).reshape(-1, 1, 1)
        return np.asarray((self.coordinates() < extents).all(axis=0))

    def coordinate(self, element: int) -> tuple[int, ...]:
        """The coordinates of one padded element number."""
        return tuple((element >> s) & ((1 << b) - 1) for s, b in zip(self.axis_shifts, self.axis_bits, strict=True))

    def register_coordinates(self, axis: int) -> tuple[int, ...]:
        """What each register adds (xors) to the coordinate on an axis."""
        return tuple(self.coordinate(int(e))[axis] for e in _span(self.register))

    def thread_terms(self, axis: int) -> tuple[Term, ...]:
        """The coordinate on an axis of register 0, from the thread number; neighbouring bits in one term."""
        terms: list[Term] = []
        for k, column in enumerate(self.thread):
            part = self.coordinate(column)[axis]
            if not part:
                continue
            if terms:
                last = terms[-1]
                width = last.mask.bit_length()
                is_bit = part & (part - 1) == 0  # a product of several bits would carry
                if is_bit and last.shift + width == k and last.scale << width == part:
                    terms[-1] = Term(last.shift, last.mask << 1 | 1, last.scale)
                    continue
            terms.append(Term(k, 1, part))
        return tuple(terms)

    # Edits of the basis

    def _edited(self, shape: Shape, edit: Iterable[int]) -> Layout:
        """The same columns with new values, register bits first."""
        columns = tuple(edit)
        registers, lanes = len(self.register), len(self.register) + len(self.lane)
        return Layout(shape, columns[:registers], columns[registers:lanes], columns[lanes:])

    @property
    def _columns(self) -> Columns:
        return self.register + self.thread

    def reduced(self, axis: int) -> Layout:
        """Without an axis; registers that then hold the same element become one, threads keep a copy."""
        low = self.axis_shifts[axis]
        high = low + self.axis_bits[axis]
        shape = self.shape[:axis] + self.shape[axis + 1:]

        def drop(column: int) -> int:
            return (column >> high << low) | (column & ((1 << low) - 1))

        register = _independent(drop(c) for c in self.register)
        return Layout(shape, register, tuple(map(drop, self.lane)), tuple(map(drop, self.simdgroup)))

    def expanded(self, axis: int) -> Layout:
        """With a new axis of extent 1 at `axis`."""
        return Layout((*self.shape[:axis], 1, *self.shape[axis:]), self.register, self.lane, self.simdgroup)

    def permuted(self, order: Sequence[int]) -> Layout:
        """Axis i of the result is axis order[i]."""
        shape = tuple(self.shape[i] for i in order)
        bits = [self.axis_bits[i] for i in order]

        def permute(column: int) -> int:
            parts = self.coordinate(column)
            return _joined_bits([parts[i] for i in order], bits)

        return self._edited(shape, map(permute, self._columns))

    def reshaped(self, shape: Shape) -> Layout | None:
        """The same elements in row-major order; None where extents that are no powers of two move."""
        return self._edited(shape, self._columns) if reshape_keeps_bits(self.shape, shape) else None

    def joined(self) -> Layout:
        """Of `join(a, b)` for blocks in this layout: register bit 0 chooses between a and b."""
        wider = tuple(c << 1 for c in self._columns)
        registers, lanes = len(self.register), len(self.register) + len(self.lane)
        return Layout((*self.shape, 2), (1, *wider[:registers]), wider[registers:lanes], wider[lanes:])

    def split(self) -> Layout:
        """Of both results of `split`: without the last axis, which has two elements."""
        assert self.shape[-1] == 2
        return self.reduced(len(self.shape) - 1)

    def local_registers(self, elements: np.ndarray) -> tuple[int, ...] | None:
        """For wanted elements [n, threads]: the register that holds row i on every thread; None if some thread lacks it."""
        held = self.elements()
        found: list[int] = []
        for row in elements:
            hits = np.flatnonzero((held == row[None, :]).all(axis=1))
            if not hits.size:
                return None
            found.append(int(hits[0]))
        return tuple(found)

    # How people read it

    def _names(self, columns: Columns) -> str:
        return " ".join("(" + ",".join(map(str, self.coordinate(c))) + ")" if c else "-" for c in columns)

    def __str__(self) -> str:
        parts = (("register", self.register), ("lane", self.lane), ("simdgroup", self.simdgroup))
        text = "; ".join(f"{name} {self._names(columns)}" for name, columns in parts if columns)
        return f"[{','.join(map(str, self.shape))}] {text or 'one thread'}"

    def describe(self) -> str:
        """One line per axis: how a coordinate comes from the thread number t and the register."""
        head = f"{list(self.shape)} on {self.threads} threads, {self.num_registers} registers each"
        if self.replicated_threads:
            head += f", {1 << self.replicated_threads.bit_count()} copies"
        lines = [head]
        for axis in range(len(self.shape)):
            terms = [_term_text(t, len(self.thread)) for t in self.thread_terms(axis)]
            added = sorted(set(self.register_coordinates(axis)))
            if added != [0]:
                terms.append("{" + ", ".join(map(str, added)) + "}")
            lines.append(f"  axis {axis}: " + (" + ".join(terms) or "0"))
        return "\n".join(lines)


def _term_text(term: Term, thread_bits: int) -> str:
    text = f"(t >> {term.shift})" if term.shift else "t"
    if term.mask.bit_length() + term.shift < thread_bits:
        text = f"({text} & {term.mask})"
    return f"{text} * {term.scale}" if term.scale > 1 else text


def reshape_keeps_bits(old: Shape, new: Shape) -> bool:
    """Whether a row-major reshape keeps padded element numbers.

    The axes are cut into groups of equal size, from the last on. Inside a group only the first
    extent may be no power of two: then the padded number is the true row-major number.
    """
    i, j = len(old), len(new)
    while i or j:
        i, j, left, right = i - 1, j - 1, old[i - 1] if i else 1, new[j - 1] if j else 1
        i, j = max(i, 0), max(j, 0)
        if left == right:
            continue
        while left != right:
            inner = min(left, right)
            if inner & (inner - 1):
                return False
            if left < right:
                if not i:
                    return False
                i, left = i - 1, left * old[i - 1]
            else:
                if not j:
                    return False
                j, right = j - 1, right * new[j - 1]
    return True


# Constructors


def blocked(shape: Shape, threads: int, vector: int = 1, order: Sequence[int] | None = None) -> Layout:
    """Neighbours along order[0] (the last axis): `vector` in a thread, then lanes, simdgroups, the other registers."""
    axes = tuple(order) if order is not None else tuple(reversed(range(len(shape))))
    columns = _unit_columns(shape, axes)
    thread_bits = bits_of(threads)
    vector_bits = min(bits_of(vector), max(0, len(columns) - thread_bits))
    inner, rest = columns[:vector_bits], columns[vector_bits:]
    return _assembled(shape, inner + rest[thread_bits:], rest[:thread_bits], thread_bits)


def contiguous(shape: Shape, threads: int, axis: int) -> Layout:
    """A thread owns a run along `axis`, and as much of it as there are registers; the next run is the next lane's."""
    axes = (axis, *(a for a in reversed(range(len(shape))) if a != axis))
    columns = _unit_columns(shape, axes)
    thread_bits = bits_of(threads)
    run = min(bits_of(shape[axis]), max(0, len(columns) - thread_bits))
    inner, rest = columns[:run], columns[run:]
    return _assembled(shape, inner + rest[thread_bits:], rest[:thread_bits], thread_bits)


def scan_layouts(body: Region, threads: int) -> dict[Value, Layout]:
    """Blocks that are only made to be scanned are best made in the scan's layout."""
    return {
        operand: contiguous(operand.shape, threads, inst["axis"] % len(operand.shape))
        for inst in walk(body)
        if inst.op.name == "scan"
        for operand in inst.operands
    }


FRAGMENT = 8  # a simdgroup matrix has 8 x 8 elements, two per lane
# Row and column of the first element of lane l: ((l >> 4 & 1) * 4 + (l >> 1 & 3), (l >> 3 & 1) * 4 + (l & 1) * 2)
_FRAGMENT_LANES = ((0, 2), (1, 0), (2, 0), (0, 4), (4, 0))


def fragment(shape: Shape, simdgroups_m: int, simdgroups_n: int, threads: int | None = None) -> Layout:
    """Simdgroup matrices over the last two axes: register ((batch * tiles_m + i) * tiles_n + j) * 2 + element.

    A simdgroup owns a rectangle of tiles, simdgroup number m * simdgroups_n + n; simdgroups past
    these hold copies. Earlier axes are registers.
    """
    *batch, m, n = shape
    bits_m, bits_n = bits_of(m), bits_of(n)
    split_m, split_n = bits_of(simdgroups_m), bits_of(simdgroups_n)
    assert bits_m - 3 >= split_m, f"{m} rows are too few for {simdgroups_m} simdgroups"
    assert bits_n - 3 >= split_n, f"{n} columns are too few for {simdgroups_n} simdgroups"
    row = [1 << bits_n + k for k in range(bits_m)]
    column = [1 << k for k in range(bits_n)]
    lane = tuple((r << bits_n) | c for r, c in _FRAGMENT_LANES)
    first_m, first_n = bits_m - split_m, bits_n - split_n
    outer = [1 << bits_m + bits_n + k for k in range(sum(map(bits_of, batch)))]
    register = (1, *column[3:first_n], *row[3:first_m], *outer)
    simdgroup = (*column[first_n:], *row[first_m:])
    spare = 0 if threads is None else bits_of(threads) - LANE_BITS - len(simdgroup)
    assert spare >= 0, f"{threads} threads are too few for {simdgroups_m} x {simdgroups_n} simdgroups"
    return Layout(shape, register, lane, simdgroup + (0,) * spare)


def _unit_columns(shape: Shape, axes: Sequence[int]) -> Columns:
    """The single bits of an element number, those of axes[0] first."""
    bits = [bits_of(extent) for extent in shape]
    return tuple(1 << sum(bits[a + 1:]) + k for a in axes for k in range(bits[a]))


def _assembled(shape: Shape, register: Columns, thread: Columns, thread_bits: int) -> Layout:
    thread = thread + (0,) * (thread_bits - len(thread))
    return Layout(shape, register, thread[:LANE_BITS], thread[LANE_BITS:])


# Conversions


@dataclass(frozen=True)
class Conversion:
    """How a block gets from one layout into another.

    registers: register r of the target is register `registers[r]` of the source, in the same thread.
    shuffle: it is read from the lane that xors `lanes[k]` over the set bits k of the own lane,
    `simdgroups[k]` over those of the simdgroup number, and `register_lanes[r]`.
    threadgroup: through memory, by element number.
    """

    kind: Literal["registers", "shuffle", "threadgroup"]
    registers: tuple[int, ...] = ()
    lanes: Columns = ()
    simdgroups: Columns = ()
    register_lanes: tuple[int, ...] = ()

    @property
    def is_xor(self) -> bool:
        """Whether register r comes from lane (own lane ^ register_lanes[r])."""
        return self.lanes == tuple(1 << k for k in range(len(self.lanes))) and not any(self.simdgroups)


def conversion(source: Layout, target: Layout) -> Conversion:
    """The cheapest way from `source` to `target`, two layouts of one shape over the same threads."""
    assert source.padded == target.padded, f"{source} and {target}"
    assert len(source.lane) == len(target.lane), f"{source} and {target}"
    assert len(source.simdgroup) == len(target.simdgroup), f"{source} and {target}"
    by_lane = _Basis(source.lane)
    everywhere = _Basis((*source.register, *source.lane))
    lanes = [1 << k if a == b else by_lane.solve(b) for k, (a, b) in enumerate(zip(source.lane, target.lane, strict=True))]
    groups = [by_lane.solve(a ^ b) for a, b in zip(source.simdgroup, target.simdgroup, strict=True)]
    places = [everywhere.solve(c) for c in target.register]
    if any(x is None for x in (*lanes, *groups, *places)):
        return Conversion("threadgroup")
    width = len(source.register)
    sources = _span(tuple(p or 0 for p in places))
    found = Conversion(
        "shuffle",
        tuple(int(p) & ((1 << width) - 1) for p in sources),
        tuple(x or 0 for x in lanes),
        tuple(x or 0 for x in groups),
        tuple(int(p) >> width for p in sources),
    )
    if found.is_xor and not any(found.register_lanes):
        return Conversion("registers", found.registers)
    return found


class _Basis:
    """Columns in reduced form, each with the set of given columns that it is the xor of."""

    def __init__(self, columns: Sequence[int]) -> None:
        self.rows: dict[int, tuple[int, int]] = {}  # highest bit -> value, set of columns
        for k, column in enumerate(columns):
            value, used = self._reduce(column)
            if value:
                self.rows[value.bit_length()] = (value, used | 1 << k)

    def __len__(self) -> int:
        return len(self.rows)

    def _reduce(self, value: int) -> tuple[int, int]:
        used = 0
        for high in sorted(self.rows, reverse=True):
            row, members = self.rows[high]
            if value >> (high - 1) & 1:
                value, used = value ^ row, used ^ members
        return value, used

    def solve(self, wanted: int) -> int | None:
        """The set of columns (a bit each) whose xor is `wanted`."""
        rest, used = self._reduce(wanted)
        return None if rest else used


def _independent(columns: Iterable[int]) -> Columns:
    """Without the columns that earlier ones already make."""
    kept: tuple[int, ...] = ()
    for column in columns:
        if len(_Basis((*kept, column))) > len(kept):
            kept += (column,)
    return kept


def _span(columns: Columns) -> np.ndarray:
    """[2 ** n]: the xor of the columns that each number's bits choose."""
    found = np.zeros(1, np.int64)
    for column in columns:
        found = np.concatenate([found, found ^ column])
    return found


def _joined_bits(parts: Sequence[int], bits: Sequence[int]) -> int:
    number = 0
    for part, width in zip(parts, bits, strict=True):
        number = number << width | part
    return number
