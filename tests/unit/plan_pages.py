"""A plan as a lazy tensor has it, made by hand: two products with a norm between them, of which three kernels are left."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np

import eas
from eas import mk
from eas.base import dtypes
from eas.ir import Loc


@eas.kernel
def scale_kernel(x, out, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    mk.store(out, i, mk.load(x, i, i < N) * 2.0, i < N)


def node(op, src=(), shape=(8, 16), memory=None, loc=None):
    return SimpleNamespace(op=SimpleNamespace(name=op), src=tuple(src), shape=shape, dtype=dtypes.f32, memory=memory, loc=loc)


def here():
    frame = sys._getframe(1)
    return Loc(((frame.f_code, frame.f_lasti),))


def step(name, template, nodes, seconds=2e-5):
    x = np.zeros(4, np.float32)
    module = scale_kernel.compile(x, x, 4, BLOCK=4).traced
    return SimpleNamespace(name=name, template=template, nodes=nodes, bytes=4096, flops=8192, seconds=seconds, module=module)


def small_plan(name="matmul"):
    a, b = node("buffer", memory=1), node("buffer", memory=1, shape=(16, 16))
    doubled = node("mul", (a, 2), loc=here())
    product = node(name, (doubled, b), loc=here())
    total = node("sum", (product,), shape=(8,), loc=here())
    wide = node("expand", (total,), loc=here())
    result = node("div", (product, wide), loc=here())
    kernels = [step("m_128_mul", "map", [doubled]), step("t_8_16_16_dot", "tile", [product]), step("r_8_16_div_sum", "rows", [total, wide, result])]
    cuts = [
        SimpleNamespace(producer=doubled, consumer=product, reason="a matrix product reads its operands many times"),
        SimpleNamespace(producer=product, consumer=total, reason="a kernel has one matrix product"),
    ]
    buffers = [
        SimpleNamespace(id=2, nbytes=512, first=0, last=1, reused_from=None, node=doubled),
        SimpleNamespace(id=3, nbytes=512, first=1, last=2, reused_from=None, node=product),
        SimpleNamespace(id=4, nbytes=512, first=2, last=3, reused_from=2, node=result),
    ]
    return SimpleNamespace(nodes=[a, b, doubled, product, total, wide, result], kernels=kernels, cuts=cuts, buffers=buffers)
