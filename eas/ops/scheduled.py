"""Rows that only scheduled IR has: nests, loops over lanes, scratch memory.

A scheduled module is the same IR after `schedule/`: `nests` groups block instructions that run in
one loop nest, `loops` replaces blocks by scalars inside explicit loops. In such a loop a value is
*varying* when it depends on `lane`; targets hold it in a vector of the loop's width. `lane_references` has
the NumPy references.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eas.base import dtypes
from eas.base.errors import InvalidIR
from eas.base.types import Space, Type
from eas.ops import lane_references as run
from eas.ops.memory import need_element, need_mask, need_pointer
from eas.ops.rules import INTS, fixed, need_dtype, nothing
from eas.ops.table import TABLE, Attrs, Op, RegionSig, Trait, register


def _yields(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    return regions[0].yields


def _loop_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    carried = tuple(types[2:])
    body = regions[0]
    if body.params != (types[0], *carried) or body.yields != carried:
        raise InvalidIR("loop: carried values, parameters and yields differ")
    return carried


def _same_types(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    return tuple(types)


def _hreduce_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    if regions[0].params != (*types, *types) or regions[0].yields != tuple(types):
        raise InvalidIR("hreduce: the combine region does not fit its operands")
    return tuple(types)


def _find_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    if regions[0].params != (types[0],) or types[1] != types[0] or regions[0].yields != (Type(dtypes.bool_),):
        raise InvalidIR("find: the region does not tell for a position whether it is the one")
    return (types[0],)


def _vscan_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    if regions[0].params != tuple(types) or regions[0].yields != (types[0],):
        raise InvalidIR("vscan: the combine region does not fit its operands")
    return tuple(types)


def _scratch_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    return (Type(attrs["dtype"], (), Space.SCRATCH),)


def _vload_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_pointer("vload", types[0])
    if len(types) > 1 and types[1] != Type(dtypes.i32):  # what `hold` made
        need_mask("vload", types[1], ())
    return (Type(types[0].dtype),)


def _can_stream_rule(
    types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]
) -> tuple[Type, ...]:
    need_pointer("can_stream", types[0])
    return (Type(dtypes.bool_),)


def _avoids_4k_aliasing_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    for kind in types:
        need_pointer("avoids_4k_aliasing", kind)
    return (Type(dtypes.bool_),)


def _stream_head_rule(
    types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]
) -> tuple[Type, ...]:
    need_pointer("stream_head", types[0])
    return (Type(dtypes.i32),)


def _stride_load_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_pointer("stride_load", types[0])
    need_dtype("stride_load step", types[1], INTS)
    if len(types) > 2 and types[2] != Type(dtypes.i32):  # what `hold` made
        need_mask("stride_load", types[2], ())
    return (Type(types[0].dtype),)


def _near_load_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    need_pointer("near_load", types[0])
    for index in types[1:]:
        need_dtype("near_load index", index, (dtypes.i32,))
    return (Type(types[0].dtype),)


def _check_stride_store(types: Sequence[Type], attrs: Attrs) -> None:
    need_pointer("stride_store", types[0])
    need_dtype("stride_store step", types[1], INTS)
    need_element("stride_store", types[2], types[0])


def _check_prefetch(types: Sequence[Type], attrs: Attrs) -> None:
    need_pointer("prefetch", types[0])


def _check_vstore(types: Sequence[Type], attrs: Attrs) -> None:
    need_pointer("vstore", types[0])
    need_element("vstore", types[1], types[0])
    for flags in types[2:]:
        need_mask("vstore", flags, ())


_S = Trait.SCHEDULED
register(Op("nest", "scheduled", "", _yields, "Block instructions of one iteration shape that run together; what it yields is used outside.", Trait.EFFECT | _S, run.region, attrs="shape: ints, order?: ints", regions=1))
register(Op("scratch", "scheduled", "", _scratch_rule, "Memory of the running thread, `size` elements in compute form, for one program.", Trait.EFFECT | Trait.ALLOCATES | _S, run.scratch, attrs="size: int, dtype: dtype, layout?: str, vector?: int"))
register(Op("loop", "scheduled", "start, end, *carried", _loop_rule, "From start to end in steps of `lanes`; carried values are per lane when lanes > 1. `once`: there is exactly one step. `of_rows`: the counter is the row that goes on through neighbouring programs.", Trait.EFFECT | _S, run.loop, attrs="lanes: int, unroll?: bool, once?: bool, of_rows?: bool", regions=1))
register(Op("find", "scheduled", "start, end", _find_rule, "The first position, from start to end, for which the region says yes, else end. It is asked for `lanes` positions at a time, the last of which end with `end`; there must be as many in front of it.", Trait.EFFECT | _S, run.find, attrs="lanes: int", regions=1))
register(Op("lane_bits", "scheduled", "cond, first", fixed(dtypes.i64), "Bit first + l is lane l, the others are 0; first is the same in all lanes, and no lane is past the last bit.", Trait.PURE | _S, run.lane_bits))
register(Op("lane", "scheduled", "", fixed(dtypes.i32), "0 .. lanes-1, the lane of the innermost loop, or of a vector of `lanes` where it says so.", Trait.PURE | Trait.CHEAP | _S, run.lane, attrs="lanes?: int"))
def _check_count(types: Sequence[Type], attrs: Attrs) -> None:
    need_pointer("count", types[0])


register(Op("vload", "scheduled", "ptr, mask?, other?", _vload_rule, "Lane l reads ptr[l]; ptr is the same in all lanes. `lanes`: of how many, where no loop around says it. `sure`: some lane is on; `middle`: between which all are. A mask may be one that is held.", Trait.READS | _S, run.vload, attrs="lanes?: int, aligned?: bool, sure?: bool, middle?: ints"))
register(Op("opaque", "scheduled", "mask", fixed(dtypes.i32), "A number per lane, below 0 where the mask is on, opaque to the optimiser, which keeps it instead of making it again.", Trait.PURE | _S, lambda call, mask: -mask.astype(np.int32)))
register(Op("programs_left", "scheduled", "", fixed(dtypes.i64), "How many programs side by side the thread has still to run, with this one.", Trait.PURE | _S, lambda call: call.world.programs_left()))
register(Op("can_stream", "scheduled", "ptr", _can_stream_rule, "Whether stores from ptr on should bypass the cache: the buffer is larger than it, and ptr is aligned.", Trait.PURE | _S, run.can_stream))
register(Op("prefetch", "scheduled", "ptr", nothing(_check_prefetch), "Prefetch the cache line of ptr into the cache of that `level`; nothing is wrong where there is no memory. ptr is the same in all lanes.", Trait.EFFECT | _S, lambda call, pointer: None, attrs="level: int"))
register(Op("avoids_4k_aliasing", "scheduled", "ptr, *loads", _avoids_4k_aliasing_rule, "Whether no load, from its address on, soon reads at the offset in a 4 KiB page that stores from ptr on have just written (no 4K aliasing).", Trait.PURE | _S, run.avoids_4k_aliasing))
register(Op("stream_head", "scheduled", "ptr", _stream_head_rule, "How many elements from ptr on are before the first whose address is a multiple of `align`, where stores past the cache start; -1 if they should not.", Trait.PURE | _S, run.stream_head, attrs="align: int"))
register(Op("vstore", "scheduled", "ptr, value, mask?, past?", nothing(_check_vstore), "Lane l writes ptr[l]; ptr is the same in all lanes. Past the cache where `stream` or `past` says so, and one lane after the other there if `singly`. `lanes` as in vload.", Trait.WRITES | _S, run.vstore, attrs="lanes?: int, aligned?: bool, stream?: bool, singly?: bool"))
register(Op("stride_load", "scheduled", "ptr, step, mask?, other?", _stride_load_rule, "Lane l reads ptr[l * step]; ptr and step are the same in all lanes. Without a mask what is in between may be read too. `sure` and `middle` as in vload.", Trait.READS | _S, run.stride_load, attrs="sure?: bool, middle?: ints"))
register(Op("near_load", "scheduled", "ptr, ahead", _near_load_rule, "Lane l reads ptr[ahead]; ptr is the same in all lanes, and from lane to lane `ahead` stays or grows by one.", Trait.READS | _S, run.near_load))
register(Op("table_load", "scheduled", "ptr, index, count", _near_load_rule, "Lane l reads ptr[index]; ptr and count are the same in all lanes, which count up from 0 to count - 1, again and again.", Trait.READS | _S, run.table_load))
register(Op("stride_store", "scheduled", "ptr, step, value", nothing(_check_stride_store), "Lane l writes ptr[l * step]; ptr and step are the same in all lanes.", Trait.WRITES | _S, run.stride_store))
register(Op("is_joined", "scheduled", "", fixed(dtypes.bool_), "Whether this program and those behind it, `count` together, are done at once.", Trait.PURE | _S, lambda call: call.world.is_joined(), attrs="count: int"))
register(Op("vany", "scheduled", "cond", lambda types, attrs, regions: (types[0],), "Whether one lane is true.", Trait.PURE | _S, run.vany))
register(Op("vscan", "scheduled", "value, before", _vscan_rule, "Lane l: `before` and the lanes up to l combined (from the last lane on when `reverse`); and that of all lanes.", Trait.PURE | _S, run.vscan, attrs="reverse: bool, neutral: number", regions=1))
register(Op("count", "scheduled", "counters, number", nothing(_check_count), "Each lane adds 1 to counters[copy * stride + number]; neighbours take different copies.", Trait.READS | Trait.WRITES | _S, run.count, attrs="copies: int, stride: int"))
register(Op("vgather", "scheduled", "ptr", _vload_rule, "Lane l reads ptr[l * stride]; ptr is the same in all lanes. `lanes` as in vload.", Trait.READS | _S, run.vgather, attrs="stride: int, lanes?: int"))
register(Op("vextract", "scheduled", "vector, number", lambda types, attrs, regions: (types[0],), "One lane of a vector.", Trait.PURE | _S, run.vextract))
register(Op("hreduce", "scheduled", "*values", _hreduce_rule, "Combine the lanes of carried values into one value each.", Trait.PURE | _S, run.hreduce, attrs="lanes: int", regions=1))


def _check_contract(types: Sequence[Type], attrs: Attrs) -> None:
    for t in types:
        need_pointer("contract", t)


def _check_contract_numbers(types: Sequence[Type], attrs: Attrs) -> None:
    _check_contract((*types[:3], *types[6:]), attrs)


register(Op("contract", "scheduled", "a, b, c, k, a_row, b_row, *ahead", nothing(_check_contract_numbers), "c += a @ b over k steps, at most those of `shape` (m, n, k); rows of a and b are a_row and b_row elements apart, columns of a `a_column`; `b_transposed`: memory holds b's columns as rows; c is row-major. `ahead`: of which operands the first elements of two rows follow, where the next blocks will be read.", Trait.READS | Trait.WRITES | _S, run.contract, attrs="shape: ints, a_column: int, b_transposed: bool, ahead: strs"))
def _contraction_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    _check_contract(types[:2], attrs)
    for t in types[3:]:
        need_dtype("contraction", t, INTS)
    return (types[2],)


def _check_panels(types: Sequence[Type], attrs: Attrs) -> None:
    _check_contract(types[:6], attrs)
    for t in types[6:]:
        need_dtype("contract_panels", t, INTS)


register(Op("contraction", "scheduled", "a, b, acc, k, m, n, a_row, a_step, b_step, b_column", _contraction_rule, "acc + a @ b of matrices in device memory: k steps, of which nobody will see more than m rows and n columns; neighbours along k are a_step and b_step elements apart. `is_kept`: b stays the same for the whole launch.", Trait.READS | Trait.CUT | Trait.PRODUCT | _S, run.contraction, attrs="is_kept: bool"))
register(Op("contract_panels", "scheduled", "a, b, c, copy, packed, tags, k, m, n, a_row, a_step, b_step, b_column", nothing(_check_panels), "The same, added to c in scratch, of `shape` (m, n), row-major, or put there if it is `fresh`; `copy` has room for rows of a where they are converted, `packed` for panels of b, which have `vectors` of `wide` columns and `strip` steps. If all of b fits into `memo` bytes it is kept there, and `tags`, of `table` words, says what is; both hold from program to program.", Trait.READS | Trait.WRITES | _S, run.contract_panels, attrs="shape: ints, fresh: bool, vectors: int, wide: int, strip: int, memo: int, table: int"))
register(Op("relayout", "scheduled", "source, target", nothing(_check_contract), "Transpose a block of `size` x `size` elements in scratch; rows are source_row and target_row elements apart.", Trait.READS | Trait.WRITES | _S, run.relayout, attrs="size: int, source_row: int, target_row: int"))
register(Op("vtranspose", "scheduled", "*values", _same_types, "Transpose in registers: of as many values as there are lanes, lane i of value j becomes lane j of value i.", Trait.PURE | _S, run.vtranspose))
register(Op("sort_row", "scheduled", "keys, order, work", nothing(_check_contract), "The positions of the first `count` of n keys in their order, equal ones in that of their positions; NaN is the largest. `work`: words, of which `size` elements are sorted at a time, in vectors of `lanes`.", Trait.READS | Trait.WRITES | _S, run.sort_row, attrs="n: int, count: int, size: int, lanes: int, descending: bool"))
register(Op("sort_values", "scheduled", "keys, to, work", fixed(dtypes.bool_), "The n keys in their order; false, and nothing is written, if they have NaN or a zero below 0. `work`: `size` words, sorted in at most as many `registers` at a time, of `lanes`.", Trait.READS | Trait.WRITES | _S, run.sort_values, attrs="n: int, size: int, lanes: int, registers: int, descending: bool"))
register(Op("write_log", "scheduled", "*pointers", nothing(_check_contract), "Copy blocks in scratch to the host's log, which prints them.", Trait.EFFECT | Trait.READS | _S, run.write_log, attrs="prefix: str, dtypes: dtypes, shapes: shapes"))
register(Op("sync", "scheduled", "", nothing(), "A barrier that the schedule placed: the threads of the threadgroup meet; writes to the memories of `spaces` before it are seen after it.", Trait.EFFECT | Trait.CONVERGENT | Trait.FENCE | _S, run.sync, attrs="spaces: strs"))


def _dot_direct_rule(types: Sequence[Type], attrs: Attrs, regions: Sequence[RegionSig]) -> tuple[Type, ...]:
    sides = [Type(t.dtype, t.shape) for t in types[:2]]
    for t in types[3:]:
        need_dtype("dot_direct row", t, INTS)
    if len(types) != 3 + sum(t.is_pointer for t in types[:2]):
        raise InvalidIR("dot_direct: one distance of rows for each operand in memory")
    return TABLE["dot"].rule([*sides, types[2]], {}, ())


register(Op("dot_direct", "scheduled", "a, b, acc, *rows", _dot_direct_rule, "`dot` whose operand a or b may be pointers to its elements in memory that nobody writes; `rows`: for each of those the distance of its rows, `a_turned`, `b_turned`: of its columns, because memory holds columns as rows.", Trait.PURE | Trait.CUT | Trait.PRODUCT | _S, run.dot_direct, attrs="a_turned: bool, b_turned: bool"))


def _check_frag_mma(types: Sequence[Type], attrs: Attrs) -> None:
    _check_contract(types[:3], attrs)
    for t in types[3:]:
        need_dtype("frag_mma row", t, INTS)


def _check_frag_fill(types: Sequence[Type], attrs: Attrs) -> None:
    need_pointer("frag_fill", types[0])
    need_element("frag_fill", types[1], types[0])


def _check_frag_move(types: Sequence[Type], attrs: Attrs) -> None:
    for t in types[:2]:
        need_pointer("frag_load", t)
    need_dtype("frag_load row", types[2], INTS)


# Simdgroup matrices, 8x8. Of each a lane holds two elements: element e of matrix i is at 2 * i + e of the array.
register(Op("fragments", "scheduled", "", _scratch_rule, "An array of simdgroup matrices, of which this lane holds `size` elements.", Trait.EFFECT | Trait.ALLOCATES | _S, run.scratch, attrs="size: int, dtype: dtype, layout?: str"))
register(Op("frag_fill", "scheduled", "acc, value", nothing(_check_frag_fill), "Set all elements of the first `count` matrices.", Trait.WRITES | Trait.CONVERGENT | _S, run.frag_fill, attrs="count: int"))
register(Op("frag_load", "scheduled", "acc, memory, row", nothing(_check_frag_move), "Read m x n matrices, `tiles` (m, n), from memory whose rows are `row` elements apart, row by row into acc.", Trait.READS | Trait.WRITES | Trait.CONVERGENT | _S, run.frag_load, attrs="tiles: ints"))
register(Op("frag_store", "scheduled", "memory, acc, row", nothing(_check_frag_move), "Write m x n matrices, `tiles` (m, n), to memory whose rows are `row` elements apart.", Trait.READS | Trait.WRITES | Trait.CONVERGENT | _S, run.frag_store, attrs="tiles: ints"))
register(Op("frag_mma", "scheduled", "acc, a, b, a_row, b_row", nothing(_check_frag_mma), "acc += a @ b for one simdgroup: m x n matrices of acc, `tiles` (m, n, k), row by row. a and b are m x k and k x n matrices in memory, their rows a_row and b_row elements apart; `a_transposed`, `b_transposed`: memory holds columns as rows. An `a` of the thread's own holds its elements of m x k matrices.", Trait.READS | Trait.WRITES | Trait.CONVERGENT | _S, run.frag_mma, attrs="tiles: ints, a_transposed: bool, b_transposed: bool"))
