"""Block shapes as classes of extents: few of them, so that many sizes share a kernel."""

from __future__ import annotations

from typing import NamedTuple

from eas.lazy.lower import Program
from eas.runtime.native.host_cpu import num_threads
from eas.runtime.native.host_target import host_caches

FLAT = (256, 4096)
INNER = (16, 64, 256, 1024, 4096)
SHORT_ROW = 256
METAL_ROW = 8192
DOT = (64, 64, 128)
METAL_DOT = (64, 64, 32)
ROWS_DOT = (256, 256, 256)
"""Of a product that first reduces the rows of an operand: each tile does so again."""


class Shape(NamedTuple):
    """How a program of a kernel is shaped; every field is compiled for."""

    form: str
    """flat, rows, tiles of a map; whole, steps, columns of a reduction; dot."""
    blocks: tuple[int, ...]
    turned: tuple[bool, ...] = ()
    """Operands of a product that are read along their other axis."""


def power_of_2(n: int) -> int:
    """The smallest one that is not below n."""
    return 1 << max(0, (n - 1).bit_length())


def _class(n: int, classes: tuple[int, ...]) -> int:
    return next((c for c in classes if n <= c), classes[-1])


def longest_row(is_metal: bool) -> int:
    """Elements of a row that stays in one block."""
    return METAL_ROW if is_metal else 1 << ((host_caches().l2 // 32).bit_length() - 1)


def turned_edge(n: int) -> int:
    """Edge of a tile of which one side is read along the other axis: a quarter of L2 in f32, or less of a short one."""
    return _class(n, (64, 1 << ((host_caches().l2 // 16).bit_length() - 1) // 2))


def shape_of(program: Program, is_metal: bool) -> Shape:
    """The block shape of a program on a device."""
    if program.template == "tile":
        return _dot_shape(program, is_metal)
    if program.template == "map":
        return _map_shape(program, is_metal)
    return _rows_shape(program, is_metal)


def _map_shape(program: Program, is_metal: bool) -> Shape:
    sizes = [a.size for a in program.axes]
    if len(sizes) == 1:
        return Shape("flat", (_class(sizes[0], FLAT),))
    if any(s[-2] == 1 and s[-1] not in (0, 1) for s in program.strides):
        return Shape("tiles", (32, 32) if is_metal else (turned_edge(sizes[-2]), turned_edge(sizes[-1])))
    inner = _class(sizes[-1], INNER)
    rows = min(4096 // inner, _class(sizes[-2], (1, 4, 16, 64, 256))) if is_metal else 1
    return Shape("rows", (inner,)) if rows == 1 else Shape("tiles", (rows, inner))


def _rows_shape(program: Program, is_metal: bool) -> Shape:
    kept = [i for i, a in enumerate(program.axes) if a.tag == "k"]
    reduced = [i for i, a in enumerate(program.axes) if a.tag == "r"]
    along, across = reduced[-1], kept[-1]
    n = program.axes[along].size
    by_row = sum([s[along] == 1 for s in program.strides])
    by_column = sum([s[across] == 1 and s[along] not in (0, 1) for s in program.strides])
    if program.template != "scan" and by_column > by_row:
        return Shape("columns", (_class(program.axes[across].size, (64, 512)),))
    longest = longest_row(is_metal)
    if n > longest or len(reduced) > 1:
        return Shape("steps", (min(max(16, power_of_2(n)), 4096),))
    block = max(16, power_of_2(n))
    if is_metal and block <= SHORT_ROW and program.axes[across].size > 1:
        return Shape("whole", (max(1, 1024 // block), block))
    return Shape("whole", (block,))


def _even(extent: int, largest: int, step: int) -> int:
    """A multiple of `step` near `largest` that leaves little of the last tile empty."""
    share = -(-extent // -(-extent // largest))
    return -(-share // step) * step


def _dot_shape(program: Program, is_metal: bool) -> Shape:
    m, n, k = (next(a.size for a in reversed(program.axes) if a.tag == tag) for tag in "mnr")
    bm, bn, bk = METAL_DOT if is_metal else DOT
    if not is_metal and any(inst[0] == "reduce" for inst in program.instructions):
        bm, bn, bk = ROWS_DOT
    programs = 4 * num_threads()
    while bm > 32 and -(-m // bm) * -(-n // bn) < programs:
        bm, bn = (bm // 2, bn) if bm >= bn else (bm, bn // 2)
    rows, columns, inner = (max(i for i, a in enumerate(program.axes) if a.tag == tag) for tag in "mnr")
    turned = (any(s[rows] == 1 and s[inner] > 1 for s in program.strides), any(s[inner] == 1 and s[columns] > 1 for s in program.strides))
    return Shape("dot", (_even(m, bm, 4), _even(n, bn, 16), _even(k, bk, 16)), turned)
