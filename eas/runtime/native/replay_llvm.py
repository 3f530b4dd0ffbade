"""Prepared launches one after another on the CPU, as LLVM text: one call for a whole graph."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from eas.runtime.native import jit

ROW = ("code", "slots", "programs", "n_threads", "scratch_nbytes", "rate", "max_programs", "record")
"""Words of one launch; `record` is its `ErrorRecord`."""
FAILED = 255
"""In place of the pool's status: a program has failed, and the record says how."""

_LOADS = "".join(
    f"  %{name}.p = getelementptr i64, ptr %row, i64 {i}\n  %{name} = load {'ptr' if name in ('code', 'slots', 'rate', 'record') else 'i64'}, ptr %{name}.p\n"
    for i, name in enumerate(ROW)
)

TEXT = f"""
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; Runs rows until one fails, with the GIL free; 0, or 256 times its number plus what went wrong.
define i64 @eas_replay(ptr %rows, i64 %count, ptr %run, ptr %stop) nounwind {{
entry:
  %state = call ptr @PyEval_SaveThread()
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %good ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %launch, label %done
launch:
  %at = mul i64 %i, {len(ROW)}
  %row = getelementptr i64, ptr %rows, i64 %at
{_LOADS}
  store i32 0, ptr %record
  %is_one = icmp eq i64 %programs, 1
  %is_plain = icmp eq i64 %scratch_nbytes, 0
  %is_short = and i1 %is_one, %is_plain
  br i1 %is_short, label %single, label %grid
single:                                        ; nothing to share and nothing to learn: not even a clock is needed
  call void %code(ptr %slots, i64 0, i64 1, ptr null)
  br label %ran
grid:
  %rc.grid = call i32 %run(ptr %code, ptr %slots, i64 %programs, i64 0, i64 %n_threads, i64 %scratch_nbytes, ptr %rate, ptr %stop, i64 %max_programs)
  br label %ran
ran:
  %rc = phi i32 [ 0, %single ], [ %rc.grid, %grid ]
  %flag = load i32, ptr %record
  %has_failed = icmp ne i32 %flag, 0
  %status = select i1 %has_failed, i32 {FAILED}, i32 %rc
  %is_good = icmp eq i32 %status, 0
  %i1 = add i64 %i, 1
  br i1 %is_good, label %good, label %bad
good:
  br label %next
bad:
  %number = mul i64 %i, 256
  %status64 = zext i32 %status to i64
  %both = add i64 %number, %status64
  br label %done
done:
  %result = phi i64 [ 0, %next ], [ %both, %bad ]
  call void @PyEval_RestoreThread(ptr %state)
  ret i64 %result
}}
"""

_functions: list[Callable[[int, int, int, int], int]] = []


def replay_function() -> Callable[[int, int, int, int], int]:
    """`eas_replay(rows, count, run, stop)`; ctypes then raises what a signal handler raised meanwhile."""
    with jit.lock:
        if not _functions:
            code = jit.load(TEXT, pipeline="plain", keep_for_ever=True)
            kind = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
            _functions.append(kind(code.address("eas_replay")))
        return _functions[0]
