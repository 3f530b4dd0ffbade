"""The signal handler as LLVM text: says which kernel's code has touched memory that it may not.

It looks only at where the processor stood. Code of kernels is in a list, written when code is loaded, so
that launches pay nothing. In all cases the handler that was there before then gets its turn: after a fault of
a kernel because the instruction runs again, otherwise by a call.
"""

from __future__ import annotations

import sys

# Where the program counter stands in what the system gives a handler: bytes into ucontext_t, or, on macOS, into the
# machine context that it points to. Linux: asm/sigcontext.h; macOS: mach/*/_structs.h.
_COUNTER = {("linux", "x86_64"): 168, ("linux", "aarch64"): 440, ("darwin", "x86_64"): 144, ("darwin", "aarch64"): 272}


def is_supported(arch: str) -> bool:
    """Whether we know what the system gives a handler."""
    return (sys.platform, arch) in _COUNTER


def faults_text(arch: str) -> str:
    """`eas_faults_install` and the list `eas_faults_codes`; nothing where the system is another one."""
    if not is_supported(arch):
        return ""
    is_mac = sys.platform == "darwin"
    constants = {
        "COUNTER": str(_COUNTER[sys.platform, arch]),
        "CONTEXT": "  %at = getelementptr i8, ptr %context, i64 48\n  %registers = load ptr, ptr %at" if is_mac else "  %registers = getelementptr i8, ptr %context, i64 0",
        "FLAGS_AT": "12" if is_mac else "136",
        "FLAGS": str(0x40 | 1) if is_mac else str(4 | 0x08000000),  # SA_SIGINFO | SA_ONSTACK
        "SIGINFO": str(0x40 if is_mac else 4),
        "BUS_ERROR": "10" if is_mac else "7",
    }
    text = _TEXT
    for name, value in constants.items():
        text = text.replace(f"${name}$", value)
    return text


_TEXT = """
; first and last address of code, the message and its length, the next one
%watched = type { i64, i64, ptr, i64, ptr }

@eas_faults_codes = global ptr null
@before_fault = internal global [160 x i8] zeroinitializer, align 16
@before_bus = internal global [160 x i8] zeroinitializer, align 16

declare i32 @sigaction(i32, ptr, ptr)
declare i32 @raise(i32)
declare i64 @write(i32, ptr, i64)

define internal void @on_fault(i32 %signal, ptr %info, ptr %context) nounwind {
entry:
$CONTEXT$
  %place = getelementptr i8, ptr %registers, i64 $COUNTER$
  %counter = load i64, ptr %place
  %is_bus = icmp eq i32 %signal, $BUS_ERROR$
  %before = select i1 %is_bus, ptr @before_bus, ptr @before_fault
  %first = load ptr, ptr @eas_faults_codes
  br label %look
look:
  %code = phi ptr [ %first, %entry ], [ %next, %further ]
  %is_end = icmp eq ptr %code, null
  br i1 %is_end, label %stranger, label %compare
compare:
  %lo = load i64, ptr %code
  %hi_at = getelementptr %watched, ptr %code, i64 0, i32 1
  %hi = load i64, ptr %hi_at
  %past_lo = icmp uge i64 %counter, %lo
  %before_hi = icmp ult i64 %counter, %hi
  %inside = and i1 %past_lo, %before_hi
  br i1 %inside, label %tell, label %further
further:
  %next_at = getelementptr %watched, ptr %code, i64 0, i32 4
  %next = load ptr, ptr %next_at
  br label %look
tell:
  %text_at = getelementptr %watched, ptr %code, i64 0, i32 2
  %text = load ptr, ptr %text_at
  %length_at = getelementptr %watched, ptr %code, i64 0, i32 3
  %length = load i64, ptr %length_at
  %written = call i64 @write(i32 2, ptr %text, i64 %length)
  %rc0 = call i32 @sigaction(i32 %signal, ptr %before, ptr null)
  ret void
stranger:
  %handler = load ptr, ptr %before
  %flags_at = getelementptr i8, ptr %before, i64 $FLAGS_AT$
  %flags = load i32, ptr %flags_at
  %number = ptrtoint ptr %handler to i64
  %is_function = icmp ugt i64 %number, 1
  br i1 %is_function, label %call, label %default
default:
  %rc1 = call i32 @sigaction(i32 %signal, ptr %before, ptr null)
  %reason_at = getelementptr i8, ptr %info, i64 8
  %reason = load i32, ptr %reason_at
  %is_sent = icmp sle i32 %reason, 0
  br i1 %is_sent, label %again, label %end
again:
  %rc2 = call i32 @raise(i32 %signal)
  ret void
call:
  %with_info = and i32 %flags, $SIGINFO$
  %takes_info = icmp ne i32 %with_info, 0
  br i1 %takes_info, label %call_with_info, label %call_plain
call_with_info:
  call void %handler(i32 %signal, ptr %info, ptr %context)
  ret void
call_plain:
  call void %handler(i32 %signal)
  ret void
end:
  ret void
}

define void @eas_faults_install() nounwind {
  %new = alloca [160 x i8], align 16
  call void @llvm.memset.p0.i64(ptr %new, i8 0, i64 160, i1 false)
  store ptr @on_fault, ptr %new
  %flags = getelementptr i8, ptr %new, i64 $FLAGS_AT$
  store i32 $FLAGS$, ptr %flags
  %rc0 = call i32 @sigaction(i32 11, ptr %new, ptr @before_fault)
  %rc1 = call i32 @sigaction(i32 $BUS_ERROR$, ptr %new, ptr @before_bus)
  ret void
}
"""
