// metal_simdgroup and metal_quadgroup: shuffles, votes, reductions and scans over the 32 lanes of a
// simdgroup or the 4 of a quad. Every function is one rendezvous of the active lanes.
#pragma once
#pragma clang system_header
#include "compute.h"
#include "overloads.h"

namespace metal {

// The component types that MSL lists for these functions: not bool, not bfloat, not 64-bit integers.
template <typename T> constexpr bool eas_simd_int = is_same_v<T, char> || is_same_v<T, signed char> || is_same_v<T, uchar> || is_same_v<T, short> || is_same_v<T, ushort> || is_same_v<T, int> || is_same_v<T, uint>;
template <typename T> constexpr bool eas_simd_type = eas_simd_int<T> || is_same_v<T, half> || is_same_v<T, float>;
template <typename T> struct __is_valid_simdgroup_type : bool_constant<eas_simd_type<eas_element_t<T>>> {};
#define EAS_SIMD_T template <typename T, typename = enable_if_t<eas_simd_type<eas_element_t<T>>>>
#define EAS_SIMD_INT_T template <typename T, typename = enable_if_t<eas_simd_int<eas_element_t<T>>>>

namespace eas {

// What all active lanes deposited.
template <typename T> struct Lanes {
  const unsigned char* slots;
  unsigned mask;
  EAS_FN bool has(unsigned lane) const { return lane < 32 && (mask >> lane & 1); }
  EAS_FN T at(unsigned lane) const { T r; __builtin_memcpy(&r, slots + lane * eas_sim::exchange_stride, sizeof(T)); return r; }
};
template <typename T> EAS_FN Lanes<T> exchange(T x) {
  static_assert(sizeof(T) <= eas_sim::exchange_stride, "a value of a simdgroup function is at most 64 bytes");
  Lanes<T> r;
  r.slots = eas_sim::eas_sim_exchange(&x, sizeof(T), &r.mask, nullptr);
  return r;
}
EAS_FN unsigned lane() { return eas_sim::eas_sim_self()->lane; }
// A lane that is not active has no defined value on a GPU; it reads as the caller's own value here.
template <typename T> EAS_FN T pick(Lanes<T> all, unsigned lane, T own) {
#ifdef EAS_REGISTERS
  if (!all.has(lane)) eas_sim::eas_sim_missing_lane(lane, &own, sizeof(T));
#endif
  return all.has(lane) ? all.at(lane) : own;
}
// A shift past the first or the last thread of the simdgroup leaves a lane's value as it is.
template <typename T> EAS_FN T pick_shifted(Lanes<T> all, unsigned lane, T own) {
  const eas_sim::Thread* t = eas_sim::eas_sim_self();
  unsigned threads = t->threads_per_threadgroup[0] * t->threads_per_threadgroup[1] * t->threads_per_threadgroup[2] - t->simdgroup * 32;
  return lane < 32 && lane < threads ? pick(all, lane, own) : own;
}

struct Add { template <typename T> EAS_FN T operator()(T a, T b) const { return a + b; } };
struct Mul { template <typename T> EAS_FN T operator()(T a, T b) const { return a * b; } };
struct Min { template <typename T> EAS_FN T operator()(T a, T b) const { return metal::min(a, b); } };
struct Max { template <typename T> EAS_FN T operator()(T a, T b) const { return metal::max(a, b); } };
struct And { template <typename T> EAS_FN T operator()(T a, T b) const { return a & b; } };
struct Or { template <typename T> EAS_FN T operator()(T a, T b) const { return a | b; } };
struct Xor { template <typename T> EAS_FN T operator()(T a, T b) const { return a ^ b; } };

// Tree order, as hardware reduces: lane i with lane i ^ step. Inactive lanes drop out.
template <typename F, typename T> __attribute__((noinline)) T reduce(Lanes<T> all, unsigned first, unsigned count, F f) {
  T value[32];
  bool has[32];
  for (unsigned i = 0; i < count; i++) { has[i] = all.has(first + i); if (has[i]) value[i] = all.at(first + i); }
  for (unsigned step = count / 2; step; step /= 2)
    for (unsigned i = 0; i < step; i++) {
      if (has[i] && has[i + step]) value[i] = (T)f(value[i], value[i + step]);
      else if (has[i + step]) { value[i] = value[i + step]; has[i] = true; }
    }
  return value[0];
}
template <typename F, typename T> __attribute__((noinline)) T scan(Lanes<T> all, unsigned first, unsigned end, T start, F f) {
  T r = start;
  for (unsigned i = first; i < end; i++) if (all.has(i)) r = (T)f(r, all.at(i));
  return r;
}

}  // namespace eas

// --- simdgroup --------------------------------------------------------------------------------
struct simd_vote {
  typedef ulong vote_t;
  ulong eas_mask;
  simd_vote() = default;
  explicit constexpr simd_vote(vote_t v) : eas_mask(v) {}
  explicit constexpr operator vote_t() const { return eas_mask; }
  constexpr bool all() const { return (eas_mask & 0xffffffffu) == 0xffffffffu; }
  constexpr bool any() const { return eas_mask != 0; }
};
EAS_FN simd_vote simd_ballot(bool expr) {
  eas::Lanes<bool> all = eas::exchange(expr);
  ulong r = 0;
  for (unsigned i = 0; i < 32; i++) if (all.has(i) && all.at(i)) r |= 1ul << i;
  return simd_vote(r);
}
EAS_FN simd_vote simd_active_threads_mask() { return simd_vote(eas::exchange(true).mask); }
EAS_FN bool simd_any(bool expr) { return simd_ballot(expr).eas_mask != 0; }
EAS_FN bool simd_all(bool expr) { return simd_ballot(!expr).eas_mask == 0; }
EAS_FN bool simd_is_first() { return (unsigned)__builtin_ctz(eas::exchange(true).mask) == eas::lane(); }
EAS_FN bool simd_is_helper_thread() { return false; }

EAS_SIMD_T EAS_FN T simd_shuffle(T data, ushort lane) { return eas::pick(eas::exchange(data), lane, data); }
EAS_SIMD_T EAS_FN T simd_broadcast(T data, ushort lane) { return eas::pick(eas::exchange(data), lane, data); }
EAS_SIMD_T EAS_FN T simd_broadcast_first(T data) { eas::Lanes<T> all = eas::exchange(data); return all.at(__builtin_ctz(all.mask)); }
EAS_SIMD_T EAS_FN T simd_shuffle_xor(T data, ushort mask) { return eas::pick(eas::exchange(data), eas::lane() ^ mask, data); }
EAS_SIMD_T EAS_FN T simd_shuffle_up(T data, ushort delta) { return eas::pick_shifted(eas::exchange(data), eas::lane() - delta, data); }
EAS_SIMD_T EAS_FN T simd_shuffle_down(T data, ushort delta) { return eas::pick_shifted(eas::exchange(data), eas::lane() + delta, data); }
EAS_SIMD_T EAS_FN T simd_shuffle_rotate_up(T data, ushort delta) { return eas::pick(eas::exchange(data), (eas::lane() - delta) & 31, data); }
EAS_SIMD_T EAS_FN T simd_shuffle_rotate_down(T data, ushort delta) { return eas::pick(eas::exchange(data), (eas::lane() + delta) & 31, data); }
#if __METAL_VERSION__ >= 240
// Inside each group of `modulo` lanes, values move by delta; the freed lanes take filling_data of the lane that wraps.
EAS_SIMD_T EAS_FN T simd_shuffle_and_fill_up(T data, T filling_data, ushort delta, ushort modulo = 32) {
  struct Both { T data, fill; };
  eas::Lanes<Both> all = eas::exchange(Both{data, filling_data});
  unsigned lane = eas::lane(), group = lane & ~(unsigned)(modulo - 1), at = lane & (modulo - 1);
  Both own{data, filling_data};
  return at >= delta ? eas::pick(all, lane - delta, own).data : eas::pick(all, group + ((at - delta) & (modulo - 1)), own).fill;
}
EAS_SIMD_T EAS_FN T simd_shuffle_and_fill_down(T data, T filling_data, ushort delta, ushort modulo = 32) {
  struct Both { T data, fill; };
  eas::Lanes<Both> all = eas::exchange(Both{data, filling_data});
  unsigned lane = eas::lane(), group = lane & ~(unsigned)(modulo - 1), at = lane & (modulo - 1);
  Both own{data, filling_data};
  return at + delta < modulo ? eas::pick(all, lane + delta, own).data : eas::pick(all, group + ((at + delta) & (modulo - 1)), own).fill;
}
#endif

EAS_SIMD_T EAS_FN T simd_sum(T data) { return eas::reduce(eas::exchange(data), 0, 32, eas::Add()); }
EAS_SIMD_T EAS_FN T simd_product(T data) { return eas::reduce(eas::exchange(data), 0, 32, eas::Mul()); }
EAS_SIMD_T EAS_FN T simd_min(T data) { return eas::reduce(eas::exchange(data), 0, 32, eas::Min()); }
EAS_SIMD_T EAS_FN T simd_max(T data) { return eas::reduce(eas::exchange(data), 0, 32, eas::Max()); }
EAS_SIMD_INT_T EAS_FN T simd_and(T data) { return eas::reduce(eas::exchange(data), 0, 32, eas::And()); }
EAS_SIMD_INT_T EAS_FN T simd_or(T data) { return eas::reduce(eas::exchange(data), 0, 32, eas::Or()); }
EAS_SIMD_INT_T EAS_FN T simd_xor(T data) { return eas::reduce(eas::exchange(data), 0, 32, eas::Xor()); }
EAS_SIMD_T EAS_FN T simd_prefix_inclusive_sum(T data) { return eas::scan(eas::exchange(data), 0, eas::lane() + 1, T(0), eas::Add()); }
EAS_SIMD_T EAS_FN T simd_prefix_exclusive_sum(T data) { return eas::scan(eas::exchange(data), 0, eas::lane(), T(0), eas::Add()); }
EAS_SIMD_T EAS_FN T simd_prefix_inclusive_product(T data) { return eas::scan(eas::exchange(data), 0, eas::lane() + 1, T(1), eas::Mul()); }
EAS_SIMD_T EAS_FN T simd_prefix_exclusive_product(T data) { return eas::scan(eas::exchange(data), 0, eas::lane(), T(1), eas::Mul()); }

// --- quadgroup --------------------------------------------------------------------------------
struct quad_vote {
  typedef ushort vote_t;
  ushort eas_mask;
  quad_vote() = default;
  explicit constexpr quad_vote(vote_t v) : eas_mask(v) {}
  explicit constexpr operator vote_t() const { return eas_mask; }
  constexpr bool all() const { return (eas_mask & 15) == 15; }
  constexpr bool any() const { return eas_mask != 0; }
};
namespace eas {
EAS_FN unsigned quad() { return lane() & ~3u; }
}
EAS_FN quad_vote quad_ballot(bool expr) { return quad_vote((ushort)(simd_ballot(expr).eas_mask >> eas::quad() & 15)); }
EAS_FN quad_vote quad_active_threads_mask() { return quad_vote((ushort)(eas::exchange(true).mask >> eas::quad() & 15)); }
EAS_FN bool quad_any(bool expr) { return quad_ballot(expr).eas_mask != 0; }
EAS_FN bool quad_all(bool expr) { return quad_ballot(!expr).eas_mask == 0; }
EAS_FN bool quad_is_first() { return (unsigned)__builtin_ctz(eas::exchange(true).mask >> eas::quad()) == (eas::lane() & 3); }
EAS_SIMD_T EAS_FN T quad_shuffle(T data, ushort lane) { return eas::pick(eas::exchange(data), eas::quad() + (lane & 3), data); }
EAS_SIMD_T EAS_FN T quad_broadcast(T data, ushort lane) { return eas::pick(eas::exchange(data), eas::quad() + (lane & 3), data); }
EAS_SIMD_T EAS_FN T quad_broadcast_first(T data) { eas::Lanes<T> all = eas::exchange(data); return all.at(eas::quad() + __builtin_ctz(all.mask >> eas::quad())); }
EAS_SIMD_T EAS_FN T quad_shuffle_xor(T data, ushort mask) { return eas::pick(eas::exchange(data), eas::lane() ^ (mask & 3), data); }
EAS_SIMD_T EAS_FN T quad_shuffle_up(T data, ushort delta) { eas::Lanes<T> all = eas::exchange(data); unsigned at = eas::lane() & 3; return at >= delta ? eas::pick(all, eas::lane() - delta, data) : data; }
EAS_SIMD_T EAS_FN T quad_shuffle_down(T data, ushort delta) { eas::Lanes<T> all = eas::exchange(data); unsigned at = eas::lane() & 3; return at + delta < 4 ? eas::pick(all, eas::lane() + delta, data) : data; }
EAS_SIMD_T EAS_FN T quad_shuffle_rotate_up(T data, ushort delta) { return eas::pick(eas::exchange(data), eas::quad() + ((eas::lane() - delta) & 3), data); }
EAS_SIMD_T EAS_FN T quad_shuffle_rotate_down(T data, ushort delta) { return eas::pick(eas::exchange(data), eas::quad() + ((eas::lane() + delta) & 3), data); }
#if __METAL_VERSION__ >= 240
EAS_SIMD_T EAS_FN T quad_shuffle_and_fill_up(T data, T filling_data, ushort delta, ushort modulo = 4) {
  struct Both { T data, fill; };
  eas::Lanes<Both> all = eas::exchange(Both{data, filling_data});
  unsigned lane = eas::lane(), group = lane & ~(unsigned)(modulo - 1), at = lane & (modulo - 1);
  Both own{data, filling_data};
  return at >= delta ? eas::pick(all, lane - delta, own).data : eas::pick(all, group + ((at - delta) & (modulo - 1)), own).fill;
}
EAS_SIMD_T EAS_FN T quad_shuffle_and_fill_down(T data, T filling_data, ushort delta, ushort modulo = 4) {
  struct Both { T data, fill; };
  eas::Lanes<Both> all = eas::exchange(Both{data, filling_data});
  unsigned lane = eas::lane(), group = lane & ~(unsigned)(modulo - 1), at = lane & (modulo - 1);
  Both own{data, filling_data};
  return at + delta < modulo ? eas::pick(all, lane + delta, own).data : eas::pick(all, group + ((at + delta) & (modulo - 1)), own).fill;
}
#endif
EAS_SIMD_T EAS_FN T quad_sum(T data) { return eas::reduce(eas::exchange(data), eas::quad(), 4, eas::Add()); }
EAS_SIMD_T EAS_FN T quad_product(T data) { return eas::reduce(eas::exchange(data), eas::quad(), 4, eas::Mul()); }
EAS_SIMD_T EAS_FN T quad_min(T data) { return eas::reduce(eas::exchange(data), eas::quad(), 4, eas::Min()); }
EAS_SIMD_T EAS_FN T quad_max(T data) { return eas::reduce(eas::exchange(data), eas::quad(), 4, eas::Max()); }
EAS_SIMD_INT_T EAS_FN T quad_and(T data) { return eas::reduce(eas::exchange(data), eas::quad(), 4, eas::And()); }
EAS_SIMD_INT_T EAS_FN T quad_or(T data) { return eas::reduce(eas::exchange(data), eas::quad(), 4, eas::Or()); }
EAS_SIMD_INT_T EAS_FN T quad_xor(T data) { return eas::reduce(eas::exchange(data), eas::quad(), 4, eas::Xor()); }
EAS_SIMD_T EAS_FN T quad_prefix_inclusive_sum(T data) { return eas::scan(eas::exchange(data), eas::quad(), eas::lane() + 1, T(0), eas::Add()); }
EAS_SIMD_T EAS_FN T quad_prefix_exclusive_sum(T data) { return eas::scan(eas::exchange(data), eas::quad(), eas::lane(), T(0), eas::Add()); }
EAS_SIMD_T EAS_FN T quad_prefix_inclusive_product(T data) { return eas::scan(eas::exchange(data), eas::quad(), eas::lane() + 1, T(1), eas::Mul()); }
EAS_SIMD_T EAS_FN T quad_prefix_exclusive_product(T data) { return eas::scan(eas::exchange(data), eas::quad(), eas::lane(), T(1), eas::Mul()); }

}  // namespace metal
