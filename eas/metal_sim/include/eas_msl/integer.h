// metal_integer: functions on all integer types.
#pragma once
#pragma clang system_header
#include "overloads.h"

namespace metal {
namespace eas {

template <typename T> constexpr int bits_of = (int)sizeof(T) * 8;
template <typename T> using wide = conditional_t<is_signed_v<T>, __int128, unsigned __int128>;
template <typename T> constexpr T lowest = is_signed_v<T> ? (T)((make_unsigned_t<T>)1 << (bits_of<T> - 1)) : (T)0;
template <typename T> constexpr T highest = (T)~lowest<T>;
template <typename T> EAS_FN constexpr T addsat(T x, T y) {
  wide<T> s = (wide<T>)x + (wide<T>)y;
  return s > (wide<T>)highest<T> ? highest<T> : (is_signed_v<T> && s < (wide<T>)lowest<T> ? lowest<T> : (T)s);
}
template <typename T> EAS_FN constexpr T subsat(T x, T y) {
  if (!is_signed_v<T>) return x < y ? (T)0 : (T)(x - y);
  wide<T> s = (wide<T>)x - (wide<T>)y;
  return s > (wide<T>)highest<T> ? highest<T> : (s < (wide<T>)lowest<T> ? lowest<T> : (T)s);
}
template <typename T> EAS_FN constexpr int clz(T x) { typedef make_unsigned_t<T> U; return x == 0 ? bits_of<T> : __builtin_clzl((unsigned long)(U)x) - (64 - bits_of<T>); }
template <typename T> EAS_FN constexpr int ctz(T x) { typedef make_unsigned_t<T> U; return x == 0 ? bits_of<T> : __builtin_ctzl((unsigned long)(U)x); }
template <typename T> EAS_FN constexpr T rotate(T x, T y) {
  typedef make_unsigned_t<T> U;
  int n = (int)((U)y & (bits_of<T> - 1));
  return n == 0 ? x : (T)(U)(((U)x << n) | ((U)x >> (bits_of<T> - n)));
}
template <typename T> EAS_FN constexpr T reverse_bits(T x) {
  typedef make_unsigned_t<T> U;
  U u = (U)x, r = 0;
  for (int i = 0; i < bits_of<T>; i++) r = (U)(r | (U)((U)(u >> i & 1) << (bits_of<T> - 1 - i)));
  return (T)r;
}
template <typename T> EAS_FN constexpr T extract_bits(T x, uint offset, uint bits) {
  typedef make_unsigned_t<T> U;
  if (bits == 0) return 0;
  U u = (U)((U)x << (bits_of<T> - (int)offset - (int)bits));
  return is_signed_v<T> ? (T)((T)u >> (bits_of<T> - (int)bits)) : (T)(u >> (bits_of<T> - (int)bits));
}
template <typename T> EAS_FN constexpr T insert_bits(T base, T insert, uint offset, uint bits) {
  typedef make_unsigned_t<T> U;
  if (bits == 0) return base;
  U mask = (U)((U)((U)~(U)0 >> (bits_of<T> - (int)bits)) << offset);
  return (T)(U)(((U)base & (U)~mask) | ((U)((U)insert << offset) & mask));
}
EAS_FN constexpr int low24(int x) { return (int)((uint)x << 8) >> 8; }

}  // namespace eas

#define EAS_INTEGER(T)                                                                                             \
  EAS_FUN1(T, abs, T, return is_signed_v<T> && x < 0 ? (T)(0 - x) : x;)                                            \
  EAS_FUN2(make_unsigned_t<T>, absdiff, T, return (make_unsigned_t<T>)(x > y ? (eas::wide<T>)x - (eas::wide<T>)y : (eas::wide<T>)y - (eas::wide<T>)x);) \
  EAS_FUN2(T, addsat, T, return eas::addsat<T>(x, y);)                                                             \
  EAS_FUN2(T, subsat, T, return eas::subsat<T>(x, y);)                                                             \
  EAS_FUN1(T, clz, T, return (T)eas::clz<T>(x);)                                                                   \
  EAS_FUN1(T, ctz, T, return (T)eas::ctz<T>(x);)                                                                   \
  EAS_FUN1(T, popcount, T, return (T)__builtin_popcountl((unsigned long)(make_unsigned_t<T>)x);)                   \
  EAS_FUN1(T, reverse_bits, T, return eas::reverse_bits<T>(x);)                                                    \
  EAS_FUN2(T, hadd, T, return (T)(((eas::wide<T>)x + (eas::wide<T>)y) >> 1);)                                            \
  EAS_FUN2(T, rhadd, T, return (T)(((eas::wide<T>)x + (eas::wide<T>)y + 1) >> 1);)                                       \
  EAS_FUN2(T, mulhi, T, return (T)(((eas::wide<T>)x * (eas::wide<T>)y) >> eas::bits_of<T>);)                             \
  EAS_FUN3(T, madhi, T, return (T)((((eas::wide<T>)x * (eas::wide<T>)y) >> eas::bits_of<T>) + z);)                       \
  EAS_FUN3(T, madsat, T, return (T)eas_clip<T>((eas::wide<T>)x * (eas::wide<T>)y + (eas::wide<T>)z);)                       \
  EAS_FUN2(T, max, T, return x < y ? y : x;)                                                                       \
  EAS_FUN2(T, min, T, return y < x ? y : x;)                                                                       \
  EAS_FUN3(T, max3, T, return max(x, max(y, z));)                                                                  \
  EAS_FUN3(T, min3, T, return min(x, min(y, z));)                                                                  \
  EAS_FUN3(T, median3, T, return max(min(x, y), min(max(x, y), z));)                                               \
  EAS_FUN3(T, clamp, T, return min(max(x, y), z);)                                                                 \
  EAS_FUN2(T, rotate, T, return eas::rotate<T>(x, y);)                                                             \
  EAS_FN constexpr T extract_bits(T x, uint offset, uint bits) { return eas::extract_bits<T>(x, offset, bits); }   \
  EAS_FN constexpr T insert_bits(T base, T insert, uint offset, uint bits) { return eas::insert_bits<T>(base, insert, offset, bits); } \
  EAS_INTEGER_BITS(T, 2) EAS_INTEGER_BITS(T, 3) EAS_INTEGER_BITS(T, 4)
#define EAS_INTEGER_BITS(T, N)                                                                                     \
  EAS_FN constexpr vec<T, N> extract_bits(vec<T, N> x, uint offset, uint bits) { vec<T, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = eas::extract_bits<T>(x.eas_s[i], offset, bits)) return r; } \
  EAS_FN constexpr vec<T, N> insert_bits(vec<T, N> base, vec<T, N> insert, uint offset, uint bits) { vec<T, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = eas::insert_bits<T>(base.eas_s[i], insert.eas_s[i], offset, bits)) return r; }

template <typename T> EAS_FN constexpr T eas_clip(eas::wide<T> v) { return v > (eas::wide<T>)eas::highest<T> ? eas::highest<T> : (is_signed_v<T> && v < (eas::wide<T>)eas::lowest<T> ? eas::lowest<T> : (T)v); }
EAS_EACH_INT(EAS_INTEGER)
EAS_FUN2(int, mul24, int, return eas::low24(x) * eas::low24(y);)
EAS_FUN2(uint, mul24, uint, return (x & 0xffffff) * (y & 0xffffff);)
EAS_FUN3(int, mad24, int, return eas::low24(x) * eas::low24(y) + z;)
EAS_FUN3(uint, mad24, uint, return (x & 0xffffff) * (y & 0xffffff) + z;)

}  // namespace metal
