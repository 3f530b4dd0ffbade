/* The worker pool: jobs in a list under one mutex, programs taken by compare-and-swap.

   A job is a record on its caller's stack. The caller links it, wakes up to two workers and works itself; each
   worker that joins wakes one more, so that many start in logarithmic time. Nobody frees a job: its caller
   unlinks it when no program is left and waits until no worker is inside. A worker touches a job only while it
   is counted in `helpers`, and leaves it under the mutex.

   The caller takes programs from the front and every second thread from the end, so that when a launch is
   repeated, each of two threads meets the memory that its own cache still holds.

   Where another library already keeps threads that OpenMP gave it, a job runs on those (`eas_pool_share`): two
   pools that wait for work in turns would take the cores from each other.

   Waiting is never unbounded spinning: a worker without work and a caller without programs look at a counter
   for a while (`spin_while`), then sleep on a condition variable. To wake a sleeping thread takes as long as
   50 us on a virtual machine. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "cpython.h"
#include "pool.h"

enum {
    RUN_NS = 10000000,  /* programs are taken in runs of at most 10 ms: a job is stopped between two runs */
    POLL_NS = 50000000, /* how long Python's signal handlers wait for a job of the main thread */
};

/* What threads only read, what they write when they join, and what they write all the time, in cache lines of their own. */
struct job {
    _Alignas(64) struct launch launch;
    struct deal deal;
    int64_t base; /* the program that the cursor counts from */
    pthread_t caller;
    _Alignas(64) struct job *next;
    int32_t limit, helpers; /* workers that may join, and that are inside */
    bool is_waited_for;
    /* Which programs behind `base` are left: from its low 32 bits up to its high 32 bits. */
    _Alignas(64) uint64_t cursor;
};

/* Each in cache lines of its own. */
static struct { _Alignas(64) pthread_mutex_t mutex; } pool_lock;
static struct { _Alignas(64) pthread_cond_t condition; } work, done;
static struct { _Alignas(64) int32_t count; } tickets; /* jobs that were linked: who waits for one looks here */

static struct job *jobs;
static int32_t parked;  /* workers that sleep */
static int64_t workers; /* that live */
static pid_t owner;     /* the process that they live in */
static int64_t last_asked;
static uintptr_t main_thread;

typedef void team_run_fn(void (*member)(void *), void *data, unsigned threads, unsigned flags); /* GOMP_parallel */
typedef int team_size_fn(void);                                                                 /* omp_get_max_threads */
static team_run_fn *team_run;
static team_size_fn *team_size;

static void lock_pool(void) { pthread_mutex_lock(&pool_lock.mutex); }
static void unlock_pool(void) { pthread_mutex_unlock(&pool_lock.mutex); }

/* A pool without workers and jobs: at first, and in a child after fork, where no thread of ours lives. */
void eas_pool_reset(void) {
    pthread_mutex_init(&pool_lock.mutex, 0);
    pthread_cond_init(&work.condition, 0);
    pthread_cond_init(&done.condition, 0);
    jobs = 0;
    parked = 0;
    workers = 0;
    team_run = 0; /* an OpenMP team does not survive fork either */
    owner = getpid();
    make_arena_key();
}

/* Who runs Python's signal handlers. */
void eas_pool_main_thread(int64_t ident) { main_thread = (uintptr_t)ident; }

/* From now on jobs run on the threads of OpenMP: GOMP_parallel and omp_get_max_threads, or null. */
void eas_pool_share(team_run_fn *run, team_size_fn *size) {
    team_size = size;
    __atomic_store_n(&team_run, run, __ATOMIC_RELEASE); /* who sees it sees the size too */
}

/* --- one thread and one job ---------------------------------------------------------------------- */

struct run {
    int64_t begin, end;
};

/* The next run of at most `most` programs, from the front or the back; empty when all are taken or the job is stopped. */
static struct run take(struct job *job, bool is_back, uint64_t most) {
    if (load_relaxed(job->launch.stop))
        return (struct run){0, 0};
    uint64_t word = load_relaxed(&job->cursor), low, high, size, rest;
    do {
        low = word & UINT32_MAX;
        high = word >> 32;
        if (low == high)
            return (struct run){0, 0};
        uint64_t left = high - low, share = most_of(left / (uint64_t)job->deal.divisor, (uint64_t)job->deal.least);
        size = least_of(least_of(share, most), left);
        rest = is_back ? word - (size << 32) : word + size;
    } while (!__atomic_compare_exchange_n(&job->cursor, &word, rest, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    int64_t begin = job->base + (int64_t)(is_back ? high - size : low);
    return (struct run){begin, begin + (int64_t)size};
}

/* Whether a signal handler of Python has raised: its error is set in this thread, which must be the main one. */
static bool is_interrupted(void) {
    int state = PyGILState_Ensure();
    bool has_raised = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return has_raised;
}

/* Runs programs of the job until none is left; the result is how many. A run that was quick lets the next one be
   longer, and one that took over RUN_NS shorter, so that between two of them the job can be stopped in time; the
   main thread then lets Python's signal handlers run every POLL_NS. */
static int64_t work_on(struct job *job, void *scratch, bool is_back) {
    const struct launch *launch = &job->launch;
    bool is_main = (uintptr_t)pthread_self() == main_thread;
    uint64_t most = (uint64_t)job->deal.most;
    int64_t count = 0, then = now_ns(), polled = then;
    for (;;) {
        struct run run = take(job, is_back, most);
        int64_t size = run.end - run.begin;
        if (!size)
            return count;
        launch->fn(launch->args, run.begin, run.end, scratch);
        count += size;
        int64_t now = now_ns(), ns = now - then;
        then = now;
        if (ns < RUN_NS / 4)
            most = most_of(most, 4 * (uint64_t)size);
        else if (ns > RUN_NS)
            most = most_of((uint64_t)size / 4, 1);
        if (is_main && now - polled > POLL_NS) {
            polled = now;
            if (is_interrupted())
                store_relaxed(launch->stop, 1);
        }
    }
}

/* --- workers ------------------------------------------------------------------------------------- */

/* A job with programs left and room for one more worker, or null. The mutex is held. */
static struct job *find_job(void) {
    for (struct job *job = jobs; job; job = job->next) {
        uint64_t cursor = load_relaxed(&job->cursor);
        bool has_programs = (cursor & UINT32_MAX) < cursor >> 32;
        if (has_programs && job->helpers < job->limit)
            return job;
    }
    return 0;
}

/* Wakes one sleeping worker if there is one. The mutex is held. */
static void wake_one(void) {
    if (parked > 0)
        pthread_cond_signal(&work.condition);
}

/* Joins a job and leaves it when no program is left. The mutex is held, but not while programs run. */
static void help(struct job *job, struct arena *arena) {
    int64_t nbytes = job->launch.scratch_nbytes;
    int32_t number = job->helpers + 1;
    store_relaxed(&job->helpers, number);
    if (find_job())
        wake_one();
    unlock_pool();
    void *scratch = nbytes ? scratch_of(arena, nbytes) : 0;
    bool is_able = scratch || !nbytes;
    if (is_able)
        work_on(job, scratch, number & 1);
    lock_pool();
    if (!is_able)
        job->limit = 0; /* no memory here: the caller, who has some, does the work */
    bool is_last = job->helpers == 1, is_waited_for = job->is_waited_for;
    store_relaxed(&job->helpers, job->helpers - 1);
    if (is_last && is_waited_for)
        pthread_cond_broadcast(&done.condition);
}

/* Whether a job has been linked within the time that a thread waits awake. The mutex is held, but not meanwhile. */
static bool sees_a_ticket(void) {
    int32_t seen = load_relaxed(&tickets.count);
    unlock_pool();
    spin_while(&tickets.count, seen, true);
    bool is_news = load_relaxed(&tickets.count) != seen;
    lock_pool();
    return is_news;
}

static void *worker(void *unused) {
    struct arena arena = {0};
    bool may_sleep = true;
    (void)unused;
    lock_pool();
    for (;;) {
        struct job *job = find_job();
        if (job) {
            help(job, &arena);
            may_sleep = false;
        } else if (!may_sleep) {
            may_sleep = !sees_a_ticket();
        } else {
            store_relaxed(&parked, parked + 1);
            pthread_cond_wait(&work.condition, &pool_lock.mutex);
            store_relaxed(&parked, parked - 1);
        }
    }
    return 0;
}

/* Starts workers until there are `wanted`, or as many as the system gives. The mutex is held. Signals are for
   Python's threads; those that a fault raises stay, so that faulthandler sees them. */
static void hire(int64_t wanted) {
    if (workers >= wanted)
        return;
    sigset_t blocked, before;
    pthread_t thread;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    sigdelset(&blocked, SIGFPE);
    sigdelset(&blocked, SIGILL);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    while (workers < wanted && pthread_create(&thread, 0, worker, 0) == 0) {
        pthread_detach(thread);
        store_relaxed(&workers, workers + 1);
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
}

/* --- callers ------------------------------------------------------------------------------------- */

/* Lets workers find the job. */
static void link_job(struct job *job) {
    if (getpid() != owner) /* forked by C code, which Python's own hook does not see */
        eas_pool_reset();
    lock_pool();
    hire(job->limit);
    job->next = jobs;
    jobs = job;
    __atomic_fetch_add(&tickets.count, 1, __ATOMIC_RELAXED);
    wake_one();
    if (job->limit > 1)
        wake_one();
    unlock_pool();
}

/* Takes the job out of the list and waits until no worker is inside. */
static void unlink_job(struct job *job) {
    lock_pool();
    struct job **place = &jobs;
    while (*place != job)
        place = &(*place)->next;
    *place = job->next;
    if (job->helpers) {
        unlock_pool();
        spin_while(&job->helpers, 0, false);
        lock_pool();
        job->is_waited_for = true;
        while (job->helpers)
            pthread_cond_wait(&done.condition, &pool_lock.mutex);
    }
    unlock_pool();
}

/* What one thread of OpenMP does, the caller among them. */
static void team_member(void *given) {
    struct job *job = given;
    const struct launch *launch = &job->launch;
    bool is_back = __atomic_fetch_add(&job->helpers, 1, __ATOMIC_RELAXED) & 1;
    void *scratch = launch->scratch;
    if (launch->scratch_nbytes && !pthread_equal(pthread_self(), job->caller)) {
        struct arena *arena = own_arena();
        scratch = arena ? scratch_of(arena, launch->scratch_nbytes) : 0;
        if (!scratch)
            return; /* never the caller, who then does it all */
    }
    work_on(job, scratch, is_back);
}

/* OpenMP if a team of that many threads stands ready: another size would make it end and start threads. */
static team_run_fn *team_of(int64_t threads) {
    team_run_fn *run = __atomic_load_n(&team_run, __ATOMIC_ACQUIRE);
    return run && getpid() == owner && team_size() == threads ? run : 0;
}

/* Some programs behind `begin`, as many as the cursor of a job can tell apart. */
static void spread_part(const struct launch *launch, int64_t begin, int64_t programs, const struct deal *deal) {
    struct job job = {
        .launch = *launch, .deal = *deal, .base = begin, .caller = pthread_self(),
        .limit = (int32_t)deal->helpers, .cursor = (uint64_t)programs << 32,
    };
    team_run_fn *team = deal->helpers ? team_of(launch->threads) : 0;
    int64_t start = now_ns();
    if (team) {
        team(team_member, &job, (unsigned)launch->threads, 0);
        /* Nobody counts how many programs of a stopped job ran. */
        learn(launch->rate, (now_ns() - start) * launch->threads, load_relaxed(launch->stop) ? 0 : programs);
        return;
    }
    if (deal->helpers) {
        link_job(&job);
        start = now_ns();
    }
    int64_t count = work_on(&job, launch->scratch, false);
    learn(launch->rate, now_ns() - start, count);
    if (deal->helpers)
        unlink_job(&job);
}

/* All programs from `begin` on; less if the launch is stopped. */
static void spread(const struct launch *launch, int64_t begin, const struct deal *deal) {
    while (begin < launch->programs && !load_relaxed(launch->stop)) {
        int64_t size = (int64_t)least_of((uint64_t)(launch->programs - begin), INT64_C(1) << 31);
        spread_part(launch, begin, size, deal);
        begin += size;
    }
}

/* Whether a thread would have to be woken for one job alone: none is awake, and the last job is a while ago.
   Where jobs follow closely, one that is woken finds the next of them without sleeping. */
static bool is_lone(int64_t now) {
    int64_t since = now - load_relaxed(&last_asked);
    store_relaxed(&last_asked, now);
    return !load_relaxed(&team_run) && since > SPIN_NS && load_relaxed(&parked) >= load_relaxed(&workers);
}
