// What Python sets and asks: hooks, faults on demand, what the validation layer would have said.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "fake.h"
#include "objc.h"

FakeHooks eas_fake_hooks;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t family = 9, pending[8];
static uint64_t state = 1;
static char problem[512];

void eas_fake_register(const FakeHooks* hooks, uint32_t named, uint64_t seed) {
    pthread_mutex_lock(&lock);
    eas_fake_hooks = *hooks;
    family = named;
    state = seed * 2 + 1;
    pthread_mutex_unlock(&lock);
}

uint32_t eas_fake_family(void) { return family; }

uint64_t eas_fake_random(void) {  // splitmix64
    uint64_t z = __atomic_add_fetch(&state, 0x9E3779B97F4A7C15ull, __ATOMIC_RELAXED);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

void eas_fake_inject(uint32_t fault, uint32_t after) {
    pthread_mutex_lock(&lock);
    pending[fault] = after;
    pthread_mutex_unlock(&lock);
}

bool eas_fake_faults(uint32_t fault) {
    pthread_mutex_lock(&lock);
    bool now = pending[fault] == 1;
    if (pending[fault]) pending[fault]--;
    pthread_mutex_unlock(&lock);
    return now;
}

void eas_fake_note(const char* format, ...) {
    pthread_mutex_lock(&lock);
    if (!problem[0]) {
        va_list args;
        va_start(args, format);
        vsnprintf(problem, sizeof problem, format, args);
        va_end(args);
    }
    pthread_mutex_unlock(&lock);
}

extern "C" void eas_objc_clear_mistake();

const char* eas_fake_problem(void) { return problem[0] ? problem : eas_objc_mistake(); }

void eas_fake_clear(void) {
    pthread_mutex_lock(&lock);
    problem[0] = 0;
    for (uint32_t& n : pending) n = 0;
    eas_objc_clear_mistake();
    pthread_mutex_unlock(&lock);
}

long eas_fake_live_objects(const char* class_name) { return objc::live_objects(class_name); }
