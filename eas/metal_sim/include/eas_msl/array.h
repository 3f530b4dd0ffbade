// metal_array, and what public MSL reaches for by its internal name (__metal_*).
#pragma once
#pragma clang system_header
#include "common.h"
#include "simd.h"

namespace metal {

template <typename T, size_t N> struct array {
  typedef T value_type;
  T eas_items[N];
  EAS_FN constexpr T& operator[](size_t i) { EAS_CHECK_INDEX(i, N, "an array") return eas_items[i]; }
  EAS_FN constexpr const T& operator[](size_t i) const { EAS_CHECK_INDEX(i, N, "an array") return eas_items[i]; }
  EAS_FN constexpr T& at(size_t i) { EAS_CHECK_INDEX(i, N, "an array") return eas_items[i]; }
  constexpr T& front() { return eas_items[0]; }
  constexpr T& back() { return eas_items[N - 1]; }
  constexpr T* data() { return eas_items; }
  constexpr const T* data() const { return eas_items; }
  constexpr T* begin() { return eas_items; }
  constexpr T* end() { return eas_items + N; }
  constexpr const T* begin() const { return eas_items; }
  constexpr const T* end() const { return eas_items + N; }
  static constexpr size_t size() { return N; }
  static constexpr bool empty() { return N == 0; }
  constexpr void fill(const T& x) { for (size_t i = 0; i < N; i++) eas_items[i] = x; }
};

}  // namespace metal

// The second argument of a math builtin says whether fast math is allowed; both give the same here.
#define __METAL_MAYBE_FAST_MATH__ false
#define __METAL_FAST_MATH__ true
#define __METAL_PRECISE_MATH__ false
#define EAS_BUILTIN1(name, expr) EAS_FN float __metal_##name(float x, bool = false) { return metal::name(x); } EAS_FN half __metal_##name(half x, bool = false) { return metal::name(x); }
#define EAS_BUILTIN2(name, expr) EAS_FN float __metal_##name(float x, float y, bool = false) { return metal::name(x, y); } EAS_FN half __metal_##name(half x, half y, bool = false) { return metal::name(x, y); }
#define EAS_BUILTIN3(name, expr) EAS_FN float __metal_##name(float x, float y, float z, bool = false) { return metal::name(x, y, z); } EAS_FN half __metal_##name(half x, half y, half z, bool = false) { return metal::name(x, y, z); }
EAS_MATH1(EAS_BUILTIN1)
EAS_MATH2(EAS_BUILTIN2)
EAS_MATH3(EAS_BUILTIN3)
EAS_BUILTIN2(nextafter, )
EAS_FN float __metal_fma(float x, float y, float z) { return metal::fma(x, y, z); }
EAS_FN half __metal_fma(half x, half y, half z) { return metal::fma(x, y, z); }
EAS_FN float __metal_ldexp(float x, int k, bool = false) { return metal::ldexp(x, k); }
EAS_FN float __metal_frexp(float x, int* e, bool = false) { return metal::frexp(x, *e); }
EAS_FN float __metal_frexp(float x, int& e, bool = false) { return metal::frexp(x, e); }
EAS_FN ushort __metal_get_thread_index_in_simdgroup() { return (ushort)metal::eas::lane(); }
EAS_FN ushort __metal_get_thread_index_in_simdgroup(ushort) { return (ushort)metal::eas::lane(); }
EAS_FN ushort __metal_get_simdgroup_size() { return 32; }
EAS_FN ushort __metal_get_simdgroup_size(ushort) { return 32; }
// The builtins take any type that the caller casts to, and float bits in the bitwise ones.
#define EAS_BUILTIN_SIMD1(name) template <typename T> EAS_FN T __metal_##name(T x) { return metal::name(x); }
#define EAS_BUILTIN_BITS(name)                                                                                     \
  template <typename T, typename = metal::enable_if_t<metal::is_integral_v<T>>> EAS_FN T __metal_##name(T x) { return metal::name(x); } \
  EAS_FN float __metal_##name(float x) { return as_type<float>(metal::name(as_type<uint>(x))); }
#define EAS_BUILTIN_SIMD2(name) template <typename T> EAS_FN T __metal_##name(T x, ushort y) { return metal::name(x, y); }
#define EAS_BUILTIN_SIMD4(name) template <typename T> EAS_FN T __metal_##name(T x, T y, ushort d, ushort m = 32) { return metal::name(x, y, d, m); }
EAS_BUILTIN_SIMD1(simd_sum) EAS_BUILTIN_SIMD1(simd_product) EAS_BUILTIN_SIMD1(simd_min) EAS_BUILTIN_SIMD1(simd_max)
EAS_BUILTIN_BITS(simd_and) EAS_BUILTIN_BITS(simd_or) EAS_BUILTIN_BITS(simd_xor)
EAS_BUILTIN_SIMD1(simd_prefix_inclusive_sum) EAS_BUILTIN_SIMD1(simd_prefix_exclusive_sum)
EAS_BUILTIN_SIMD1(simd_prefix_inclusive_product) EAS_BUILTIN_SIMD1(simd_prefix_exclusive_product) EAS_BUILTIN_SIMD1(simd_broadcast_first)
EAS_BUILTIN_SIMD2(simd_broadcast) EAS_BUILTIN_SIMD2(simd_shuffle) EAS_BUILTIN_SIMD2(simd_shuffle_xor) EAS_BUILTIN_SIMD2(simd_shuffle_up)
EAS_BUILTIN_SIMD2(simd_shuffle_down) EAS_BUILTIN_SIMD2(simd_shuffle_rotate_up) EAS_BUILTIN_SIMD2(simd_shuffle_rotate_down)
#if __METAL_VERSION__ >= 240
EAS_BUILTIN_SIMD4(simd_shuffle_and_fill_up) EAS_BUILTIN_SIMD4(simd_shuffle_and_fill_down)
#endif
