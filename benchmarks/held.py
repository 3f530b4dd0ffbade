"""Rows of the kinds that are easily forgotten: strides told at run time, unaligned outputs, loops per
element, short integers with a rest, flat indices that are divided, results over an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.registry import Bar, Workload

BLOCK = 1024
BAR = Bar(ratio=1.10)


def workloads() -> list[Workload]:
    return [
        strided(1), strided(2), tiles(), unaligned(np.float32, 22), unaligned(np.uint8, 24), blend(), short_rows(),
        mandelbrot(), horner(), stencil(), channels_first(), channel_bias(), upsample(), in_place(24), over_input(24),
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

        out = np.empty(n, np.float32)
        return lambda: (k.scale[cdiv(n, BLOCK),](x, out, n, s, 1, BLOCK=BLOCK), out)[1]

    @w.entry("numba")
    def _(x):
        from benchmarks import held_numba

        view, out = x[::s], np.empty(n, np.float32)
        return lambda: (held_numba.scale(view, out), out)[1]

    @w.entry("torch")
    def _(x):
        from benchmarks.torch_peer import tensors, torch

        view, out = tensors(x[::s], np.empty(n, np.float32))
        return lambda: torch.mul(view, 2, out=out)

    return w


def tiles() -> Workload:
    m = n = 2048
    w = row("tiles 64x64", f"{m}x{n} of a larger matrix", [random(m, n + 40), random(m, n + 40)], lambda x, y: (x + y)[:, :n], 12 * m * n)

    @w.entry("eas")
    def _(x, y):
        from benchmarks import held_kernels as k

        x, y, out = x[:, :n], y[:, :n], np.empty((m, n + 40), np.float32)[:, :n]
        return lambda: (k.add_tiles[cdiv(n, 64), cdiv(m, 64)](x, y, out, m, n, BM=64, BN=64), out)[1]

    @w.entry("numba")
    def _(x, y):
        from benchmarks import held_numba

        x, y, out = x[:, :n], y[:, :n], np.empty((m, n + 40), np.float32)[:, :n]
        return lambda: (held_numba.add_tiles(x, y, out), out)[1]

    @w.entry("torch")
    def _(x, y):
        from benchmarks.torch_peer import tensors, torch

        tx, ty, out = tensors(x[:, :n], y[:, :n], np.empty((m, n + 40), np.float32)[:, :n])
        return lambda: torch.add(tx, ty, out=out)

    return w


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
    out = lambda x, y: np.empty(n + 64, dtype)[1 : n + 1]  # noqa: E731
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

        out = np.empty_like(x)
        return lambda: (k.blend[cdiv(n, BLOCK),](x, y, out, n, 77, BLOCK=BLOCK), out)[1]

    numba_entry(w, "blend", lambda x, y: np.empty_like(x), 77)
    return w


def short_rows() -> Workload:
    rows, cols = 20000, 67
    w = row("threshold u8", f"{rows}x{cols}", [random(rows, cols, dtype=np.uint8)], lambda x: np.where(x > 50, x, 0), 2 * rows * cols)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = np.empty_like(x)
        return lambda: (k.threshold_rows[rows,](x, out, cols, 50, BLOCK=128), out)[1]

    numba_entry(w, "threshold_rows", lambda x: np.empty_like(x), np.uint8(50))
    return w


def mandelbrot() -> Workload:
    width, height, steps = 500, 333, 100
    n = width * height
    re = lambda rng: np.tile(np.linspace(-2, 0.6, width, dtype=np.float32), height)  # noqa: E731
    im = lambda rng: np.repeat(np.linspace(-1.2, 1.2, height, dtype=np.float32), width)  # noqa: E731
    w = row("mandelbrot", f"{width}x{height}, {steps} steps", [re, im], None, 12 * n)  # fused products move its border

    @w.entry("eas")
    def _(a, b):
        from benchmarks import held_kernels as k

        out = np.empty(n, np.int32)
        return lambda: (k.mandelbrot[cdiv(n, 256),](a, b, out, n, steps, BLOCK=256), out)[1]

    numba_entry(w, "mandelbrot", lambda a, b: np.empty(n, np.int32), steps)
    return w


def horner() -> Workload:
    n, degree = (1 << 20) + 7, 12
    reference = lambda x, c: np.polyval(c.astype(np.float64), x.astype(np.float64))  # noqa: E731
    w = row("horner", f"degree {degree}, 2^20+7", [random(n), random(degree)], reference, 8 * n, tolerance=1e-5)

    @w.entry("eas")
    def _(x, c):
        from benchmarks import held_kernels as k

        out = np.empty_like(x)
        return lambda: (k.horner[cdiv(n, BLOCK),](x, c, out, n, degree, BLOCK=BLOCK), out)[1]

    numba_entry(w, "horner", lambda x, c: np.empty_like(x))
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

        out = np.empty_like(x)
        return lambda: (k.stencil[cdiv(n, BLOCK),](x, out, n, h, width, BLOCK=BLOCK), out)[1]

    numba_entry(w, "stencil", lambda x: np.empty_like(x))
    return w


def channels_first() -> Workload:
    images, c, hw = 4, 32, 112 * 112
    n = images * c * hw
    w = row("NHWC to NCHW", f"{images}x{c}x{hw}", [random(images, hw, c)], lambda x: x.transpose(0, 2, 1), 8 * n)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = np.empty((images, c, hw), np.float32)
        return lambda: (k.channels_first[cdiv(n, BLOCK),](x, out, n, c, hw, BLOCK=BLOCK), out)[1]

    numba_entry(w, "channels_first", lambda x: np.empty((images, c, hw), np.float32))

    @w.entry("torch")
    def _(x):
        from benchmarks.torch_peer import tensors

        tx, out = tensors(x.transpose(0, 2, 1), np.empty((images, c, hw), np.float32))
        return lambda: out.copy_(tx)

    return w


def channel_bias() -> Workload:
    images, c, hw = 8, 64, 56 * 56
    n = images * c * hw
    w = row("bias (i // HW) % C", f"{images}x{c}x{hw}", [random(images * c, hw), random(c)], lambda x, b: x + np.tile(b, images)[:, None], 8 * n)

    @w.entry("eas")
    def _(x, b):
        from benchmarks import held_kernels as k

        out = np.empty_like(x)
        return lambda: (k.channel_bias[cdiv(n, BLOCK),](x, b, out, n, hw, c, BLOCK=BLOCK), out)[1]

    numba_entry(w, "channel_bias", lambda x, b: np.empty_like(x))
    return w


def upsample() -> Workload:
    h, width, s = 500, 640, 2
    n = h * width * s * s
    w = row("upsample", f"{h}x{width} by {s}", [random(h, width)], lambda x: x.repeat(s, 0).repeat(s, 1), 4 * n + 4 * h * width)

    @w.entry("eas")
    def _(x):
        from benchmarks import held_kernels as k

        out = np.empty((h * s, width * s), np.float32)
        return lambda: (k.upsample[cdiv(n, BLOCK),](x, out, n, width, s, BLOCK=BLOCK), out)[1]

    numba_entry(w, "upsample", lambda x: np.empty((h * s, width * s), np.float32), s)
    return w
