"""The launcher as LLVM text: one function that reads Python arguments and runs the kernel they fit.

`eas_launch(self, argv, argc)` is a METH_FASTCALL function of CPython. `self` is a tuple whose first
item is the address of a plan, rows of 8-byte words that `fast_launch.py` lays out; the three
arguments are the tuple, the dict and the grid of a call. A fourth one, which only eas itself gives,
says that a tuple in place of an array is an address and a number of elements. Whatever is not exactly what the plan
expects gives `NotImplemented`, before anything has happened; the Python path then takes over.
"""

from __future__ import annotations

from eas.runtime.native.launch_layout import (
    ALIGNED_64,
    ARRAY_OFFSETS,
    DISJOINT,
    DIVISIBLE_16,
    ENDS,
    EQUALS,
    ERROR_NBYTES,
    FACT,
    FACTS,
    FITS_32,
    FRAME_WORDS,
    GRID,
    IN_PLACE,
    INTS,
    PLAN,
    POSITIVE,
    RECORD,
    VARIANT,
    array,
    field,
    frame,
    plan,
    row,
)
from eas.runtime.native.launch_read_llvm import (
    ARGUMENTS_TEXT,
    BUFFER_TEXT,
    GUARDS_TEXT,
    SCALAR_TEXT,
)

_RELEASE_PS = "5000000.0"  # the GIL is kept for launches that took less than 5 us, and cannot take much more
_MAX_EXTENT = 2**31 - 1


_DECLARATIONS = """
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyDict_Size(ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyCell_Get(ptr)
declare ptr @PyFunction_GetCode(ptr)
declare ptr @PyFunction_GetDefaults(ptr)
declare ptr @PyFunction_GetKwDefaults(ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyErr_NoMemory()
declare void @PyErr_Clear()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


# Bit k is set if fact k of the plan holds of this call.
_FACTS_TEXT = f"""
define internal i64 @facts_of(ptr %plan, ptr %frame) nounwind {{
entry:
{plan("n_facts", "i64")}{plan("facts")}
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %known ]
  %bits = phi i64 [ 0, %entry ], [ %bits1, %known ]
  %more = icmp slt i64 %i, %n_facts
  br i1 %more, label %fact, label %end
fact:
{row("facts")}{field(FACT, "row", "kind")}{field(FACT, "row", "slot")}{field(FACT, "row", "written")}{field(FACT, "row", "number")}
  %word.p = getelementptr i64, ptr %frame, i64 %slot
  %word = load i64, ptr %word.p
  %low4 = and i64 %word, 15
  %low6 = and i64 %word, 63
  %is_it = icmp eq i64 %word, %number
  %is_positive = icmp sgt i64 %word, 0
  %is_16 = icmp eq i64 %low4, 0
  %is_64 = icmp eq i64 %low6, 0
  switch i64 %kind, label %known [ i64 {EQUALS}, label %equals
                                   i64 {POSITIVE}, label %positive
                                   i64 {DIVISIBLE_16}, label %divisible_16
                                   i64 {ALIGNED_64}, label %aligned_64
                                   i64 {DISJOINT}, label %disjoint
                                   i64 {IN_PLACE}, label %in_place
                                   i64 {FITS_32}, label %fits_32 ]
equals:
  br label %known
positive:
  br label %known
divisible_16:
  br label %known
aligned_64:
  br label %known
disjoint:
  %meet = call i64 @overlaps(ptr %plan, ptr %frame, i64 %written)
  %apart = icmp eq i64 %meet, 0
  br label %known
in_place:
  %how = call i64 @overlaps(ptr %plan, ptr %frame, i64 %written)
  %same = icmp eq i64 %how, 1
  br label %known
fits_32:
  %small = call i1 @all_fit_32(ptr %plan, ptr %frame)
  br label %known
known:
  %holds = phi i1 [ false, %fact ], [ %is_it, %equals ], [ %is_positive, %positive ], [ %is_16, %divisible_16 ], [ %is_64, %aligned_64 ], [ %apart, %disjoint ], [ %same, %in_place ], [ %small, %fits_32 ]
  %bit0 = zext i1 %holds to i64
  %bit = shl i64 %bit0, %i
  %bits1 = or i64 %bits, %bit
  %i1 = add i64 %i, 1
  br label %next
end:
  ret i64 %bits
}}

; 0 if no written buffer shares a byte with another one, 1 if those that do start together, else 2;
; bit s of `%written` is slot s.
define internal i64 @overlaps(ptr %plan, ptr %frame, i64 %written) nounwind {{
entry:
{plan("n_args", "i64")}
  br label %next
next:
  %w = phi i64 [ 0, %entry ], [ %w1, %after ]
  %seen = phi i64 [ 0, %entry ], [ %seen1, %after ]
  %more = icmp slt i64 %w, %n_args
  br i1 %more, label %check, label %good
check:
  %bit = lshr i64 %written, %w
  %low = trunc i64 %bit to i1
  br i1 %low, label %mine, label %after
mine:
  %lo.p = getelementptr i64, ptr %frame, i64 %w
  %lo = load i64, ptr %lo.p
{frame("hi.p", ENDS, "%w")}
  %hi = load i64, ptr %hi.p
  br label %other
other:
  %b = phi i64 [ 0, %mine ], [ %b1, %apart ]
  %found = phi i64 [ %seen, %mine ], [ %found1, %apart ]
  %more_b = icmp slt i64 %b, %n_args
  br i1 %more_b, label %compare, label %after
compare:
  %lo2.p = getelementptr i64, ptr %frame, i64 %b
  %lo2 = load i64, ptr %lo2.p
{frame("hi2.p", ENDS, "%b")}
  %hi2 = load i64, ptr %hi2.p
  %c1 = icmp ult i64 %lo, %hi2
  %c2 = icmp ult i64 %lo2, %hi
  %c3 = icmp ne i64 %b, %w
  %c12 = and i1 %c1, %c2
  %meet = and i1 %c12, %c3
  %differ = icmp ne i64 %lo, %lo2
  %is_bad = and i1 %meet, %differ
  br i1 %is_bad, label %bad, label %apart
apart:
  %met = zext i1 %meet to i64
  %found1 = or i64 %found, %met
  %b1 = add i64 %b, 1
  br label %other
after:
  %seen1 = phi i64 [ %seen, %check ], [ %found, %other ]
  %w1 = add i64 %w, 1
  br label %next
good:
  ret i64 %seen
bad:
  ret i64 2
}}

define internal i1 @all_fit_32(ptr %plan, ptr %frame) nounwind {{
entry:
{plan("n_args", "i64")}
  %start = add i64 %n_args, 5
  %sizes = getelementptr i64, ptr %frame, i64 %start
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %check ]
  %more = icmp slt i64 %i, %n_args
  br i1 %more, label %check, label %good
check:
  %size.p = getelementptr i64, ptr %sizes, i64 %i
  %size = load i64, ptr %size.p
  %i1 = add i64 %i, 1
  %fits = icmp ule i64 %size, {_MAX_EXTENT}
  br i1 %fits, label %next, label %bad
good:
  ret i1 true
bad:
  ret i1 false
}}
"""


# The grid into the frame; the number of programs, or -1 where Python has to look at it.
_GRID_TEXT = f"""
define internal i64 @grid_of(ptr %plan, ptr %grid, ptr %frame) nounwind {{
entry:
  %overflow = alloca i32
{plan("none")}{plan("can_infer", "i64")}{plan("int")}{plan("tuple")}
  %first = getelementptr i64, ptr %plan, i64 {PLAN.index("extent0")}
  %is_none = icmp eq ptr %grid, %none
  br i1 %is_none, label %infer, label %given
infer:
  %can = icmp ne i64 %can_infer, 0
  br i1 %can, label %next, label %bad
given:
  %kind.p = getelementptr i8, ptr %grid, i64 {ARRAY_OFFSETS["type"]}
  %kind = load ptr, ptr %kind.p
  %is_tuple = icmp eq ptr %kind, %tuple
  br i1 %is_tuple, label %measure, label %bad
measure:
  %length = call i64 @PyTuple_Size(ptr %grid)
  %short = icmp sle i64 %length, 3
  %some = icmp sge i64 %length, 1
  %right = and i1 %short, %some
  br i1 %right, label %next, label %bad
next:
  %items = phi i64 [ -1, %infer ], [ %length, %measure ], [ %items, %store ]
  %i = phi i64 [ 0, %infer ], [ 0, %measure ], [ %i1, %store ]
  %n = phi i64 [ 1, %infer ], [ 1, %measure ], [ %n1, %store ]
  %more = icmp slt i64 %i, 3
  br i1 %more, label %axis, label %end
axis:
  %inferred = icmp slt i64 %items, 0
  br i1 %inferred, label %rule, label %explicit
rule:
  %r.i = mul i64 %i, 3
  %r = getelementptr i64, ptr %first, i64 %r.i
  %source = load i64, ptr %r
  %count.p = getelementptr i64, ptr %r, i64 1
  %count = load i64, ptr %count.p
  %block.p = getelementptr i64, ptr %r, i64 2
  %block = load i64, ptr %block.p
  %is_count = icmp slt i64 %source, 0
  br i1 %is_count, label %store, label %divide
divide:
{frame("value.p", INTS, "%source")}
  %value = load i64, ptr %value.p
  %too_low = icmp slt i64 %value, 0
  br i1 %too_low, label %bad, label %ceil
ceil:
  %up0 = sub i64 %block, 1
  %up = add i64 %value, %up0
  %programs = udiv i64 %up, %block
  br label %store
explicit:
  %is_given = icmp slt i64 %i, %items
  br i1 %is_given, label %item, label %store
item:
  %object = call ptr @PyTuple_GetItem(ptr %grid, i64 %i)
{array("type", "ptr")}
  %is_int = icmp eq ptr %type, %int
  br i1 %is_int, label %convert, label %bad
convert:
  %asked = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %over = load i32, ptr %overflow
  %in_range = icmp eq i32 %over, 0
  br i1 %in_range, label %store, label %bad
store:
  %extent = phi i64 [ %count, %rule ], [ %programs, %ceil ], [ 1, %explicit ], [ %asked, %convert ]
{frame("out", GRID, "%i")}  store i64 %extent, ptr %out

  %i1 = add i64 %i, 1
  %is_small = icmp ule i64 %extent, {_MAX_EXTENT}
  %product = call {{ i64, i1 }} @llvm.smul.with.overflow.i64(i64 %n, i64 %extent)
  %n1 = extractvalue {{ i64, i1 }} %product, 0
  %wraps = extractvalue {{ i64, i1 }} %product, 1
  %fits = xor i1 %wraps, true
  %good = and i1 %is_small, %fits
  br i1 %good, label %next, label %bad
end:
  ret i64 %n
bad:
  ret i64 -1
}}
"""


_LAUNCH_TEXT = f"""
define ptr @eas_launch(ptr %self, ptr %argv, i64 %argc) nounwind {{
entry:
  %frame = alloca [{FRAME_WORDS} x i64], align 64
  %address = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %plan = call ptr @PyLong_AsVoidPtr(ptr %address)
{plan("tuple")}{plan("dict")}{plan("none")}{plan("not_implemented")}{plan("pending")}
{plan("n_args", "i64")}{plan("run")}{plan("n_threads", "i64")}{plan("on_error")}{plan("n_variants", "i64")}{plan("variants")}
  %raw = icmp eq i64 %argc, 4
  %three = icmp eq i64 %argc, 3
  %counted = or i1 %raw, %three
  br i1 %counted, label %unpack, label %refuse
unpack:
  %args = load ptr, ptr %argv
  %kwargs.p = getelementptr ptr, ptr %argv, i64 1
  %kwargs = load ptr, ptr %kwargs.p
  %grid.p = getelementptr ptr, ptr %argv, i64 2
  %grid = load ptr, ptr %grid.p
  %t1.p = getelementptr i8, ptr %args, i64 {ARRAY_OFFSETS["type"]}
  %t1 = load ptr, ptr %t1.p
  %t2.p = getelementptr i8, ptr %kwargs, i64 {ARRAY_OFFSETS["type"]}
  %t2 = load ptr, ptr %t2.p
  %c1 = icmp eq ptr %t1, %tuple
  %c2 = icmp eq ptr %t2, %dict
  %queued = load atomic i64, ptr %pending acquire, align 8
  %c3 = icmp eq i64 %queued, 0
  %c12 = and i1 %c1, %c2
  %c123 = and i1 %c12, %c3
  br i1 %c123, label %guard, label %refuse
guard:
  %g = call i1 @guards_hold(ptr %plan)
  br i1 %g, label %read, label %refuse
read:
  %a = call i1 @read_arguments(ptr %plan, ptr %args, ptr %kwargs, ptr %frame, i1 %raw)
  br i1 %a, label %size, label %refuse
size:
  %n = call i64 @grid_of(ptr %plan, ptr %grid, ptr %frame)
  %known = icmp sge i64 %n, 0
  br i1 %known, label %choose, label %refuse
choose:
  %bits = call i64 @facts_of(ptr %plan, ptr %frame)
  br label %look
look:
  %i = phi i64 [ 0, %choose ], [ %i1, %other ]
  %more = icmp slt i64 %i, %n_variants
  br i1 %more, label %variant, label %refuse
variant:
{row("variants")}{field(VARIANT, "row", "facts")}
  %i1 = add i64 %i, 1
  %is_it = icmp eq i64 %facts, %bits
  br i1 %is_it, label %fill, label %other
other:
  br label %look
fill:
{field(VARIANT, "row", "code", "ptr")}{field(VARIANT, "row", "scratch_nbytes")}{field(VARIANT, "row", "rate", "ptr")}{field(VARIANT, "row", "max_programs")}
  %record = getelementptr i64, ptr %frame, i64 {RECORD}
  call void @llvm.memset.p0.i64(ptr align 8 %record, i8 0, i64 40, i1 false)
  %bits.p = getelementptr i64, ptr %frame, i64 {FACTS}
  store i64 %bits, ptr %bits.p
  %g3 = getelementptr i64, ptr %frame, i64 {GRID}
  %tail = getelementptr i64, ptr %frame, i64 %n_args
  %three_extents = load [3 x i64], ptr %g3
  store [3 x i64] %three_extents, ptr %tail
  %record.p = getelementptr i64, ptr %tail, i64 3
  store ptr %record, ptr %record.p
  %print.p = getelementptr i64, ptr %tail, i64 4
  store i64 0, ptr %print.p
  %ps = load atomic i64, ptr %rate monotonic, align 8
  %psf = uitofp i64 %ps to double
  %nf = uitofp i64 %n to double
  %total = fmul double %psf, %nf
  %is_long = fcmp ogt double %total, {_RELEASE_PS}
  %is_new = icmp eq i64 %ps, 0
  %is_unbounded = icmp ugt i64 %n, %max_programs
  %doubtful = or i1 %is_new, %is_unbounded
  %release = or i1 %is_long, %doubtful
  br i1 %release, label %free, label %keep
free:
  %state = call ptr @PyEval_SaveThread()
  %rc1 = call i32 %run(ptr %code, ptr %frame, i64 %n, i64 0, i64 %n_threads, i64 %scratch_nbytes, ptr %rate, ptr null, i64 %max_programs)
  call void @PyEval_RestoreThread(ptr %state)
  br label %ran
keep:
  %rc2 = call i32 %run(ptr %code, ptr %frame, i64 %n, i64 0, i64 %n_threads, i64 %scratch_nbytes, ptr %rate, ptr null, i64 %max_programs)
  br label %ran
ran:
  %rc = phi i32 [ %rc1, %free ], [ %rc2, %keep ]
  %is_whole = icmp eq i32 %rc, 0
  br i1 %is_whole, label %check, label %not_whole
not_whole:
  switch i32 %rc, label %memory_error [ i32 4, label %raised      ; a signal handler, or the device
                                        i32 5, label %refuse ]    ; nothing has happened
check:
  %flag = load i32, ptr %record
  %failed = icmp ne i32 %flag, 0
  br i1 %failed, label %report, label %done
done:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
memory_error:
  %null = call ptr @PyErr_NoMemory()
  ret ptr null
report:
  %bytes = call ptr @PyBytes_FromStringAndSize(ptr %record, i64 {ERROR_NBYTES})
  %no_bytes = icmp eq ptr %bytes, null
  br i1 %no_bytes, label %raised, label %tell
tell:
  %answer = call ptr @PyObject_CallOneArg(ptr %on_error, ptr %bytes)
  call void @Py_DecRef(ptr %bytes)
  ret ptr %answer
raised:
  ret ptr null
refuse:
  call void @PyErr_Clear()
  call void @Py_IncRef(ptr %not_implemented)
  ret ptr %not_implemented
}}
"""

LAUNCHER_TEXT = (
    _DECLARATIONS
    + GUARDS_TEXT
    + BUFFER_TEXT
    + SCALAR_TEXT
    + ARGUMENTS_TEXT
    + _FACTS_TEXT
    + _GRID_TEXT
    + _LAUNCH_TEXT
)
"""The module, the same for every kernel."""
