"""The launches of stage "ops" that are not elementwise: blocks as a whole, memory, atomics, simdgroups, control flow."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# A kernel's parameters have the types of its call.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.lib.kernels import constexpr, kernel
from eas.ops import TABLE
from eas.verify.stages.op_cases import Case
from eas.verify.stages.op_values import argument, blank, small, various

ROWS, COLUMNS = 4, 32
SIZE = ROWS * COLUMNS


# --- reductions, scans, orders, shapes ------------------------------------------------------------


@kernel
def fold_kernel(x, y, FS: constexpr, OUT: constexpr):
    block = mk.reshape(mk.load(x, mk.arange(0, SIZE)), (ROWS, COLUMNS))
    for k, fn in enumerate(FS):
        mk.store(y, k * ROWS + mk.arange(0, ROWS), mk.cast(fn(block), OUT))


@kernel
def whole_kernel(x, y, FS: constexpr, OUT: constexpr):
    block = mk.reshape(mk.load(x, mk.arange(0, SIZE)), (ROWS, COLUMNS))
    for k, fn in enumerate(FS):
        mk.store(y, k * SIZE + mk.arange(0, SIZE), mk.cast(mk.ravel(fn(block)), OUT))


def _wide(dtype: DType) -> DType:
    return dtypes.f32 if dtype.is_float and dtype is not dtypes.f64 else dtype if dtype.is_float else dtypes.i64


def _block_case(kernel: Any, ops: tuple[str, ...], fns: list[Callable[..., Any]], dtype: DType, out: DType, n: int, values: np.ndarray) -> Case:
    args = (argument(values, dtype), blank(n * len(fns), out))
    return Case(ops, dtype, kernel, args, {1: (out, 0.0)}, meta={"FS": tuple(fns), "OUT": out}, labels=ops)


def _swapped(x):
    return mk.reshape(mk.permute(x, (1, 0)), (ROWS, COLUMNS))


def _joined(x):
    return mk.split(mk.reshape(mk.join(x, x), (ROWS, COLUMNS, 2)))[1]


def _appended(x):
    low, high = mk.split(mk.reshape(x, (ROWS, COLUMNS // 2, 2)))
    return mk.cat(low, high, 1)


def _spread(x):
    first = mk.reshape(mk.gather(x, mk.zeros((ROWS, 1), mk.i32), 1), (ROWS,))
    return mk.broadcast_to(mk.expand_dims(first, 1), (ROWS, COLUMNS))


def _turned(x):
    places = mk.broadcast_to(mk.expand_dims(COLUMNS - 1 - mk.arange(0, COLUMNS), 0), (ROWS, COLUMNS))
    return mk.gather(x, places, 1)


def _best(x):
    values, _ = mk.topk(x, COLUMNS, 1)
    return values


def _block_cases(known: tuple[DType, ...]) -> Iterator[Case]:
    for dtype in known:
        shapes = [_swapped, _joined, mk.flip, _appended, _spread, _turned]
        yield _block_case(whole_kernel, ("reshape", "permute", "join", "split", "flip", "cat", "expand_dims", "broadcast", "gather"), shapes, dtype, dtype, SIZE, various(dtype, SIZE, 1))
        if dtype in TABLE["sort"].dtypes:
            yield _block_case(whole_kernel, ("sort", "topk"), [mk.sort, _best], dtype, dtype, SIZE, np.roll(np.arange(SIZE) % 61, 17))
        if dtype not in TABLE["add"].dtypes:
            continue
        wide, numbers = _wide(dtype), small(dtype, SIZE, 2)
        folds = [lambda x: mk.sum(x, 1), lambda x: mk.max(x, axis=1), lambda x: mk.min(x, axis=1), lambda x: mk.argmax(x, 1), lambda x: mk.argmin(x, 1)]
        yield _block_case(fold_kernel, ("reduce",), folds, dtype, wide, ROWS, numbers)
        yield _block_case(whole_kernel, ("scan",), [lambda x: mk.cumsum(x, 1), lambda x: mk.cumprod(x, 1, reverse=True)], dtype, wide, SIZE, numbers)
        if not dtype.is_float:
            yield _block_case(fold_kernel, ("histogram",), [lambda x: mk.histogram(mk.ravel(x), ROWS)], dtype, dtypes.i64, ROWS, np.arange(SIZE) % 7)


# --- atomics --------------------------------------------------------------------------------------

BINS = 5


@kernel
def atomic_kernel(x, bins, own, found, n, FS: constexpr):
    i = mk.program_id(0) * 64 + mk.arange(0, 64)
    mask = i < n
    value = mk.load(x, i, mask)
    for k, update in enumerate(FS):
        if update is not mk.atomic_xchg:  # of lanes that meet any one may win
            update(bins + k * BINS, i % BINS, value, mask=mask)
        mk.store(found + k * n, i, update(own + k * n + i, value, mask=mask), mask)


@kernel
def swap_kernel(cells, expected, new, found, n):
    i = mk.program_id(0) * 64 + mk.arange(0, 64)
    mask = i < n
    mk.store(found, i, mk.atomic_cas(cells, i, mk.load(expected, i, mask), mk.load(new, i, mask), mask=mask), mask)


@kernel
def order_kernel(flag, x, n):
    """Each program waits for the one before it, and changes what that one has left."""
    p, i = mk.program_id(0), mk.arange(0, 64)
    mk.atomic_poll(flag, 0, p)
    mk.store(x, i, mk.load(x, i, i < n) * 3 + p, i < n)
    mk.atomic_store(flag, 0, p + 1, sem="release")


def _atomic_cases(known: tuple[DType, ...]) -> Iterator[Case]:
    n, names = 150, [op for op in TABLE if op.startswith("atomic_") and op not in ("atomic_cas", "atomic_poll")]
    for dtype in known:
        for op in names:
            if dtype not in TABLE[op].dtypes:
                continue
            args = (argument(small(dtype, n, 0), dtype), argument(small(dtype, BINS, 1), dtype), argument(small(dtype, n, 2), dtype), blank(n, dtype), n)
            outs = dict.fromkeys((1, 2, 3), (dtype, 0.0))
            yield Case((op,), dtype, atomic_kernel, args, outs, 3, {"FS": (getattr(mk, op),)}, ("bins", "own", "found"))
        if dtype in TABLE["atomic_cas"].dtypes:
            cells = small(dtype, n, 3)
            args = (argument(cells, dtype), argument(np.where(np.arange(n) % 2, cells, 1), dtype), argument(small(dtype, n, 5), dtype), blank(n, dtype), n)
            yield Case(("atomic_cas",), dtype, swap_kernel, args, {0: (dtype, 0.0), 3: (dtype, 0.0)}, 3, {}, ("cells", "found"))
        if dtype in TABLE["atomic_poll"].dtypes:
            yield Case(("fence", "atomic_poll"), dtype, order_kernel, (argument(np.zeros(1), dtype), argument(np.arange(50), dtypes.i32), 50), {1: (dtypes.i32, 0.0)}, 9)


# --- simdgroups -----------------------------------------------------------------------------------

LANES, GROUPS = 64, 2


@kernel
def lanes_kernel(x, y, FS: constexpr):
    i = mk.program_id(0) * LANES + mk.tid(0, LANES)
    value = mk.load(x, i)
    for k, fn in enumerate(FS):
        mk.store(y, k * (GROUPS * LANES) + i, fn(value))


@kernel
def matrix_kernel(a, b, c):
    t = mk.tid(0, 128)
    acc = mk.mma_zero(mk.f32)
    for _ in range(mk.sg_id()):
        acc = mk.mma(a, 0, 8, b, 0, 8, acc)
    mk.mma_store(c, mk.sg_id() * 64, 8, acc)
    mk.assume(t >= 0)


def _rotated(x):
    return mk.simd_shuffle(x, (mk.lane_id() * 7 + 3) % 32)


SHUFFLES: dict[str, Callable[..., Any]] = {
    "simd_shuffle": _rotated,
    "simd_broadcast": lambda x: mk.simd_broadcast(x, 5),
    "simd_shuffle_xor": lambda x: mk.simd_shuffle_xor(x, 24),
    "simd_shuffle_up": lambda x: mk.simd_shuffle_up(x, 3),
    "simd_shuffle_down": lambda x: mk.simd_shuffle_down(x, 9),
}


def _lane_case(fns: dict[str, Callable[..., Any]], values: np.ndarray, dtype: DType, out: DType, ulps: float = 0.0) -> Case:
    args = (argument(values, dtype), blank(LANES * GROUPS * len(fns), out))
    return Case(tuple(fns), dtype, lanes_kernel, args, {1: (out, ulps)}, GROUPS, {"FS": tuple(fns.values())}, tuple(fns))


def _simd_cases(known: tuple[DType, ...]) -> Iterator[Case]:
    n = LANES * GROUPS
    for dtype in known:
        yield _lane_case(SHUFFLES, various(dtype, n, 4), dtype, dtype)
        folds = {op: getattr(mk, op) for op in TABLE if op.startswith("simd_") and op not in SHUFFLES and dtype in TABLE[op].dtypes and not dtype.is_bool}
        if folds:
            numbers = np.random.default_rng(1).uniform(0.9, 1.12, n) if dtype.is_float else various(dtype, n, 5)
            yield _lane_case(folds, numbers, dtype, dtype, max(TABLE[op].accuracy.bound(dtype) for op in folds))
    votes = various(dtypes.bool_, n, 6)
    yield _lane_case({"simd_all": mk.simd_all, "simd_any": mk.simd_any}, votes, dtypes.bool_, dtypes.bool_)
    yield _lane_case({"simd_ballot": mk.simd_ballot}, votes, dtypes.bool_, dtypes.u32)
    for dtype in TABLE["mma"].dtypes:
        a, b = (argument(small(dtype, 64, seed), dtype) for seed in (1, 2))
        yield Case(("mma_zero", "mma", "mma_store"), dtype, matrix_kernel, (a, b, blank(256, dtypes.f32)), {2: (dtypes.f32, 0.0)})


# --- products, random numbers, control flow -------------------------------------------------------


@kernel
def dot_kernel(a, b, y, ACC: constexpr):
    left = mk.reshape(mk.load(a, mk.arange(0, 512)), (16, 32))
    right = mk.reshape(mk.load(b, mk.arange(0, 512)), (32, 16))
    mk.store(y, mk.arange(0, 256), mk.cast(mk.ravel(mk.dot(left, right)), ACC))


@kernel
def philox_kernel(y, seed, n):
    i = mk.program_id(0) * 64 + mk.arange(0, 64)
    for w, bits in enumerate(mk.philox(seed, i, 1, 2, 3)):
        mk.store(y, i * 4 + w, bits, i < n)


@kernel
def threads_kernel(x, y, n):
    t = mk.tid(0, 64)
    tile = mk.alloc_tg(64, mk.f32)
    i = mk.program_id(0) * 64 + t
    mk.store(tile, t, mk.load(x, i, i < n))
    mk.barrier()
    mk.store(y, i, mk.load(tile, 63 - t) + mk.cast(mk.lane_id() + 100 * mk.sg_id() + 10 * mk.local_id(0), mk.f32), i < n)


@kernel
def control_kernel(x, y, n):
    i = mk.max_contiguous(mk.multiple_of(mk.program_id(0) * 64, 64), 1) + mk.arange(0, 64)
    mk.assume(n > 0)
    mk.device_assert(i >= 0, "an index is negative")
    value = mk.load(x, mk.max_constancy(i, 1), i < n)
    for k in range(n % 7):
        value = value * 3 + k
    count = 0
    while count * count < n:
        count += 1
    if count % 2 == 1:
        value = value + count
    value = mk.inline(mk.i32, value, i, msl="a0 ^ a1", llvm="xor $0, a1", numpy="a0 ^ a1")
    mk.store(y, i, value + mk.num_programs(0), i < n)


@kernel
def print_kernel(x, y):
    value = mk.load(x, mk.arange(0, 2))
    mk.device_print("verify prints", value)
    mk.store(y, mk.arange(0, 2), value + 1)


def _countdown(value: Any) -> Any:
    steps = value * 0
    while value > 0:
        if value % 2 == 1:
            steps += 1
        value = value // 2
    return steps


@kernel
def map_kernel(x, y):
    i = mk.arange(0, 64)
    mk.store(y, i, mk.map_elementwise(_countdown, mk.load(x, i)))


def _other_cases(known: tuple[DType, ...]) -> Iterator[Case]:
    for dtype in known:
        if dtype in TABLE["dot"].dtypes:
            a, b = (argument(small(dtype, 512, seed), dtype) for seed in (1, 2))
            out = _wide(dtype)
            yield Case(("dot",), dtype, dot_kernel, (a, b, blank(256, out)), {2: (out, 0.0)}, meta={"ACC": out})
    yield Case(("philox",), dtypes.u32, philox_kernel, (blank(400, dtypes.u32), 12345, 100), {0: (dtypes.u32, 0.0)}, 2)
    numbers = np.arange(150)
    yield Case(("tid", "local_id", "lane_id", "sg_id", "alloc_tg", "barrier"), dtypes.f32, threads_kernel, (argument(np.arange(192), dtypes.f32), blank(192, dtypes.f32), 192), {1: (dtypes.f32, 0.0)}, 3)
    names = ("for", "while", "if", "yield", "assume", "multiple_of", "max_contiguous", "max_constancy", "device_assert", "inline_target", "num_programs", "program_id", "arange", "const", "load", "store", "addptr")
    yield Case(names, dtypes.i32, control_kernel, (argument(numbers, dtypes.i32), blank(150, dtypes.i32), 150), {1: (dtypes.i32, 0.0)}, 3)
    yield Case(("map",), dtypes.i32, map_kernel, (argument(numbers[:64], dtypes.i32), blank(64, dtypes.i32)), {1: (dtypes.i32, 0.0)})
    yield Case(("device_print",), dtypes.i32, print_kernel, (argument(np.arange(2), dtypes.i32), blank(2, dtypes.i32)), {1: (dtypes.i32, 0.0)})


def block_cases(known: tuple[DType, ...]) -> list[Case]:
    """Every other row of the table."""
    return [*_block_cases(known), *_atomic_cases(known), *_simd_cases(known), *_other_cases(known)]
