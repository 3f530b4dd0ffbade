"""The rows template: reductions over one set of axes, and what is computed before, between and after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eas import mk
from eas.base import dtypes
from eas.base.dtypes import DType
from eas.frontend.block import Block
from eas.frontend.loops import RuntimeRange
from eas.frontend.values import broadcast_to, cast_to, constant, emit_inst, fit, lanewise
from eas.lazy.emit.map import block_index, outer_indices
from eas.lazy.emit.neutral import lanes_past_the_end
from eas.lazy.emit.scope import Kernel, Scope, operands

_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


def identity(name: str, dtype: DType) -> Any:
    """What changes nothing when it is combined."""
    if name in ("sum", "any", "prod", "all"):
        return {"sum": 0, "any": False, "prod": 1, "all": True}[name]
    is_max = name in ("max", "argmax")
    if dtype.is_bool:
        return not is_max
    if dtype.is_float:
        return -float("inf") if is_max else float("inf")
    return dtype.min if is_max else dtype.max


class Stages:
    """Which reductions need which: those of one stage share a pass over their rows."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        reduced = [i for i, tag in enumerate(spec.tags) if tag == "r"]
        n = len(spec.instructions)
        self.varies = [False] * n
        """Whether a value differs along the reduced axes."""
        level = [0] * n
        for i, inst in enumerate(spec.instructions):
            sources = operands(inst)
            level[i] = max([level[s] for s in sources], default=0)
            if inst[0] == "reduce":
                level[i] += 1
                continue
            own = {"load": 3, "gather": 3, "random": 3, "index": 1, "inside": 1}.get(inst[0])
            moves = own is not None and any(inst[own][r] != 0 or inst[own + 2][r] is not None for r in reduced)
            self.varies[i] = moves or inst[0] == "scan" or any(self.varies[s] for s in sources)
        self.stages: list[list[int]] = [[] for _ in range(max(level, default=0))]
        for i, inst in enumerate(spec.instructions):
            if inst[0] == "reduce":
                self.stages[level[i] - 1].append(i)
        self.whole = [o for o, out in enumerate(spec.outputs) if any(out[2][r] != 0 for r in reduced) or self.varies[out[0]]]
        """Outputs that are stored along the reduced axes."""
        self.others, self.past = lanes_past_the_end(spec, self.varies, identity)


def emit_rows(kernel: Kernel) -> None:
    """One program per row, per few rows, or per block of columns."""
    stages, form = Stages(kernel.spec), kernel.spec.shape.form
    tags = kernel.spec.tags
    kept = [i for i, tag in enumerate(tags) if tag == "k"]
    reduced = [i for i, tag in enumerate(tags) if tag == "r"]
    index: list[Any] = [None] * len(tags)
    masks: list[Any] = [None] * len(tags)
    blocks = kernel.spec.shape.blocks
    has_row_block = form == "columns" or len(blocks) == 2
    if has_row_block:
        index[kept[-1]], masks[kept[-1]] = block_index(mk.program_id(0), kernel.sizes[kept[-1]], blocks[0], 0, len(blocks))
    else:
        index[kept[-1]] = mk.program_id(0)
    for axis, at in outer_indices(kernel, kept[:-1], mk.program_id(1) if len(kept) > 1 else None).items():
        index[axis] = at
    rows = Scope(kernel, index, masks)
    kernel.others = stages.others
    if form == "whole":
        _emit_whole(kernel, stages, rows, reduced[-1])
        return
    if kernel.spec.template == "scan":
        _emit_long_scan(kernel, rows, reduced)
        return
    walk = _columns if form == "columns" else _steps
    for stage in stages.stages:
        carried = [_start(kernel, i, blocks[0] if form == "columns" else 0) for i in stage]
        flat = [b for item in carried for b in item]

        def body(scope: Scope, at: Any, state: Sequence[Block], stage: list[int] = stage) -> list[Block]:
            return _accumulated(kernel, scope, at, state, stage, stages.past, form == "columns")

        left = walk(kernel, rows, reduced, flat, body)
        for i, found in zip(stage, _by_reduction(kernel, stage, left), strict=True):
            rows.known[i] = cast_to(found[-1], kernel.spec.instructions[i][4])
    later = [o for o in range(len(kernel.spec.outputs)) if o in stages.whole]
    if later:
        _rows_first(stages, rows, [kernel.spec.outputs[o][0] for o in later])

        def write(scope: Scope, at: Any, state: Sequence[Block]) -> list[Block]:
            for o in later:
                scope.store(o, scope.value(kernel.spec.outputs[o][0]))
            return []

        walk(kernel, rows, reduced, [], write)
    for o, out in enumerate(kernel.spec.outputs):
        if o not in stages.whole:
            rows.store(o, rows.value(out[0]))


def _rows_first(stages: Stages, rows: Scope, roots: list[int]) -> None:
    """Compute what does not vary along a row before the pass over it, so that no load of the pass comes before and is kept."""
    stack, seen = list(roots), set[int]()
    while stack:
        i = stack.pop()
        if i in seen:
            continue
        seen.add(i)
        if not stages.varies[i]:
            rows.value(i)
        else:
            stack += operands(stages.spec.instructions[i])


def _emit_whole(kernel: Kernel, stages: Stages, rows: Scope, axis: int) -> None:
    """The row is one block: every value is computed once."""
    blocks = kernel.spec.shape.blocks
    index, masks = list(rows.index), list(rows.masks)
    index[axis], masks[axis] = block_index(None, kernel.sizes[axis], blocks[-1], len(blocks) - 1, len(blocks))
    scope = Scope(kernel, index, masks)
    for stage in stages.stages:
        _rows_first(stages, scope, [kernel.spec.instructions[i][2] for i in stage])
        for i in stage:
            _, name, source, dtype, result = kernel.spec.instructions[i]
            is_neutral = stages.past.get(source) == identity(name, dtype) or _mask_squared(scope, i, masks[axis], blocks)
            block = masked(scope.value(source), name, dtype, None if is_neutral else masks[axis], blocks)
            folded = fold(name, block, len(blocks) - 1)
            if len(blocks) > 1:
                folded = mk.reshape(folded, [blocks[0], 1])
            scope.known[i] = cast_to(folded, result)
    for i, inst in enumerate(kernel.spec.instructions):
        if inst[0] == "scan":
            scope.known[i] = cast_to(mk.cumsum(broadcast_to(cast_to(scope.value(inst[2]), inst[3]), tuple(blocks)), axis=len(blocks) - 1), inst[4])
    _rows_first(stages, scope, [out[0] for out in kernel.spec.outputs if kernel.spec.instructions[out[0]][0] != "scan"])
    for o, out in enumerate(kernel.spec.outputs):
        scope.store(o, scope.value(out[0]))


def _mask_squared(scope: Scope, i: int, mask: Any, blocks: Sequence[int]) -> bool:
    """Of a sum of squares what is squared is masked: the sum stays one of products, and whoever else reads the value has the same one."""
    _, name, source, dtype, _ = scope.kernel.spec.instructions[i]
    squared = scope.kernel.spec.instructions[source]
    if name != "sum" or squared[:2] != ("map", "mul") or squared[4][0] != squared[4][1] or scope.find(source) is not None or not dtype.is_float:
        return False
    factor = squared[4][0]
    value = scope.value(factor)
    scope.known[factor] = masked(value, name, value.dtype, mask, blocks)  # past the end of a row nothing is stored
    return True


def _emit_long_scan(kernel: Kernel, rows: Scope, reduced: list[int]) -> None:
    """Prefix sums of a row in blocks; what a block adds up to goes to the next."""
    _, _, source, dtype, result = next(inst for inst in kernel.spec.instructions if inst[0] == "scan")
    length = kernel.spec.shape.blocks[-1]

    def body(scope: Scope, at: Any, state: Sequence[Block]) -> list[Block]:
        block = masked(scope.value(source), "sum", dtype, scope.masks[reduced[-1]], (length,))
        scope.store(0, cast_to(mk.cumsum(block, axis=0) + state[0], result))
        return [state[0] + mk.sum(block, axis=0)]

    _steps(kernel, rows, reduced, [constant(0, dtype)], body)


def masked(value: Block, name: str, dtype: DType, mask: Any, shape: Sequence[int]) -> Block:
    """A block as a reduction wants it: in its dtype, whole, and neutral past the end of the row."""
    full = tuple(shape)
    block = broadcast_to(cast_to(value, dtype), full)
    if mask is None:
        return block
    return mk.where(broadcast_to(mask, full), block, constant(identity(name, dtype), dtype))


def fold(name: str, block: Block, axis: int) -> Block:
    made: Block = getattr(mk, {"sum": "sum", "prod": "prod", "any": "any", "all": "all", "argmax": "argmax", "argmin": "argmin"}.get(name, name))(block, axis=axis)
    return made


# --- in passes --------------------------------------------------------------------------------------

Body = Callable[[Scope, Any, Sequence[Block]], list[Block]]


def loop(kernel: Kernel, end: Any, step: int, state: Sequence[Block], body: Callable[[Block, list[Block]], list[Block]]) -> list[Block]:
    """A runtime loop from 0 that carries blocks."""
    builder, bounds = kernel.builder, RuntimeRange(0, end, step).bounds()
    with builder.scope("for loop", [bounds[0].type, *(b.type for b in state)]) as scope:
        left = body(Block(scope.params[0]), [Block(p) for p in scope.params[1:]])
        left = [broadcast_to(cast_to(b, s.dtype), s.shape) for b, s in zip(left, state, strict=True)]
    region = builder.close(scope, [b.value for b in left])
    return [Block(out) for out in emit_inst("for", *bounds, *state, regions=[region]).outs]


def _outer(kernel: Kernel, rows: Scope, reduced: list[int], state: Sequence[Block], inner: Callable[[list[Any], Any, list[Block]], list[Block]]) -> list[Block]:
    """A loop over all reduced axes but the last, if there are several."""
    if len(reduced) == 1:
        return inner(list(rows.index), None, list(state))
    count: Any = kernel.sizes[reduced[0]]
    for axis in reduced[1:-1]:
        count = count * kernel.sizes[axis]

    def body(at: Block, entered: list[Block]) -> list[Block]:
        index = list(rows.index)
        for axis, i in outer_indices(kernel, reduced[:-1], at).items():
            index[axis] = i
        return inner(index, at, entered)

    return loop(kernel, count, 1, state, body)


def _steps(kernel: Kernel, rows: Scope, reduced: list[int], state: Sequence[Block], body: Body) -> list[Block]:
    """Through a row in blocks."""
    length, axis = kernel.spec.shape.blocks[-1], reduced[-1]

    def inner(index: list[Any], before: Any, entered: list[Block]) -> list[Block]:
        def step(first: Block, now: list[Block]) -> list[Block]:
            at = [*index]
            masks = list(rows.masks)
            at[axis] = first + mk.arange(0, length)
            masks[axis] = at[axis] < kernel.sizes[axis]
            return body(Scope(kernel, at, masks, rows), first if before is None else before * kernel.sizes[axis] + first, now)

        return loop(kernel, kernel.sizes[axis], length, entered, step)

    return _outer(kernel, rows, reduced, state, inner)


def _columns(kernel: Kernel, rows: Scope, reduced: list[int], state: Sequence[Block], body: Body) -> list[Block]:
    """Down columns, one element of each at a time."""

    def inner(index: list[Any], before: Any, entered: list[Block]) -> list[Block]:
        def step(at: Block, now: list[Block]) -> list[Block]:
            place = [*index]
            place[reduced[-1]] = at
            return body(Scope(kernel, place, list(rows.masks), rows), at if before is None else before * kernel.sizes[reduced[-1]] + at, now)

        return loop(kernel, kernel.sizes[reduced[-1]], 1, entered, step)

    return _outer(kernel, rows, reduced, state, inner)


def _start(kernel: Kernel, i: int, length: int) -> list[Block]:
    """What a reduction begins with: its identity, and of an argmax also a place."""
    _, name, _, dtype, _ = kernel.spec.instructions[i]
    shape = (length,) if length else ()
    best = constant(identity(name, dtype), dtype, shape)
    return [best, constant(0, dtypes.i32, shape)] if name.startswith("arg") else [best]


def _by_reduction(kernel: Kernel, stage: list[int], state: Sequence[Block]) -> list[list[Block]]:
    found, left = [], list(state)
    for i in stage:
        n = 2 if kernel.spec.instructions[i][1].startswith("arg") else 1
        found.append(left[:n])
        left = left[n:]
    return found


def _accumulated(kernel: Kernel, scope: Scope, at: Any, state: Sequence[Block], stage: list[int], past: dict[int, Any], is_column: bool) -> list[Block]:
    made: list[Block] = []
    for i, so_far in zip(stage, _by_reduction(kernel, stage, state), strict=True):
        _, name, source, dtype, _ = kernel.spec.instructions[i]
        value = cast_to(scope.value(source), dtype)
        place = at
        if not is_column:
            along = kernel.spec.tags.index("r") + kernel.spec.tags.count("r") - 1
            is_neutral = past.get(source) == identity(name, dtype)
            block = masked(value, name, dtype, None if is_neutral else scope.masks[along], kernel.spec.shape.blocks[-1:])
            if name.startswith("arg"):
                place = at + mk.argmax(block, axis=0) if name == "argmax" else at + mk.argmin(block, axis=0)
                value = mk.max(block, axis=0) if name == "argmax" else mk.min(block, axis=0)
                if dtype.is_bool:
                    value = mk.any(block, axis=0) if name == "argmax" else mk.all(block, axis=0)
            else:
                value = fold(name, block, 0)
        made += _better(name, so_far, value, place) if name.startswith("arg") else [joined(name, so_far[0], value, dtype)]
    return made


def joined(name: str, a: Block, b: Block, dtype: DType) -> Block:
    return lanewise(_COMBINE[name], *fit(name, [a, b], dtype))


def _better(name: str, so_far: list[Block], value: Block, place: Any) -> list[Block]:
    """The first of the extremes so far; a NaN wins."""
    best, where = so_far
    is_better = value > best if name == "argmax" else value < best
    if value.dtype.is_float:
        is_better = is_better | ((value != value) & (best == best))
    return [mk.where(is_better, value, best), mk.where(is_better, place, where)]


def rows_grid(sizes: Sequence[int], tags: Sequence[str], form: str, blocks: tuple[int, ...]) -> tuple[int, int, int]:
    """Programs of a launch."""
    kept = [n for n, tag in zip(sizes, tags, strict=True) if tag == "k"]
    rows = -(-kept[-1] // blocks[0]) if form == "columns" or len(blocks) == 2 else kept[-1]
    outer = 1
    for size in kept[:-1]:
        outer *= size
    return (rows, outer, 1)
