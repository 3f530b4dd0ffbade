"""Messages of a Metal kernel: the words of the buffer that the host reads after a launch.

Word 0 counts failed assertions; the first one leaves its place and program in words 1 to 4. Word 6 is
the length of the log, word 7 how much of it is used or was asked for. Records follow from word 8:
{words, place, program x y z, element, two words per value}. Each thread writes its own.
"""

from __future__ import annotations

import math

from eas.base import dtypes
from eas.base.dtypes import DType
from eas.codegen.msl.emitter import LogFormat, MslEmitter
from eas.codegen.msl.helpers import own
from eas.codegen.msl.text import Expr, call
from eas.codegen.msl.types import type_name
from eas.codegen.msl.vectors import element
from eas.ir import Inst, Value

_FAIL = """\
// The first failure of a launch leaves its place and its program; the kernel goes on.
inline void report_failure(device uint *log, uint place, uint3 program) {
    if (atomic_fetch_add_explicit((device atomic_uint *)log, 1u, memory_order_relaxed) != 0) return;
    log[1] = place;
    log[2] = program.x;
    log[3] = program.y;
    log[4] = program.z;
}"""

_RECORD = """\
// A new record of the log, or nothing where it is full.
inline device uint *new_record(device uint *log, uint place, uint3 program, uint element, uint values) {
    uint words = 6 + 2 * values;
    uint at = atomic_fetch_add_explicit((device atomic_uint *)(log + 7), words, memory_order_relaxed);
    if (at + words > log[6]) return nullptr;
    device uint *record = log + at;
    record[0] = words;
    record[1] = place;
    record[2] = program.x;
    record[3] = program.y;
    record[4] = program.z;
    record[5] = element;
    return record;
}"""
_PUT = """\
inline void put_value(device uint *record, uint k, long value) {
    record[6 + 2 * k] = uint(value);
    record[7 + 2 * k] = uint(value >> 32);
}"""


def device_assert(m: MslEmitter, inst: Inst) -> None:
    """`report_failure` where the condition does not hold (and the mask does)."""
    condition, *mask = (m.use(v) for v in inst.operands)
    m.places.append((inst["message"], inst.loc))
    report = m.library.add("report_failure", _FAIL)
    failed = f"!{condition.at(15)}"
    if mask:
        failed = f"{mask[0].at(5)} && {failed}"
    log, gid = m.log(), m.builtin("gid")
    m.lines.add(f"if ({failed}) {report}({log}, {len(m.places) - 1}, {gid});")


def device_print(m: MslEmitter, inst: Inst) -> None:
    """One record per thread; the host puts those of a threadgroup together."""
    varies = [m.varies(v) for v in inst.operands]
    shapes = tuple((m.threads,) if v else () for v in varies)
    m.logs.append(LogFormat(inst["prefix"], tuple(v.dtype for v in inst.operands), shapes))
    words = [_word(m, m.use(v), v.dtype).text for v in inst.operands]
    record = _open(m, m.builtin("tid"), len(words))
    with m.lines.block(f"if ({record})"):
        for k, word in enumerate(words):
            m.lines.add(f"{own('put_value')}({record}, {k}, {word});")


def _open(m: MslEmitter, element: str, values: int) -> str:
    """Make a record; the name of the variable that points to it."""
    new = m.library.add("new_record", _RECORD)
    if values:
        m.library.add("put_value", _PUT)
    record = m.scope.claim("record")
    m.lines.add(f"device uint *{record} = {new}({m.log()}, {len(m.logs) - 1}, {m.builtin('gid')}, {element}, {values});")
    return record


def write_log(m: MslEmitter, inst: Inst) -> None:
    """One thread says all elements of blocks that lie in memory."""
    formats, shapes = inst["dtypes"], inst["shapes"]
    m.logs.append(LogFormat(inst["prefix"], tuple(formats), tuple(shapes), True))
    sizes = [math.prod(shape) for shape in shapes]
    record = _open(m, "0", sum(sizes))
    with m.lines.block(f"if ({record})"):
        first = 0
        for pointer, dtype, size in zip(inst.operands, formats, sizes, strict=True):
            _put_block(m, record, first, pointer, dtype, size)
            first += size


def _put_block(m: MslEmitter, record: str, first: int, pointer: Value, dtype: DType, size: int) -> None:
    if size == 1:
        m.lines.add(f"{own('put_value')}({record}, {first}, {_word(m, element(m, pointer), dtype).text});")
        return
    i = m.scope.claim("i")
    value = Expr(f"{m.address(pointer).at(16)}[{i}]")
    with m.lines.block(f"for (int {i} = 0; {i} < {size}; ++{i})"):
        m.lines.add(f"{own('put_value')}({record}, {f'{first} + ' if first else ''}{i}, {_word(m, value, dtype).text});")


def _word(m: MslEmitter, x: Expr, dtype: DType) -> Expr:
    """A value in 64 bits: the bits of a float as f32, an integer by its value."""
    if not dtype.is_float:
        return call("long", x)
    if dtype.is_storage_only:
        x = m.helper(f"from_{dtype.name}", dtype, x)
    elif dtype is not dtypes.f32:
        x = call(type_name(dtypes.f32), x)
    return call("long", call("as_type<uint>", x))

