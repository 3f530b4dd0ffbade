// Plain structs between the parts of the fake, and between it and Python (hooks.py mirrors them with ctypes).
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { kFakeSlots = 31, kFakeParameters = 64, kFakeMaxConstant = 4096, kFakeTextBytes = 8192 };

struct FakeParameter {
    uint32_t kind;  // 0 a buffer, 1 threadgroup memory
    uint32_t index;
    uint32_t nbytes, align;  // of what it points to
    uint32_t is_const;
};

struct FakeFunction {
    uint64_t number;  // Python's name for it
    void* entry;
    uint32_t max_threads, static_nbytes, n_parameters, is_sanitized;
    FakeParameter parameters[kFakeParameters];
};

// What one dispatch runs on; memory is that of the process.
struct FakeDispatch {
    const FakeFunction* function;
    void* buffers[kFakeSlots];
    uint64_t nbytes[kFakeSlots];  // from the address to the end of the buffer
    uint32_t threadgroup_nbytes[kFakeSlots];
    uint32_t groups[3], threads[3];
};

struct FakeHooks {
    // A text as a library: its number, or 0 and the compiler's words.
    uint64_t (*compile)(const char* source, uint32_t language, uint32_t math_mode, char* error);
    // The names of its kernels, each behind a newline.
    void (*names)(uint64_t library, char* text);
    // 0, or what is wrong with the function.
    int (*function)(uint64_t library, const char* name, FakeFunction* out, char* error);
    void (*forget)(uint64_t library);
    // Runs a dispatch in Python, with the sanitizer: 0, or what it found.
    int (*run)(const FakeDispatch* dispatch, char* error);
    // eas_sim_run of the engine.
    unsigned (*engine)(void* launch);
    // What is wrong with a launch that the engine ended.
    void (*explain)(const FakeDispatch* dispatch, const void* launch, char* error);
};

enum FakeFault : uint32_t {
    kFaultNone = 0,
    kFaultCompile = 1,
    kFaultAllocation = 2,
    kFaultPage = 3,
    kFaultTimeout = 4,
    kFaultRemoved = 5,
    kFaultOutOfMemory = 6,
    kFaultPipeline = 7,
    kFaultWarning = 8,
};

extern "C" {
extern FakeHooks eas_fake_hooks;
// Python's side; called once.
void eas_fake_register(const FakeHooks* hooks, uint32_t family, uint64_t seed);
// Let the n-th event of that kind from now on fail (1: the next).
void eas_fake_inject(uint32_t fault, uint32_t after);
// Whether that kind of fault happens now.
bool eas_fake_faults(uint32_t fault);
// The first thing that Metal's validation layer would have refused, or null; and forget it.
const char* eas_fake_problem(void);
void eas_fake_clear(void);
void eas_fake_note(const char* format, ...);
// While held, the GPU begins and ends nothing.
void eas_fake_hold(uint32_t is_held);
// While idle, dispatches are forgotten: what is left of a launch is the work of the processor.
void eas_fake_idle(uint32_t is_idle);
// Leave out the n-th barrier, wait for a fence or wait for an event from now on (0: none); how many there were since.
void eas_fake_drop_order(uint32_t nth);
uint32_t eas_fake_order_count(void);
// 0, or an error text in `error`; runs on the calling thread.
int eas_fake_run(const FakeDispatch* dispatch, char* error);
uint32_t eas_fake_family(void);
uint64_t eas_fake_random(void);
long eas_fake_live_objects(const char* class_name);
}
