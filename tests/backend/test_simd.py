"""The 32 lanes of a simdgroup: reductions, prefixes, shuffles, votes, and 8x8 matrices."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import eas
from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.ir import walk
from eas.ops import TABLE
from eas.passes.spread_threads import spread_threads
from eas.testing import assert_close
from tests.backend.formats import (
    assert_identical,
    buffer,
    contents,
    edges,
    nearest,
    poison,
    sample,
    wrapped,
)
from tests.backend.launches import METAL, THOROUGH, launch, need_dtype, op_names

pytestmark = pytest.mark.every_width

COVERS = {op for op in TABLE if op.startswith(("simd_", "mma"))}
GROUPS = 2  # threadgroups per launch


@eas.kernel
def lanes_kernel(x, y, n, FNS: eas.constexpr, BLOCK: eas.constexpr):
    t = mk.tid(0, BLOCK)
    i = mk.program_id(0) * BLOCK + t
    value = mk.load(x, i, i < n)
    for k, fn in enumerate(FNS):
        mk.store(y, k * n + i, fn(value), i < n)


def run(backend, fns: dict[str, Callable], values: list, dtype: DType, out: DType, block: int) -> dict[str, np.ndarray]:
    """What each function gives every lane: [threadgroups, block]."""
    n = GROUPS * block
    x, y = buffer(values[:n], dtype), poison(n * len(fns) + 1, out)
    meta = {"FNS": tuple(fns.values()), "BLOCK": block}
    launch(backend, lanes_kernel, x, y, n, grid=GROUPS, **meta)
    ops = {name.split(" ")[0] for name in fns}
    assert ops <= op_names(lanes_kernel, x, y, n, **meta)
    return dict(zip(fns, contents(y)[:-1].reshape(len(fns), GROUPS, block), strict=True))


def simdgroups(values: list, block: int) -> list[list]:
    """The values of each simdgroup of each threadgroup; the last one may be short."""
    return [values[g * block : (g + 1) * block][s : s + 32] for g in range(GROUPS) for s in range(0, block, 32)]


def _spread(fold):
    return lambda lanes: [fold(lanes)] * len(lanes)


def _product(lanes: list):
    return math.prod(lanes)


def _total(lanes: list):
    return math.fsum(lanes) if isinstance(lanes[0], float) else sum(lanes)


def _bitwise(fn):
    def fold(lanes: list) -> int:
        result = lanes[0]
        for v in lanes[1:]:
            result = fn(result, v)
        return result

    return fold


FOLDS = {
    "simd_sum": _spread(_total),
    "simd_product": _spread(_product),
    "simd_max": _spread(max),
    "simd_min": _spread(min),
    "simd_and": _spread(_bitwise(lambda a, b: a & b)),
    "simd_or": _spread(_bitwise(lambda a, b: a | b)),
    "simd_xor": _spread(_bitwise(lambda a, b: a ^ b)),
    "simd_prefix_inclusive_sum": lambda lanes: [_total(lanes[: i + 1]) for i in range(len(lanes))],
    "simd_prefix_exclusive_sum": lambda lanes: [_total(lanes[:i]) if i else type(lanes[0])(0) for i in range(len(lanes))],
    "simd_prefix_inclusive_product": lambda lanes: [_product(lanes[: i + 1]) for i in range(len(lanes))],
    "simd_prefix_exclusive_product": lambda lanes: [_product(lanes[:i]) for i in range(len(lanes))],
}


BLOCKS = [pytest.param(d, block, id=f"{d}-{block}") for d in TABLE["simd_sum"].dtypes for block in ((64, 40, 1) if d in THOROUGH else (40,))]


@pytest.mark.parametrize(("dtype", "block"), BLOCKS)
def test_folds_over_the_lanes(backend, dtype, block):
    need_dtype(backend, dtype)
    folds = {op: meaning for op, meaning in FOLDS.items() if dtype in TABLE[op].dtypes}
    values = sample(dtype, GROUPS * block, block)
    if dtype.is_float:  # of one sign and near 1: nothing cancels, nothing overflows f16
        values = [nearest(float(v), dtype) for v in np.random.default_rng(block).uniform(0.9, 1.12, GROUPS * block)]
    got = run(backend, {op: getattr(mk, op) for op in folds}, values, dtype, dtype, block)
    for op, meaning in folds.items():
        want = [v for lanes in simdgroups(values, block) for v in meaning(lanes)]
        if dtype.is_float:
            rounded = np.array([nearest(float(v), dtype) for v in want])
            assert_close(got[op].ravel(), rounded, dtype, ulps=TABLE[op].accuracy.bound(dtype))
        else:
            assert_identical(got[op].ravel(), contents(buffer([wrapped(v, dtype) for v in want], dtype)), dtype, where=op)


def _rotated(x):
    return mk.simd_shuffle(x, (mk.lane_id() * 7 + 3) % 32)


# spelling: (in the kernel, the lane that lane l reads)
SHUFFLES = {
    "simd_shuffle": (_rotated, lambda lane: (lane * 7 + 3) % 32),
    "simd_broadcast": (lambda x: mk.simd_broadcast(x, 5), lambda lane: 5),
    "simd_shuffle_xor 1": (lambda x: mk.simd_shuffle_xor(x, 1), lambda lane: lane ^ 1),
    "simd_shuffle_xor 24": (lambda x: mk.simd_shuffle_xor(x, 24), lambda lane: lane ^ 24),
    "simd_shuffle_up": (lambda x: mk.simd_shuffle_up(x, 3), lambda lane: lane - 3 if lane >= 3 else lane),
    "simd_shuffle_down": (lambda x: mk.simd_shuffle_down(x, 9), lambda lane: lane + 9 if lane + 9 < 32 else lane),
}


@pytest.mark.parametrize("dtype", TABLE["simd_shuffle"].dtypes, ids=str)
def test_shuffles_move_every_dtype(backend, dtype):
    need_dtype(backend, dtype)
    values = (edges(dtype) + sample(dtype, 128, 0))[:128]
    got = run(backend, {name: fn for name, (fn, _) in SHUFFLES.items()}, values, dtype, dtype, 64)
    for name, (_, source) in SHUFFLES.items():
        want = [lanes[source(lane)] for lanes in simdgroups(values, 64) for lane in range(32)]
        assert_identical(got[name].ravel(), contents(buffer(want, dtype)), dtype, where=name)


# (in the kernel, the lane that lane l names, of which there need not be one)
BEYOND = {
    "simd_shuffle": (_rotated, lambda lane: (lane * 7 + 3) % 32),
    "simd_shuffle_xor": (lambda x: mk.simd_shuffle_xor(x, 12), lambda lane: lane ^ 12),
    "simd_shuffle_up": (lambda x: mk.simd_shuffle_up(x, 5), lambda lane: lane - 5),
    "simd_shuffle_down": (lambda x: mk.simd_shuffle_down(x, 5), lambda lane: lane + 5),
    "simd_shuffle_down 31": (lambda x: mk.simd_shuffle_down(x, 31), lambda lane: lane + 31),
}


@pytest.mark.left_out(lambda backend: backend in METAL)  # a GPU says nothing of lanes that are not there
@pytest.mark.parametrize("block", [40, 33, 7])
def test_shuffles_from_lanes_that_are_not_there_keep_their_own(backend, block):
    values = [int(v) for v in range(100, 100 + GROUPS * block)]
    got = run(backend, {name: fn for name, (fn, _) in BEYOND.items()}, values, dtypes.i32, dtypes.i32, block)
    for name, (_, source) in BEYOND.items():
        want = [lanes[source(k) if 0 <= source(k) < len(lanes) else k] for lanes in simdgroups(values, block) for k in range(len(lanes))]
        np.testing.assert_array_equal(got[name].ravel(), want, name)


VOTES = {
    "simd_all": _spread(all),
    "simd_any": _spread(any),
    "simd_ballot": _spread(lambda lanes: sum(1 << i for i, v in enumerate(lanes) if v)),
}


@pytest.mark.parametrize("op", VOTES)
@pytest.mark.parametrize("block", [128, 40])
def test_votes_of_the_lanes(backend, op, block):
    values = [True] * 32 + [False] * 32 + sample(dtypes.bool_, 2 * block, 0)
    values[71] = True
    values = values[: GROUPS * block]
    out = dtypes.u32 if op == "simd_ballot" else dtypes.bool_
    got = run(backend, {op: getattr(mk, op)}, values, dtypes.bool_, out, block)
    want = [v for lanes in simdgroups(values, block) for v in VOTES[op](lanes)]
    np.testing.assert_array_equal(got[op].ravel(), want)


# --- simdgroup matrices -----------------------------------------------------------------------


@eas.kernel
def tiles_kernel(a, b, c, K, N, BLOCK: eas.constexpr, STAGED: eas.constexpr):
    """Each simdgroup a column of 8x8 tiles; `STAGED` reads A from threadgroup memory."""
    t = mk.tid(0, BLOCK)
    col = mk.sg_id() * 8
    tile = mk.alloc_tg(64, a.dtype)
    acc = mk.mma_zero()
    for k in range(0, K, 8):
        if STAGED:
            mk.barrier()
            if t < 64:
                mk.store(tile, t, mk.load(a, t // 8 * K + k + t % 8))
            mk.barrier()
            acc = mk.mma(tile, 0, 8, b, k * N + col, N, acc)
        else:
            acc = mk.mma(a, k, K, b, k * N + col, N, acc)
    mk.mma_store(c, col, N, acc)


@pytest.mark.parametrize("dtype", TABLE["mma"].dtypes, ids=str)
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("k", [8, 40])
def test_mma_agrees_with_exact_products(backend, dtype, staged, k):
    rng = np.random.default_rng(k)
    a, b = (np.array([nearest(float(v), dtype) for v in rng.standard_normal(r * c)]).reshape(r, c) for r, c in ((8, k), (k, 16)))
    c = np.zeros((8, 16), np.float32)
    launch(backend, tiles_kernel, buffer(a, dtype), buffer(b, dtype), c, k, 16, grid=1, BLOCK=64, STAGED=staged)
    assert_close(c, a @ b, "f32", ulps=TABLE["mma"].accuracy.bound(dtypes.f32), scale=math.sqrt(k))


@pytest.mark.parametrize("dtype", TABLE["mma_store"].dtypes, ids=str)
def test_mma_store_rounds_to_the_buffer(backend, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 10, (8, 8)), rng.integers(-9, 10, (8, 16))
    c = poison(8 * 16, dtype)
    launch(backend, tiles_kernel, buffer(a, dtypes.f32), buffer(b, dtypes.f32), c, 8, 16, grid=1, BLOCK=64, STAGED=False)
    want = [nearest(float(v), dtype) for v in (a @ b).ravel()]
    assert_identical(contents(c), contents(buffer(want, dtype)), dtype, False)


@eas.kernel
def chosen_kernel(a, b, c, BLOCK: eas.constexpr):
    """Each simdgroup multiplies as often as its index says: the fragment is chosen per simdgroup."""
    mk.tid(0, BLOCK)
    acc = mk.mma_zero()
    for _ in range(mk.sg_id()):
        acc = mk.mma(a, 0, 8, b, 0, 8, acc)
    if mk.sg_id() == 2:
        acc = mk.mma(b, 0, 8, a, 0, 8, acc)
    mk.mma_store(c, mk.sg_id() * 64, 8, acc)


def test_fragments_follow_the_control_flow_of_their_simdgroup(backend):
    a, b = np.random.default_rng(0).integers(-5, 6, (2, 8, 8)).astype(np.float32)
    c = np.zeros((4, 8, 8), np.float32)
    launch(backend, chosen_kernel, a, b, c, grid=1, BLOCK=128)
    np.testing.assert_array_equal(c, [0 * a, a @ b, 2 * a @ b + b @ a, 3 * a @ b])
    traced = chosen_kernel.compile(a, b, c, BLOCK=128).traced
    assert {"mma_zero", "mma", "mma_store"} <= {inst.op.name for inst in walk(traced.body)}
    assert "mma_select" in {inst.op.name for inst in walk(spread_threads(traced).body)}
