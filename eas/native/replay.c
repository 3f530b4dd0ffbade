/* Prepared launches one after another: one call for a whole graph (eas/runtime/native/replay.py). */
#include "cpython.h"
#include "pool.h"

enum { FAILED = 255 }; /* in place of the pool's status: a program has failed, and the record says how */

struct row {
    kernel_fn *code;
    void *slots;
    int64_t programs, n_threads, scratch_nbytes;
    int64_t *rate;
    int64_t max_programs;
    int32_t *record; /* an ErrorRecord, whose first word says whether a program has failed */
};

static int run_row(const struct row *row, int32_t *stop) {
    int status = 0;
    *row->record = 0;
    if (row->programs == 1 && row->scratch_nbytes == 0)
        row->code(row->slots, 0, 1, 0); /* nothing to share and nothing to learn: not even a clock is needed */
    else
        status = eas_pool_run(row->code, row->slots, row->programs, 0, row->n_threads, row->scratch_nbytes, row->rate, stop, row->max_programs);
    return *row->record ? FAILED : status;
}

/* Runs rows until one fails, with the GIL free; 0, or 256 times its number plus what went wrong. */
int64_t eas_replay(const struct row *rows, int64_t count, int32_t *stop) {
    PyThreadState *state = PyEval_SaveThread();
    int64_t result = 0;
    for (int64_t i = 0; i < count && !result; i++) {
        int status = run_row(&rows[i], stop);
        if (status)
            result = 256 * i + status;
    }
    PyEval_RestoreThread(state);
    return result;
}
