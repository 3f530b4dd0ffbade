// metal_compute: barriers and memory flags.
#pragma once
#pragma clang system_header
#include "../eas_sim.h"
#include "types.h"

namespace metal {

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_device_and_threadgroup = 3, mem_texture = 4, mem_threadgroup_imageblock = 8, mem_object_data = 16 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }
constexpr mem_flags operator&(mem_flags a, mem_flags b) { return mem_flags(uint(a) & uint(b)); }
constexpr mem_flags& operator|=(mem_flags& a, mem_flags b) { return a = a | b; }

enum memory_order : int {
  memory_order_relaxed = 0,
#if __METAL_VERSION__ >= 320
  memory_order_acquire = 2,
  memory_order_release = 3,
  memory_order_acq_rel = 4,
  memory_order_seq_cst = 5,
#endif
};
#if __METAL_VERSION__ >= 320
enum thread_scope : int { thread_scope_thread = 0, thread_scope_simdgroup = 4, thread_scope_threadgroup = 1, thread_scope_device = 2 };
#endif

EAS_FN void threadgroup_barrier(mem_flags flags) { eas_sim::eas_sim_barrier(eas_sim::scope_threadgroup, (unsigned)flags, nullptr); }
EAS_FN void simdgroup_barrier(mem_flags flags) { eas_sim::eas_sim_barrier(eas_sim::scope_simdgroup, (unsigned)flags, nullptr); }
#if __METAL_VERSION__ >= 320
EAS_FN void threadgroup_barrier(mem_flags flags, thread_scope) { threadgroup_barrier(flags); }
EAS_FN void simdgroup_barrier(mem_flags flags, thread_scope) { simdgroup_barrier(flags); }
#endif

}  // namespace metal
