// The engine's own structures. Python fills a Launch (eas/metal_sim/native.py mirrors it with ctypes)
// and calls eas_sim_run from as many OS threads as it likes; each call takes threadgroups until none is left.
#pragma once
#include "eas_sim.h"

namespace eas_sim {

constexpr unsigned max_threads = 1024, max_simdgroups = 32, max_slots = 31;
constexpr unsigned arena_nbytes = 32768, max_variables = 64;
constexpr unsigned red_zone = 256, arena_capacity = 98304;       // with room between variables for the sanitizer

// A stack is a power of two in size and aligned to it, so that the thread that runs on it is found
// from any address inside: its first word points to the Fiber. A guard page follows that word's page.
constexpr unsigned long stack_nbytes = 256 * 1024, page_nbytes = 4096;

enum ErrorKind : unsigned {
  no_error = 0, divergent_barrier = 1, deadlock = 2, threadgroup_memory = 3, failed = 4,
  // found by the sanitizer:
  race = 10, out_of_bounds = 11, uninitialised = 12, misaligned = 13, private_bounds = 14, needs_finer = 15, read_only = 16,
  missing_lane = 17, aliased = 18, divergent_matrix = 19, unset = 20,
};

// One finding; `other_*` is the second thread of a race or of a divergence.
struct Report {
  unsigned kind, region;                     // index into Sanitizer::regions, 1000 + [[threadgroup(n)]], 2000 + variable, or ~0
  unsigned thread, group, other_thread, other_group;
  unsigned is_write, other_is_write, size, is_atomic;
  const void* site; const void* other_site;  // code addresses
  long long offset;                          // bytes from the start of the region
  const char* text;                          // static text, a type name, or null
  unsigned line, column;                     // known without debug information, or 0
};

// A buffer that a sanitized kernel may touch. Arguments that share memory and must not see each other's writes have copies
// of their own: the same `block`, not 0, and `origin`, where the memory of the argument was.
struct Region { unsigned long start, nbytes, origin; unsigned block, is_const, is_restrict; };

struct Access { unsigned group, clock, site; unsigned short thread; unsigned short flags; };   // group 0: none
struct Cell { Access write, reads[2]; };

// What a threadgroup did to one atomic location: its last operation, and the fence before it (0: none).
struct Meeting { unsigned long address; unsigned group, fence_clock, last_clock; unsigned thread; };

struct Sanitizer {
  Region* regions; unsigned n_regions, granule_shift;
  unsigned long code_start, code_nbytes;     // the kernel's library: constants are read from it
  unsigned long device_start, device_end;
  Cell* device_cells; Cell* group_cells;     // one per granule of the device arena, and of threadgroup memory
  Report* reports; unsigned max_reports, n_reports;
  Meeting* meetings; unsigned max_meetings;  // a hash table
  unsigned clock, group_sync[2], simd_sync[max_simdgroups][2];     // [0] device, [1] threadgroup memory
  unsigned fences[max_threads];              // clock of each thread's last fence of device memory in this threadgroup, or 0
};

typedef void (*Entry)(const Thread*, void* const* slots);

struct Launch {
  Entry entry;
  void* buffers[max_slots];
  unsigned threadgroup_nbytes[max_slots];    // dynamic threadgroup memory by [[threadgroup(n)]]
  unsigned threads[3], groups[3], grid_threads[3];
  Config config;
  unsigned allow_exited;                     // 1: threads that have returned do not count at barriers
  unsigned next_group, stop;                 // taken atomically by the workers
  unsigned static_nbytes;                    // out: threadgroup memory of variables
  Report error;                              // out: what ended the launch
  Sanitizer* sanitizer;
  const char* name;                          // of the kernel
  unsigned checks_registers;                 // 1: the code asks for shadows of values (registers.cpp)
};

enum State : unsigned char { unstarted, running, at_barrier, at_exchange, finished };

struct Worker;

struct Fiber : Thread {
  void* sp; void* stack; Worker* worker;
  const void* site; unsigned mem_flags; State state; bool is_simd_barrier;
};

struct Simdgroup {
  unsigned n_running, parity, result_parity, result_mask, waiting;      // waiting: mask of lanes at an exchange
  alignas(64) unsigned char slots[2][32 * exchange_stride];
};

// The last value that a thread asked of a lane without one; group counts from 1.
struct Question { const void* site; unsigned group; int lane; };

struct Variable { const void* key; unsigned id, offset, size, is_zeroed; };

struct Worker {
  Launch* launch; Worker* next;
  void* main_sp; void* slots[2 * max_slots];
  unsigned n_threads, n_alive, n_arrived, n_started, group_index;
  unsigned ready_head, n_ready; unsigned short ready[max_threads];
  unsigned n_free; void* free_stacks[max_threads]; unsigned n_stacks; unsigned char* stacks;
  unsigned arena_used, arena_real, n_variables; Variable variables[max_variables];     // real: without red zones
  unsigned char* arena;
  unsigned char *stack_shadow, *contexts, *stored_shadow;            // of registers.cpp, or null
  unsigned stored_nbytes, stored_thread; const void* stored_site;    // a store whose shadow is to be looked at
  Question asked[max_threads];
  Simdgroup simdgroups[max_simdgroups];
  Fiber fibers[max_threads];
};

inline Fiber* current_fiber() {
  unsigned long here = (unsigned long)__builtin_frame_address(0);
  return *(Fiber**)(here & ~(stack_nbytes - 1));
}

// The launch that this OS thread works for from now on, or null; returns the one before (faults.cpp).
Launch* set_running(Launch* launch);
bool is_running();
// Which values are set (registers.cpp): nothing happens in launches that do not ask.
bool map_registers(Worker* w);
void registers_begin_thread(Fiber* f);
void registers_exchange(Fiber* f, const void* value, unsigned size, unsigned* mask, const void* site);
void registers_end_group(Worker* w);
// Record an error (the first one counts) and leave the running fiber for good.
[[noreturn]] void abandon(Fiber* f, const Report& report);
// Tell the sanitizer about barriers and new groups; it does nothing in a launch without one.
void sanitizer_begin_group(Worker* w);
void sanitizer_barrier(Fiber* f, unsigned scope, unsigned mem_flags);
// Fences and atomic operations order what threadgroups do (atomics.cpp).
void note_fence(Sanitizer* s, unsigned thread);
void note_atomic(Sanitizer* s, unsigned long address, unsigned group, unsigned thread);
bool passed_on(Sanitizer* s, const Access& a, unsigned group, unsigned thread);

}  // namespace eas_sim

extern "C" {
void* mmap(void*, unsigned long, int, int, int, long);
int mprotect(void*, unsigned long, int);
void* memcpy(void*, const void*, unsigned long);
void* memset(void*, int, unsigned long);
void* memmove(void*, const void*, unsigned long);
int clock_gettime(int, long*);
}
