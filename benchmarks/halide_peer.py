"""The rows as a Halide user schedules them: vectors of 8, parallel over chunks or rows."""

from __future__ import annotations

from collections.abc import Callable

import halide as hl
import numpy as np

from benchmarks.registry import Call

i, c, r = hl.Var("i"), hl.Var("c"), hl.Var("r")
outer, inner = hl.Var("outer"), hl.Var("inner")
CHUNK = 1 << 15


def flat(value: hl.Expr, out: np.ndarray) -> Call:
    """A call that computes `value` of i into a flat array."""
    f = hl.Func("flat")
    f[i] = value
    f.split(i, outer, inner, CHUNK).vectorize(inner, 16).parallel(outer)
    return realized(f, out)


def realized(f: hl.Func, out: np.ndarray) -> Call:
    f.compile_jit()
    buffer = hl.Buffer(out)

    def call() -> np.ndarray:
        f.realize(buffer)
        return out

    return call


def polynomial(x: hl.Expr, *coefficients: float) -> hl.Expr:
    """Horner; the highest power first."""
    value = hl.f32(coefficients[0])
    for k in coefficients[1:]:
        value = value * x + hl.f32(k)
    return value


def erf(x: hl.Expr) -> hl.Expr:
    """hl.erf calls libm per lane; the rational form of Eigen is a vector."""
    x = hl.clamp(x, hl.f32(-4), hl.f32(4))
    t = x * x
    p = polynomial(t, -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02)
    q = polynomial(t, -1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02)
    return x * p / q


def add(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> Call:
    return flat(hl.Buffer(x)[i] + hl.Buffer(y)[i], out)


def gelu(x: np.ndarray, a: float, b: float, out: np.ndarray) -> Call:
    v = hl.f32(a) * hl.Buffer(x)[i] + hl.f32(b)
    return flat(hl.f32(0.5) * v * (hl.f32(1) + erf(v * hl.f32(0.70710678))), out)


def gelu_tanh(x: np.ndarray, a: float, b: float, out: np.ndarray) -> Call:
    """0.5 * (1 + tanh(u)) is 1 / (1 + exp(-2 u))."""
    v = hl.f32(a) * hl.Buffer(x)[i] + hl.f32(b)
    u = hl.f32(-2 * 0.79788456) * (v + hl.f32(0.044715) * v * v * v)
    return flat(v / (hl.f32(1) + hl.fast_exp(u)), out)


def row_sum(name: str, value: Callable[[hl.Expr], hl.Expr], cols: int) -> hl.Func:
    """The sum over the columns of `value`, 32 partial sums at a time; the caller says where."""
    partial, total = hl.Func(name + "_partial"), hl.Func(name)
    j, k, lane = hl.RDom([(0, cols // 32)]), hl.RDom([(0, 32)]), hl.Var("lane")
    partial[lane, r] = hl.f32(0)
    partial[lane, r] += value(j.x * 32 + lane)
    total[r] = hl.f32(0)
    total[r] += partial[k.x, r]
    partial.compute_at(total, r).bound(lane, 0, 32).vectorize(lane, 32)
    partial.update().reorder(lane, j.x).vectorize(lane, 32)
    return total


def softmax(x: np.ndarray, out: np.ndarray) -> Call:
    cols = x.shape[1]
    bx = hl.Buffer(x)
    partial, best, exps, y = (hl.Func(n) for n in ("best_partial", "best", "exps", "y"))
    j, k, lane = hl.RDom([(0, cols // 32)]), hl.RDom([(0, 32)]), hl.Var("lane")
    partial[lane, r] = bx[lane, r]
    partial[lane, r] = hl.max(partial[lane, r], bx[j.x * 32 + lane, r])
    best[r] = bx[0, r]
    best[r] = hl.max(best[r], partial[k.x, r])
    exps[c, r] = hl.fast_exp(bx[c, r] - best[r])
    total = row_sum("total", lambda col: exps[col, r], cols)
    scale = hl.Func("scale")
    scale[r] = hl.f32(1) / total[r]
    y[c, r] = exps[c, r] * scale[r]
    y.vectorize(c, 16).parallel(r, 16)
    for f in (best, total, scale):
        f.compute_at(y, r)
    exps.compute_at(y, r).vectorize(c, 16)
    partial.compute_at(best, r).bound(lane, 0, 32).vectorize(lane, 32)
    partial.update().reorder(lane, j.x).vectorize(lane, 32)
    return realized(y, out)


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, out: np.ndarray, eps: float, centre: bool = True) -> Call:
    """Also RMS norm: without the mean and the bias."""
    cols = x.shape[1]
    bx, bw = hl.Buffer(x), hl.Buffer(weight)
    mean, rstd, y = hl.Func("mean"), hl.Func("rstd"), hl.Func("y")
    total = row_sum("total", lambda col: bx[col, r], cols)
    mean[r] = total[r] / hl.f32(cols) if centre else hl.f32(0)
    squares = row_sum("squares", lambda col: (bx[col, r] - mean[r]) * (bx[col, r] - mean[r]), cols)
    rstd[r] = hl.f32(1) / hl.sqrt(squares[r] / hl.f32(cols) + hl.f32(eps))
    y[c, r] = (bx[c, r] - mean[r]) * rstd[r] * bw[c] + (hl.Buffer(bias)[c] if bias is not None else hl.f32(0))
    y.vectorize(c, 16).parallel(r, 16)
    for f in ((total, mean, squares, rstd) if centre else (mean, squares, rstd)):
        f.compute_at(y, r)
    return realized(y, out)


def sum(x: np.ndarray) -> Call:
    """One partial sum of 32 lanes per chunk, in parallel; NumPy adds the few that remain."""
    bx, out = hl.Buffer(x), np.empty((x.size // CHUNK, 32), np.float32)
    lane, chunk = hl.Var("lane"), hl.Var("chunk")
    j = hl.RDom([(0, CHUNK // 32)])
    f = hl.Func("partial")
    f[lane, chunk] = hl.f32(0)
    f[lane, chunk] += bx[chunk * CHUNK + j.x * 32 + lane]
    f.bound(lane, 0, 32).vectorize(lane, 32).parallel(chunk)
    f.update().reorder(lane, j.x, chunk).vectorize(lane, 32).parallel(chunk)
    run = realized(f, out)
    return lambda: run().sum()


def transpose(x: np.ndarray, out: np.ndarray) -> Call:
    f, block, bx = hl.Func("transposed"), hl.Func("block"), hl.Buffer(x)
    co, ro, ci, ri = (hl.Var(n) for n in ("co", "ro", "ci", "ri"))
    block[c, r] = bx[c, r]
    f[c, r] = block[r, c]
    f.tile(c, r, co, ro, ci, ri, 16, 16).vectorize(ci, 8).unroll(ci).parallel(ro, 4)
    block.compute_at(f, co).vectorize(c, 8).unroll(c)
    return realized(f, out)
