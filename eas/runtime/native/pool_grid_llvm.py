"""How a grid is run, as LLVM text: at once on the caller's thread, in runs that can be stopped, or by many threads."""

from __future__ import annotations

GRID = """
; Whether another thread would have to be woken for this job alone: none is awake, and the last job is
; a while ago. Where jobs follow closely, one that is woken finds the next of them without sleeping.
define internal i1 @all_asleep(i64 %now) nounwind {
entry:
  %team = load ptr, ptr @team_run
  %own = icmp eq ptr %team, null
  %last = load atomic i64, ptr @last_asked monotonic, align 8
  store atomic i64 %now, ptr @last_asked monotonic, align 8
  %since = sub i64 %now, %last
  %is_lone = icmp ugt i64 %since, $CLOSE_NS
  %parked = load atomic i32, ptr @parked monotonic, align 4
  %workers = load atomic i64, ptr @workers monotonic, align 8
  %parked64 = sext i32 %parked to i64
  %none_up = icmp sge i64 %parked64, %workers
  %a = and i1 %own, %is_lone
  %b = and i1 %a, %none_up
  ret i1 %b
}

; Runs fn(args, begin, end, scratch) over all of [0, n); 0, 4 (EINTR) if it was stopped, or another errno.
; chunk 0: sizes are chosen by what `rate` remembers. rate: null, or a word of the kernel, 0 at first.
; stop: null, or a word that another thread sets to 1. steady: 0 if one program may take any time.
define i32 @eas_pool_run(ptr %fn, ptr %args, i64 %n, i64 %chunk, i64 %threads, i64 %nbytes, ptr %rate, ptr %stop, i64 %steady) nounwind {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %start, label %nothing
nothing:
  ret i32 0
start:
  %no_scratch = icmp eq i64 %nbytes, 0
  br i1 %no_scratch, label %plain, label %prepare
plain:
  %rc = call i32 @run_grid(ptr %fn, ptr %args, i64 %n, i64 %chunk, i64 %threads, i64 0, ptr %rate, ptr %stop, i64 %steady, ptr null)
  ret i32 %rc
prepare:
  %spare = alloca %arena
  %used = alloca ptr
  store %arena zeroinitializer, ptr %spare
  %memory = call ptr @callers_scratch(i64 %nbytes, ptr %spare, ptr %used)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %no_memory, label %run
run:
  %rc1 = call i32 @run_grid(ptr %fn, ptr %args, i64 %n, i64 %chunk, i64 %threads, i64 %nbytes, ptr %rate, ptr %stop, i64 %steady, ptr %memory)
  %arena = load ptr, ptr %used
  %busyp = getelementptr %arena, ptr %arena, i64 0, i32 2
  store i64 0, ptr %busyp
  %spared = load ptr, ptr %spare
  call void @free(ptr %spared)
  ret i32 %rc1
no_memory:
  ret i32 12
}

; The same for a caller that holds the GIL, which is free meanwhile.
define i32 @eas_pool_run_from_python(ptr %fn, ptr %args, i64 %n, i64 %chunk, i64 %threads, i64 %nbytes, ptr %rate, ptr %stop, i64 %steady) nounwind {
  %state = call ptr @PyEval_SaveThread()
  %rc = call i32 @eas_pool_run(ptr %fn, ptr %args, i64 %n, i64 %chunk, i64 %threads, i64 %nbytes, ptr %rate, ptr %stop, i64 %steady)
  call void @PyEval_RestoreThread(ptr %state)
  ret i32 %rc
}

define internal i32 @run_grid(ptr %fn, ptr %args, i64 %n, i64 %chunk, i64 %threads, i64 %nbytes, ptr %rate, ptr %given, i64 %steady, ptr %scratch) nounwind {
entry:
  %own_stop = alloca i32
  store i32 0, ptr %own_stop
  %no_stop = icmp eq ptr %given, null
  %stop = select i1 %no_stop, ptr %own_stop, ptr %given
  %is_steady = icmp ne i64 %steady, 0
  %is_auto = icmp eq i64 %chunk, 0
  %one_program = icmp eq i64 %n, 1
  %in_one = icmp sle i64 %n, %chunk
  %alone = or i1 %one_program, %in_one
  br i1 %alone, label %at_once, label %ask
at_once:
  %s0 = call i64 @now_ns()
  call void %fn(ptr %args, i64 0, i64 %n, ptr %scratch)
  %s1 = call i64 @now_ns()
  %ds = sub i64 %s1, %s0
  call void @learn(ptr %rate, i64 %ds, i64 %n)
  ret i32 0
ask:
  %one_thread = icmp sle i64 %threads, 1
  %others = sub i64 %threads, 1
  %div2 = mul i64 %threads, 2
  %div = select i1 %one_thread, i64 1, i64 %div2
  %no_rate = icmp eq ptr %rate, null
  br i1 %no_rate, label %unknown, label %recall
recall:
  %ps = load atomic i64, ptr %rate monotonic, align 8
  %is_new = icmp eq i64 %ps, 0
  br i1 %is_new, label %unknown, label %known
unknown:
  br i1 %is_auto, label %guess, label %fixed
fixed:
  %chunk1 = call i64 @llvm.umax.i64(i64 %chunk, i64 1)
  call void @spread(ptr %fn, ptr %args, i64 0, i64 %n, i64 %chunk1, i64 9223372036854775807, i64 %threads, i64 %others, i64 %nbytes, ptr %scratch, ptr %rate, ptr %stop, i64 %chunk1)
  br label %ok
guess:
  %pieces = mul i64 %threads, 16
  %piece = udiv i64 %n, %pieces
  %min0 = call i64 @llvm.umax.i64(i64 %piece, i64 1)
  call void @spread(ptr %fn, ptr %args, i64 0, i64 %n, i64 %min0, i64 %div, i64 %threads, i64 %others, i64 %nbytes, ptr %scratch, ptr %rate, ptr %stop, i64 1)
  br label %ok
known:
  br i1 %is_auto, label %predict, label %fixed
predict:
  %psf = uitofp i64 %ps to double
  %nf = uitofp i64 %n to double
  %total = fmul double %psf, %nf
  %run0 = udiv i64 $CHUNK_PS, %ps
  %min1 = call i64 @llvm.umax.i64(i64 %run0, i64 1)
  %run1 = udiv i64 $RUN_PS, %ps
  %most0 = call i64 @llvm.umax.i64(i64 %run1, i64 1)
  %most = select i1 %is_steady, i64 %most0, i64 1
  %is_long = fcmp ogt double %total, $INLINE_PS
  br i1 %is_long, label %look, label %try
look:
  %is_worth_waking = fcmp ogt double %total, $WAKE_PS
  %sure = or i1 %is_worth_waking, %one_thread
  br i1 %sure, label %spread_all, label %ask_who
ask_who:
  %here = call i64 @now_ns()
  %asleep = call i1 @all_asleep(i64 %here)
  br i1 %asleep, label %try, label %spread_all
spread_all:                      ; to no more threads than have something to do
  %worthy = fdiv double %total, $HELPER_PS
  %is_for_all = fcmp oge double %worthy, 1024.0
  %worthy64 = fptoui double %worthy to i64
  %most_others = select i1 %is_for_all, i64 %others, i64 %worthy64
  %helpers = call i64 @llvm.umin.i64(i64 %most_others, i64 %others)
  call void @spread(ptr %fn, ptr %args, i64 0, i64 %n, i64 %min1, i64 %div, i64 %threads, i64 %helpers, i64 %nbytes, ptr %scratch, ptr %rate, ptr %stop, i64 %most)
  br label %ok
try:                             ; expected to be short: run an eighth, then believe it or not
  %eighth0 = lshr i64 %n, 3
  %eighth = call i64 @llvm.umax.i64(i64 %eighth0, i64 1)
  %first = select i1 %is_steady, i64 %eighth, i64 1
  %t0 = call i64 @now_ns()
  call void %fn(ptr %args, i64 0, i64 %first, ptr %scratch)
  %t1 = call i64 @now_ns()
  %dt = sub i64 %t1, %t0
  %late = icmp ugt i64 %dt, 12000
  br i1 %late, label %spread_rest, label %believe
believe:
  br i1 %is_steady, label %rest, label %next
next:                            ; programs that may take any time: what one took says little of many
  %some_more = icmp ugt i64 %eighth, %first
  br i1 %some_more, label %second, label %rest_in_runs
second:
  call void %fn(ptr %args, i64 %first, i64 %eighth, ptr %scratch)
  %t2 = call i64 @now_ns()
  %dt2 = sub i64 %t2, %t0
  %late2 = icmp ugt i64 %dt2, 12000
  br i1 %late2, label %spread_rest, label %rest_in_runs
spread_rest:
  %done1 = phi i64 [ %first, %try ], [ %eighth, %second ]
  %dt1 = phi i64 [ %dt, %try ], [ %dt2, %second ]
  call void @learn(ptr %rate, i64 %dt1, i64 %done1)
  call void @spread(ptr %fn, ptr %args, i64 %done1, i64 %n, i64 1, i64 %div, i64 %threads, i64 %others, i64 %nbytes, ptr %scratch, ptr %rate, ptr %stop, i64 1)
  br label %ok
rest_in_runs:
  %done2 = phi i64 [ %first, %next ], [ %eighth, %second ]
  %dt3 = phi i64 [ %dt, %next ], [ %dt2, %second ]
  %dt4 = call i64 @llvm.umax.i64(i64 %dt3, i64 1)
  %sure_ns = mul i64 %done2, $SURE_NS
  %safe0 = udiv i64 %sure_ns, %dt4
  %safe = call i64 @llvm.umax.i64(i64 %safe0, i64 1)
  %left = sub i64 %n, %done2
  %all_safe = icmp uge i64 %safe, %left
  br i1 %all_safe, label %rest, label %in_runs
in_runs:
  call void @spread(ptr %fn, ptr %args, i64 %done2, i64 %n, i64 1, i64 1, i64 1, i64 0, i64 %nbytes, ptr %scratch, ptr %rate, ptr %stop, i64 %safe)
  br label %ok
rest:
  %done3 = phi i64 [ %first, %believe ], [ %done2, %rest_in_runs ]
  call void %fn(ptr %args, i64 %done3, i64 %n, ptr %scratch)
  %t3 = call i64 @now_ns()
  %whole = sub i64 %t3, %t0
  call void @learn(ptr %rate, i64 %whole, i64 %n)
  br label %ok
ok:
  %stopped = load atomic i32, ptr %stop monotonic, align 4
  %is_stopped = icmp ne i32 %stopped, 0
  %result = select i1 %is_stopped, i32 4, i32 0
  ret i32 %result
}
"""
