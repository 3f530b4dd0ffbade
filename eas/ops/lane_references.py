"""What scheduled rows compute, in NumPy.

A scalar of scheduled IR is an array [threads, lanes]: 1 thread where all threads of a threadgroup have the same, and on a
CPU; 1 lane where all lanes have the same. Regions are functions of such arrays, in `call.combine`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eas.base.types import Space
from eas.ops.control import print_text
from eas.ops.machine import Pointer
from eas.ops.reduce import order
from eas.ops.table import Call

STREAM_NBYTES = 16  # a piece that goes past the cache at once, and its alignment
_SIDE, _SIMDGROUP = 8, 32  # of a simdgroup matrix; threads that hold it


# --- structure ------------------------------------------------------------------------------------


def region(call: Call, *values: Any) -> tuple[Any, ...]:
    """What the region makes of the values."""
    assert call.combine is not None
    return call.combine(*values)


def whole(call: Call, value: np.ndarray) -> int:
    """A number that all threads and lanes have in common."""
    flat = np.ravel(value)
    if (flat != flat[0]).any():
        call.world.fail("threads or lanes disagree about a number that they need to have in common")
    return int(flat[0])


def per_lane(value: np.ndarray, lanes: int) -> np.ndarray:
    """A value with all of its lanes."""
    return np.broadcast_to(value, (np.shape(value)[0], lanes)) if np.shape(value)[1] != lanes else value


def loop(call: Call, start: np.ndarray, end: np.ndarray, *carried: Any) -> tuple[Any, ...]:
    lanes, dtype = call.attrs["lanes"], call.operands[0].dtype.np_compute
    first, last = whole(call, start), whole(call, end)
    steps = (first,) if call.attrs.get("once") else range(first, last, lanes)
    values = tuple(v if isinstance(v, Pointer) else per_lane(v, lanes) for v in carried)
    for i in steps:
        values = region(call, np.full((1, 1), i, dtype), *values)
    return values


def find(call: Call, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    lanes, dtype = call.attrs["lanes"], call.operands[0].dtype.np_compute
    last = whole(call, end)
    for i in range(whole(call, start), last, lanes):
        first = min(i, last - lanes)
        (flags,) = region(call, np.full((1, 1), first, dtype))
        hits = np.flatnonzero(per_lane(flags, lanes)[0])
        if hits.size:
            return np.full((1, 1), first + hits[0])
    return end


def lane(call: Call) -> np.ndarray:
    return np.arange(call.attrs.get("lanes", call.lanes), dtype=np.int32)[None, :]


def hreduce(call: Call, *values: np.ndarray) -> tuple[np.ndarray, ...]:
    """The upper half of the lanes onto the lower half until one is left."""
    lanes = call.attrs["lanes"]
    folded = tuple(per_lane(v, lanes) for v in values)
    while lanes > 1:
        lanes //= 2
        halves = [v[:, part] for part in (slice(lanes), slice(lanes, None)) for v in folded]
        folded = tuple(per_lane(v, lanes) for v in region(call, *halves))
    return folded


def vscan(call: Call, value: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lanes = range(call.lanes)[:: -1 if call.attrs["reverse"] else 1]
    value, before = per_lane(value, call.lanes), per_lane(before, call.lanes)
    prefixes: dict[int, np.ndarray] = {}
    so_far: np.ndarray | None = None
    for i in lanes:
        mine = value[:, i : i + 1]
        so_far = mine if so_far is None else region(call, so_far, mine)[0]
        prefixes[i] = so_far
    assert so_far is not None
    all_prefixes = np.concatenate([prefixes[i] for i in range(call.lanes)], axis=1)
    return region(call, before, all_prefixes)[0], per_lane(region(call, before, so_far)[0], call.lanes)


def vextract(call: Call, vector: np.ndarray, number: np.ndarray) -> np.ndarray:
    if vector.shape[1] == 1:
        return vector
    threads = max(vector.shape[0], number.shape[0])
    index = np.broadcast_to(number, (threads, number.shape[1])).astype(np.int64)
    return np.take_along_axis(np.broadcast_to(vector, (threads, vector.shape[1])), index, 1)


def vany(call: Call, flags: np.ndarray) -> np.ndarray:
    return np.asarray(flags.any(axis=1, keepdims=True))


def vtranspose(call: Call, *values: np.ndarray) -> tuple[np.ndarray, ...]:
    square = np.stack([per_lane(v, len(values)) for v in values])  # value, thread, lane
    return tuple(square[:, :, i].T for i in range(len(values)))


def lane_bits(call: Call, flags: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Bits of a word, the last of which is its sign."""
    lanes = per_lane(flags, max(flags.shape[1], call.lanes))
    bits = sum(1 << i for i, on in enumerate(np.ravel(lanes)) if on) << whole(call, first)
    return np.full((1, 1), bits, np.uint64).view(np.int64)


# --- memory ---------------------------------------------------------------------------------------


def scratch(call: Call) -> Pointer:
    """An array for each thread."""
    size, threads = call.attrs["size"], call.world.threads
    memory = call.world.allocate("scratch", size * threads, call.attrs["dtype"])
    return Pointer(memory.buffer, np.arange(threads, dtype=np.int64)[:, None] * size)


def _lanes(call: Call) -> np.ndarray:
    return np.arange(call.attrs.get("lanes", call.lanes), dtype=np.int64)[None, :]


def _ahead(pointer: Pointer, steps: np.ndarray) -> Pointer:
    """The addresses some elements further, one per lane."""
    assert pointer.shape[1] == 1, "the address is not the same in all lanes"
    return Pointer(pointer.buffer, pointer.offsets + steps.astype(np.int64))


def is_on(mask: np.ndarray | None) -> np.ndarray | None:
    """A mask, of a held one too."""
    return mask if mask is None or mask.dtype == np.bool_ else mask < 0


def _read(call: Call, steps: np.ndarray, pointer: Pointer, mask: Any, other: Any) -> np.ndarray:
    on = is_on(mask)
    if on is not None and call.attrs.get("middle") is not None:
        first, end = call.attrs["middle"]
        if not per_lane(on, steps.shape[1])[:, first:end].all():
            call.world.fail(f"{first} .. {end - 1} are not all on, which the schedule said of these lanes")
    return call.world.load(_ahead(pointer, steps), on, other)


def vload(call: Call, pointer: Pointer, mask: Any = None, other: Any = None) -> np.ndarray:
    return _read(call, _lanes(call), pointer, mask, other)


def stride_load(call: Call, pointer: Pointer, step: np.ndarray, mask: Any = None, other: Any = None) -> np.ndarray:
    return _read(call, _lanes(call) * step.astype(np.int64), pointer, mask, other)


def vgather(call: Call, pointer: Pointer) -> np.ndarray:
    return _read(call, _lanes(call) * call.attrs["stride"], pointer, None, None)


def near_load(call: Call, pointer: Pointer, ahead: np.ndarray) -> np.ndarray:
    steps = np.diff(per_lane(ahead, call.lanes), axis=1)
    if ((steps < 0) | (steps > 1)).any():
        call.world.fail("from lane to lane a near load goes on by more than one element")
    return _read(call, per_lane(ahead, call.lanes), pointer, None, None)


def table_load(call: Call, pointer: Pointer, index: np.ndarray, count: np.ndarray) -> np.ndarray:
    if ((index < 0) | (index >= whole(call, count))).any():
        call.world.fail("a lane of a table load is past the end of the table")
    return _read(call, per_lane(index, call.lanes), pointer, None, None)


def vstore(call: Call, pointer: Pointer, value: np.ndarray, mask: Any = None, past: Any = None) -> None:
    if call.attrs.get("stream") and not call.attrs.get("singly") and mask is None and _address(pointer) % STREAM_NBYTES:
        call.world.fail("a store past the cache is not aligned")
    call.world.store(_ahead(pointer, _lanes(call)), value, mask)


def stride_store(call: Call, pointer: Pointer, step: np.ndarray, value: np.ndarray) -> None:
    call.world.store(_ahead(pointer, _lanes(call) * step.astype(np.int64)), value, None)


def count(call: Call, counters: Pointer, number: np.ndarray) -> None:
    lanes = np.arange(call.lanes)
    cells = lanes % call.attrs["copies"] * call.attrs["stride"] + per_lane(number, call.lanes)[0].astype(np.int64)
    places, times = np.unique(cells, return_counts=True)
    at = _ahead(counters, places[None, :])
    call.world.store(at, call.world.load(at, None, None) + times.astype(np.int32), None)


def sync(call: Call) -> None:
    if not call.world.active_threads().all():
        call.world.fail("some threads of the threadgroup do not reach a barrier")


# --- answers that only speed depends on -----------------------------------------------------------


def _address(pointer: Pointer) -> int:
    data = pointer.buffer.data
    return int(data.ctypes.data + np.ravel(pointer.offsets)[0] * data.itemsize)


def can_stream(call: Call, pointer: Pointer) -> np.ndarray:
    return np.full((1, 1), call.world.streams and _address(pointer) % STREAM_NBYTES == 0)


def avoids_4k_aliasing(call: Call, pointer: Pointer, *loads: Pointer) -> np.ndarray:
    return np.full((1, 1), call.world.streams)


def stream_head(call: Call, pointer: Pointer) -> np.ndarray:
    nbytes = call.dtype.nbytes
    head = -_address(pointer) % call.attrs["align"] // nbytes
    allowed = call.world.streams and (nbytes >= 4 or head == 0)
    return np.full((1, 1), head if allowed else -1)


# --- products -------------------------------------------------------------------------------------


def _grid(first: Pointer, rows: int, row: int, columns: int, column: int) -> Pointer:
    """The addresses of a matrix."""
    numbers = np.arange(rows, dtype=np.int64)[:, None] * row + np.arange(columns, dtype=np.int64)[None, :] * column
    return Pointer(first.buffer, np.ravel(first.offsets)[0] + numbers)


def _product(call: Call, a: Pointer, b: Pointer, kind: np.dtype[Any]) -> np.ndarray:
    """Integers wrap exactly in the width of the sum; floats are summed wide."""
    wide = kind if kind.kind in "iu" else np.dtype(np.float64)
    left, right = (call.world.load_block(side).astype(wide) for side in (a, b))
    return np.asarray(left @ right)


def _add_to(call: Call, c: Pointer, product: np.ndarray, fresh: bool) -> None:
    before = 0 if fresh else call.world.load_block(c).astype(product.dtype)
    kind = call.operands[2].dtype.np_compute
    call.world.store_block(c, (before + product).astype(kind))


def contract(call: Call, a: Pointer, b: Pointer, c: Pointer, k: np.ndarray, a_row: np.ndarray, b_row: np.ndarray, *ahead: Pointer) -> None:
    (m, n, _), steps = call.attrs["shape"], whole(call, k)
    rows = whole(call, a_row), whole(call, b_row)
    turned = call.attrs["b_transposed"]
    left = _grid(a, m, rows[0], steps, call.attrs["a_column"])
    right = _grid(b, steps, 1 if turned else rows[1], n, rows[1] if turned else 1)
    _add_to(call, _grid(c, m, n, n, 1), _product(call, left, right, call.operands[2].dtype.np_compute), False)


def _sides(call: Call, a: Pointer, b: Pointer, sizes: Sequence[int], strides: Sequence[int]) -> tuple[Pointer, Pointer]:
    (k, m, n), (a_row, a_step, b_step, b_column) = sizes, strides
    return _grid(a, m, a_row, k, a_step), _grid(b, k, b_step, n, b_column)


def contraction(call: Call, a: Pointer, b: Pointer, acc: np.ndarray, *numbers: np.ndarray) -> np.ndarray:
    """Blocks; what nobody will see shows that nobody should have looked."""
    k, m, n, *strides = (whole(call, x) for x in numbers)
    k, m, n = max(k, 0), min(max(m, 0), acc.shape[0]), min(max(n, 0), acc.shape[1])
    kind = call.out.dtype
    result = np.full(acc.shape, math.nan if kind.is_float else 0x5A5A, kind.np_compute)
    product = _product(call, *_sides(call, a, b, (k, m, n), strides), kind.np_compute)
    result[:m, :n] = acc[:m, :n].astype(product.dtype) + product
    return result


def contract_panels(call: Call, a: Pointer, b: Pointer, c: Pointer, copy: Pointer, packed: Pointer, tags: Pointer, *numbers: np.ndarray) -> None:
    k, m, n, *strides = (whole(call, x) for x in numbers)
    rows, columns = call.attrs["shape"]
    k, m, n = max(k, 0), min(max(m, 0), rows), min(max(n, 0), columns)
    product = _product(call, *_sides(call, a, b, (k, m, n), strides), call.operands[2].dtype.np_compute)
    _add_to(call, _grid(c, m, columns, n, 1), product, call.attrs["fresh"])


def dot_direct(call: Call, a: Any, b: Any, acc: np.ndarray, *rows: np.ndarray) -> np.ndarray:
    kind = call.out.dtype
    wide = np.dtype(np.float64) if kind.is_float else kind.np_compute
    left, right = (call.world.load(x, None, None) if isinstance(x, Pointer) else x for x in (a, b))
    return np.asarray(np.matmul(left.astype(wide), right.astype(wide)) + acc.astype(wide))


def relayout(call: Call, source: Pointer, target: Pointer) -> None:
    size = call.attrs["size"]
    square = call.world.load_block(_grid(source, size, call.attrs["source_row"], size, 1))
    call.world.store_block(_grid(target, size, call.attrs["target_row"], size, 1), square.T)


# --- order and messages ---------------------------------------------------------------------------


def _run(pointer: Pointer, size: int) -> Pointer:
    return Pointer(pointer.buffer, np.ravel(pointer.offsets)[0] + np.arange(size, dtype=np.int64))


def sort_row(call: Call, keys: Pointer, positions: Pointer, work: Pointer) -> None:
    found = order(call.world.load_block(_run(keys, call.attrs["n"])), 0, call.attrs["descending"])[: call.attrs["count"]]
    call.world.store_block(_run(positions, found.size), found.astype(call.operands[1].dtype.np_compute))


def sort_values(call: Call, keys: Pointer, to: Pointer, work: Pointer) -> np.ndarray:
    values = call.world.load_block(_run(keys, call.attrs["n"]))
    if call.dtype.is_float and (np.isnan(values) | (np.signbit(values) & (values == 0))).any():
        return np.full((1, 1), False)
    call.world.store_block(_run(to, values.size), values[order(values, 0, call.attrs["descending"])])
    return np.full((1, 1), True)


def write_log(call: Call, *pointers: Pointer) -> None:
    blocks = [call.world.load_block(_run(p, math.prod(shape))).reshape(shape) for p, shape in zip(pointers, call.attrs["shapes"], strict=True)]
    call.world.report(print_text(call.attrs["prefix"], blocks))


# --- simdgroup matrices ---------------------------------------------------------------------------


def _element(threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of the first of the two neighbours that each thread holds of a matrix."""
    t = np.arange(threads, dtype=np.int64)[:, None] % _SIMDGROUP
    return (t >> 1 & 3) + (t >> 4 & 1) * 4, (t & 1) * 2 + (t >> 3 & 1) * 4


def _own_elements(down: int, across: int) -> tuple[np.ndarray, np.ndarray]:
    """For a thread's elements of m x n matrices, in order: rows and columns ahead of its first."""
    matrix, e = np.divmod(np.arange(2 * down * across, dtype=np.int64)[None, :], 2)
    return matrix // across * _SIDE, matrix % across * _SIDE + e


def frag_fill(call: Call, acc: Pointer, value: np.ndarray) -> None:
    call.world.store(_ahead(acc, np.arange(2 * call.attrs["count"])[None, :]), value, None)


def _in_memory(call: Call, memory: Pointer, row: np.ndarray) -> Pointer:
    (r, c), (down, across) = _element(call.world.threads), _own_elements(*call.attrs["tiles"])
    return _ahead(memory, (r + down) * row.astype(np.int64) + c + across)


def frag_load(call: Call, acc: Pointer, memory: Pointer, row: np.ndarray) -> None:
    down, across = call.attrs["tiles"]
    values = call.world.load(_in_memory(call, memory, row), None, None)
    call.world.store(_ahead(acc, np.arange(2 * down * across)[None, :]), values, None)


def frag_store(call: Call, memory: Pointer, acc: Pointer, row: np.ndarray) -> None:
    down, across = call.attrs["tiles"]
    values = call.world.load(_ahead(acc, np.arange(2 * down * across)[None, :]), None, None)
    call.world.store(_in_memory(call, memory, row), values, None)


def frag_mma(call: Call, acc: Pointer, a: Pointer, b: Pointer, a_row: np.ndarray, b_row: np.ndarray) -> None:
    down, across, deep = call.attrs["tiles"]
    (r, c), (rows, columns) = _element(call.world.threads), _own_elements(down, across)
    r, c = r + rows, c + columns
    places = _ahead(acc, np.arange(2 * down * across)[None, :])
    sums = np.array(np.broadcast_to(call.world.load(places, None, None), r.shape)).astype(np.float64)
    active, own = call.world.active_threads(), call.operands[1].space is Space.SCRATCH
    for first in range(0, call.world.threads, _SIMDGROUP):
        threads = slice(first, first + _SIMDGROUP)
        if not active[first]:
            continue
        left = _gathered(call, a, threads, down, deep) if own else _tile(call, a, a_row, first, (down, deep), call.attrs["a_transposed"])
        right = _tile(call, b, b_row, first, (deep, across), call.attrs["b_transposed"])
        sums[threads] += (left.astype(np.float64) @ right.astype(np.float64))[r[threads], c[threads]]
    call.world.store(places, sums.astype(call.dtype.np_compute), None)


def _of(values: np.ndarray, thread: int) -> Any:
    return np.ravel(values)[min(thread, values.size - 1)]


def _tile(call: Call, pointer: Pointer, row: np.ndarray, thread: int, tiles: Sequence[int], turned: bool) -> np.ndarray:
    """The matrices of a simdgroup from memory."""
    rows, columns = (_SIDE * n for n in tiles)
    corner = Pointer(pointer.buffer, np.asarray(_of(pointer.offsets, thread)))
    step = int(_of(row, thread))
    return call.world.load_block(_grid(corner, rows, 1 if turned else step, columns, step if turned else 1))


def _gathered(call: Call, pointer: Pointer, threads: slice, down: int, across: int) -> np.ndarray:
    """The matrices of which the threads of a simdgroup hold two elements each."""
    (r, c), (rows, columns) = _element(_SIMDGROUP), _own_elements(down, across)
    held = Pointer(pointer.buffer, pointer.offsets[threads] + np.arange(2 * down * across))
    values = call.world.load_block(held)
    matrix = np.empty((down * _SIDE, across * _SIDE), values.dtype)
    matrix[r + rows, c + columns] = values
    return matrix
