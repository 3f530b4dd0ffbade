// What a running Metal thread knows and can do: the seam between the shim (metal_stdlib, written on
// top of this) and the engine (engine/*.cpp, which implements it). No C++ standard library.
#pragma once

namespace eas_sim {

// Everything that a thread-position attribute can ask for.
struct Thread {
  unsigned position_in_grid[3], position_in_threadgroup[3], threadgroup_position[3];
  unsigned threads_per_threadgroup[3];             // of this threadgroup: smaller at a ragged edge
  unsigned dispatch_threads_per_threadgroup[3];    // of the launch
  unsigned threads_per_grid[3], threadgroups_per_grid[3], grid_origin[3];    // every grid starts at 0
  unsigned index_in_threadgroup;
  unsigned lane, simdgroup, simdgroups_per_threadgroup, dispatch_simdgroups_per_threadgroup;
  unsigned simd_width;                             // 32
  unsigned quad_lane, quadgroup, quadgroups_per_threadgroup, dispatch_quadgroups_per_threadgroup;
};

// Choices of a launch that the shim must follow.
struct Config {
  unsigned fragment_map;        // lane -> elements of an 8x8 simdgroup matrix: 0 the public one, 1 a permuted one
  unsigned flush_subnormals;    // 1: results below the smallest normal float are zero (the engine sets the CPU mode)
  unsigned sanitize;            // 1: this code was compiled with the sanitizer's callbacks
};

enum Scope : unsigned { scope_threadgroup = 0, scope_simdgroup = 1 };
enum MemFlags : unsigned { mem_none_bit = 0, mem_device_bit = 1, mem_threadgroup_bit = 2, mem_texture_bit = 4 };

constexpr unsigned exchange_stride = 64;           // bytes between the slots that eas_sim_exchange returns

#define EAS_SIM_SYNC __attribute__((convergent, noduplicate, nomerge))

extern "C" {

// The current thread. `lane` and the rest are read through it.
Thread* eas_sim_self() __attribute__((const));

// Threadgroup or simdgroup barrier. `site` may be null: the engine then takes the return address.
EAS_SIM_SYNC void eas_sim_barrier(unsigned scope, unsigned mem_flags, const void* site);

// Rendezvous of the lanes of this simdgroup that are active at this call site: each deposits `size`
// (<= 64) bytes; returns the 32 slots (`exchange_stride` bytes apart, valid until this lane's next
// rendezvous or barrier) and the mask of lanes that took part. `site` may be null, as above. Call it
// from functions that are inlined into the kernel, so that each use in the kernel is a site of its own.
EAS_SIM_SYNC const unsigned char* eas_sim_exchange(const void* value, unsigned size, unsigned* active_mask,
                                                   const void* site);

const Config* eas_sim_config();

// Tell the sanitizer that `size` bytes at `address` are accessed atomically (a no-op without it).
// A shim atomic calls it before the operation; the operation itself must be a compiler atomic
// (__atomic_* on the object), which the sanitizer does not see as a plain access.
void eas_sim_atomic(const volatile void* address, unsigned size, unsigned is_write);

// Memory of a `threadgroup` variable; the same for all threads of the group. `key` names the variable,
// `id` its declaration; `is_zeroed`: it starts as zeros, not as anything.
void* eas_sim_threadgroup(unsigned size, unsigned align, const void* key, unsigned id, unsigned is_zeroed);

// What the sanitizer is told by the shim (no-ops without it): a fence of device memory, a value asked of a lane that
// has none (what is at `value` counts as not set from now on), an index outside of a vector, a matrix function that not all lanes reach.
void eas_sim_fence(unsigned mem_flags);
void eas_sim_missing_lane(unsigned lane, void* value, unsigned size);
void eas_sim_wrong_index(unsigned long index, const char* what);
void eas_sim_divergent_matrix(const char* function);

// End the launch with an error: an assertion of the shim that the running kernel broke.
[[noreturn]] void eas_sim_fail(const char* message);

}  // extern "C"

// The value of a function constant, which is known when a pipeline is made: not to the compiler's constant expressions.
template <typename T> __attribute__((always_inline, nodebug)) inline T given(T value) { return value; }

// A `threadgroup` variable of type T; ID is different for each declaration, ALIGN what alignas asks for.
template <typename T, int ID> struct threadgroup_key { static const char key; };
template <typename T, int ID> const char threadgroup_key<T, ID>::key = 0;

template <typename T, int ID, unsigned long ALIGN = 1, bool ZEROED = false> __attribute__((always_inline, nodebug)) inline T& threadgroup_variable() {
  constexpr unsigned align = ALIGN > alignof(T) ? ALIGN : alignof(T);
  return *(T*)eas_sim_threadgroup(sizeof(T), align, &threadgroup_key<T, ID>::key, ID, ZEROED);
}

}  // namespace eas_sim
