/* What the parts of the pool share, and how others run a grid. */
#ifndef EAS_POOL_H
#define EAS_POOL_H

#include <stdint.h>

/* A compiled kernel: runs its programs [begin, end). `scratch` belongs to the calling thread. */
typedef void kernel_fn(void *args, int64_t begin, int64_t end, void *scratch);

/* `eas_pool_run`, which `pool_grid.c` describes. */
typedef int pool_run_fn(kernel_fn *fn, void *args, int64_t n, int64_t chunk, int64_t threads, int64_t scratch_nbytes,
                        int64_t *rate, int32_t *stop, int64_t steady);

#endif
