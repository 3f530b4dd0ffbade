/* How a grid is run: at once on the caller's thread, in runs that can be stopped, or by many threads. */
#include <errno.h>
#include <stdlib.h>

#include "cpython.h"
#include "pool.h"

#define INLINE_PS 10e6  /* a grid that takes less than 10 us is not worth another thread: to hand over and back takes 1 to 2 us */
#define HELPER_PS 5e6   /* nor is a further one that would have less than 5 us of it */
#define WAKE_PS 100e6   /* one that takes less than 100 us is not worth waking a thread, unless others followed closely */
enum {
    CHUNK_PS = 2000000, /* programs are taken in runs of at least 2 us where their time is known; to take one costs 0.1 us */
    LATE_NS = 12000,    /* what was expected to be short takes longer than it should */
    SURE_NS = 100000,   /* programs that should take as long are run at once after one that was timed */
};
#define RUN_PS UINT64_C(10000000000) /* and of at most 10 ms */

static void run_programs(const struct launch *launch, int64_t begin, int64_t end) {
    launch->fn(launch->args, begin, end, launch->scratch);
}

/* A grid that is expected to be short: run an eighth of it, or one program if programs may take any time, then
   believe it or not. */
static void run_short(const struct launch *launch, bool is_steady) {
    int64_t n = launch->programs, eighth = (int64_t)most_of((uint64_t)n / 8, 1), count = is_steady ? eighth : 1;
    int64_t start = now_ns(), ns;
    run_programs(launch, 0, count);
    ns = now_ns() - start;
    if (ns <= LATE_NS && count < eighth) { /* what one took says little of many */
        run_programs(launch, count, eighth);
        count = eighth;
        ns = now_ns() - start;
    }
    if (ns > LATE_NS) {
        learn(launch->rate, ns, count);
        struct deal rest = {1, launch->threads > 1 ? 2 * launch->threads : 1, 1, launch->threads - 1};
        spread(launch, count, &rest);
        return;
    }
    int64_t safe = (int64_t)most_of((uint64_t)count * SURE_NS / most_of((uint64_t)ns, 1), 1);
    if (!is_steady && safe < n - count) {
        struct deal runs = {1, 1, safe, 0};
        spread(launch, count, &runs);
        return;
    }
    run_programs(launch, count, n);
    learn(launch->rate, now_ns() - start, n);
}

/* A grid of programs that took `ps` before. */
static void run_predicted(const struct launch *launch, uint64_t ps, bool is_steady) {
    double total = (double)ps * (double)launch->programs;
    bool is_alone = launch->threads <= 1;
    if (total <= INLINE_PS || (total <= WAKE_PS && !is_alone && is_lone(now_ns()))) {
        run_short(launch, is_steady);
        return;
    }
    int64_t others = launch->threads - 1, worthy = total / HELPER_PS >= 1024 ? others : (int64_t)(total / HELPER_PS);
    struct deal all = {
        .least = (int64_t)most_of(CHUNK_PS / ps, 1),
        .divisor = is_alone ? 1 : 2 * launch->threads,
        .most = is_steady ? (int64_t)most_of(RUN_PS / ps, 1) : 1,
        .helpers = (int64_t)least_of((uint64_t)worthy, (uint64_t)others), /* no more than have something to do */
    };
    spread(launch, 0, &all);
}

static int run_grid(struct launch *launch, int64_t chunk, bool is_steady) {
    int32_t own_stop = 0;
    int64_t n = launch->programs, threads = launch->threads;
    if (!launch->stop)
        launch->stop = &own_stop;
    if (n == 1 || n <= chunk) {
        int64_t start = now_ns();
        run_programs(launch, 0, n);
        learn(launch->rate, now_ns() - start, n);
        return 0;
    }
    uint64_t ps = launch->rate ? (uint64_t)load_relaxed(launch->rate) : 0;
    if (chunk) {
        struct deal even = {chunk, INT64_MAX, chunk, threads - 1};
        spread(launch, 0, &even);
    } else if (ps) {
        run_predicted(launch, ps, is_steady);
    } else {
        struct deal unknown = {(int64_t)most_of((uint64_t)(n / (16 * threads)), 1), threads > 1 ? 2 * threads : 1, 1, threads - 1};
        spread(launch, 0, &unknown);
    }
    return load_relaxed(launch->stop) ? EINTR : 0;
}

/* Runs fn(args, begin, end, scratch) over all of [0, n); 0, EINTR if it was stopped, or another errno.
   chunk 0: sizes are chosen by what `rate` remembers. rate: null, or a word of the kernel, 0 at first.
   stop: null, or a word that another thread sets to 1. steady: 0 if one program may take any time. */
int eas_pool_run(kernel_fn *fn, void *args, int64_t n, int64_t chunk, int64_t threads, int64_t scratch_nbytes,
                 int64_t *rate, int32_t *stop, int64_t steady) {
    struct launch launch = {fn, args, n, scratch_nbytes, 0, rate, stop, threads > 1 ? threads : 1};
    if (n <= 0)
        return 0;
    if (!scratch_nbytes)
        return run_grid(&launch, chunk, steady);
    struct arena *arena = own_arena(), spare = {0};
    if (arena && arena->is_busy) /* a signal handler launches in the middle of another launch */
        arena = &spare;
    launch.scratch = arena ? scratch_of(arena, scratch_nbytes) : 0;
    if (!launch.scratch)
        return ENOMEM;
    arena->is_busy = true;
    int status = run_grid(&launch, chunk, steady);
    arena->is_busy = false;
    free(spare.memory);
    return status;
}

/* The same for a caller that holds the GIL, which is free meanwhile. */
int eas_pool_run_from_python(kernel_fn *fn, void *args, int64_t n, int64_t chunk, int64_t threads, int64_t scratch_nbytes,
                             int64_t *rate, int32_t *stop, int64_t steady) {
    PyThreadState *state = PyEval_SaveThread();
    int status = eas_pool_run(fn, args, n, chunk, threads, scratch_nbytes, rate, stop, steady);
    PyEval_RestoreThread(state);
    return status;
}
