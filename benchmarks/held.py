"""Rows of the kinds that are easily forgotten: strides told at run time, unaligned outputs, loops per
element, short integers with a rest, flat indices that are divided, results over an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.registry import Bar, Workload, output, output_like

BLOCK = 1024
BAR = Bar(ratio=1.10)


def workloads() -> list[Workload]:
    return [
        strided(1), strided(2), strided(3), *tile_rows(), unaligned(np.float32, 22), unaligned(np.uint8, 24), blend(), short_rows(67), short_rows(31),
        mandelbrot(), horner(), stencil(), channels_first(), channels_last(32), channels_last(3), channel_bias(), upsample(2), upsample(3), upsample(4),
        row_scales(20), row_scales(5), row_scales(67), taken_rows(), bias_tiles(np.float32), bias_tiles(np.uint8), stride_loop(),
        in_place(24), over_input(24),
    ]  # fmt: skip


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def random(*shape: int, dtype: Any = np.float32) -> Any:
    """A function of the generator of the run."""
    if np.dtype(dtype).kind == "f":
        return lambda rng: rng.random(shape, dtype=np.float32).astype(dtype)
    return lambda rng: rng.integers(0, 100, shape).astype(dtype)


def row(name: str, size: str, make: list[Any], reference: Callable[..., Any] | None, nbytes: int, tolerance: float = 0.0) -> Workload:
    return Workload(
        f"held {name}", size, BAR, lambda rng: tuple(m(rng) for m in make), reference, nbytes=nbytes, tolerance=tolerance
    )


def numba_entry(w: Workload, name: str, out: Callable[..., Any], *extra: Any) -> None:
    @w.entry("numba")
    def _(*inputs):
        from benchmarks import held_numba

        result, run = out(*inputs), getattr(held_numba, name)
        return lambda: (run(*inputs, result, *extra), result)[1]


def strided(s: int) -> Workload:
    n = (1 << 21) + 7
    w = row("stride", f"{s} of 2^21+7", [random(n * s)], lambda x: 2 * x[::s], 4 * n * (s + 1))

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = output(n, np.float32)
        return lambda: (k.scale[cdiv(n, BLOCK),](x, out, n, s, 1, BLOCK=BLOCK), out)[1]

    @w.entry("numba")
    def _(x):
        from benchmarks import held_numba

        view, out = x[::s], output(n, np.float32)
        return lambda: (held_numba.scale(view, out), out)[1]

    @w.entry("torch")
    def _(x):
        from benchmarks.torch_peer import tensors, torch

        view, out = tensors(x[::s], output(n, np.float32))
        return lambda: torch.mul(view, 2, out=out)

    return w


def inside(a: Any) -> Any:
    return a[:, 20:-20]


def second(a: Any) -> Any:
    return a[:, ::2]


def column(a: Any) -> Any:
    return np.broadcast_to(a, (a.shape[0], a.shape[0]))


def tiles(name: str, n: int, y_shape: tuple[int, int], pick_y: Any, x_shape: tuple[int, int], pick: Any, out_shape: tuple[int, int], pick_out: Any) -> Workload:
    """x + y in tiles of 64x64, each a view of a larger or another matrix whose strides a kernel asks for."""
    w = row("tiles 64x64", f"{n}x{n} {name}", [random(*x_shape), random(*y_shape)], lambda x, y: pick(x) + pick_y(y), 12 * n * n)

    def arguments(x, y):
        return pick(x), pick_y(y), pick_out(output(out_shape, np.float32))

    @w.entry("eas")
    def _(x, y):
        from benchmarks import held_kernels as k

        x, y, out = arguments(x, y)
        return lambda: (k.add_tiles[cdiv(n, 64), cdiv(n, 64)](x, y, out, n, n, BM=64, BN=64), out)[1]

    @w.entry("numba")
    def _(x, y):
        from benchmarks import held_numba

        x, y, out = arguments(x, y)
        return lambda: (held_numba.add_tiles(x, y, out), out)[1]

    @w.entry("numpy")
    def _(x, y):
        x, y, out = arguments(x, y)
        return lambda: np.add(x, y, out=out)

    @w.entry("torch")
    def _(x, y):
        from benchmarks.torch_peer import tensors, torch

        x, y, out = arguments(x, y)
        tx, tout = tensors(x, out)
        ty = tensors(y.base)[0].expand(n, n) if y.strides[1] == 0 else tensors(y)[0]
        return lambda: torch.add(tx, ty, out=tout)

    return w


def tile_rows() -> list[Workload]:
    n = 2048
    part, whole, wide = (n, n + 40), (n, n), (n, 2 * n)
    return [
        tiles("of a larger matrix", n, part, inside, part, inside, part, inside),
        tiles("of transposes", n, whole, np.transpose, whole, np.transpose, whole, np.transpose),
        tiles("and a column", n, (n, 1), column, whole, np.asarray, whole, np.asarray),
        tiles("of every second column", n, wide, second, wide, second, whole, np.asarray),
    ]


def add_entries(w: Workload, n: int, out: Callable[[Any, Any], Any]) -> None:
    """x + y into what `out` makes of them."""

    @w.entry("eas")
    def _(x, y):
        from benchmarks import held_kernels as k

        result = out(x, y)
        return lambda: (k.add[cdiv(n, BLOCK),](x, y, result, n, BLOCK=BLOCK), result)[1]

    numba_entry(w, "add", out)

    @w.entry("numpy")
    def _(x, y):
        result = out(x, y)
        return lambda: np.add(x, y, out=result)

    @w.entry("torch")
    def _(x, y):
        from benchmarks.torch_peer import tensors, torch

        tx, ty, result = tensors(x, y, out(x, y))
        return lambda: torch.add(tx, ty, out=result)


def unaligned(dtype: Any, log_n: int) -> Workload:
    n, kind = 1 << log_n, np.dtype(dtype)
    w = row(f"unaligned add {kind}", f"2^{log_n}", [random(n, dtype=dtype)] * 2, lambda x, y: x + y, 3 * n * kind.itemsize)
    out = lambda x, y: output(n + 64, dtype)[1 : n + 1]  # noqa: E731
    add_entries(w, n, out)
    if kind == np.float32:

        @w.entry("c")
        def _(x, y):
            from benchmarks.baselines import bind

            result = out(x, y)
            return bind("add", x, y, result, n, answer=result)

    return w


def in_place(log_n: int) -> Workload:
    """x += y, with a y of zeros: the answer stays the same however often it is computed."""
    n = 1 << log_n
    w = row("in place add", f"2^{log_n}", [random(n), lambda rng: np.zeros(n, np.float32)], lambda x, y: x + y, 12 * n)
    add_entries(w, n, lambda x, y: x)
    return w


def over_input(log_n: int) -> Workload:
    n = 1 << log_n
    w = row("add over y", f"2^{log_n}", [lambda rng: np.zeros(n, np.float32), random(n)], lambda x, y: x + y, 12 * n)
    add_entries(w, n, lambda x, y: y)
    return w


def blend() -> Workload:
    n = (1 << 22) + 7
    make = [random(n, dtype=np.uint8)] * 2
    w = row("blend u8", "2^22+7", make, lambda x, y: ((x.astype(np.int32) * 77 + y.astype(np.int32) * 179) >> 8).astype(np.uint8), 3 * n)

    @w.entry("eas")
    def _(x, y):
        from benchmarks import held_kernels as k

        out = output_like(x)
        return lambda: (k.blend[cdiv(n, BLOCK),](x, y, out, n, 77, BLOCK=BLOCK), out)[1]

    numba_entry(w, "blend", lambda x, y: output_like(x), 77)
    return w


def short_rows(cols: int) -> Workload:
    rows, block = 20000, 1 << cols.bit_length()
    w = row("threshold u8", f"{rows}x{cols}", [random(rows, cols, dtype=np.uint8)], lambda x: np.where(x > 50, x, 0), 2 * rows * cols)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = output_like(x)
        return lambda: (k.threshold_rows[rows,](x, out, cols, 50, BLOCK=block), out)[1]

    numba_entry(w, "threshold_rows", lambda x: output_like(x), np.uint8(50))
    return w


def escape_counts(a, b, steps):
    x, y, count = np.zeros_like(a), np.zeros_like(a), np.zeros(a.shape, np.int32)
    inside = np.ones(a.shape, bool)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            inside &= x * x + y * y <= 4
            count += inside
            x, y = x * x - y * y + a, 2 * x * y + b
    return count


def mandelbrot_reference(a, b, steps):
    """Counts in f32, masked where rounding decides: exact runs from as near as two roundings count differently."""
    counts, close = escape_counts(a, b, steps), (1 - 2.0**-22, 1 + 2.0**-22)
    exact = [escape_counts(np.float64(a) * p, np.float64(b) * q, steps) for p in close for q in close]
    return np.ma.masked_array(counts, np.any([counts != e for e in exact], axis=0))


def mandelbrot() -> Workload:
    width, height, steps = 500, 333, 100
    n = width * height
    re = lambda rng: np.tile(np.linspace(-2, 0.6, width, dtype=np.float32), height)  # noqa: E731
    im = lambda rng: np.repeat(np.linspace(-1.2, 1.2, height, dtype=np.float32), width)  # noqa: E731
    w = row("mandelbrot", f"{width}x{height}, {steps} steps", [re, im], lambda a, b: mandelbrot_reference(a, b, steps), 12 * n)

    @w.entry("eas")
    def _(a, b):
        from benchmarks import held_kernels as k

        out = output(n, np.int32)
        return lambda: (k.mandelbrot[cdiv(n, 256),](a, b, out, n, steps, BLOCK=256), out)[1]

    numba_entry(w, "mandelbrot", lambda a, b: output(n, np.int32), steps)
    return w


def horner() -> Workload:
    n, degree = (1 << 20) + 7, 12
    reference = lambda x, c: np.polyval(c.astype(np.float64), x.astype(np.float64))  # noqa: E731
    w = row("horner", f"degree {degree}, 2^20+7", [random(n), random(degree)], reference, 8 * n, tolerance=1e-5)

    @w.entry("eas")
    def _(x, c):
        from benchmarks import held_kernels as k

        out = output_like(x)
        return lambda: (k.horner[cdiv(n, BLOCK),](x, c, out, n, degree, BLOCK=BLOCK), out)[1]

    numba_entry(w, "horner", lambda x, c: output_like(x))
    return w


def stencil_reference(x):
    p = np.pad(x.astype(np.float64), 1)
    return 0.25 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])


def stencil() -> Workload:
    h, width = 1000, 1333
    n = h * width
    w = row("stencil i // W", f"{h}x{width}", [random(h, width)], stencil_reference, 8 * n, tolerance=1e-5)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = output_like(x)
        return lambda: (k.stencil[cdiv(n, BLOCK),](x, out, n, h, width, BLOCK=BLOCK), out)[1]

    numba_entry(w, "stencil", lambda x: output_like(x))
    return w


def channels_first() -> Workload:
    return moved_channels("NHWC to NCHW", "channels_first", 32, (112 * 112, 32))


def channels_last(c: int) -> Workload:
    return moved_channels("NCHW to NHWC", "channels_last", c, (c, 112 * 112))


def moved_channels(name: str, kernel: str, c: int, shape: tuple[int, int]) -> Workload:
    """Images whose pixels and channels change places; `shape` is that of one before."""
    images, hw = 4, 112 * 112
    n, after = images * c * hw, (images, *shape[::-1])
    w = row(name, f"{images}x{c}x{hw}", [random(images, *shape)], lambda x: x.transpose(0, 2, 1), 8 * n)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels

        run, out = getattr(held_kernels, kernel)[cdiv(n, BLOCK),], output(after, np.float32)
        return lambda: (run(x, out, n, c, hw, BLOCK=BLOCK), out)[1]

    numba_entry(w, kernel, lambda x: output(after, np.float32))

    @w.entry("torch")
    def _(x):
        from benchmarks.torch_peer import tensors

        tx, out = tensors(x.transpose(0, 2, 1), output(after, np.float32))
        return lambda: out.copy_(tx)

    return w


def channel_bias() -> Workload:
    images, c, hw = 8, 64, 56 * 56
    n = images * c * hw
    w = row("bias (i // HW) % C", f"{images}x{c}x{hw}", [random(images * c, hw), random(c)], lambda x, b: x + np.tile(b, images)[:, None], 8 * n)

    @w.entry("eas")
    def _(x, b):
        from benchmarks import held_kernels as k

        out = output_like(x)
        return lambda: (k.channel_bias[cdiv(n, BLOCK),](x, b, out, n, hw, c, BLOCK=BLOCK), out)[1]

    numba_entry(w, "channel_bias", lambda x, b: output_like(x))
    return w


def row_scales(width: int) -> Workload:
    """Divisors below and above the width of a vector."""
    rows = 1_000_000 // width
    w = row("x * s[i // W]", f"{rows}x{width}", [random(rows, width), random(rows)], lambda x, s: x * s[:, None], 8 * rows * width)

    @w.entry("eas")
    def _(x, s):
        from benchmarks import held_kernels as k

        out = output_like(x)
        return lambda: (k.row_scales[cdiv(x.size, BLOCK),](x, s, out, x.size, width, BLOCK=BLOCK), out)[1]

    numba_entry(w, "row_scales", lambda x, s: output_like(x))
    return w


def taken_rows() -> Workload:
    """An embedding by a flat index."""
    count, width = 10_000, 64

    def numbers(rng: Any) -> Any:
        return rng.integers(0, 1000, count).astype(np.int32)

    w = row("x[rows[i // W]]", f"{count}x{width}", [random(1000, width), numbers], lambda x, rows: x[rows], 8 * count * width)

    @w.entry("eas")
    def _(x, rows):
        from benchmarks import held_kernels as k

        out = output((count, width), np.float32)
        return lambda: (k.taken_rows[cdiv(out.size, BLOCK),](x, rows, out, out.size, width, BLOCK=BLOCK), out)[1]

    numba_entry(w, "taken_rows", lambda x, rows: output((count, width), np.float32))
    return w


def bias_tiles(dtype: Any) -> Workload:
    """A row that is added to the tiles of a matrix."""
    m, n = 4000, 1777
    nbytes = 2 * m * n * np.dtype(dtype).itemsize
    w = row("bias of tiles 32x64", f"{m}x{n} {np.dtype(dtype).name}", [random(m, n, dtype=dtype), random(n, dtype=dtype)], lambda x, b: x + b, nbytes)

    @w.entry("eas")
    def _(x, b):
        from benchmarks import held_kernels as k

        out = output_like(x)
        return lambda: (k.bias_tiles[cdiv(m, 32), cdiv(n, 64)](x, b, out, m, n, BM=32, BN=64), out)[1]

    numba_entry(w, "bias_tiles", lambda x, b: output_like(x))
    return w


def stride_loop() -> Workload:
    """Threads that step through a row together."""
    m, n, threads = 1000, 4000, 64
    w = row("loop of threads", f"{m}x{n}", [random(m, n)], lambda x: _thread_sums(x, threads), 4 * m * n, tolerance=1e-5)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = output((m, threads), np.float32)
        return lambda: (k.stride_loop[m,](x, out, n, THREADS=threads), out)[1]

    numba_entry(w, "thread_sums", lambda x: output((m, threads), np.float32))
    return w


def _thread_sums(x: Any, threads: int) -> Any:
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % threads)))
    return padded.reshape(x.shape[0], -1, threads).sum(1)


def upsample(s: int) -> Workload:
    h, width = 1000 // s, 1280 // s
    n = h * width * s * s
    w = row("upsample", f"{h}x{width} by {s}", [random(h, width)], lambda x: x.repeat(s, 0).repeat(s, 1), 4 * n + 4 * h * width)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = output((h * s, width * s), np.float32)
        return lambda: (k.upsample[cdiv(n, BLOCK),](x, out, n, width, s, BLOCK=BLOCK), out)[1]

    numba_entry(w, "upsample", lambda x: output((h * s, width * s), np.float32), s)
    return w
