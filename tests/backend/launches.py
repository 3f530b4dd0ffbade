"""How the backend tests launch: refusals of a Metal target are skips, everything else must run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.ir import walk
from eas.ops import TABLE

METAL = ("mps", "sim")  # the targets that may refuse a kernel, and why
REFUSALS = re.compile("has no f64|has no 64-bit atomic|bytes of threadgroup memory")
SHAPES = ((128,), (33,), (3, 5), (7,), (1,))  # what an elementwise op is given, in one kernel
FEW_SHAPES = ((128,), (7,))
# The dtypes that meet every shape; the others differ from them in one way each, and meet every op.
THOROUGH = (dtypes.f32, dtypes.i32, dtypes.f16, dtypes.u8, dtypes.i64)


def launch(backend: str, kernel: eas.Kernel, *args, grid=None, **meta) -> None:
    """Run a kernel; a Metal target that says it cannot express it skips the test."""
    options = {} if grid is None else {"_grid": grid}
    try:
        kernel(*args, **options, **meta)
    except eas.Unsupported as refusal:
        if backend not in METAL or not REFUSALS.search(refusal.message):
            raise
        pytest.skip(f"{backend} refuses: {refusal.message}")


def need_dtype(backend: str, dtype: DType) -> None:
    if dtype is dtypes.f64 and backend in METAL:
        pytest.skip("Metal has no f64")


def without_subnormals(backend: str, values: list, dtype: DType) -> list:
    """Inputs for a device that may flush subnormals to zero."""
    if backend != "mps" or not dtype.is_float:
        return values
    least = 2.0 ** (1 - dtype.bias)
    return [x if math.isnan(x) or abs(x) >= least else 0.0 for x in values]


def op_names(kernel: eas.Kernel, *args, **meta) -> set[str]:
    """The ops of a kernel as it was traced."""
    return {inst.op.name for inst in walk(kernel.compile(*args, **meta).traced.body)}


def shapes_for(dtype: DType) -> tuple[tuple[int, ...], ...]:
    return SHAPES if dtype in THOROUGH else FEW_SHAPES


def span(shapes) -> int:
    return sum(map(math.prod, shapes))


def pieces(first, n, shapes):
    """(offsets, mask) of one block per shape, from `first` on; lanes at or past n are masked off."""
    for shape in shapes:
        size = math.prod(shape)
        offsets = first + mk.arange(0, size)
        if len(shape) > 1:
            offsets = mk.reshape(offsets, shape)
        yield offsets, offsets < n
        first += size


@eas.kernel
def unary_kernel(x, o0, o1, o2, o3, n, FS: eas.constexpr, SHAPES: eas.constexpr):
    for offsets, mask in list(pieces(mk.program_id(0) * span(SHAPES), n, SHAPES)):
        value = mk.load(x, offsets, mask)
        for out, fn in zip((o0, o1, o2, o3), FS, strict=False):
            mk.store(out, offsets, fn(value), mask)


@eas.kernel
def binary_kernel(a, b, o0, o1, o2, o3, n, FS: eas.constexpr, SHAPES: eas.constexpr):
    for offsets, mask in list(pieces(mk.program_id(0) * span(SHAPES), n, SHAPES)):
        left, right = mk.load(a, offsets, mask), mk.load(b, offsets, mask)
        for out, fn in zip((o0, o1, o2, o3), FS, strict=False):
            mk.store(out, offsets, fn(left, right), mask)


@eas.kernel
def ternary_kernel(a, b, c, o0, o1, o2, o3, n, FS: eas.constexpr, SHAPES: eas.constexpr):
    for offsets, mask in list(pieces(mk.program_id(0) * span(SHAPES), n, SHAPES)):
        values = mk.load(a, offsets, mask), mk.load(b, offsets, mask), mk.load(c, offsets, mask)
        for out, fn in zip((o0, o1, o2, o3), FS, strict=False):
            mk.store(out, offsets, fn(*values), mask)


BY_ARITY = {1: unary_kernel, 2: binary_kernel, 3: ternary_kernel}
TOGETHER = 4  # functions that one kernel can be given: a compilation costs more than a store


def op_groups(ops: Iterable[str]) -> list:
    """Test parameters: a few ops, and a dtype of theirs. Ops that follow each other could share work, so they are kept apart."""
    ops, groups = list(ops), []
    for dtype in dtypes.ALL:
        of_dtype = [op for op in ops if dtype in TABLE[op].dtypes]
        count = -(-len(of_dtype) // TOGETHER)
        groups += [pytest.param(of_dtype[i::count], dtype, id=f"{'+'.join(of_dtype[i::count])}-{dtype}") for i in range(count)]
    return groups


def elementwise_all(backend: str, fns, inputs: list, outs: list, ops: set[str], shapes=SHAPES) -> None:
    """Launch every function over equally long buffers into its output, which is one element longer and stays so."""
    kernel = BY_ARITY[len(inputs)]
    n = inputs[0].size
    args = (*inputs, *outs, *[np.zeros(1, np.int32)] * (TOGETHER - len(outs)), n)
    meta = {"FS": tuple(fns), "SHAPES": shapes}
    launch(backend, kernel, *args, grid=-(-n // span(shapes)), **meta)
    missing = ops - op_names(kernel, *args, **meta)
    assert not missing, f"the kernel does not use {missing}"


def elementwise(backend: str, fn, inputs: list, out, op: str, shapes=SHAPES) -> None:
    """Launch one function."""
    elementwise_all(backend, [fn], inputs, [out], {op}, shapes)
