/* What the parts of the pool share, and how others run a grid. */
#ifndef EAS_POOL_H
#define EAS_POOL_H

#include <stdbool.h>
#include <stdint.h>

/* A compiled kernel: runs its programs [begin, end). `scratch` belongs to the calling thread. */
typedef void kernel_fn(void *args, int64_t begin, int64_t end, void *scratch);

/* One launch of a kernel. */
struct launch {
    kernel_fn *fn;
    void *args;
    int64_t programs;
    int64_t scratch_nbytes; /* of each thread */
    void *scratch;          /* of the caller's thread */
    int64_t *rate;          /* picoseconds that a program took before; null if nobody remembers */
    int32_t *stop;          /* not 0: no further program is to start */
    int64_t threads;        /* that may work, the caller's among them */
};

/* How the programs of a launch are dealt out. */
struct deal {
    int64_t least;   /* programs of a run, if so many are left */
    int64_t divisor; /* a run has what is left, over this, if that is more */
    int64_t most;    /* programs of the first run of each thread */
    int64_t helpers; /* threads of ours that may join the caller's; a team of OpenMP has one size */
};

/* How a backend runs a grid; `eas_pool_run` (pool_grid.c), which describes the arguments, is that of the CPU. */
typedef int pool_run_fn(kernel_fn *fn, void *args, int64_t n, int64_t chunk, int64_t threads, int64_t scratch_nbytes,
                        int64_t *rate, int32_t *stop, int64_t steady);
pool_run_fn eas_pool_run;
void eas_pool_reset(void);

/* pool_jobs.c */
static void spread(const struct launch *launch, int64_t begin, const struct deal *deal);
static bool is_lone(int64_t now);

/* pool_clock.c */
enum { FIRST_NS = 10000, SPIN_NS = 400000 }; /* what a Python program does between two launches; waking a thread takes up to 50 us */
static int64_t now_ns(void);
static void spin_while(const int32_t *word, int32_t value, bool is_equal);
static void learn(int64_t *rate, int64_t ns, int64_t programs);

/* pool_scratch.c */
struct arena {
    void *memory;
    int64_t nbytes;
    bool is_busy; /* a launch that has not ended uses it */
};
static void make_arena_key(void);
static struct arena *own_arena(void);
static void *scratch_of(struct arena *arena, int64_t nbytes);

#define load_relaxed(place) __atomic_load_n((place), __ATOMIC_RELAXED)
#define store_relaxed(place, value) __atomic_store_n((place), (value), __ATOMIC_RELAXED)

static inline uint64_t least_of(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t most_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
