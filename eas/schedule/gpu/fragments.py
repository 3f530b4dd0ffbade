"""Which products run on 8x8 simdgroup matrices on Metal, on how many threads, and in which layout.

A simdgroup owns a rectangle of 8x8 matrices of the result. Each lane holds two elements of each, so
with the `fragment` layout they are registers like any other: nests before and after the product
(scaling, bias, a running softmax) work on them where they are, and only the product itself knows
that they are matrices.

Register budget, in 32-bit registers per lane: a simdgroup has at most 16 accumulator matrices (32
registers) wherever the threadgroup can have more simdgroups, and holds one column of left and one
row of right matrices at a time (at most 4 + 4 of f32, 16 registers, for a square of 4 x 4). That is
48, of the 96 or so at which Apple's GPUs still keep two threadgroups of 256 threads resident; an
epilogue of about 30 values more per lane fits. More than 1024 threads would be needed for results of
more than 256 x 128 elements: then a simdgroup has more matrices, and threadgroup memory is the limit
that such tiles meet first.
"""

from __future__ import annotations

from eas.base.dtypes import DType
from eas.ir import Inst, IRModule, Trait, Value, walk
from eas.ops.simd import LANES, MMA_DTYPES
from eas.schedule.gpu.layouts import FRAGMENT, Layout, fragment
from eas.schedule.gpu.target import MetalTarget

_MATRICES = 16  # accumulators of a simdgroup
_FEW_SIMDGROUPS = 4  # a threadgroup has as many if each then still has `_FEW_MATRICES`
_FEW_MATRICES = 4
_PADDING_NBYTES = 16  # between rows in threadgroup memory, so that 8 rows are in different banks


def uses_fragments(inst: Inst, target: MetalTarget) -> bool:
    """Whether a dot runs on simdgroup matrices."""
    a, b = inst.operands[:2]
    (m, k), n = a.shape[-2:], b.shape[-1]
    whole = all(is_power(extent) and extent >= FRAGMENT for extent in (m, n)) and k % FRAGMENT == 0
    if not whole or a.dtype not in MMA_DTYPES:
        return False
    return target.fragment_map is not None or _staged_nbytes(inst) <= target.threadgroup_nbytes


def _staged_nbytes(inst: Inst) -> int:
    """Threadgroup memory of both operands and of the result, which lanes can find only there."""
    a, b, out = inst.operands[0], inst.operands[1], inst.out
    padded = sum(v.type.size // v.shape[-1] * padded_row(v.shape[-1], v.dtype) * v.dtype.nbytes for v in (a, b))
    return padded + out.type.size * out.dtype.nbytes


def is_power(n: int) -> bool:
    return n & (n - 1) == 0


def dot_threads(module: IRModule, target: MetalTarget) -> int:
    """How many threads the matrix products of a kernel want, 0 if there are none on fragments."""
    dots = [i for i in walk(module.body) if i.op.has(Trait.PRODUCT) and uses_fragments(i, target)]
    return max((_simdgroups(i, target) * LANES for i in dots), default=0)


def _simdgroups(inst: Inst, target: MetalTarget) -> int:
    matrices = inst.out.shape[-2] * inst.out.shape[-1] // FRAGMENT**2
    count = 1
    while 2 * count * LANES <= target.max_threads and (
        matrices // count > _MATRICES
        or (count < _FEW_SIMDGROUPS and matrices // (2 * count) >= _FEW_MATRICES)
    ):
        count *= 2
    return count


def dot_layouts(module: IRModule, target: MetalTarget, threads: int) -> dict[Value, Layout]:
    """The layout of each product that runs on fragments."""
    dots = [i for i in walk(module.body) if i.op.has(Trait.PRODUCT) and uses_fragments(i, target)]
    if threads < LANES:
        return {}
    rows = len(dots) > 1 or _reduces_rows(module, {i.out.shape for i in dots})
    return {i.out: _accumulator(i, threads // LANES, rows, threads) for i in dots}


def _reduces_rows(module: IRModule, shapes: set[tuple[int, ...]]) -> bool:
    """Whether blocks like a product are reduced along their rows: these should lie in one simdgroup."""
    return any(
        i.op.name == "reduce" and i.operands[0].shape in shapes and i["axis"] % len(i.operands[0].shape) == len(i.operands[0].shape) - 1
        for i in walk(module.body)
    )


def _accumulator(inst: Inst, simdgroups: int, rows: bool, threads: int) -> Layout:
    """Rows together: simdgroups one above the other. Else rectangles near squares, which load least."""
    *_, m, n = inst.out.shape
    tiles_m, tiles_n = m // FRAGMENT, n // FRAGMENT
    split_m = split_n = 1
    while split_m * split_n < min(simdgroups, tiles_m * tiles_n):
        tall = tiles_m // split_m >= tiles_n // split_n
        if tiles_m > split_m and (rows or tall or tiles_n == split_n):
            split_m *= 2
        else:
            split_n *= 2
    return fragment(inst.out.shape, split_m, split_n, threads)


def padded_row(columns: int, dtype: DType) -> int:
    """Elements from row to row of an operand in threadgroup memory."""
    return columns + _PADDING_NBYTES // dtype.nbytes
