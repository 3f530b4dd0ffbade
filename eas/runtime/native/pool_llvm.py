"""The worker pool as LLVM text: jobs in a list under one mutex, programs taken by compare-and-swap.

A job is a record on its caller's stack. The caller links it, wakes up to two workers and works
itself; each worker that joins wakes one more, so that many start in logarithmic time. Nobody frees
a job: its caller unlinks it when no program is left and waits until no worker is inside. A worker
touches a job only while it is counted in `helpers`, and leaves it under the mutex.

The caller takes programs from the front and every second thread from the end, so that when a launch
is repeated, each of two threads meets the memory that its own cache still holds.

Where another library already keeps threads that OpenMP gave it, a job runs on those (`eas_pool_share`):
two pools that wait for work in turns would take the cores from each other.

Waiting is never unbounded spinning: a worker without work and a caller without programs look at a
counter for `FIRST_NS`, go on with that until `SPIN_NS` as long as nobody else wants the core, then
sleep on a condition variable. To wake a sleeping thread takes as long as 50 us on a virtual machine.
"""

from __future__ import annotations

import sys

from eas.runtime.native.faults_llvm import faults_text
from eas.runtime.native.pool_grid_llvm import GRID
from eas.runtime.native.pool_worker_llvm import JOB, WORKER

FIRST_NS = 10_000
SPIN_NS = 400_000  # what a Python program does between two launches; waking a thread takes up to 50 us
INLINE_PS = 10_000_000  # a grid that takes less than 10 us is not worth another thread: to hand over and back takes 1 to 2 us
HELPER_PS = 5_000_000  # nor is a further one that would have less than 5 us of it
WAKE_PS = 100_000_000  # one that takes less than 100 us is not worth waking a thread, unless others followed closely
CLOSE_NS = SPIN_NS
CHUNK_PS = 2_000_000  # programs are taken in runs of at least 2 us where their time is known; to take one costs 0.1 us
RUN_NS = 10_000_000  # and of at most 10 ms: a job is stopped between two runs
POLL_NS = 50_000_000  # how long Python's signal handlers wait for a job of the main thread
SURE_NS = 100_000  # programs that should take as long are run at once after one that was timed
_PAUSE = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
}


def pool_text(arch: str) -> str:
    """The module; `eas_pool_run` and `eas_pool_reset` are its functions."""
    is_mac = sys.platform == "darwin"
    constants = {
        "PAUSE": _PAUSE.get(arch, ""),
        "CLOCK_MONOTONIC": "6" if is_mac else "1",
        "SIG_SETMASK": "3" if is_mac else "2",
        "SIGBUS": "10" if is_mac else "7",
        "FIRST_NS": str(FIRST_NS),
        "SPIN_NS": str(SPIN_NS),
        "INLINE_PS": f"{INLINE_PS}.0",
        "HELPER_PS": f"{HELPER_PS}.0",
        "WAKE_PS": f"{WAKE_PS}.0",
        "CLOSE_NS": str(CLOSE_NS),
        "CHUNK_PS": str(CHUNK_PS),
        "RUN_PS": str(1000 * RUN_NS),
        "RUN_NS": str(RUN_NS),
        "QUICK_NS": str(RUN_NS // 4),
        "POLL_NS": str(POLL_NS),
        "SURE_NS": str(SURE_NS),
    }
    text = _DECLARATIONS + _TIME + _ARENA + JOB + WORKER + _SPREAD + GRID + faults_text(arch)
    for name, value in constants.items():
        text = text.replace(f"${name}", value)
    return text


_DECLARATIONS = """
; next, fn, args, base, min_chunk, scratch_nbytes, divisor, limit, helpers, is_waited_for, cursor
; The cursor holds which programs behind `base` are left: from its low 32 bits up to its high 32 bits.
; It has a cache line of its own: every thread of the job writes it. Behind it: the word that stops the job,
; how many programs the first run of each thread may have, the caller's thread and its scratch.
%job = type { ptr, ptr, ptr, i64, i64, i64, i64, i32, i32, i32, [60 x i8], i64, [56 x i8], ptr, i64, i64, ptr, [32 x i8] }
; memory, its size, and whether a launch that has not ended uses it
%arena = type { ptr, i64, i64 }

@lock = internal global [64 x i8] zeroinitializer, align 64
@work = internal global [64 x i8] zeroinitializer, align 64
@done = internal global [64 x i8] zeroinitializer, align 64
@jobs = internal global ptr null
@parked = internal global i32 0
@workers = internal global i64 0
@owner = internal global i32 0
@has_key = internal global i32 0
@key = internal global i64 0
@tickets = internal global i32 0, align 64
@last_asked = internal global i64 0
@team_run = internal global ptr null
@team_size = internal global ptr null
@main_thread = internal global i64 0

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @pthread_self()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i64)
declare i32 @pthread_setspecific(i64, ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare ptr @calloc(i64, i64)
declare void @free(ptr)
declare i32 @getpid()
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.x86.sse2.pause()
declare void @llvm.aarch64.hint(i32)
"""

_TIME = """
define internal i64 @now_ns() nounwind {
  %ts = alloca { i64, i64 }
  %rc = call i32 @clock_gettime(i32 $CLOCK_MONOTONIC, ptr %ts)
  %s = load i64, ptr %ts
  %nsp = getelementptr { i64, i64 }, ptr %ts, i64 0, i32 1
  %ns = load i64, ptr %nsp
  %sns = mul i64 %s, 1000000000
  %t = add i64 %sns, %ns
  ret i64 %t
}

; Looks at a word while (it is `%value`) is `%equal`, for SPIN_NS at most.
define internal void @spin(ptr %word, i32 %value, i1 %equal) nounwind {
entry:
  %start = call i64 @now_ns()
  br label %look
look:
  %v = load atomic i32, ptr %word monotonic, align 4
  %is = icmp eq i32 %v, %value
  %on = icmp eq i1 %is, %equal
  br i1 %on, label %wait, label %end
wait:
  %t = call i64 @now_ns()
  %dt = sub i64 %t, %start
  %is_short = icmp ult i64 %dt, $FIRST_NS
  br i1 %is_short, label %pause, label %yield
pause:
  $PAUSE
  br label %look
yield:
  %rc = call i32 @sched_yield()
  %late = icmp ugt i64 %dt, $SPIN_NS
  br i1 %late, label %end, label %look
end:
  ret void
}

; Remembers the picoseconds of one program. It at most quadruples, since a thread may lose its core
; for a while, and falls slowly, so that a kernel whose programs are sometimes long is spread.
define internal void @learn(ptr %rate, i64 %ns, i64 %programs) nounwind {
entry:
  %no_rate = icmp eq ptr %rate, null
  %no_work = icmp eq i64 %programs, 0
  %skip = or i1 %no_rate, %no_work
  br i1 %skip, label %end, label %update
update:
  %ps = mul i64 %ns, 1000
  %each0 = udiv i64 %ps, %programs
  %each = call i64 @llvm.umax.i64(i64 %each0, i64 1)
  %old = load atomic i64, ptr %rate monotonic, align 8
  %is_first = icmp eq i64 %old, 0
  %four = shl i64 %old, 2
  %cap = select i1 %is_first, i64 %each, i64 %four
  %risen = call i64 @llvm.umin.i64(i64 %each, i64 %cap)
  %rises = icmp uge i64 %each, %old
  %gap = sub i64 %old, %each
  %step = lshr i64 %gap, 2
  %fallen = sub i64 %old, %step
  %new = select i1 %rises, i64 %risen, i64 %fallen
  store atomic i64 %new, ptr %rate monotonic, align 8
  br label %end
end:
  ret void
}
"""

_ARENA = """
; Scratch of at least `%nbytes`, aligned to 64; null when there is no memory. The first 64 bytes are
; zero, so that a kernel can keep tags of what its scratch holds during one launch.
define internal ptr @scratch_of(ptr %arena, i64 %nbytes) nounwind {
entry:
  %sizep = getelementptr %arena, ptr %arena, i64 0, i32 1
  %size = load i64, ptr %sizep
  %fits = icmp uge i64 %size, %nbytes
  br i1 %fits, label %ready, label %grow
grow:
  %old = load ptr, ptr %arena
  call void @free(ptr %old)
  store %arena zeroinitializer, ptr %arena
  %want0 = add i64 %nbytes, 4095
  %want = and i64 %want0, -4096
  %rc = call i32 @posix_memalign(ptr %arena, i64 64, i64 %want)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %grown, label %failed
grown:
  store i64 %want, ptr %sizep
  br label %ready
ready:
  %memory = load ptr, ptr %arena
  call void @llvm.memset.p0.i64(ptr align 64 %memory, i8 0, i64 64, i1 false)
  ret ptr %memory
failed:
  store %arena zeroinitializer, ptr %arena
  ret ptr null
}

define internal void @drop_arena(ptr %arena) nounwind {
  %memory = load ptr, ptr %arena
  call void @free(ptr %memory)
  call void @free(ptr %arena)
  ret void
}

; The arena of the calling thread, or null.
define internal ptr @callers_arena() nounwind {
start:
  %has_key = load i32, ptr @has_key
  %can = icmp ne i32 %has_key, 0
  br i1 %can, label %entry, label %none
entry:
  %key = load i64, ptr @key
  %known = call ptr @pthread_getspecific(i64 %key)
  %is_new = icmp eq ptr %known, null
  br i1 %is_new, label %make, label %have
make:
  %made = call ptr @calloc(i64 1, i64 24)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %none, label %keep
keep:
  %rc = call i32 @pthread_setspecific(i64 %key, ptr %made)
  br label %have
have:
  %arena = phi ptr [ %known, %entry ], [ %made, %keep ]
  ret ptr %arena
none:
  ret ptr null
}

; Scratch for a launch of this thread, in the arena that `%used` then names: the thread's own, or `%spare`
; if this launch was made by a signal handler in the middle of another one. Null when there is no memory.
define internal ptr @callers_scratch(i64 %nbytes, ptr %spare, ptr %used) nounwind {
entry:
  %own = call ptr @callers_arena()
  %none = icmp eq ptr %own, null
  br i1 %none, label %failed, label %choose
choose:
  %busyp = getelementptr %arena, ptr %own, i64 0, i32 2
  %busy = load i64, ptr %busyp
  %is_busy = icmp ne i64 %busy, 0
  %arena = select i1 %is_busy, ptr %spare, ptr %own
  %memory = call ptr @scratch_of(ptr %arena, i64 %nbytes)
  %no_memory = icmp eq ptr %memory, null
  br i1 %no_memory, label %failed, label %have
have:
  %markp = getelementptr %arena, ptr %arena, i64 0, i32 2
  store i64 1, ptr %markp
  store ptr %arena, ptr %used
  ret ptr %memory
failed:
  ret ptr null
}
"""

_SPREAD = """
; A pool without workers and jobs: at first, and in a child after fork, where no thread of ours lives.
define void @eas_pool_reset() nounwind {
entry:
  %rc0 = call i32 @pthread_mutex_init(ptr @lock, ptr null)
  %rc1 = call i32 @pthread_cond_init(ptr @work, ptr null)
  %rc2 = call i32 @pthread_cond_init(ptr @done, ptr null)
  store ptr null, ptr @jobs
  store i32 0, ptr @parked
  store i64 0, ptr @workers
  store ptr null, ptr @team_run        ; an OpenMP team does not survive fork either
  %pid = call i32 @getpid()
  store i32 %pid, ptr @owner
  %has_key = load i32, ptr @has_key
  %first = icmp eq i32 %has_key, 0
  br i1 %first, label %make_key, label %end
make_key:
  %rc3 = call i32 @pthread_key_create(ptr @key, ptr @drop_arena)
  %made = icmp eq i32 %rc3, 0
  %has = zext i1 %made to i32
  store i32 %has, ptr @has_key
  br label %end
end:
  ret void
}

; Who runs Python's signal handlers.
define void @eas_pool_main_thread(i64 %ident) nounwind {
  store i64 %ident, ptr @main_thread
  ret void
}

; From now on jobs run on the threads of OpenMP: GOMP_parallel and omp_get_max_threads, or null.
define void @eas_pool_share(ptr %run, ptr %size) nounwind {
  store ptr %size, ptr @team_size
  store atomic ptr %run, ptr @team_run release, align 8   ; who sees it sees the size too
  ret void
}

define internal void @team_member(ptr %job) nounwind {
entry:
  %helpersp = getelementptr %job, ptr %job, i64 0, i32 8
  %number = atomicrmw add ptr %helpersp, i32 1 monotonic
  %back = trunc i32 %number to i1
  %nbytesp = getelementptr %job, ptr %job, i64 0, i32 5
  %nbytes = load i64, ptr %nbytesp
  %none = icmp eq i64 %nbytes, 0
  br i1 %none, label %work, label %ask
ask:
  %me = call i64 @pthread_self()
  %callerp = getelementptr %job, ptr %job, i64 0, i32 15
  %caller = load i64, ptr %callerp
  %is_caller = icmp eq i64 %me, %caller
  br i1 %is_caller, label %have, label %prepare
have:
  %callersp = getelementptr %job, ptr %job, i64 0, i32 16
  %callers = load ptr, ptr %callersp
  br label %work
prepare:
  %arena = call ptr @callers_arena()
  %no_arena = icmp eq ptr %arena, null  ; never for the caller, who then does it all
  br i1 %no_arena, label %end, label %fill
fill:
  %memory = call ptr @scratch_of(ptr %arena, i64 %nbytes)
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %end, label %work
work:
  %scratch = phi ptr [ null, %entry ], [ %callers, %have ], [ %memory, %fill ]
  %count = call i64 @work_on(ptr %job, ptr %scratch, i1 %back)
  br label %end
end:
  ret void
}

; Whether a team of that many threads stands ready: another size would make OpenMP end and start threads.
define internal i1 @has_team(i64 %threads) nounwind {
entry:
  %run = load atomic ptr, ptr @team_run acquire, align 8
  %none = icmp eq ptr %run, null
  br i1 %none, label %no, label %ask
ask:
  %pid = call i32 @getpid()
  %owner = load i32, ptr @owner
  %ours = icmp eq i32 %pid, %owner
  br i1 %ours, label %count, label %no
count:
  %sizef = load ptr, ptr @team_size
  %size = call i32 %sizef()
  %size64 = sext i32 %size to i64
  %fits = icmp eq i64 %size64, %threads
  ret i1 %fits
no:
  ret i1 false
}

define internal void @link(ptr %job, i64 %helpers) nounwind {
entry:
  %pid = call i32 @getpid()
  %owner = load i32, ptr @owner
  %forked = icmp ne i32 %pid, %owner   ; by C code, which Python's own hook does not see
  br i1 %forked, label %restart, label %start
restart:
  call void @eas_pool_reset()
  br label %start
start:
  %rc0 = call i32 @pthread_mutex_lock(ptr @lock)
  call void @hire(i64 %helpers)
  %head = load ptr, ptr @jobs
  store ptr %head, ptr %job
  store ptr %job, ptr @jobs
  %t = atomicrmw add ptr @tickets, i32 1 monotonic
  call void @wake_one()
  %several = icmp ugt i64 %helpers, 1
  br i1 %several, label %second, label %end
second:
  call void @wake_one()
  br label %end
end:
  %rc1 = call i32 @pthread_mutex_unlock(ptr @lock)
  ret void
}

; Takes the job out of the list and waits until no worker is inside.
define internal void @unlink(ptr %job) nounwind {
entry:
  %rc0 = call i32 @pthread_mutex_lock(ptr @lock)
  br label %look
look:
  %place = phi ptr [ @jobs, %entry ], [ %at, %step ]
  %at = load ptr, ptr %place
  %here = icmp eq ptr %at, %job
  br i1 %here, label %remove, label %step
step:
  br label %look
remove:
  %next = load ptr, ptr %job
  store ptr %next, ptr %place
  %helpersp = getelementptr %job, ptr %job, i64 0, i32 8
  %h = load i32, ptr %helpersp
  %alone = icmp eq i32 %h, 0
  br i1 %alone, label %end, label %spin
spin:
  %rc1 = call i32 @pthread_mutex_unlock(ptr @lock)
  call void @spin(ptr %helpersp, i32 0, i1 false)
  %rc2 = call i32 @pthread_mutex_lock(ptr @lock)
  %waitedp = getelementptr %job, ptr %job, i64 0, i32 9
  store i32 1, ptr %waitedp
  br label %check
check:
  %h1 = load i32, ptr %helpersp
  %left = icmp ne i32 %h1, 0
  br i1 %left, label %wait, label %end
wait:
  %rc3 = call i32 @pthread_cond_wait(ptr @done, ptr @lock)
  br label %check
end:
  %rc4 = call i32 @pthread_mutex_unlock(ptr @lock)
  ret void
}

; All programs of [begin, n), at most 2**31 at a time, as many as the cursor of a job can tell apart; less
; if the job is stopped. The first run of each thread has at most `%most` programs. Of our own workers at
; most `%helpers` join; a team of OpenMP has one size.
define internal void @spread(ptr %fn, ptr %args, i64 %begin, i64 %n, i64 %min, i64 %div, i64 %threads, i64 %helpers, i64 %nbytes, ptr %scratch, ptr %rate, ptr %stop, i64 %most) nounwind {
entry:
  br label %next
next:
  %at = phi i64 [ %begin, %entry ], [ %end, %run ]
  %left = sub i64 %n, %at
  %left_some = icmp sgt i64 %left, 0
  %stopped = load atomic i32, ptr %stop monotonic, align 4
  %goes_on = icmp eq i32 %stopped, 0
  %some = and i1 %left_some, %goes_on
  br i1 %some, label %run, label %done
run:
  %size = call i64 @llvm.umin.i64(i64 %left, i64 2147483648)
  %end = add i64 %at, %size
  call void @spread_part(ptr %fn, ptr %args, i64 %at, i64 %end, i64 %min, i64 %div, i64 %threads, i64 %helpers, i64 %nbytes, ptr %scratch, ptr %rate, ptr %stop, i64 %most)
  br label %next
done:
  ret void
}

define internal void @spread_part(ptr %fn, ptr %args, i64 %begin, i64 %n, i64 %min, i64 %div, i64 %threads, i64 %helpers, i64 %nbytes, ptr %scratch, ptr %rate, ptr %stop, i64 %most) nounwind {
entry:
  %job = alloca %job, align 64
  call void @llvm.memset.p0.i64(ptr align 64 %job, i8 0, i64 256, i1 false)
  %stopp = getelementptr %job, ptr %job, i64 0, i32 13
  store ptr %stop, ptr %stopp
  %mostp = getelementptr %job, ptr %job, i64 0, i32 14
  store i64 %most, ptr %mostp
  %me = call i64 @pthread_self()
  %callerp = getelementptr %job, ptr %job, i64 0, i32 15
  store i64 %me, ptr %callerp
  %scratchp = getelementptr %job, ptr %job, i64 0, i32 16
  store ptr %scratch, ptr %scratchp
  %fnp = getelementptr %job, ptr %job, i64 0, i32 1
  store ptr %fn, ptr %fnp
  %argsp = getelementptr %job, ptr %job, i64 0, i32 2
  store ptr %args, ptr %argsp
  %basep = getelementptr %job, ptr %job, i64 0, i32 3
  store i64 %begin, ptr %basep
  %minp = getelementptr %job, ptr %job, i64 0, i32 4
  store i64 %min, ptr %minp
  %nbytesp = getelementptr %job, ptr %job, i64 0, i32 5
  store i64 %nbytes, ptr %nbytesp
  %divp = getelementptr %job, ptr %job, i64 0, i32 6
  store i64 %div, ptr %divp
  %limit = trunc i64 %helpers to i32
  %limitp = getelementptr %job, ptr %job, i64 0, i32 7
  store i32 %limit, ptr %limitp
  %cursorp = getelementptr %job, ptr %job, i64 0, i32 11
  %programs = sub i64 %n, %begin
  %cursor = shl i64 %programs, 32
  store i64 %cursor, ptr %cursorp
  %single = icmp sle i64 %threads, 1
  br i1 %single, label %alone, label %several
alone:
  %a0 = call i64 @now_ns()
  %mine = call i64 @work_on(ptr %job, ptr %scratch, i1 false)
  %a1 = call i64 @now_ns()
  %da = sub i64 %a1, %a0
  call void @learn(ptr %rate, i64 %da, i64 %mine)
  ret void
several:
  %shares = call i1 @has_team(i64 %threads)
  br i1 %shares, label %team, label %own
team:
  %team_run = load ptr, ptr @team_run
  %size = trunc i64 %threads to i32
  %s0 = call i64 @now_ns()
  call void %team_run(ptr @team_member, ptr %job, i32 %size, i32 0)
  %s1 = call i64 @now_ns()
  %passed = sub i64 %s1, %s0
  %of_all = mul i64 %passed, %threads
  %stopped = load atomic i32, ptr %stop monotonic, align 4
  %is_stopped = icmp ne i32 %stopped, 0
  %done = select i1 %is_stopped, i64 0, i64 %programs   ; nobody counts how many of a stopped job ran
  call void @learn(ptr %rate, i64 %of_all, i64 %done)
  ret void
own:
  call void @link(ptr %job, i64 %helpers)
  %t0 = call i64 @now_ns()
  %count = call i64 @work_on(ptr %job, ptr %scratch, i1 false)
  %t1 = call i64 @now_ns()
  %ns = sub i64 %t1, %t0
  call void @learn(ptr %rate, i64 %ns, i64 %count)
  call void @unlink(ptr %job)
  ret void
}
"""
