"""Convolutions as users write them: one output channel per program, by rows, by a flat index, by tiles, tap by tap."""

from __future__ import annotations

import eas
from eas import mk


def summed(acc, x, w, place, sizes, SIZE):
    """The products of all channels and taps, added up: of image n, output channel o, at the rows r and columns c."""
    (n, o, r, c), (C, H, W) = place, sizes
    for ci in range(C):
        for i in mk.static_range(SIZE):
            for j in mk.static_range(SIZE):
                row, col = r + i - SIZE // 2, c + j - SIZE // 2
                inside = (row >= 0) & (row < H) & (col >= 0) & (col < W)
                acc += mk.load(x, ((n * C + ci) * H + row) * W + col, inside, 0.0) * mk.load(w, ((o * C + ci) * SIZE + i) * SIZE + j)
    return acc


@eas.kernel
def rows(x, w, y, C, H, W, OUT, SIZE: eas.constexpr, BLOCK: eas.constexpr):
    r, o, n = mk.program_id(0), mk.program_id(1), mk.program_id(2)
    c = mk.arange(0, BLOCK)
    acc = mk.zeros([BLOCK], mk.f32)
    acc = summed(acc, x, w, (n, o, r, c), (C, H, W), SIZE)
    mk.store(y, ((n * OUT + o) * H + r) * W + c, acc, c < W)


@eas.kernel
def loops(x, w, y, C, H, W, OUT, SIZE, BLOCK: eas.constexpr):
    r, o, n = mk.program_id(0), mk.program_id(1), mk.program_id(2)
    c = mk.arange(0, BLOCK)
    acc = mk.zeros([BLOCK], mk.f32)
    for ci in range(C):
        for i in range(SIZE):
            for j in range(SIZE):
                row, col = r + i - SIZE // 2, c + j - SIZE // 2
                inside = (row >= 0) & (row < H) & (col >= 0) & (col < W)
                acc += mk.load(x, ((n * C + ci) * H + row) * W + col, inside, 0.0) * mk.load(w, ((o * C + ci) * SIZE + i) * SIZE + j)
    mk.store(y, ((n * OUT + o) * H + r) * W + c, acc, c < W)


@eas.kernel
def flat(x, w, y, C, H, W, OUT, SIZE: eas.constexpr, BLOCK: eas.constexpr):
    o, n = mk.program_id(1), mk.program_id(2)
    p = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    r, c = p // W, p % W
    acc = mk.zeros([BLOCK], mk.f32)
    acc = summed(acc, x, w, (n, o, r, c), (C, H, W), SIZE)
    mk.store(y, (n * OUT + o) * H * W + p, acc, p < H * W)


@eas.kernel
def tiles(x, w, y, C, H, W, OUT, SIZE: eas.constexpr, BM: eas.constexpr, BN: eas.constexpr):
    across = mk.cdiv(W, BN)
    tile, o, n = mk.program_id(0), mk.program_id(1), mk.program_id(2)
    rs, cs = tile // across * BM + mk.arange(0, BM)[:, None], tile % across * BN + mk.arange(0, BN)[None, :]
    acc = mk.zeros([BM, BN], mk.f32)
    acc = summed(acc, x, w, (n, o, rs, cs), (C, H, W), SIZE)
    mk.store(y, ((n * OUT + o) * H + rs) * W + cs, acc, (rs < H) & (cs < W))


@eas.kernel
def depthwise(x, w, y, C, H, W, SIZE: eas.constexpr, BLOCK: eas.constexpr):
    ch, n = mk.program_id(1), mk.program_id(2)
    p = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    r, c = p // W, p % W
    acc = mk.zeros([BLOCK], mk.f32)
    for i in mk.static_range(SIZE):
        for j in mk.static_range(SIZE):
            row, col = r + i - SIZE // 2, c + j - SIZE // 2
            inside = (row >= 0) & (row < H) & (col >= 0) & (col < W)
            acc += mk.load(x, ((n * C + ch) * H + row) * W + col, inside, 0.0) * mk.load(w, (ch * SIZE + i) * SIZE + j)
    mk.store(y, (n * C + ch) * H * W + p, acc, p < H * W)
