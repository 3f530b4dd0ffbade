"""How a worker of the pool lives, as LLVM text: find a job, take programs of it, leave, sleep."""

from __future__ import annotations

JOB = """
; The next run of programs, from the front or the back, empty when all are taken: what is left over
; `divisor`, or `min_chunk`.
define internal { i64, i64 } @take(ptr %job, i1 %back) nounwind {
entry:
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
  %word = phi i64 [ %first, %entry ], [ %seen, %claim ]
  %low = and i64 %word, 4294967295
  %high = lshr i64 %word, 32
  %left = sub i64 %high, %low
  %more = icmp ne i64 %left, 0
  br i1 %more, label %claim, label %none
claim:
  %share = udiv i64 %left, %div
  %want = call i64 @llvm.umax.i64(i64 %share, i64 %min)
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

; Runs programs of the job until none is left; the result is how many.
define internal i64 @work_on(ptr %job, ptr %scratch, i1 %back) nounwind {
entry:
  %fnp = getelementptr %job, ptr %job, i64 0, i32 1
  %fn = load ptr, ptr %fnp
  %argsp = getelementptr %job, ptr %job, i64 0, i32 2
  %args = load ptr, ptr %argsp
  br label %next
next:
  %count = phi i64 [ 0, %entry ], [ %count1, %run ]
  %range = call { i64, i64 } @take(ptr %job, i1 %back)
  %begin = extractvalue { i64, i64 } %range, 0
  %end = extractvalue { i64, i64 } %range, 1
  %empty = icmp eq i64 %begin, %end
  br i1 %empty, label %out, label %run
run:
  call void %fn(ptr %args, i64 %begin, i64 %end, ptr %scratch)
  %size = sub i64 %end, %begin
  %count1 = add i64 %count, %size
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
