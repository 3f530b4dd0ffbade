"""A stable merge sort of one row with its indices, as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import TYPE_CHECKING

from eas.codegen.llvm_text import Reg, scratch_type
from eas.dtypes import DType
from eas.ir import Inst

if TYPE_CHECKING:
    from eas.codegen.llvm import Emitter


def sort_row(emitter: Emitter, inst: Inst, operands: Sequence[Reg]) -> tuple[Reg, ...]:
    """A call of a helper function that sorts n keys bottom-up."""
    dtype = inst.operands[0].dtype
    symbol = f"sort_{dtype.name}_{'down' if inst['descending'] else 'up'}"
    if symbol not in emitter.t.helpers:
        emitter.t.declare("@llvm.smin.i64", "declare i64 @llvm.smin.i64(i64, i64)")
        emitter.t.helpers[symbol] = _function(symbol, dtype, inst["descending"])
    args = ", ".join(map(str, operands))
    emitter.t.line(f"call void @{symbol}({args}, i64 {inst['n']})")
    return ()


def _less(dtype: DType, a: str, b: str, out: str) -> list[str]:
    """out = a orders before b, with NaN as the largest."""
    element = scratch_type(dtype)
    if not dtype.is_float:
        word = "slt" if dtype.is_signed and not dtype.is_bool else "ult"
        return [f"{out} = icmp {word} {element} {a}, {b}"]
    return [
        f"{out}.lt = fcmp olt {element} {a}, {b}",
        f"{out}.nb = fcmp uno {element} {b}, {b}",
        f"{out}.oa = fcmp ord {element} {a}, {a}",
        f"{out}.n = and i1 {out}.nb, {out}.oa",
        f"{out} = or i1 {out}.lt, {out}.n",
    ]


# for width = 1, 2, 4, ...: merge neighbouring runs into the spare arrays, copy back.
_MERGE_SORT = Template("""\
define internal void @$symbol(ptr %keys, ptr %index, ptr %skeys, ptr %sindex, i64 %n) noinline nounwind {
entry:
  br label %widths
widths:
  %width = phi i64 [ 1, %entry ], [ %next_width, %copied ]
  %more_widths = icmp slt i64 %width, %n
  br i1 %more_widths, label %runs, label %done
runs:
  %lo = phi i64 [ 0, %widths ], [ %next_lo, %merged ]
  %more_runs = icmp slt i64 %lo, %n
  br i1 %more_runs, label %run, label %copy
run:
  %mid0 = add i64 %lo, %width
  %hi0 = add i64 %mid0, %width
  %mid = call i64 @llvm.smin.i64(i64 %mid0, i64 %n)
  %hi = call i64 @llvm.smin.i64(i64 %hi0, i64 %n)
  br label %merge
merge:
  %i = phi i64 [ %lo, %run ], [ %i2, %placed ]
  %j = phi i64 [ %mid, %run ], [ %j2, %placed ]
  %k = phi i64 [ %lo, %run ], [ %k2, %placed ]
  %more = icmp slt i64 %k, %hi
  br i1 %more, label %choose, label %merged
choose:
  %has_left = icmp slt i64 %i, %mid
  %has_right = icmp slt i64 %j, %hi
  %last = sub i64 %n, 1
  %i_safe = call i64 @llvm.smin.i64(i64 %i, i64 %last)
  %j_safe = call i64 @llvm.smin.i64(i64 %j, i64 %last)
  %pl = getelementptr $element, ptr %keys, i64 %i_safe
  %pr = getelementptr $element, ptr %keys, i64 %j_safe
  %left = load $element, ptr %pl
  %right = load $element, ptr %pr
  $less
  %right_first = and i1 %take, %has_right
  %no_left = xor i1 %has_left, true
  %use_right = or i1 %right_first, %no_left
  br label %placed
placed:
  %key = select i1 %use_right, $element %right, $element %left
  %from = select i1 %use_right, i64 %j, i64 %i
  %pi = getelementptr i32, ptr %index, i64 %from
  %idx = load i32, ptr %pi
  %po = getelementptr $element, ptr %skeys, i64 %k
  %pio = getelementptr i32, ptr %sindex, i64 %k
  store $element %key, ptr %po
  store i32 %idx, ptr %pio
  %dj = zext i1 %use_right to i64
  %di = sub i64 1, %dj
  %i2 = add i64 %i, %di
  %j2 = add i64 %j, %dj
  %k2 = add i64 %k, 1
  br label %merge
merged:
  %next_lo = add i64 %hi0, 0
  br label %runs
copy:
  %c = phi i64 [ 0, %runs ], [ %c2, %copying ]
  %more_copy = icmp slt i64 %c, %n
  br i1 %more_copy, label %copying, label %copied
copying:
  %s1 = getelementptr $element, ptr %skeys, i64 %c
  %d1 = getelementptr $element, ptr %keys, i64 %c
  %v1 = load $element, ptr %s1
  store $element %v1, ptr %d1
  %s2 = getelementptr i32, ptr %sindex, i64 %c
  %d2 = getelementptr i32, ptr %index, i64 %c
  %v2 = load i32, ptr %s2
  store i32 %v2, ptr %d2
  %c2 = add i64 %c, 1
  br label %copy
copied:
  %next_width = shl i64 %width, 1
  br label %widths
done:
  ret void
}""")


def _function(symbol: str, dtype: DType, descending: bool) -> str:
    """The right run goes first only when it is strictly before the left one: ties keep their order."""
    first, second = ("%left", "%right") if descending else ("%right", "%left")
    less = "\n  ".join(_less(dtype, first, second, "%take"))
    return _MERGE_SORT.substitute(symbol=symbol, element=scratch_type(dtype), less=less)
