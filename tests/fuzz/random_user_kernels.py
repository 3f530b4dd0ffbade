"""Random kernels as users write them: flat and tiled elementwise, rows in pieces, folds of tiles, matrix products, convolutions.

Their shapes are the ones that a schedule has special code for. Numbers are small integers, so that sums are exact in any order.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
FLOATS = ("float32", "float32", "float32", "float16", "float64")
SIZES = (0, 1, 7, 31, 64, 100, 129, 256, 1000, 1031)
BLOCKS = (16, 32, 64, 128, 256, 1024)


@dataclass
class UserKernel:
    """The text of a kernel named `kernel`, and one launch of it."""

    source: str
    args: list[Any]
    meta: dict[str, int]
    grid: tuple[int, ...]
    sizes: str = ""
    """Names of arguments that may be any smaller number: the memory of the others is large enough."""

    def smaller(self, count: int) -> Iterator[list[Any]]:
        """Arguments of launches that the same code serves: sizes that end elsewhere in a vector."""
        draw, names = random.Random(len(self.source)), re.findall(r"(\w+)[,:]", self.source.partition("):")[0])
        places = [k for k, name in enumerate(names) if name in self.sizes.split() and self.args[k] > 16]
        for _ in range(count if places else 0):
            args = list(self.args)
            for k in places:
                # Neither a number that code is made for, nor another answer to whether 16 divides it.
                step = 16 if args[k] % 16 == 0 else 1
                args[k] = draw.choice([n for n in range(16 if step == 16 else 5, args[k] + 1, step) if step == 16 or n % 16])
            yield args


class Writer:
    """One random choice after the other, and the memory that the kernel's indices need."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.data = np.random.default_rng(seed)

    def pick(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def chance(self, p: float = 0.5) -> bool:
        return self.rng.random() < p

    def array(self, size: int, dtype: str, low: int = -4, high: int = 5) -> Any:
        """Small integers, at an address that is aligned to the element only."""
        first = self.pick(0, 0, 1, 3)
        low = 0 if dtype.startswith("u") else low
        return self.data.integers(low, high, size + first).astype(dtype)[first:]

    def expression(self, names: list[str], depth: int = 2) -> str:
        if depth == 0 or self.chance(0.2):
            return self.pick(*names)
        a, b = self.expression(names, depth - 1), self.pick(self.expression(names, depth - 1), "2", "3")
        return self.pick(
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"mk.maximum({a}, {names[0]})", f"mk.minimum({names[0]}, {b})",
            f"mk.where({names[0]} > {b}, {a}, {names[-1]})",
        )  # fmt: skip


def elementwise(w: Writer) -> UserKernel:
    """A flat index, divided, strided, reversed or masked."""
    n, block = w.pick(*SIZES), w.pick(*BLOCKS)
    width, stride, step = w.pick(1, 2, 3, 7, 10, 16, 64), w.pick(1, 1, 2, 3, 5), w.pick(0, 1, 2, 4)
    programs = -(-n // block)
    i = np.arange(max(1, programs) * block)
    names = {"n": n, "w": width, "s": stride, "low": w.pick(0, 0, 1, 5), "i": i}
    # The first forms meet an element once; the others may meet it twice, and are only read.
    injective = ["i", "i * s", "i * s + 1", "n - 1 - i", "(i // w) * (w * s) + i % w", "(i % w) * ((n + w - 1) // w) + i // w"]
    read = [*injective, "i // w", "i % w", "(i // w) * s", "i // 4", "i % 8", "(i // w) % s", "mk.minimum(i + 3, n - 1)", "mk.maximum(i - 1, 0)", "i * 0"]
    mask = w.pick("i < n", "i < n", "(i >= low) & (i < n)", "(i < n) & (i % 3 != 1)", "(i % w < w - 1) & (i < n)", "(i // w < 3) & (i < n)")
    is_on = np.broadcast_to(eval(mask, {"np": np}, names), i.shape)
    places = [w.pick(*read), w.pick(*read), w.pick(*injective)]
    dtypes = [w.pick(*FLOATS, *INTEGERS) for _ in range(2)]
    dtypes[1] = dtypes[0] if w.chance(0.7) else dtypes[1]
    result = dtypes[0] if w.chance(0.7) else w.pick("float32", "int32", "float16")
    reach = [np.broadcast_to(eval(p.replace("mk.", "np."), {"np": np}, names), i.shape)[is_on].max(initial=0) + 1 for p in places]
    x, y, out = (w.array(int(r), t) for r, t in zip(reach, [*dtypes, result], strict=True))
    if w.chance(0.15) and dtypes[0] == result:  # in place: what is written was read by the same lane
        places[0], x = places[2], out
    is_threads = w.chance(0.3)
    lines = [
        f"i = mk.program_id(0) * BLOCK + mk.{'tid' if is_threads else 'arange'}(0, BLOCK)",
        *w.pick([], [], ["i = i.to(mk.int64)"], ["i, n = i.to(mk.int64), n.to(mk.int64)", "n = n + (1 << 40) - (1 << 40)"]),
        f"m = {mask}{w.pick('', '', ' & (i.to(mk.int64) <= big)')}",
        f"a = mk.load(x + ({places[0]}), mask=m{w.pick('', ', other=1', ', other=0')}).to(mk.{result})",
        f"b = mk.load(y + ({places[1]}), mask=m).to(mk.{result})" if w.chance(0.8) else "b = a",
        f"r = {w.expression(['a', 'b'])} + b * 0",
    ]
    if w.chance(0.3):
        lines += ["for k in range(step):", f"    r = mk.minimum({w.pick('r + a', 'r * b', 'r - k')}, 100){w.pick('', ' + b')}"]
    if w.chance(0.15):
        lines += ["k = 0", "while k < step:", "    r = r + a", "    k += 1"]
    if is_threads and w.chance(0.5):
        lines += ["k = 0", "while (k < step + i % 3) & (r < 60):", "    r = r + 7", "    k += 1"]
    store = f"mk.store(out + ({places[2]}), r.to(mk.{result})"
    if is_threads and w.chance(0.5):
        loads = next(n for n, line in enumerate(lines) if "load" in line)
        lines[loads:] = ["if m:", *("    " + line for line in [*lines[loads:], f"{store})"])]
    else:
        lines += [f"{store}, mask=m)"]
    return UserKernel(text("x, y, out, n, w, s, low, step, big, BLOCK: eas.constexpr", lines),
                      [x, y, out, n, width, stride, names["low"], step, w.pick(2**63 - 1, 2**40, n)], {"BLOCK": block}, (max(1, programs),), "n")  # fmt: skip


def tiled(w: Writer) -> UserKernel:
    """Two-dimensional tiles of any strides, with rows and columns broadcast, permuted and reduced."""
    m, n = w.pick(1, 5, 16, 33, 70), w.pick(1, 7, 32, 65, 130)
    bm, bn = w.pick(1, 4, 8, 32), w.pick(8, 16, 32, 128)
    dtype = w.pick(*FLOATS, "int32", "int8", "uint8", "int16")
    row, col = w.pick((n, 1), (n + 3, 1), (1, m), (2 * n, 2), (1, m + 1))
    out_row, out_col = w.pick((n, 1), (1, m), (n + 1, 1))
    lines = [
        "rows = mk.program_id(1) * BM + mk.arange(0, BM)",
        "cols = mk.program_id(0) * BN + mk.arange(0, BN)",
        f"mask = {w.pick('(rows[:, None] < m) & (cols[None, :] < n)', '(rows < m)[:, None] & (cols < n)[None, :]')}",
        "a = mk.load(x + rows[:, None] * sr + cols[None, :] * sc, mask=mask, other=0)",
        f"b = mk.load(bias + {w.pick('cols, mask=cols < n, other=0)[None, :]', 'rows, mask=rows < m, other=0)[:, None]')}",
        f"r = {w.expression(['a', 'b'])} + a * 0",
    ]
    for _ in range(w.pick(0, 0, 1, 4)):  # neighbours, inside of the matrix
        dr, dc = w.pick(-1, 0, 1), w.pick(-2, -1, 1)
        inside = f"(rows[:, None] + {dr} >= 0) & (rows[:, None] + {dr} < m) & (cols[None, :] + {dc} >= 0) & (cols[None, :] + {dc} < n)"
        lines += [f"r += mk.load(x + (rows[:, None] + {dr}) * sr + (cols[None, :] + {dc}) * sc, mask={inside}, other={w.pick(0, 0, 2)})"]
    if w.chance(0.4):
        axis = w.pick(0, 1)
        reduce = w.pick("mk.sum", "mk.max", "mk.min")
        lines += [f"e = {reduce}(mk.where(mask, r, 0), axis={axis}){'[None, :]' if axis == 0 else '[:, None]'}", "r = r - e"]
    if w.chance(0.2):
        lines += ["r = mk.where(mask, r, 0)", f"r = mk.cumsum(r, axis={w.pick(0, 1)})"]
    if w.chance(0.3):
        lines += ["t = mk.trans(r)", "mk.store(out + rows[None, :] * tr + cols[:, None] * tc, t.to(out.dtype), mask=mk.trans(mask))"]
    else:
        lines += ["mk.store(out + rows[:, None] * tr + cols[None, :] * tc, r.to(out.dtype), mask=mask)"]
    x = w.array((m - 1) * row + (n - 1) * col + 1, dtype)
    out = w.array((m - 1) * out_row + (n - 1) * out_col + 1, w.pick(dtype, dtype, "float32", "int32"))
    return UserKernel(text("x, bias, out, m, n, sr, sc, tr, tc, BM: eas.constexpr, BN: eas.constexpr", lines),
                      [x, w.array(max(m, n), dtype), out, m, n, row, col, out_row, out_col], {"BM": bm, "BN": bn},
                      (-(-n // bn), -(-m // bm)), "m n")  # fmt: skip


def rows_in_pieces(w: Writer) -> UserKernel:
    """A row per program, in pieces of a runtime loop: carried values, then a second walk that writes."""
    m, n, block = w.pick(1, 3, 9), w.pick(*SIZES), w.pick(16, 64, 128, 512, 1024)
    dtype = w.pick("float32", "float32", "int32", "float16", "int16", "uint8")
    stride = n + w.pick(0, 0, 1, 5)
    whole = w.chance(0.4)
    wide = "mk.float32" if dtype.startswith("float") else "mk.int32"
    carried = w.rng.sample(["sum", "max", "min", "count"], w.pick(1, 2, 3))
    start = {"sum": "0", "max": "-9", "min": "9", "count": "0"}
    update = {
        "sum": "sum_ = sum_ + mk.sum(mk.where(mask, v, 0), axis=0)",
        "max": "max_ = mk.maximum(max_, mk.max(mk.where(mask, v, -9), axis=0))",
        "min": "min_ = mk.minimum(min_, mk.min(mk.where(mask, v, 9), axis=0))",
        "count": "count_ = count_ + mk.sum(mk.where(mask & (v > 0), 1, 0), axis=0)",
    }
    if w.chance(0.3):
        update["sum"] = "acc = acc + mk.where(mask, v, 0)"
    is_block = "sum" in carried and update["sum"].startswith("acc")
    lines = ["row = mk.program_id(0)", "x += row * stride", "out += row * stride"]
    lines += [f"{name}_ = mk.full([], {start[name]}, {'mk.int32' if name == 'count' else wide})" for name in carried]
    lines += [f"acc = mk.zeros([BLOCK], {wide})"] if is_block else []
    piece = ["cols = first + mk.arange(0, BLOCK)", "mask = cols < n", f"v = mk.load(x + cols, mask=mask{w.pick('', ', other=0', ', other=-3' if dtype != 'uint8' else ', other=1')}).to({wide})"]
    if whole:
        block = 1 << max(4, (n - 1).bit_length())
        lines += ["first = 0", *piece, *(update[name] for name in carried)]
    else:
        lines += ["for first in range(0, n, BLOCK):", *("    " + line for line in [*piece, *(update[name] for name in carried)])]
    lines += ["sum_ = mk.sum(acc, axis=0)"] if is_block else []
    second = [f"r = {w.expression(['v', *(name + '_' for name in carried)])} + v * 0", "mk.store(out + cols, r.to(out.dtype), mask=mask)"]
    if whole:
        lines += second
    else:
        lines += ["for first in range(0, n, BLOCK):", *("    " + line for line in [*piece, *second])]
    x = w.array(m * stride, dtype)
    out = x if w.chance(0.15) else w.array(m * stride, w.pick(dtype, "float32"))
    return UserKernel(text("x, out, n, stride, BLOCK: eas.constexpr", lines), [x, out, n, stride], {"BLOCK": block}, (m,), "n")


def product(w: Writer) -> UserKernel:
    """A tile of a matrix product: any strides, masked or wrapped edges, carried pointers, an epilogue."""
    m, n, k = w.pick(1, 16, 33, 64, 100), w.pick(1, 16, 48, 65, 128), w.pick(1, 16, 32, 50, 96)
    bm, bn, bk = w.pick(16, 32, 64), w.pick(16, 32, 64, 128), w.pick(8, 16, 32)
    dtype = w.pick("float32", "float32", "float32", "float16", "int8")
    wide = "mk.int32" if dtype == "int8" else "mk.float32"
    am, ak = w.pick((k, 1), (1, m), (k + 2, 1))
    bk_, bn_ = w.pick((n, 1), (1, k), (n + 1, 1))
    has_k_mask = k % bk or w.chance(0.5)
    k_mask = "(inner < k)" if has_k_mask else ""
    wraps = w.chance(0.3)
    edge = "% m" if wraps else ""
    row_mask = "" if wraps else "(rows < m)[:, None]"
    col_mask = "" if wraps else "(cols < n)[None, :]"
    lines = [
        "rows = mk.program_id(0) * BM + mk.arange(0, BM)",
        "cols = mk.program_id(1) * BN + mk.arange(0, BN)",
        f"r = rows {edge}",
        f"c = cols {edge.replace('m', 'n')}",
        f"acc = mk.zeros([BM, BN], {wide})",
    ]
    left, right = (
        f"{mask}, other=0" if (mask := " & ".join(filter(None, parts))) else "None"
        for parts in ([row_mask, k_mask and f"{k_mask}[None, :]"], [k_mask and f"{k_mask}[:, None]", col_mask])
    )
    if w.chance(0.5):
        lines += [
            "ap = a + r[:, None] * am + mk.arange(0, BK)[None, :] * ak",
            "bp = b + mk.arange(0, BK)[:, None] * bk + c[None, :] * bn",
            "for first in range(0, k, BK):",
            "    inner = first + mk.arange(0, BK)",
            f"    acc = mk.dot(mk.load(ap, mask={left}), mk.load(bp, mask={right}), acc)",
            "    ap += BK * ak",
            "    bp += BK * bk",
        ]
    else:
        sum_ = w.pick("acc = mk.dot(p, q, acc)", "acc += mk.dot(p, q)", "acc = acc + mk.dot(p, q)")
        lines += [
            f"for step in range({w.pick('0, mk.cdiv(k, BK)', 'mk.cdiv(k, BK)')}):",
            "    inner = step * BK + mk.arange(0, BK)",
            f"    p = mk.load(a + r[:, None] * am + inner[None, :] * ak, mask={left})",
            f"    q = mk.load(b + inner[:, None] * bk + c[None, :] * bn, mask={right})",
            f"    {sum_}",
        ]
    if w.chance(0.5):
        lines += [w.pick("acc = acc + mk.load(bias + cols, mask=cols < n, other=0)[None, :]", "acc = acc * 2", "acc = mk.maximum(acc, 0)")]
    out_type = w.pick("float32", "int32")
    lines += ["mk.store(out + rows[:, None] * n + cols[None, :], acc.to(out.dtype), mask=(rows < m)[:, None] & (cols < n)[None, :])"]
    a = w.array((m - 1) * am + (k - 1) * ak + 1, dtype)
    b = w.array((k - 1) * bk_ + (n - 1) * bn_ + 1, dtype)
    return UserKernel(text("a, b, bias, out, m, n, k, am, ak, bk, bn, BM: eas.constexpr, BN: eas.constexpr, BK: eas.constexpr", lines),
                      [a, b, w.array(n, "float32"), w.array(m * n, out_type), m, n, k, am, ak, bk_, bn_],
                      {"BM": bm, "BN": bn, "BK": bk}, (-(-m // bm), -(-n // bn)), "m n k" if has_k_mask else "m n")  # fmt: skip


def convolution(w: Writer) -> UserKernel:
    """A filter over an image: loops over its places, and loads that reach over the edge."""
    h, wd, kh, kw = w.pick(1, 5, 17, 32), w.pick(3, 16, 33, 70), w.pick(1, 3, 5), w.pick(1, 3)
    block = w.pick(16, 64, 256)
    dtype = w.pick("float32", "float32", "int32", "float16", "uint8")
    wide = "mk.float32" if dtype.startswith("float") else "mk.int32"
    loop = w.pick("range", "mk.static_range")
    sizes = ("KH", "KW") if loop == "mk.static_range" else w.pick(("KH", "KW"), ("kh", "kw"))
    flat = w.chance(0.6)
    lines = (["i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)", "y = i // w", "x = i % w", "on = i < h * w"] if flat else
             ["y = mk.program_id(1)", "x = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)", "on = x < w"])  # fmt: skip
    lines += [
        f"acc = mk.zeros([BLOCK], {wide})",
        f"for dy in {loop}({sizes[0]}):",
        f"    for dx in {loop}({sizes[1]}):",
        "        yy = y + dy - KH // 2",
        "        xx = x + dx - KW // 2",
        "        inside = on & (yy >= 0) & (yy < h) & (xx >= 0) & (xx < w)",
        f"        v = mk.load(image + yy * w + xx, mask=inside, other={w.pick(0, 0, 1)}).to({wide})",
        f"        acc {w.pick('+= v * mk.load(taps + dy * KW + dx)', '= mk.maximum(acc, v)')}",
        f"mk.store(out + {'i' if flat else 'y * w + x'}, acc.to(out.dtype), mask=on)",
    ]
    taps = w.array(kh * kw, "float32" if dtype.startswith("float") else "int32")
    grid = (-(-h * wd // block),) if flat else (-(-wd // block), h)
    return UserKernel(text("image, taps, out, h, w, kh, kw, KH: eas.constexpr, KW: eas.constexpr, BLOCK: eas.constexpr", lines),
                      [w.array(h * wd, dtype), taps, w.array(h * wd, "float32"), h, wd, kh, kw],
                      {"KH": kh, "KW": kw, "BLOCK": block}, grid, "h w")  # fmt: skip


def until(w: Writer) -> UserKernel:
    """A loop until no element wants to go on; those that do not are mostly, not always, left as they are."""
    n, block, dtype = w.pick(*SIZES), w.pick(*BLOCKS), w.pick(*FLOATS, "int32", "int16", "int64")
    if w.chance(0.3):
        return threads_until(w, n, block, dtype)
    wish = w.pick("v > low", "go", "go", "~done", "(v > low) | (t < 2)", "(v > low) & (c < limit)", "v + k > low")
    guard = w.pick("v > low", "go", "~done", wish)
    two = [w.pick(0, 0, 0, -0.0) if dtype.startswith("float") else 0, w.pick("t + 1", "t - v", "v")]
    updates = [
        w.pick(f"v = mk.where({guard}, v - 1, v)", f"v = mk.where({guard}, v - 2, v)", f"v -= ({guard}).to(v.dtype)", "v = v - 1"),
        w.pick(f"t += ({guard}).to(t.dtype)", f"t = mk.where({guard}, {two[1]}, t)", f"t += mk.where({guard}, 1, 0).to(t.dtype)", "t = t + 1"),
        w.pick(f"c += ({guard}).to(mk.int32)", f"c = mk.where({guard}, c + 2, c)"),
        w.pick("go = go & (v > low)", "go = v > low", "go &= c < 4"),
        w.pick("done = done | (v <= low)", "done |= c > 3", "done = v <= low"),
    ]
    w.rng.shuffle(updates)
    test = w.pick("k < limit and mk.any({})", "mk.any({}) and k < limit", "mk.any(({}) & (k < limit))", "(k < limit) & mk.any({})").format(wish)
    lines = [
        "i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)",
        f"v = mk.load(x + i, mask=i < n, other={w.pick(0, 0, 3)})",
        f"t = mk.full([BLOCK], {two[0]}, v.dtype)",
        "c = mk.zeros([BLOCK], mk.int32)",
        "go, done = v > low, v <= low",
        "k = 0",
        f"while {test}:",
        *(f"    {line}" for line in updates),
        "    k += 1",
        f"mk.store(out + i, {w.pick('v', 't', 'v + t')} + c.to(v.dtype){w.pick('', ' * k')}, mask=i < n)",
    ]
    return until_launch(w, n, block, dtype, lines)


def threads_until(w: Writer, n: int, block: int, dtype: str) -> UserKernel:
    block = min(block, 256)
    inside = [
        w.pick("v -= 1", "v = v - 2"),
        w.pick("t += v", "t = t + 1"),
        w.pick("if t > 6:\n                break", "if v == 2:\n                t += 1", "t = t"),
        "c += 1",
    ]
    lines = [
        "i = mk.program_id(0) * BLOCK + mk.tid(0, BLOCK)",
        "if i < n:",
        "    v = mk.load(x + i)",
        "    t = v * 0",
        "    c = 0",
        f"    while {w.pick('v > low and c < limit', 'c < limit', '(v > low) & (c < limit)')}:",
        *(f"        {line}" for line in inside),
        "    mk.store(out + i, v + t + c)",
    ]
    return until_launch(w, n, block, dtype, lines)


def until_launch(w: Writer, n: int, block: int, dtype: str, lines: list[str]) -> UserKernel:
    args = [w.array(n, dtype, -2, 8), w.array(n, dtype), n, w.pick(-1, 0, 2), w.pick(0, 1, 3, 9)]
    return UserKernel(text("x, out, n, low, limit, BLOCK: eas.constexpr", lines), args, {"BLOCK": block}, (-(-n // block),), "n")


def windows(w: Writer) -> UserKernel:
    """Loops that come back to what they read: sums, largest and smallest of windows along rows or columns of tiles."""
    m, n, reach = w.pick(1, 3, 17), w.pick(5, 40, 100, 257), w.pick(0, 1, 3, 5)
    bm, bn = w.pick(1, 1, 2, 4, 8), w.pick(16, 32, 128, 256)
    dtype = w.pick("float32", "float32", "int32", "float64", "int64", "int16", "float16")
    wide = {"int16": "mk.int32", "float16": "mk.float32"}.get(dtype, f"mk.{dtype}")
    dilation, stride = w.pick(1, 1, 2, 3, -1), w.pick(1, 1, 2)
    first, last, step = w.pick(("0", "reach", "1"), ("-reach", "reach + 1", "1"), ("1", "reach", "2"), ("reach", "0", "-1"), ("0", "0", "1"))
    rows, cols = ("rows[:, None]", "cols[None, :]") if bm > 1 else ("rows", "cols")
    place = w.pick(f"{cols} * s + k * d", f"{cols} + k * d", f"{cols} - k", f"(k + 2) * d + {cols}", f"{cols} + k + j") if not w.chance(0.2) else f"{cols}"
    down = w.pick("", "", " + k", " - j")
    inner = w.chance(0.5)
    place = place if inner else place.replace(" + j", "")
    down = down if inner or "j" not in down else ""
    conditions = [f"({rows}{down} >= 0)", f"({rows}{down} < m)", f"({place} >= 0)", f"({place} < n)"]
    if w.chance(0.2):
        conditions.append(f"(mk.load(x + {rows} * 0 + {cols} * 0 + k * 0) > 0)")
    w.rng.shuffle(conditions)
    mask = w.pick(f"({rows} < m) & ({cols} < n) & ", "") + " & ".join(conditions)
    value = f"mk.load(x + ({rows}{down}) * n + {place}, mask={mask}{w.pick('', ', other=1', ', other=-2')}).to({wide})"
    body = [f"v = {value}", w.pick("acc += v", "acc = mk.maximum(acc, v)", "acc = acc + v * mk.load(taps + k * 0 + 1)", "acc += v * k", "acc = mk.where(v > acc, v, acc - 1)")]
    if w.chance(0.3):
        body += [w.pick("if k > 1:\n        acc = acc + 1", "if k == 1:\n        acc = acc * 2\n    else:\n        acc = acc - v")]
    pad = "    "
    if inner:
        body = ["for j in range(2):", *(pad + line.replace("\n", "\n    ") for line in body)]
    if w.chance(0.15):
        body += [w.pick("if k == 2:\n        break", "if mk.sum(acc) > 50:\n        break")]
    lines = [
        f"rows = mk.program_id(1){' * BM + mk.arange(0, BM)' if bm > 1 else ''}",
        "cols = mk.program_id(0) * BN + mk.arange(0, BN)",
        f"on = ({rows} < m) & ({cols} < n)",
        f"acc = mk.full([{'BM, ' if bm > 1 else ''}BN], {w.pick(0, 0, 1, -3)}, {wide})",
        f"for k in range({first}, {last}, {step}):",
        *(pad + line.replace("\n", "\n    ") for line in body),
        f"mk.store(out + {rows} * n + {cols}, acc.to(out.dtype), mask=on)",
    ]
    taps = w.array(4, "int32" if "int" in wide else "float32")
    args = [w.array(m * n, dtype), taps, w.array(m * n, w.pick(wide.removeprefix("mk."), "float32")), m, n, reach, stride, dilation]
    return UserKernel(text("x, taps, out, m, n, reach, s, d, BM: eas.constexpr, BN: eas.constexpr", lines), args, {"BM": bm, "BN": bn}, (-(-n // bn), -(-m // bm)), "m n")


def counts(w: Writer) -> UserKernel:
    """Atomics to a few elements: in loops, under branches and masks, of one kind or of two."""
    n, block, bins = w.pick(*SIZES, 5000), w.pick(16, 64, 256), w.pick(1, 5, 64, 1000, 20000)
    dtype = w.pick("int32", "int32", "uint32", "int64", "float32")
    kinds = ("add",) if dtype == "float32" else w.pick(("add",), ("max",), ("min",), ("and",), ("or",), ("xor",), ("add", "add"))
    place = w.pick("v % bins", "i % bins", "(v + i) % bins", "i * 0", "mk.minimum(v, bins - 1)")
    mask = w.pick("i < n", "(i < n) & (v > 2)", "(i >= low) & (i < n)")
    amount = w.pick("1", "v", "i % 7", "v * 0 - 1") if dtype != "uint32" else w.pick("1", "v", "i % 7")
    change = [f"mk.atomic_{kind}(counts + {place}, ({amount} + i * 0).to(mk.{dtype}), mask={mask})" for kind in kinds]
    if w.chance(0.3):
        change = ["for k in range(low):", *(f"    {line}" for line in change)]
    if w.chance(0.3):
        change = ["if mk.program_id(0) % 2 == 0:", *(f"    {line}" for line in change)]
    if w.chance(0.2):
        change += [f"mk.store(other + i, v, mask={mask})"]
    lines = ["i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)", "v = mk.load(x + i, mask=i < n, other=0)", *change]
    args = [w.array(n, "int32", 0, 40), w.array(bins, dtype, 0, 9), w.array(n, "int32"), n, bins, w.pick(0, 1, 3)]
    return UserKernel(text("x, counts, other, n, bins, low, BLOCK: eas.constexpr", lines), args, {"BLOCK": block}, (max(1, -(-n // block)),), "n bins")


def branches(w: Writer) -> UserKernel:
    """Branches and loops that end early around loads and stores; outputs that share a buffer with each other or with the input."""
    n, block, dtype = w.pick(*SIZES), w.pick(16, 64, 256, 1024), w.pick(*FLOATS, "int32", "uint8", "int16", "int64")
    shares = w.pick("no", "no", "same", "later", "earlier")
    programs = 1 if shares != "no" else max(1, -(-n // block))
    conditions = ["p % 2 == 0", "n > 50", "low > 1", "p * BLOCK + BLOCK <= n", "mk.load(x) > 0"]

    def block_of(depth: int) -> list[str]:
        lines = [w.pick(
            "r = r + a", "r = mk.where(r > a, r - 1, a)", "r = r * 2 - a", "a = mk.load(x + i, mask=m, other=1)",
            "a = mk.load(x + mk.minimum(i + k, n - 1), mask=m, other=0)", "mk.store(out + i, r, mask=m)", "mk.store(out + n + i, r - a, mask=m)",
            "r = r - mk.max(mk.where(m, a, 0), axis=0)", "k = k + 1",
        ) for _ in range(w.pick(1, 2, 3))]  # fmt: skip
        if depth and w.chance(0.7):
            inside = [f"    {line}" for line in block_of(depth - 1)]
            head = w.pick("if", "for", "break", "while")
            if head == "if":
                lines += [f"if {w.pick(*conditions)}:", *inside]
                lines += ["else:", *(f"    {line}" for line in block_of(depth - 1))] if w.chance(0.4) else []
            elif head == "while":
                lines += [f"while t{depth} < low:", *inside, f"    t{depth} += 1"]
            else:
                stop = [f"    if {w.pick(*conditions)}:", "        break"] if head == "break" else []
                lines += [f"for k in range({w.pick('low', '3', 'low, 5', '5, 0, -2')}):", *w.pick([*stop, *inside], [*inside, *stop])]
        return lines

    body = [*block_of(2), *block_of(1)]
    lines = ["p = mk.program_id(0)", "i = p * BLOCK + mk.arange(0, BLOCK)", "m = i < n", "k, t1, t2 = 0, 0, 0", "a = mk.load(x + i, mask=m, other=0)", "r = a + 0", *body,
             "mk.store(out + i, r, mask=m)"]  # fmt: skip
    memory = w.array(3 * n + 8, dtype)
    x = {"no": w.array(max(n, 1), dtype), "same": memory[: max(n, 1)], "later": memory[4 : 4 + max(n, 1)], "earlier": memory[: max(n, 1)]}[shares]
    out = memory[3:] if shares == "earlier" else memory
    return UserKernel(text("x, out, n, low, BLOCK: eas.constexpr", lines), [x, out, n, w.pick(0, 1, 2, 4)], {"BLOCK": block}, (programs,), "n")


def walks(w: Writer) -> UserKernel:
    """Loops along a row in short blocks: what depends on how the row is cut, and what does not; memory that may overlap."""
    n, block, dtype = w.pick(*SIZES, 2100, 5000), w.pick(16, 32, 64, 256), w.pick("int32", "int32", "int16", "int64", "float32")
    even = ["cols", "cols", "(first - 1) + (lanes + 1)", "cols + 2", "cols * 2", "(first + p * 3) + lanes"]
    uneven = ["lanes", "first + lanes // 2", "first // 2 + lanes", "first * 2 + lanes", "cols % 40"]
    masks = ["cols < n", "cols < n", "cols < n - 5", "(cols < n) & (cols % 3 != 0)", "(cols < n) & (lanes < 7)", "None"]
    overlaps = w.pick("no", "no", "same", "later", "earlier")

    def statement() -> str:
        mask = w.pick(*masks)
        return w.pick(
            f"v = mk.load(x + {w.pick(*even, *uneven)}, mask={mask}{'' if mask == 'None' else w.pick('', ', other=2')})",
            f"mk.store(out + {w.pick(*even, *uneven[1:])}, r, mask={mask})", f"mk.store(out + {w.pick(*even)}, r + v, mask={mask})",
            "r = r + v", "r = v * 2 - (cols % 5).to(v.dtype)", "r = mk.where(v > 1, r, (first % 7).to(v.dtype))",
            "s = s + mk.sum(v)", "s = s + mk.sum(mk.where(cols < n, r, 0))", "t = mk.maximum(t, mk.max(v))", "t = mk.minimum(mk.min(r), t)", "c = c + 1", "s = s * 2 + mk.sum(v)",
        )  # fmt: skip

    lines = ["p = mk.program_id(0)", "lanes = mk.arange(0, BLOCK)", f"s, t, c = mk.full([], 0, mk.{dtype}), mk.full([], 1, mk.{dtype}), 0"]
    for _ in range(w.pick(1, 2, 3)):
        start, step = w.pick("0", "0", "0", "BLOCK", "3"), w.pick("BLOCK", "BLOCK", "BLOCK", "BLOCK * 2")
        body = ["cols = first + lanes", f"v = mk.load(x + cols, mask={w.pick(*masks)})", "r = v + 1", *(statement() for _ in range(w.pick(1, 2, 4)))]
        lines += [f"for first in range({start}, n, {step}):", *(f"    {line}" for line in body)]
    lines += [f"mk.store(sums + p * 3 + {k}, {name})" for k, name in enumerate("st")] + ["mk.store(sums + p * 3 + 2, c)"]
    memory, most = w.array(4 * n + 2000, dtype), 2 * n + 1200
    x = w.array(most, dtype) if overlaps == "no" else memory[w.pick(1, 64) if overlaps == "later" else 0 :][:most]
    out = memory[w.pick(1, 64) if overlaps == "earlier" else 0 :][:most]
    return UserKernel(text("x, out, sums, n, BLOCK: eas.constexpr", lines), [x, out, w.array(3, dtype), n], {"BLOCK": block}, (1,), "n")


def views(w: Writer) -> UserKernel:
    """Blocks that loops and branches carry, seen from other places: turned, gathered, sorted, added up; unsigned offsets; memory in program order."""
    size, dtype = w.pick(16, 64, 128, 256), w.pick("int32", "int32", "float32", "int64", "uint8")
    n, low = w.pick(0, 1, 5, size - 1, size, 3 * size), w.pick(0, 1, 2, 3)
    seen = (
        "mk.flip({}, 0)", "mk.gather({}, (i * 3 + k) % N, 0)", "mk.gather({0}, {1}.to(mk.int32) % N, 0)", "mk.trans({}.reshape([2, N // 2])).reshape([N])",
        "mk.sort({}, axis=0)", "mk.cumsum({}, axis=0)", "({} + mk.max({}))", "mk.load(x + (i.to(mk.uint32) - low.to(mk.uint32)), mask=i.to(mk.uint32) - low.to(mk.uint32) < n.to(mk.uint32), other=1)",
        "mk.load(out + i)", "mk.load(out + N + i, mask={} > 1, other=2)", "{} * 2",
    )  # fmt: skip

    def statement() -> str:
        a, b, to = (w.pick("q", "r", "s") for _ in range(3))
        if w.chance(0.3):
            return w.pick(f"mk.store(out + i, {a})", f"mk.store(out + N + i, {a}, mask=i < n)", f"mk.store(out + N - 1 - i, {a}, mask={b} > 0)", f"mk.store(out + i, {low})")
        value = w.pick(*seen).format(a, b)
        value = w.pick(value, f"{value} + {b}", f"mk.where({b} > 2, {value}, {a})")
        return f"{to} = mk.clamp({value}, {0 if dtype == 'uint8' else -50}, 50).to(mk.{dtype})"

    def block_of(depth: int) -> list[str]:
        lines = [statement() for _ in range(w.pick(1, 2))]
        if depth:
            heads = {"for": f"for k in range({w.pick('low', '3, 0, -1', 'low, 4', '2')}):", "if": f"if {w.pick('k % 2 == 0', 'low > 1', 'n > 4', 'mk.sum(q) > 9')}:", "while": f"while t{depth} < low and mk.any(q < 49):"}
            head = w.pick("for", "if", "if", "while")
            lines += [heads[head], *(f"    {line}" for line in block_of(depth - 1))] + ([f"    t{depth} += 1"] if head == "while" else [])
            lines += [statement()] if w.chance() else []
        return lines

    lines = ["i = mk.arange(0, N)", "q, r, s = mk.load(x + i), mk.load(x + N + i), mk.load(out + i)", "k, t1, t2 = 0, 0, 0", *block_of(2), *block_of(w.pick(1, 2)),
             "mk.store(out + 2 * N + i, q)", "mk.store(out + 3 * N + i, r)", "mk.store(out + 4 * N + i, s)"]  # fmt: skip
    memory = w.array(8 * size, dtype)
    x = memory[w.pick(0, 3, size) :][: 3 * size] if w.chance(0.2) else w.array(3 * size, dtype)
    return UserKernel(text("x, out, n, low, N: eas.constexpr", lines), [x, memory, n, low], {"N": size}, (1,), "n")


def folds(w: Writer) -> UserKernel:
    """A tile of few rows or columns, or a long row, folded and scanned along either axis behind masks that end in several places."""
    bm, bn = w.pick((1, 128), (1, 1024), (2, 128), (4, 256), (3, 192), (8, 512), (128, 4), (16, 16))
    dtype, out_type = w.pick("float32", "float32", "int32", "float16", "int8", "uint8", "int16", "int64", "float64"), w.pick("float32", "int32")
    wide = "mk.float32" if dtype.startswith("float") else "mk.int32"
    row, col = w.pick((bn, 1), (bn + 3, 1), (1, bm), (2 * bn, 2))
    masks = {"N": "cols < n", "L": "(cols >= low) & (cols < n)", "K": "cols < k", "M": "rows < m", "B": "(rows < m) & (cols < n)", "R": "(rows >= low) & (cols < k)", "U": "cols > n", "E": "cols % 5 < 3"}
    has_rows = bm > 1
    keys = "NNNLKBMRUE" if has_rows else "NNLKUE"
    lines = ["rows, cols = mk.arange(0, BM)[:, None], mk.arange(0, BN)[None, :]"] if has_rows else ["rows, cols = 0, mk.arange(0, BN)"]
    lines += [f"v = mk.load(x + rows * sr + cols * sc, mask={masks[w.pick(*keys)]}{w.pick('', ', other=0', ', other=3', ', other=1')}).to({wide})"]
    for k in range(w.pick(1, 2, 3)):
        axis = w.pick(0, 1) if has_rows else 0
        shown = ("" if not has_rows else "[None, :]" if axis == 0 else "[:, None]")
        value = w.pick("v", f"mk.where({masks[w.pick(*keys)]}, v, {w.pick(0, -9, 9, 2)})", "v + cols % 3", "v * 2", "-v")
        fold = w.pick("sum", "sum", "max", "min", "argmax", "argmin", "xor_sum" if wide == "mk.int32" else "max", "any", "all", "cumsum")
        if fold == "cumsum":
            lines += [f"e{k} = mk.cumsum({value}, axis={axis}{w.pick('', ', reverse=True')})"]
            shown = ""
        elif fold in ("any", "all"):
            lines += [f"e{k} = mk.{fold}({value} > {w.pick(0, -4, 3)}, axis={axis}).to({wide})"]
        else:
            lines += [f"e{k} = mk.{fold}({value}, axis={axis}).to({wide})"]
        if not shown and fold != "cumsum":
            lines += [f"mk.store(ends + {k}, e{k}.to(ends.dtype))"]
        elif shown:
            along = "mk.arange(0, BN)" if axis == 0 else "mk.arange(0, BM)"
            mask = w.pick("", f", mask={along} < {'n' if axis == 0 else 'm'}", f", mask={along} >= low")
            lines += [f"mk.store(ends + {k} * 1024 + {along}, e{k}.to(ends.dtype){mask})"]
        if w.chance(0.6):
            lines += [w.pick(f"v = v - e{k}{shown}", f"v = mk.where(v > e{k}{shown}, v, {w.pick(0, 1)})", f"v = mk.minimum(v + e{k}{shown}, 50)")]
    lines += [f"mk.store(out + rows * BN + cols, v.to(out.dtype), mask={masks[w.pick(*keys)]})"]
    args = [w.array((bm - 1) * row + (bn - 1) * col + 1, dtype), w.array(3 * 1024, out_type), w.array(bm * bn, out_type)]
    args += [w.pick(1, bm // 2, bm - 1, bm), w.pick(bn // 2 + 1, bn - 1, bn - 1, bn), w.pick(bn // 3, bn - 3, bn), w.pick(0, 1, 3, bn // 4), row, col]
    return UserKernel(text("x, ends, out, m, n, k, low, sr, sc, BM: eas.constexpr, BN: eas.constexpr", lines), args, {"BM": bm, "BN": bn}, (1,), "m n k low")


FAMILIES: tuple[Callable[[Writer], UserKernel], ...] = (elementwise, tiled, rows_in_pieces, product, convolution, until, windows, counts, branches, walks, views, folds)


def user_kernel(seed: int) -> UserKernel:
    return FAMILIES[seed % len(FAMILIES)](Writer(seed))


def text(parameters: str, lines: list[str]) -> str:
    return f"def kernel({parameters}):\n" + "".join(f"    {line}\n" for line in lines)
