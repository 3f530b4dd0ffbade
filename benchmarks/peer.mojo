"""The rows as a Mojo user writes them: SIMD and the standard library's math, over some of the rows.

The threads are OpenMP's, from baselines.c: Mojo's own `parallelize` needs a Mojo main program.
"""

from std.math import erf, exp, tanh
from std.sys import simd_width_of

comptime W = simd_width_of[DType.float32]()
comptime Floats = Pointer[Float32, MutAnyOrigin]


@export
def gelu(x: Floats, res: Floats, a: Float32, b: Float32, first: Int, last: Int, cols: Int) abi("C"):
    for i in range(first * cols, last * cols, W):
        var v = x.unsafe_load[width=W](i) * a + b
        res.unsafe_store(i, 0.5 * v * (1.0 + erf(v * 0.70710678)))


@export
def gelu_tanh(x: Floats, res: Floats, a: Float32, b: Float32, first: Int, last: Int, cols: Int) abi("C"):
    for i in range(first * cols, last * cols, W):
        var v = x.unsafe_load[width=W](i) * a + b
        var inner = 0.79788456 * (v + 0.044715 * v * v * v)
        res.unsafe_store(i, 0.5 * v * (1.0 + tanh(inner)))


@export
def softmax(x: Floats, res: Floats, a: Float32, b: Float32, first: Int, last: Int, cols: Int) abi("C"):
    for r in range(first, last):
        var at = r * cols
        var best = SIMD[DType.float32, 4 * W](-3.4e38)
        for c in range(0, cols, 4 * W):
            best = max(best, x.unsafe_load[width = 4 * W](at + c))
        var shift = best.reduce_max()
        var total = SIMD[DType.float32, 2 * W](0)
        for c in range(0, cols, 2 * W):
            var e = exp(x.unsafe_load[width = 2 * W](at + c) - shift)
            res.unsafe_store(at + c, e)
            total += e
        var scale = 1.0 / total.reduce_add()
        for c in range(0, cols, 4 * W):
            res.unsafe_store(at + c, res.unsafe_load[width = 4 * W](at + c) * scale)
