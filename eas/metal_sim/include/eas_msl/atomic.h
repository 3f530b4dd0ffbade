// metal_atomic: atomic types and the explicit functions.
#pragma once
#pragma clang system_header
#include "compute.h"
#include "overloads.h"

namespace metal {

template <typename T> constexpr bool eas_atomic_type = is_same_v<T, int> || is_same_v<T, uint> || is_same_v<T, bool>
#if __METAL_VERSION__ >= 300
  || is_same_v<T, float>
#endif
#if __METAL_VERSION__ >= 240
  || is_same_v<T, ulong>
#endif
  ;

template <typename T> struct atomic {
  static_assert(eas_atomic_type<T>, "Metal has atomic<T> for int, uint, bool, float (from 3.0) and ulong (from 2.4)");
  T eas_value;
  atomic() = default;
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
};
template <typename T> using _atomic = atomic<T>;
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
#if __METAL_VERSION__ >= 300
typedef atomic<float> atomic_float;
#endif
#if __METAL_VERSION__ >= 240
typedef atomic<ulong> atomic_ulong;
#endif

namespace eas {
template <typename T> using id = eas_identity_t<T>;
// An order other than relaxed, from Metal 4.1, is a fence before and behind the operation.
template <typename T> EAS_FN void touch(const volatile atomic<T>* p, bool write, memory_order order) {
  if (order != memory_order_relaxed) eas_sim::eas_sim_fence(eas_sim::mem_device_bit | eas_sim::mem_threadgroup_bit);
  eas_sim::eas_sim_atomic(p, sizeof(T), write);
  if (order != memory_order_relaxed) eas_sim::eas_sim_fence(eas_sim::mem_device_bit | eas_sim::mem_threadgroup_bit);
}
// The bits of T as an integer: compare-and-swap compares representations.
template <typename T> using raw = conditional_t<sizeof(T) == 8, ulong, conditional_t<sizeof(T) == 1, uchar, uint>>;
template <typename T> EAS_FN T fetch(volatile atomic<T>* p, T (*op)(T, T), T y, memory_order order) {
  touch(p, true, order);
  raw<T>* at = (raw<T>*)&p->eas_value;
  raw<T> old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(at, &old, __builtin_bit_cast(raw<T>, op(__builtin_bit_cast(T, old), y)), true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
  return __builtin_bit_cast(T, old);
}
}  // namespace eas

// Orders other than relaxed are for fences until Metal 4.1.
#if __METAL_VERSION__ >= 410
#define EAS_ORDER(...)
#else
#define EAS_ORDER(order) __attribute__((diagnose_if((order) != memory_order_relaxed, "an atomic function needs memory_order_relaxed before Metal 4.1", "error")))
#endif
#define EAS_ATOMIC_T template <typename T> EAS_FN
EAS_ATOMIC_T void atomic_store_explicit(volatile atomic<T>* p, eas::id<T> desired, memory_order order) EAS_ORDER(order) { eas::touch(p, true, order); __atomic_store_n((eas::raw<T>*)&p->eas_value, __builtin_bit_cast(eas::raw<T>, desired), __ATOMIC_SEQ_CST); }
EAS_ATOMIC_T T atomic_load_explicit(const volatile atomic<T>* p, memory_order order) EAS_ORDER(order) { eas::touch(p, false, order); return __builtin_bit_cast(T, __atomic_load_n((eas::raw<T>*)&p->eas_value, __ATOMIC_SEQ_CST)); }
EAS_ATOMIC_T T atomic_exchange_explicit(volatile atomic<T>* p, eas::id<T> desired, memory_order order) EAS_ORDER(order) { eas::touch(p, true, order); return __builtin_bit_cast(T, __atomic_exchange_n((eas::raw<T>*)&p->eas_value, __builtin_bit_cast(eas::raw<T>, desired), __ATOMIC_SEQ_CST)); }
EAS_ATOMIC_T bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* p, T* expected, eas::id<T> desired, memory_order order, memory_order failure) EAS_ORDER(order) EAS_ORDER(failure) {
  eas::touch(p, true, order);
  eas::raw<T> old = __builtin_bit_cast(eas::raw<T>, *expected);
  bool done = __atomic_compare_exchange_n((eas::raw<T>*)&p->eas_value, &old, __builtin_bit_cast(eas::raw<T>, desired), true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  *expected = __builtin_bit_cast(T, old);
  return done;
}

template <typename T> constexpr bool eas_atomic_int = is_same_v<T, int> || is_same_v<T, uint> || is_same_v<T, ulong>;
#define EAS_ATOMIC_FETCH(name, types, expr)                                                                        \
  template <typename T, typename = enable_if_t<types>> EAS_FN T atomic_fetch_##name##_explicit(volatile atomic<T>* p, eas::id<T> y, memory_order order) EAS_ORDER(order) { \
    return eas::fetch<T>(p, [](T a, T b) -> T { return expr; }, y, order);                                              \
  }
EAS_ATOMIC_FETCH(add, (eas_atomic_int<T> || is_same_v<T EAS_COMMA float>), a + b)
EAS_ATOMIC_FETCH(sub, (eas_atomic_int<T> || is_same_v<T EAS_COMMA float>), a - b)
EAS_ATOMIC_FETCH(min, (eas_atomic_int<T>), b < a ? b : a)
EAS_ATOMIC_FETCH(max, (eas_atomic_int<T>), a < b ? b : a)
EAS_ATOMIC_FETCH(and, (eas_atomic_int<T>), a & b)
EAS_ATOMIC_FETCH(or, (eas_atomic_int<T>), a | b)
EAS_ATOMIC_FETCH(xor, (eas_atomic_int<T>), a ^ b)
#if __METAL_VERSION__ >= 240  // the forms without a result
EAS_FN void atomic_min_explicit(volatile atomic<ulong>* p, ulong y, memory_order o) { atomic_fetch_min_explicit(p, y, o); }
EAS_FN void atomic_max_explicit(volatile atomic<ulong>* p, ulong y, memory_order o) { atomic_fetch_max_explicit(p, y, o); }
#endif

#if __METAL_VERSION__ >= 320
EAS_FN void atomic_thread_fence(mem_flags flags, memory_order order, thread_scope scope = thread_scope_device) {
  if (order != memory_order_relaxed && scope == thread_scope_device) eas_sim::eas_sim_fence((unsigned)flags);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#endif

}  // namespace metal
