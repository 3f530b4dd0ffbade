// metal_limits: numeric_limits and the limit macros.
#pragma once
#pragma clang system_header
#include "types.h"

#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807L
#define LONG_MIN (-9223372036854775807L - 1)
#define ULONG_MAX 18446744073709551615UL
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP 38
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MIN_EXP (-125)
#define FLT_RADIX 2
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define HALF_DIG 3
#define HALF_MANT_DIG 11
#define HALF_MAX_10_EXP 4
#define HALF_MAX_EXP 16
#define HALF_MIN_10_EXP (-4)
#define HALF_MIN_EXP (-13)
#define HALF_RADIX 2
#define HALF_MAX half(0x1.ffcp15f)
#define HALF_MIN half(0x1.0p-14f)
#define HALF_EPSILON half(0x1.0p-10f)

namespace metal {

struct eas_limits_base { static constexpr bool is_specialized = true; };
// numeric_limits<T> is what this template says; programs specialise it for their own types.
template <typename T> struct _numeric_limits_impl {
  static constexpr bool is_specialized = false;
  static constexpr T min() { return T(); }
  static constexpr T max() { return T(); }
  static constexpr T lowest() { return T(); }
};
#define EAS_INT_LIMITS(T, lo, hi)                                                                                  \
  template <> struct _numeric_limits_impl<T> : eas_limits_base {                                                         \
    static constexpr bool is_signed = (T)-1 < (T)0, is_integer = true, is_exact = true, has_infinity = false, has_quiet_NaN = false, is_bounded = true; \
    static constexpr int digits = sizeof(T) * 8 - is_signed, digits10 = digits * 3 / 10, radix = 2;                \
    static constexpr T min() { return (T)(lo); }                                                                   \
    static constexpr T max() { return (T)(hi); }                                                                   \
    static constexpr T lowest() { return (T)(lo); }                                                                \
    static constexpr T epsilon() { return 0; }                                                                     \
    static constexpr T infinity() { return 0; }                                                                    \
    static constexpr T quiet_NaN() { return 0; }                                                                   \
  };
EAS_INT_LIMITS(char, SCHAR_MIN, SCHAR_MAX) EAS_INT_LIMITS(signed char, SCHAR_MIN, SCHAR_MAX) EAS_INT_LIMITS(uchar, 0, UCHAR_MAX)
EAS_INT_LIMITS(short, SHRT_MIN, SHRT_MAX) EAS_INT_LIMITS(ushort, 0, USHRT_MAX) EAS_INT_LIMITS(int, INT_MIN, INT_MAX)
EAS_INT_LIMITS(uint, 0, UINT_MAX) EAS_INT_LIMITS(long, LONG_MIN, LONG_MAX) EAS_INT_LIMITS(ulong, 0, ULONG_MAX)
template <> struct _numeric_limits_impl<bool> : eas_limits_base {
  static constexpr bool is_signed = false, is_integer = true, is_exact = true, has_infinity = false, has_quiet_NaN = false;
  static constexpr int digits = 1, radix = 2;
  static constexpr bool min() { return false; }
  static constexpr bool max() { return true; }
  static constexpr bool lowest() { return false; }
};
#define EAS_FLOAT_LIMITS(T, MANT, DIG, MAXEXP, MINEXP, lo, hi, eps, den)                                           \
  template <> struct _numeric_limits_impl<T> : eas_limits_base {                                                         \
    static constexpr bool is_signed = true, is_integer = false, is_exact = false, has_infinity = true, has_quiet_NaN = true, is_iec559 = true, is_bounded = true; \
    static constexpr int digits = MANT, digits10 = DIG, radix = 2, max_exponent = MAXEXP, min_exponent = MINEXP;   \
    static constexpr T min() { return T(lo); }                                                                     \
    static constexpr T max() { return T(hi); }                                                                     \
    static constexpr T lowest() { return T(-hi); }                                                                 \
    static constexpr T epsilon() { return T(eps); }                                                                \
    static constexpr T round_error() { return T(0.5f); }                                                           \
    static constexpr T denorm_min() { return T(den); }                                                             \
    static constexpr T infinity() { return T(__builtin_inff()); }                                                  \
    static constexpr T quiet_NaN() { return T(__builtin_nanf("")); }                                               \
    static constexpr T signaling_NaN() { return T(__builtin_nanf("")); }                                           \
  };
EAS_FLOAT_LIMITS(float, 24, 6, 128, -125, 0x1p-126f, 0x1.fffffep127f, 0x1p-23f, 0x1p-149f)
EAS_FLOAT_LIMITS(half, 11, 3, 16, -13, 0x1p-14f, 0x1.ffcp15f, 0x1p-10f, 0x1p-24f)
#if __METAL_VERSION__ >= 310
EAS_FLOAT_LIMITS(bfloat, 8, 2, 128, -125, 0x1p-126f, 0x1.fep127f, 0x1p-7f, 0x1p-133f)
#endif
template <typename T> struct numeric_limits : _numeric_limits_impl<remove_cv_t<T>> {};

}  // namespace metal
