"""Where the launcher finds things: the words of its plan, its frame, and of Python's objects."""

from __future__ import annotations

MAX_ARGS = 64

# Words of a plan.
PLAN = (
    *("n_params", "params", "n_guards", "guards", "n_facts", "facts", "n_variants", "variants"),
    *("n_args", "run", "n_threads", "pending", "on_error", "can_infer"),
    *("ndarray", "int", "float", "tuple", "dict", "true", "false", "none", "not_implemented"),
    *("extent0", "count0", "block0", "extent1", "count1", "block1", "extent2", "count2", "block2"),
)
# Rows of its tables, 8 words each.
PARAM = ("kind", "name", "default", "expected", "slot", "flags", "nbytes", "box")
GUARD = ("kind", "object", "a", "b", "c")
FACT = ("kind", "slot", "written", "number")
VARIANT = ("facts", "code", "scratch_nbytes", "rate", "max_programs")
ROW_WORDS = 8
# An object of exactly `type` that may stand for a buffer: the array in one of its slots, if others hold what they did.
BOX = ("type", "array_at", "owner_at", "dtype_at", "dtype", "device_at", "device")

BUFFER, INT32, INT64, FLOAT32, BOOL, CONSTANT, FLOAT64, ANY_INT64 = range(8)  # PARAM.kind
DICT_ITEM, CELL, FUNCTION = range(3)  # GUARD.kind
EQUALS, POSITIVE, DIVISIBLE_16, ALIGNED_64, DISJOINT, FITS_32, IN_PLACE = range(7)  # FACT.kind

# PyArrayObject_fields of NumPy 1 and 2 on 64-bit CPython with a GIL; probed before use.
ARRAY_OFFSETS = {"type": 8, "data": 16, "ndim": 24, "shape": 32, "dtype": 56, "flags": 64}
C_CONTIGUOUS, ALIGNED, WRITEABLE, COPIES_BACK = 0x1, 0x100, 0x400, 0x2000  # NPY_ARRAY_*, the last one WRITEBACKIFCOPY

# The frame of one call, in words: slots, integer values, ends of buffers, what an error needs, the objects of buffers.
INTS = 2 * MAX_ARGS + 8
ENDS = INTS + MAX_ARGS
RECORD = ENDS + MAX_ARGS
FACTS = RECORD + 5
GRID = FACTS + 1
OBJECTS = GRID + 3  # the objects of buffers, for those who keep them after the call
FRAME_WORDS = OBJECTS + MAX_ARGS
ERROR_NBYTES = 8 * (OBJECTS - RECORD)


def field(of: tuple[str, ...], base: str, name: str, type_: str = "i64", out: str = "") -> str:
    """Load a named word of a plan or row into `%<out or name>`."""
    out = out or name
    at = f"  %{out}.p = getelementptr i64, ptr %{base}, i64 {of.index(name)}\n"
    return f"{at}  %{out} = load {type_}, ptr %{out}.p\n"


def plan(name: str, type_: str = "ptr") -> str:
    return field(PLAN, "plan", name, type_)


def row(table: str) -> str:
    """The row `%i` of a table."""
    return f"  %row.i = mul i64 %i, {ROW_WORDS}\n  %row = getelementptr i64, ptr %{table}, i64 %row.i\n"


def frame(out: str, start: int, index: str) -> str:
    """The address of a word of the frame."""
    return f"  %{out}.i = add i64 {index}, {start}\n  %{out} = getelementptr i64, ptr %frame, i64 %{out}.i\n"


def array(name: str, type_: str) -> str:
    at = f"  %{name}.p = getelementptr i8, ptr %object, i64 {ARRAY_OFFSETS[name]}\n"
    return f"{at}  %{name} = load {type_}, ptr %{name}.p\n"
