"""How a worker of the pool lives, as LLVM text: find a job, take programs of it, leave, sleep."""

from __future__ import annotations

JOB = """
; The next run of programs, from the front or the back, empty when all are taken or the job is stopped:
; what is left over `divisor`, or `min_chunk`, but at most `%most`.
define internal { i64, i64 } @take(ptr %job, i1 %back, i64 %most) nounwind {
entry:
  %stopp.p = getelementptr %job, ptr %job, i64 0, i32 13
  %stopp = load ptr, ptr %stopp.p
  %stop = load atomic i32, ptr %stopp monotonic, align 4
  %goes_on = icmp eq i32 %stop, 0
  br i1 %goes_on, label %look, label %none
look:
  %basep = getelementptr %job, ptr %job, i64 0, i32 3
  %base = load i64, ptr %basep
  %minp = getelementptr %job, ptr %job, i64 0, i32 4
  %min = load i64, ptr %minp
  %divp = getelementptr %job, ptr %job, i64 0, i32 6
  %div = load i64, ptr %divp
  %cursorp = getelementptr %job, ptr %job, i64 0, i32 11
  %first = load atomic i64, ptr %cursorp monotonic, align 8
  br label %try
try:
  %word = phi i64 [ %first, %look ], [ %seen, %claim ]
  %low = and i64 %word, 4294967295
  %high = lshr i64 %word, 32
  %left = sub i64 %high, %low
  %more = icmp ne i64 %left, 0
  br i1 %more, label %claim, label %none
claim:
  %share = udiv i64 %left, %div
  %want0 = call i64 @llvm.umax.i64(i64 %share, i64 %min)
  %want = call i64 @llvm.umin.i64(i64 %want0, i64 %most)
  %size = call i64 @llvm.umin.i64(i64 %want, i64 %left)
  %last = sub i64 %high, %size
  %begin = select i1 %back, i64 %last, i64 %low
  %size_high = shl i64 %size, 32
  %from_back = sub i64 %word, %size_high
  %from_front = add i64 %word, %size
  %new = select i1 %back, i64 %from_back, i64 %from_front
  %swap = cmpxchg ptr %cursorp, i64 %word, i64 %new monotonic monotonic, align 8
  %seen = extractvalue { i64, i1 } %swap, 0
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %got, label %try
got:
  %run_begin = add i64 %base, %begin
  %run_end = add i64 %run_begin, %size
  %r0 = insertvalue { i64, i64 } poison, i64 %run_begin, 0
  %r1 = insertvalue { i64, i64 } %r0, i64 %run_end, 1
  ret { i64, i64 } %r1
none:
  ret { i64, i64 } zeroinitializer
}

; Whether a signal handler of Python has raised: its error is set in this thread, which must be the main one.
define internal i1 @is_interrupted() nounwind noinline {
  %state = call i32 @PyGILState_Ensure()
  %rc = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  %raised = icmp ne i32 %rc, 0
  ret i1 %raised
}

; Runs programs of the job until none is left; the result is how many. A run that was quick lets the next
; one be longer, and one that took over RUN_NS shorter, so that between two of them the job can be stopped
; in time; the main thread then lets Python's signal handlers run every POLL_NS.
define internal i64 @work_on(ptr %job, ptr %scratch, i1 %back) nounwind {
entry:
  %mostp = getelementptr %job, ptr %job, i64 0, i32 14
  %most0 = load i64, ptr %mostp
  %me = call i64 @pthread_self()
  %main = load i64, ptr @main_thread
  %is_main = icmp eq i64 %me, %main
  %start = call i64 @now_ns()
  %fnp = getelementptr %job, ptr %job, i64 0, i32 1
  %fn = load ptr, ptr %fnp
  %argsp = getelementptr %job, ptr %job, i64 0, i32 2
  %args = load ptr, ptr %argsp
  br label %next
next:
  %count = phi i64 [ 0, %entry ], [ %count1, %run ], [ %count1, %polled ]
  %most = phi i64 [ %most0, %entry ], [ %most1, %run ], [ %most1, %polled ]
  %then = phi i64 [ %start, %entry ], [ %now, %run ], [ %now, %polled ]
  %last = phi i64 [ %start, %entry ], [ %last, %run ], [ %now, %polled ]
  %range = call { i64, i64 } @take(ptr %job, i1 %back, i64 %most)
  %begin = extractvalue { i64, i64 } %range, 0
  %end = extractvalue { i64, i64 } %range, 1
  %empty = icmp eq i64 %begin, %end
  br i1 %empty, label %out, label %run
run:
  call void %fn(ptr %args, i64 %begin, i64 %end, ptr %scratch)
  %size = sub i64 %end, %begin
  %count1 = add i64 %count, %size
  %now = call i64 @now_ns()
  %dt = sub i64 %now, %then
  %is_quick = icmp ult i64 %dt, $QUICK_NS
  %is_slow = icmp ugt i64 %dt, $RUN_NS
  %more = shl i64 %size, 2
  %risen = call i64 @llvm.umax.i64(i64 %most, i64 %more)
  %less = lshr i64 %size, 2
  %fallen = call i64 @llvm.umax.i64(i64 %less, i64 1)
  %most2 = select i1 %is_slow, i64 %fallen, i64 %most
  %most1 = select i1 %is_quick, i64 %risen, i64 %most2
  %since = sub i64 %now, %last
  %is_late = icmp ugt i64 %since, $POLL_NS
  %asks = and i1 %is_late, %is_main
  br i1 %asks, label %poll, label %next
poll:
  %raised = call i1 @is_interrupted()
  br i1 %raised, label %stop, label %polled
stop:
  %stopp.p = getelementptr %job, ptr %job, i64 0, i32 13
  %stopp = load ptr, ptr %stopp.p
  store atomic i32 1, ptr %stopp monotonic, align 4
  br label %polled
polled:
  br label %next
out:
  ret i64 %count
}

; A job with programs left and room for one more worker, or null. The mutex is held.
define internal ptr @find_job() nounwind {
entry:
  %head = load ptr, ptr @jobs
  br label %look
look:
  %job = phi ptr [ %head, %entry ], [ %next, %other ]
  %none = icmp eq ptr %job, null
  br i1 %none, label %end, label %check
check:
  %cursorp = getelementptr %job, ptr %job, i64 0, i32 11
  %cursor = load atomic i64, ptr %cursorp monotonic, align 8
  %low = and i64 %cursor, 4294967295
  %high = lshr i64 %cursor, 32
  %has_work = icmp ult i64 %low, %high
  %limitp = getelementptr %job, ptr %job, i64 0, i32 7
  %limit = load i32, ptr %limitp
  %helpersp = getelementptr %job, ptr %job, i64 0, i32 8
  %helpers = load i32, ptr %helpersp
  %has_room = icmp slt i32 %helpers, %limit
  %good = and i1 %has_work, %has_room
  br i1 %good, label %end, label %other
other:
  %next = load ptr, ptr %job
  br label %look
end:
  ret ptr %job
}

; Wakes one sleeping worker if there is one. The mutex is held.
define internal void @wake_one() nounwind {
  %parked = load i32, ptr @parked
  %some = icmp sgt i32 %parked, 0
  br i1 %some, label %wake, label %end
wake:
  %rc = call i32 @pthread_cond_signal(ptr @work)
  br label %end
end:
  ret void
}
"""

WORKER = """
define internal ptr @worker(ptr %unused) nounwind {
entry:
  %arena = alloca %arena
  store %arena zeroinitializer, ptr %arena
  %rc0 = call i32 @pthread_mutex_lock(ptr @lock)
  br label %search
search:
  %has_spun = phi i1 [ true, %entry ], [ false, %search_again ], [ false, %waited ], [ true, %sleep ], [ true, %spun ]
  %job = call ptr @find_job()
  %found = icmp ne ptr %job, null
  br i1 %found, label %join, label %idle
idle:
  br i1 %has_spun, label %sleep, label %spin
spin:
  %ticket = load atomic i32, ptr @tickets monotonic, align 4
  %rc1 = call i32 @pthread_mutex_unlock(ptr @lock)
  call void @spin(ptr @tickets, i32 %ticket, i1 true)
  %now = load atomic i32, ptr @tickets monotonic, align 4
  %rc2 = call i32 @pthread_mutex_lock(ptr @lock)
  %is_news = icmp ne i32 %now, %ticket
  br i1 %is_news, label %waited, label %spun
waited:
  br label %search
spun:
  br label %search
sleep:
  %p0 = load i32, ptr @parked
  %p1 = add i32 %p0, 1
  store atomic i32 %p1, ptr @parked monotonic, align 4
  %rc3 = call i32 @pthread_cond_wait(ptr @work, ptr @lock)
  %p2 = load i32, ptr @parked
  %p3 = sub i32 %p2, 1
  store atomic i32 %p3, ptr @parked monotonic, align 4
  br label %search
join:
  %helpersp = getelementptr %job, ptr %job, i64 0, i32 8
  %h0 = load i32, ptr %helpersp
  %h1 = add i32 %h0, 1
  %back = trunc i32 %h1 to i1
  store atomic i32 %h1, ptr %helpersp monotonic, align 4
  %another = call ptr @find_job()
  %is_more = icmp ne ptr %another, null
  br i1 %is_more, label %wake, label %go
wake:
  call void @wake_one()
  br label %go
go:
  %rc4 = call i32 @pthread_mutex_unlock(ptr @lock)
  %nbytesp = getelementptr %job, ptr %job, i64 0, i32 5
  %nbytes = load i64, ptr %nbytesp
  %no_need = icmp eq i64 %nbytes, 0
  br i1 %no_need, label %help, label %prepare
prepare:
  %memory = call ptr @scratch_of(ptr %arena, i64 %nbytes)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %refuse, label %help
help:
  %scratch = phi ptr [ null, %go ], [ %memory, %prepare ]
  %count = call i64 @work_on(ptr %job, ptr %scratch, i1 %back)
  %rc5 = call i32 @pthread_mutex_lock(ptr @lock)
  br label %leave
refuse:                          ; no memory here: the caller, who has some, does the work
  %rc6 = call i32 @pthread_mutex_lock(ptr @lock)
  %limitp = getelementptr %job, ptr %job, i64 0, i32 7
  store i32 0, ptr %limitp
  br label %leave
leave:
  %h2 = load i32, ptr %helpersp
  %h3 = sub i32 %h2, 1
  %waitedp = getelementptr %job, ptr %job, i64 0, i32 9
  %is_waited_for = load i32, ptr %waitedp
  store atomic i32 %h3, ptr %helpersp monotonic, align 4
  %is_last = icmp eq i32 %h3, 0
  %w = icmp ne i32 %is_waited_for, 0
  %tell = and i1 %is_last, %w
  br i1 %tell, label %announce, label %search_again
announce:
  %rc7 = call i32 @pthread_cond_broadcast(ptr @done)
  br label %search_again
search_again:
  br label %search
}

; Starts workers until there are `%wanted`, or as many as the system gives. The mutex is held.
; Signals are for Python's threads; those that a fault raises stay, so that faulthandler sees them.
define internal void @hire(i64 %wanted) nounwind {
entry:
  %have = load i64, ptr @workers
  %enough = icmp sge i64 %have, %wanted
  br i1 %enough, label %end, label %block
block:
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
  %thread = alloca i64
  %rc0 = call i32 @sigfillset(ptr %all)
  %rc1 = call i32 @sigdelset(ptr %all, i32 11)
  %rc2 = call i32 @sigdelset(ptr %all, i32 $SIGBUS)
  %rc3 = call i32 @sigdelset(ptr %all, i32 8)
  %rc4 = call i32 @sigdelset(ptr %all, i32 4)
  %rc5 = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %all, ptr %old)
  br label %next
next:
  %n = phi i64 [ %have, %block ], [ %n1, %made ]
  %more = icmp slt i64 %n, %wanted
  br i1 %more, label %make, label %restore
make:
  %rc = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr null)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %made, label %restore
made:
  %id = load i64, ptr %thread
  %rc6 = call i32 @pthread_detach(i64 %id)
  %n1 = add i64 %n, 1
  store atomic i64 %n1, ptr @workers monotonic, align 8
  br label %next
restore:
  %rc7 = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %old, ptr null)
  br label %end
end:
  ret void
}
"""
