/* Time: how long programs take, and how long a thread waits before it sleeps. */
#include <sched.h>
#include <time.h>

#include "pool.h"

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline void pause_thread(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __builtin_arm_yield();
#endif
}

/* Looks at a word while (it is `value`) is `is_equal`, for SPIN_NS at most: a while for itself, then only
   as long as nobody else wants the core. */
static void spin_while(const int32_t *word, int32_t value, bool is_equal) {
    int64_t start = now_ns();
    while ((load_relaxed(word) == value) == is_equal) {
        int64_t ns = now_ns() - start;
        if (ns < FIRST_NS) {
            pause_thread();
            continue;
        }
        sched_yield();
        if (ns > SPIN_NS)
            return;
    }
}

/* Remembers the picoseconds of one program. It at most quadruples, since a thread may lose its core for a
   while, and falls slowly, so that a kernel whose programs are sometimes long is spread. */
static void learn(int64_t *rate, int64_t ns, int64_t programs) {
    if (!rate || !programs)
        return;
    uint64_t each = most_of((uint64_t)ns * 1000 / (uint64_t)programs, 1), old = (uint64_t)load_relaxed(rate);
    if (each < old)
        each = old - (old - each) / 4;
    else if (old)
        each = least_of(each, 4 * old);
    store_relaxed(rate, (int64_t)each);
}
