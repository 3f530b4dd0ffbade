"""Kernels as LLVM text, written by hand, with the frame that the code generator promises."""

from __future__ import annotations

from types import SimpleNamespace

from eas.base import dtypes
from eas.base.types import Space, Type
from eas.ir import Arg, Value


def per_program(name: str, body: str, declarations: str = "") -> str:
    """An entry that runs `body` for every %pid; slot i is `%a<i>` where the body loads it."""
    return f"""
{declarations}
define void @{name}(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{
entry:
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %program, label %exit
program:
  %pid = phi i64 [ %begin, %entry ], [ %pid1, %next ]
{body}
  br label %next
next:
  %pid1 = add i64 %pid, 1
  %more = icmp slt i64 %pid1, %end
  br i1 %more, label %program, label %exit
exit:
  ret void
}}
"""


def slot(index: int, type_: str = "ptr", name: str | None = None) -> str:
    name = name or f"a{index}"
    return f"  %{name}p = getelementptr i64, ptr %args, i64 {index}\n  %{name} = load {type_}, ptr %{name}p\n"


# counts[pid] += 1: shows programs that run twice or never.
COUNT = per_program(
    "count",
    slot(0)
    + "  %p = getelementptr i32, ptr %a0, i64 %pid\n  %old = atomicrmw add ptr %p, i32 1 monotonic\n",
)

# out[pid] = pid*scale, through scratch
SCRATCH = per_program(
    "through_scratch",
    slot(0)
    + """
  %tag = load i64, ptr %scratch
  %last = getelementptr i64, ptr %scratch, i64 999
  store i64 %pid, ptr %last
  %seen = load i64, ptr %last
  %tag1 = add i64 %tag, 1
  store i64 %tag1, ptr %scratch
  %p = getelementptr i64, ptr %a0, i64 %pid
  store i64 %seen, ptr %p
  %alignment = ptrtoint ptr %scratch to i64
  %bits = and i64 %alignment, 63
  %q = getelementptr i64, ptr %a0, i64 -1
  %old = atomicrmw add ptr %q, i64 %bits monotonic
  %first = icmp eq i64 %tag, 0
  %one = zext i1 %first to i64
  %r = getelementptr i64, ptr %a0, i64 -2
  %old2 = atomicrmw add ptr %r, i64 %one monotonic
""",
)

# order[pid] = how many programs had started before, in a program that takes its time
ORDER = per_program(
    "order",
    slot(0)
    + """
  %turnp = getelementptr i32, ptr %a0, i64 -1
  %turn = atomicrmw add ptr %turnp, i32 1 monotonic
  %p = getelementptr i32, ptr %a0, i64 %pid
  store i32 %turn, ptr %p
  %r = call i32 @usleep(i32 1000)
""",
    "declare i32 @usleep(i32)",
)

# how many programs there are, and where the last run of them ends
RUNS = """
define void @runs(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %size = sub i64 %end, %begin
  %counter = load ptr, ptr %args
  %old = atomicrmw add ptr %counter, i64 %size monotonic
  %last = getelementptr i64, ptr %counter, i64 1
  %old1 = atomicrmw max ptr %last, i64 %end monotonic
  ret void
}
"""

NAP = per_program("nap", "  %r = call i32 @usleep(i32 2000)\n", "declare i32 @usleep(i32)")

# ids[pid] = the thread that runs it, after a nap
THREADS = per_program(
    "threads",
    slot(0)
    + """
  %r = call i32 @usleep(i32 500)
  %id = call i64 @pthread_self()
  %p = getelementptr i64, ptr %a0, i64 %pid
  store i64 %id, ptr %p
""",
    "declare i32 @usleep(i32)\ndeclare i64 @pthread_self()",
)

# z[i] = x[i] + y[i], 256 elements per program; slots x, y, z, N (i32)
ADD = per_program(
    "add",
    slot(0)
    + slot(1)
    + slot(2)
    + slot(3, "i32")
    + """
  %n = sext i32 %a3 to i64
  %lo = mul i64 %pid, 256
  %top = add i64 %lo, 256
  %hi = call i64 @llvm.smin.i64(i64 %top, i64 %n)
  br label %head
head:
  %i = phi i64 [ %lo, %program ], [ %i1, %element ]
  %c = icmp slt i64 %i, %hi
  br i1 %c, label %element, label %done
element:
  %xp = getelementptr float, ptr %a0, i64 %i
  %yp = getelementptr float, ptr %a1, i64 %i
  %zp = getelementptr float, ptr %a2, i64 %i
  %x = load float, ptr %xp
  %y = load float, ptr %yp
  %s = fadd float %x, %y
  store float %s, ptr %zp
  %i1 = add i64 %i, 1
  br label %head
done:
""",
    "declare i64 @llvm.smin.i64(i64, i64)",
)


def failing(kind: int, place: int, n_args: int, when: int, index: int = 0, size: int = 0) -> str:
    """Program `when` sets the error record, as a failed device_assert or a bad access does."""
    return per_program(
        "failing",
        slot(n_args + 3, name="record")
        + f"""
  %bad = icmp eq i64 %pid, {when}
  br i1 %bad, label %fail, label %fine
fail:
  %swap = cmpxchg ptr %record, i32 0, i32 1 acq_rel monotonic
  %won = extractvalue {{ i32, i1 }} %swap, 1
  br i1 %won, label %fill, label %fine
fill:
  %kindp = getelementptr i8, ptr %record, i64 4
  store i32 {kind}, ptr %kindp
  %placep = getelementptr i8, ptr %record, i64 8
  store i64 {place}, ptr %placep
  %programp = getelementptr i8, ptr %record, i64 16
  store i64 %pid, ptr %programp
  %indexp = getelementptr i8, ptr %record, i64 24
  store i64 {index}, ptr %indexp
  %sizep = getelementptr i8, ptr %record, i64 32
  store i64 {size}, ptr %sizep
  br label %fine
fine:
""",
    )


def buffer(name: str, dtype: dtypes.DType) -> Arg:
    return Arg(name, Value(Type(dtype, (), Space.DEVICE)))


def scalar(name: str, dtype: dtypes.DType) -> Arg:
    return Arg(name, Value(Type(dtype)))


def executable(name, llvm, args, *, entry=None, places=(), scratch_nbytes=0, **native):
    """Stands for `eas.compiler.Variant`."""
    unknown = dict.fromkeys(("object", "target", "nbytes_per_program", "flops_per_program", "work_per_program"))
    code = SimpleNamespace(**{**unknown, "logs": (), **native}, llvm=llvm, entry=entry or name, scratch_nbytes=scratch_nbytes, places=places)
    return SimpleNamespace(
        name=name, args=tuple(args), module=SimpleNamespace(name=name, args=tuple(args)), native=code, loaded=None, writes=None,
    )


def add_kernel():
    f32 = dtypes.f32
    args = [buffer("x", f32), buffer("y", f32), buffer("z", f32), scalar("N", dtypes.i32)]
    return executable("add", ADD, args)
