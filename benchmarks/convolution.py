"""Rows: convolutions of a network by eas.lib, convolutions and stencils that a user writes as kernels."""

from __future__ import annotations

import numpy as np

import eas
from benchmarks import convolution_kernels as kernels
from benchmarks.registry import Bar, Workload, output, output_like
from eas import mk


def workloads() -> list[Workload]:
    return [
        conv2d(8, 64, 56, 64, size=3, padding=1),
        conv2d(8, 64, 56, 64, size=1, padding=0),
        conv2d(8, 3, 224, 64, size=7, padding=3, stride=2),
        conv2d(8, 64, 56, 64, size=3, padding=1, groups=64),
        stencil(2048, 3),
        stencil(4096, 3),
        stencil(1024, 5),
        stencil(2048, 3, tile=(16, 64)),
        *(user_conv(form, 2, 32, 56, 32) for form in ("rows", "loops", "flat", "tiles")),
        user_conv("depthwise", 8, 64, 56, 64),
    ]


def conv2d(n: int, c: int, hw: int, o: int, *, size: int, padding: int, stride: int = 1, groups: int = 1) -> Workload:
    out_hw = (hw + 2 * padding - size) // stride + 1
    kind = "depthwise " if groups == c else ""
    taps = c // groups * size * size
    w = Workload(
        "conv2d", f"{kind}{size}x{size} n{n} c{c} {hw}x{hw} o{o}" + (f" /{stride}" if stride > 1 else ""), Bar(ratio=1.15),
        flops=2 * n * o * out_hw**2 * taps, nbytes=4 * (n * c * hw**2 + n * o * out_hw**2 + o * taps), tolerance=1e-4,
        make=lambda rng: (rng.standard_normal((n, c, hw, hw), dtype=np.float32), rng.standard_normal((o, c // groups, size, size), dtype=np.float32)),
        reference=lambda x, f: _conv2d(x, f, stride, padding, groups),
    )  # fmt: skip

    @w.entry("eas")
    def _(x, f):
        from eas import lib

        out = output((n, o, out_hw, out_hw), np.float32)
        return lambda: lib.conv2d(x, f, None, out, stride=stride, padding=padding, groups=groups)

    @w.entry("torch", allocates=True)
    def _(x, f):
        from benchmarks.torch_peer import tensors, torch

        tx, tf = tensors(x, f)
        return lambda: torch.nn.functional.conv2d(tx, tf, stride=stride, padding=padding, groups=groups)

    @w.entry("jax", allocates=True)
    def _(x, f):
        from jax import lax

        from benchmarks.jax_peer import jitted

        return jitted(lambda a, b: lax.conv_general_dilated(a, b, (stride, stride), [(padding, padding)] * 2, feature_group_count=groups), x, f)

    return w


def user_conv(form: str, n: int, c: int, hw: int, o: int) -> Workload:
    """3x3 by a kernel of a user, one output channel per program; Numba runs loops over rows of an output channel."""
    groups = c if form == "depthwise" else 1
    taps = c // groups * 9
    w = Workload(
        "user conv", f"{form} n{n} c{c} {hw}x{hw} o{o}", Bar(), flops=2 * n * o * hw**2 * taps, nbytes=4 * (n * (c + o) * hw**2 + o * taps), tolerance=1e-4,
        make=lambda rng: (rng.standard_normal((n, c, hw, hw), dtype=np.float32), rng.standard_normal((o, c // groups, 3, 3), dtype=np.float32)),
        reference=lambda x, f: _conv2d(x, f, 1, 1, groups),
    )  # fmt: skip

    @w.entry("eas")
    def _(x, f):
        out = output((n, o, hw, hw), np.float32)
        return lambda: (_launch(form, x, f, out), out)[1]

    if groups == 1:

        @w.entry("numba")
        def _(x, f):
            from benchmarks import numba_peer

            out = output((n, o, hw, hw), np.float32)
            return lambda: (numba_peer.conv3(x, f, out), out)[1]

    @w.entry("torch", allocates=True)
    def _(x, f):
        from benchmarks.torch_peer import tensors, torch

        tx, tf = tensors(x, f)
        return lambda: torch.nn.functional.conv2d(tx, tf, padding=1, groups=groups)

    return w


def _launch(form: str, x: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
    n, o, h, w = out.shape
    c = x.shape[1]
    block = 1 << (w - 1).bit_length()
    if form == "rows":
        kernels.rows[h, o, n](x, f, out, c, h, w, o, SIZE=3, BLOCK=block)
    elif form == "loops":
        kernels.loops[h, o, n](x, f, out, c, h, w, o, 3, BLOCK=block)
    elif form == "flat":
        kernels.flat[mk.cdiv(h * w, 1024), o, n](x, f, out, c, h, w, o, SIZE=3, BLOCK=1024)
    elif form == "tiles":
        kernels.tiles[mk.cdiv(h, 8) * mk.cdiv(w, 64), o, n](x, f, out, c, h, w, o, SIZE=3, BM=8, BN=64)
    else:
        kernels.depthwise[mk.cdiv(h * w, 1024), c, n](x, f, out, c, h, w, SIZE=3, BLOCK=1024)


def _conv2d(x: np.ndarray, f: np.ndarray, stride: int, padding: int, groups: int) -> np.ndarray:
    """Tap by tap, in f64."""
    o, cg, size, _ = f.shape
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    out = (x.shape[2] - size) // stride + 1
    x = x.reshape(x.shape[0], groups, cg, *x.shape[2:])
    f = f.astype(np.float64).reshape(groups, o // groups, cg, size, size)
    y = np.zeros((x.shape[0], groups, o // groups, out, out))
    for i in range(size):
        for j in range(size):
            part = x[..., i : i + stride * out : stride, j : j + stride * out : stride]
            y += np.einsum("ngchw,goc->ngohw", part, f[..., i, j], optimize=True)
    return y.reshape(x.shape[0], o, out, out)


@eas.kernel
def stencil_kernel(x, weights, y, H, W, SIZE: eas.constexpr, BM: eas.constexpr, BN: eas.constexpr):
    rows = mk.program_id(1) * BM + mk.arange(0, BM)[:, None]
    cols = mk.program_id(0) * BN + mk.arange(0, BN)[None, :]
    acc = mk.zeros([BM, BN], mk.f32)
    for i in mk.static_range(SIZE):
        for j in mk.static_range(SIZE):
            row, col = rows + i - SIZE // 2, cols + j - SIZE // 2
            inside = (row >= 0) & (row < H) & (col >= 0) & (col < W)
            acc += mk.load(x, row * W + col, inside) * mk.load(weights, i * SIZE + j)
    mk.store(y, rows * W + cols, acc, (rows < H) & (cols < W))


def stencil(n: int, size: int, tile: tuple[int, int] = (8, 1024)) -> Workload:
    bm, bn = tile
    by = "" if bm == 8 else f" by {bm}x{bn}"
    w = Workload(
        "stencil", f"{size}x{size} {n}x{n}{by}", Bar(ratio=1.15), flops=2 * n * n * size * size, nbytes=8 * n * n,
        make=lambda rng: (rng.standard_normal((n, n), dtype=np.float32), rng.standard_normal((size, size), dtype=np.float32)),
        reference=lambda x, f: _conv2d(x[None, None], f[None, None], 1, size // 2, 1)[0, 0],
    )  # fmt: skip

    @w.entry("eas")
    def _(x, f):
        out = output_like(x)
        launch = stencil_kernel[mk.cdiv(n, bn), mk.cdiv(n, bm)]
        return lambda: (launch(x, f, out, n, n, SIZE=size, BM=bm, BN=bn), out)[1]

    @w.entry("numba")
    def _(x, f):
        from benchmarks import numba_peer

        out = output_like(x)
        run = numba_peer.stencil3 if size == 3 else numba_peer.stencil
        return lambda: (run(x, f, out), out)[1]

    @w.entry("torch", allocates=True)
    def _(x, f):
        from benchmarks.torch_peer import tensors, torch

        tx, tf = tensors(x[None, None], f[None, None])
        return lambda: torch.nn.functional.conv2d(tx, tf, padding=size // 2)[0, 0]

    return w
