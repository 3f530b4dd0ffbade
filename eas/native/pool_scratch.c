/* Scratch memory of threads. Its first 64 bytes are zero when a thread meets a launch, so that a kernel can keep
   tags of what its scratch holds during one launch. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"

static pthread_key_t arena_key; /* the arena of a thread that is not ours */
static bool has_arena_key;

/* At least `nbytes`, aligned to 64; null when there is no memory. */
static void *scratch_of(struct arena *arena, int64_t nbytes) {
    if (arena->nbytes < nbytes) {
        int64_t whole = (nbytes + 4095) & -4096;
        free(arena->memory);
        *arena = (struct arena){0};
        if (posix_memalign(&arena->memory, 64, (size_t)whole)) {
            arena->memory = 0;
            return 0;
        }
        arena->nbytes = whole;
    }
    return memset(arena->memory, 0, 64);
}

static void drop_arena(void *given) {
    struct arena *arena = given;
    free(arena->memory);
    free(arena);
}

static void make_arena_key(void) {
    if (!has_arena_key)
        has_arena_key = pthread_key_create(&arena_key, drop_arena) == 0;
}

/* The arena of the calling thread, or null. */
static struct arena *own_arena(void) {
    if (!has_arena_key)
        return 0;
    struct arena *arena = pthread_getspecific(arena_key);
    if (!arena && (arena = calloc(1, sizeof *arena)))
        pthread_setspecific(arena_key, arena);
    return arena;
}
