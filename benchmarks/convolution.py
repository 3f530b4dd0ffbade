"""Rows: convolutions of a network by eas.lib, and a stencil over one image that a user writes as a kernel."""

from __future__ import annotations

import numpy as np

import eas
from benchmarks.registry import Bar, Workload
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

        out = np.empty((n, o, out_hw, out_hw), np.float32)
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


def stencil(n: int, size: int) -> Workload:
    w = Workload(
        "stencil", f"{size}x{size} {n}x{n}", Bar(ratio=1.15), flops=2 * n * n * size * size, nbytes=8 * n * n,
        make=lambda rng: (rng.standard_normal((n, n), dtype=np.float32), rng.standard_normal((size, size), dtype=np.float32)),
        reference=lambda x, f: _conv2d(x[None, None], f[None, None], 1, size // 2, 1)[0, 0],
    )  # fmt: skip

    @w.entry("eas")
    def _(x, f):
        out = np.empty_like(x)
        launch = stencil_kernel[mk.cdiv(n, 1024), mk.cdiv(n, 8)]
        return lambda: (launch(x, f, out, n, n, SIZE=size, BM=8, BN=1024), out)[1]

    @w.entry("numba")
    def _(x, f):
        from benchmarks import numba_peer

        out = np.empty_like(x)
        run = numba_peer.stencil3 if size == 3 else numba_peer.stencil
        return lambda: (run(x, f, out), out)[1]

    @w.entry("torch", allocates=True)
    def _(x, f):
        from benchmarks.torch_peer import tensors, torch

        tx, tf = tensors(x[None, None], f[None, None])
        return lambda: torch.nn.functional.conv2d(tx, tf, padding=size // 2)[0, 0]

    return w
