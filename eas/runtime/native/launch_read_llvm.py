"""How the launcher reads Python arguments, as LLVM text."""

from __future__ import annotations

from eas.runtime.native.launch_layout import (
    ANY_INT64,
    ARRAY_OFFSETS,
    BOOL,
    BOX,
    BUFFER,
    CELL,
    CONSTANT,
    COPIES_BACK,
    DICT_ITEM,
    ENDS,
    FLOAT32,
    FLOAT64,
    FUNCTION,
    GUARD,
    INT32,
    INT64,
    INTS,
    OBJECTS,
    PARAM,
    WRITEABLE,
    array,
    field,
    frame,
    plan,
    row,
)

# Whether what the kernel and its launch read from outside is what it was; identity only.
GUARDS_TEXT = f"""
define internal i1 @guards_hold(ptr %plan) nounwind {{
entry:
{plan("n_guards", "i64")}{plan("guards")}
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %same ]
  %more = icmp slt i64 %i, %n_guards
  br i1 %more, label %guard, label %good
guard:
{row("guards")}{field(GUARD, "row", "kind")}{field(GUARD, "row", "object", "ptr")}
{field(GUARD, "row", "a", "ptr")}{field(GUARD, "row", "b", "ptr")}{field(GUARD, "row", "c", "ptr")}
  switch i64 %kind, label %bad [ i64 {DICT_ITEM}, label %dict_item
                                 i64 {CELL}, label %cell
                                 i64 {FUNCTION}, label %function ]
dict_item:
  %item = call ptr @PyDict_GetItemWithError(ptr %object, ptr %a)
  %item_is = icmp eq ptr %item, %b
  br i1 %item_is, label %same, label %bad
cell:
  %content = call ptr @PyCell_Get(ptr %object)
  %is_empty = icmp eq ptr %content, null
  br i1 %is_empty, label %bad, label %held
held:
  call void @Py_DecRef(ptr %content)
  %content_is = icmp eq ptr %content, %a
  br i1 %content_is, label %same, label %bad
function:
  %code = call ptr @PyFunction_GetCode(ptr %object)
  %defaults = call ptr @PyFunction_GetDefaults(ptr %object)
  %kwdefaults = call ptr @PyFunction_GetKwDefaults(ptr %object)
  %c1 = icmp eq ptr %code, %a
  %c2 = icmp eq ptr %defaults, %b
  %c3 = icmp eq ptr %kwdefaults, %c
  %c12 = and i1 %c1, %c2
  %function_is = and i1 %c12, %c3
  br i1 %function_is, label %same, label %bad
same:
  %i1 = add i64 %i, 1
  br label %next
good:
  ret i1 true
bad:
  ret i1 false
}}
"""


def _slot(name: str) -> str:
    """What the object that stands for a buffer holds in a slot."""
    at = f"  %{name}.held.p = getelementptr i8, ptr %object, i64 %{name}_at\n"
    return f"{field(BOX, 'box', f'{name}_at')}{at}  %{name}.held = load ptr, ptr %{name}.held.p\n"


# The array of a tensor like the one that was learnt, or null; who would be told of writes is an array, too.
_BOX_TEXT = f"""
define internal ptr @in_box(ptr %plan, ptr %row, ptr %box, ptr %object) nounwind {{
entry:
{plan("ndarray")}{array("type", "ptr")}{field(BOX, "box", "type", "ptr", "known")}
  %is_known = icmp eq ptr %type, %known
  br i1 %is_known, label %look, label %bad
look:
{_slot("dtype")}{field(BOX, "box", "dtype", "ptr")}{_slot("device")}{field(BOX, "box", "device", "ptr")}{_slot("array")}{_slot("owner")}
  %is_dtype = icmp eq ptr %dtype.held, %dtype
  %is_device = icmp eq ptr %device.held, %device
  %is_like = and i1 %is_dtype, %is_device
  %no_array = icmp eq ptr %array.held, null
  %no_owner = icmp eq ptr %owner.held, null
  %is_unset = or i1 %no_array, %no_owner
  %is_set = xor i1 %is_unset, true
  %fits = and i1 %is_like, %is_set
  br i1 %fits, label %inside, label %bad
inside:
{field(PARAM, "row", "flags", "i64", "needed")}
  %write = and i64 %needed, {WRITEABLE}
  %is_read = icmp eq i64 %write, 0
  %array.t.p = getelementptr i8, ptr %array.held, i64 {ARRAY_OFFSETS["type"]}
  %array.t = load ptr, ptr %array.t.p
  %owner.t.p = getelementptr i8, ptr %owner.held, i64 {ARRAY_OFFSETS["type"]}
  %owner.t = load ptr, ptr %owner.t.p
  %is_array = icmp eq ptr %array.t, %ndarray
  %is_quiet = icmp eq ptr %owner.t, %ndarray
  %may = or i1 %is_quiet, %is_read
  %is_plain = and i1 %is_array, %may
  %found = select i1 %is_plain, ptr %array.held, ptr null
  ret ptr %found
bad:
  ret ptr null
}}
"""


# A buffer argument: exactly an ndarray of the dtype, in one piece, writable if it is written.
BUFFER_TEXT = f"""{_BOX_TEXT}
define internal i1 @read_buffer(ptr %plan, ptr %row, ptr %given, ptr %frame, i1 %raw) nounwind {{
entry:
  %overflow = alloca i32
{plan("ndarray")}{plan("tuple")}{plan("n_args", "i64")}{field(PARAM, "row", "slot")}{field(PARAM, "row", "nbytes")}
  %type.p = getelementptr i8, ptr %given, i64 {ARRAY_OFFSETS["type"]}
  %type = load ptr, ptr %type.p
  %is_array = icmp eq ptr %type, %ndarray
  br i1 %is_array, label %array, label %other
other:
{field(PARAM, "row", "box", "ptr")}
  %has_box = icmp ne ptr %box, null
  br i1 %has_box, label %boxed, label %unboxed
boxed:
  %inner = call ptr @in_box(ptr %plan, ptr %row, ptr %box, ptr %given)
  %is_inside = icmp ne ptr %inner, null
  br i1 %is_inside, label %array, label %unboxed
unboxed:
  %is_tuple = icmp eq ptr %type, %tuple
  %is_raw = and i1 %is_tuple, %raw
  br i1 %is_raw, label %memory, label %bad
memory:
  %address.o = call ptr @PyTuple_GetItem(ptr %given, i64 0)
  %count.o = call ptr @PyTuple_GetItem(ptr %given, i64 1)
  %address = call i64 @PyLong_AsLongLongAndOverflow(ptr %address.o, ptr %overflow)
  %count = call i64 @PyLong_AsLongLongAndOverflow(ptr %count.o, ptr %overflow)
  %rest = urem i64 %address, %nbytes
  %is_aligned = icmp eq i64 %rest, 0
  br i1 %is_aligned, label %store, label %bad
array:
  %object = phi ptr [ %given, %entry ], [ %inner, %boxed ]
{array("dtype", "ptr")}{field(PARAM, "row", "expected", "ptr")}{array("flags", "i32")}{field(PARAM, "row", "flags", "i32", "needed")}
  %is_dtype = icmp eq ptr %dtype, %expected
  %looked_at = or i32 %needed, {COPIES_BACK}
  %have = and i32 %flags, %looked_at
  %is_usable = icmp eq i32 %have, %needed
  %fits = and i1 %is_dtype, %is_usable
  br i1 %fits, label %measure, label %bad
measure:
{array("data", "i64")}{array("ndim", "i32")}{array("shape", "ptr")}
  br label %axis
axis:
  %k = phi i32 [ 0, %measure ], [ %k1, %extent ]
  %size = phi i64 [ 1, %measure ], [ %size1, %extent ]
  %more = icmp slt i32 %k, %ndim
  br i1 %more, label %extent, label %measured
extent:
  %d.p = getelementptr i64, ptr %shape, i32 %k
  %d = load i64, ptr %d.p
  %size1 = mul i64 %size, %d
  %k1 = add i32 %k, 1
  br label %axis
measured:
  br label %store
store:
  %start = phi i64 [ %address, %memory ], [ %data, %measured ]
  %elements = phi i64 [ %count, %memory ], [ %size, %measured ]
  %memory.o = phi ptr [ %given, %memory ], [ %object, %measured ]
  %length = mul i64 %elements, %nbytes
  %stop = add i64 %start, %length
  %at = getelementptr i64, ptr %frame, i64 %slot
  store i64 %start, ptr %at
{frame("end", ENDS, "%slot")}
  store i64 %stop, ptr %end
{frame("kept", OBJECTS, "%slot")}
  store ptr %memory.o, ptr %kept
  %size.i0 = add i64 %slot, %n_args
  %size.i = add i64 %size.i0, 5
  %size.p = getelementptr i64, ptr %frame, i64 %size.i
  store i64 %elements, ptr %size.p
  ret i1 true
bad:
  ret i1 false
}}
"""


# A number, exactly an int, float or bool, in the width that the kernel was compiled for.
SCALAR_TEXT = f"""
define internal i1 @read_scalar(ptr %plan, ptr %row, ptr %object, ptr %frame, i64 %kind) nounwind {{
entry:
  %overflow = alloca i32
{plan("int")}{plan("float")}{plan("true")}{plan("false")}{plan("n_args", "i64")}{field(PARAM, "row", "slot")}{array("type", "ptr")}
  switch i64 %kind, label %bad [ i64 {INT32}, label %integer
                                 i64 {INT64}, label %integer
                                 i64 {ANY_INT64}, label %integer
                                 i64 {FLOAT32}, label %real
                                 i64 {FLOAT64}, label %real
                                 i64 {BOOL}, label %boolean ]
integer:
  %is_int = icmp eq ptr %type, %int
  br i1 %is_int, label %convert, label %bad
convert:
  %n = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %over = load i32, ptr %overflow
  %in_range = icmp eq i32 %over, 0
  %low = trunc i64 %n to i32
  %again = sext i32 %low to i64
  %is_small = icmp eq i64 %n, %again
  %wants_small = icmp eq i64 %kind, {INT32}
  %right.own = icmp eq i1 %is_small, %wants_small
  %wants_any = icmp eq i64 %kind, {ANY_INT64}
  %right = or i1 %right.own, %wants_any
  %good = and i1 %in_range, %right
  br i1 %good, label %store, label %bad
real:
  %is_float = icmp eq ptr %type, %float
  br i1 %is_float, label %round, label %bad
round:
  %d = call double @PyFloat_AsDouble(ptr %object)
  %f = fptrunc double %d to float
  %bits32 = bitcast float %f to i32
  %short = zext i32 %bits32 to i64
  %long = bitcast double %d to i64
  %is_long = icmp eq i64 %kind, {FLOAT64}
  %bits = select i1 %is_long, i64 %long, i64 %short
  br label %store
boolean:
  %is_true = icmp eq ptr %object, %true
  %is_false = icmp eq ptr %object, %false
  %is_bool = or i1 %is_true, %is_false
  %truth = zext i1 %is_true to i64
  br i1 %is_bool, label %store, label %bad
store:
  %value = phi i64 [ %n, %convert ], [ %bits, %round ], [ %truth, %boolean ]
  %at = getelementptr i64, ptr %frame, i64 %slot
  store i64 %value, ptr %at
{frame("integer.p", INTS, "%slot")}
  store i64 %value, ptr %integer.p
{frame("end", ENDS, "%slot")}
  store i64 0, ptr %end
  %size.i0 = add i64 %slot, %n_args
  %size.i = add i64 %size.i0, 5
  %size.p = getelementptr i64, ptr %frame, i64 %size.i
  store i64 0, ptr %size.p
  ret i1 true
bad:
  ret i1 false
}}
"""


# Every parameter from the tuple, the dict or its default; every keyword is used.
ARGUMENTS_TEXT = f"""
define internal i1 @read_arguments(ptr %plan, ptr %args, ptr %kwargs, ptr %frame, i1 %raw) nounwind {{
entry:
{plan("n_params", "i64")}{plan("params")}
  %given = call i64 @PyTuple_Size(ptr %args)
  %named = call i64 @PyDict_Size(ptr %kwargs)
  %too_many = icmp sgt i64 %given, %n_params
  br i1 %too_many, label %bad, label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %read ]
  %used = phi i64 [ 0, %entry ], [ %used2, %read ]
  %more = icmp slt i64 %i, %n_params
  br i1 %more, label %param, label %end
param:
{row("params")}{field(PARAM, "row", "kind")}{field(PARAM, "row", "name", "ptr")}{field(PARAM, "row", "default", "ptr")}
  %by_position = icmp slt i64 %i, %given
  br i1 %by_position, label %position, label %keyword
position:
  %item = call ptr @PyTuple_GetItem(ptr %args, i64 %i)
  br label %have
keyword:
  %unused = icmp slt i64 %used, %named
  br i1 %unused, label %look_up, label %absent
look_up:
  %found = call ptr @PyDict_GetItemWithError(ptr %kwargs, ptr %name)
  %is_found = icmp ne ptr %found, null
  %used1 = add i64 %used, 1
  br i1 %is_found, label %have, label %absent
absent:
  %has_default = icmp ne ptr %default, null
  br i1 %has_default, label %have, label %bad
have:
  %object = phi ptr [ %item, %position ], [ %found, %look_up ], [ %default, %absent ]
  %used2 = phi i64 [ %used, %position ], [ %used1, %look_up ], [ %used, %absent ]
  switch i64 %kind, label %scalar [ i64 {BUFFER}, label %buffer
                                    i64 {CONSTANT}, label %constant ]
buffer:
  %b = call i1 @read_buffer(ptr %plan, ptr %row, ptr %object, ptr %frame, i1 %raw)
  br label %read
scalar:
  %s = call i1 @read_scalar(ptr %plan, ptr %row, ptr %object, ptr %frame, i64 %kind)
  br label %read
constant:
{field(PARAM, "row", "expected", "ptr")}
  %is_it = icmp eq ptr %object, %expected
  br i1 %is_it, label %read, label %compare
compare:
  %e = call i1 @equal_numbers(ptr %plan, ptr %object, ptr %expected)
  br label %read
read:
  %ok = phi i1 [ %b, %buffer ], [ %s, %scalar ], [ true, %constant ], [ %e, %compare ]
  %i1 = add i64 %i, 1
  br i1 %ok, label %next, label %bad
end:
  %all_used = icmp eq i64 %used, %named
  ret i1 %all_used
bad:
  ret i1 false
}}

define internal i1 @equal_numbers(ptr %plan, ptr %object, ptr %other) nounwind {{
entry:
  %overflow = alloca i32
  %overflow2 = alloca i32
{plan("int")}{plan("float")}{array("type", "ptr")}
  %type2.p = getelementptr i8, ptr %other, i64 {ARRAY_OFFSETS["type"]}
  %type2 = load ptr, ptr %type2.p
  %c1 = icmp eq ptr %type, %int
  %c2 = icmp eq ptr %type2, %int
  %both = and i1 %c1, %c2
  br i1 %both, label %convert, label %others
others:
  %f1 = icmp eq ptr %type, %float
  %f2 = icmp eq ptr %type2, %float
  %floats = and i1 %f1, %f2
  br i1 %floats, label %bits, label %bad
bits:
  %d1 = call double @PyFloat_AsDouble(ptr %object)
  %d2 = call double @PyFloat_AsDouble(ptr %other)
  %b1 = bitcast double %d1 to i64
  %b2 = bitcast double %d2 to i64
  %same_bits = icmp eq i64 %b1, %b2
  ret i1 %same_bits
convert:
  %x = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %y = call i64 @PyLong_AsLongLongAndOverflow(ptr %other, ptr %overflow2)
  %o1 = load i32, ptr %overflow
  %o2 = load i32, ptr %overflow2
  %o = or i32 %o1, %o2
  %in_range = icmp eq i32 %o, 0
  %same = icmp eq i64 %x, %y
  %r = and i1 %in_range, %same
  ret i1 %r
bad:
  ret i1 false
}}
"""
