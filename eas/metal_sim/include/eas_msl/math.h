// metal_math: the float functions with namespaces fast and precise, and the half ones computed in float.
#pragma once
#pragma clang system_header
#include "overloads.h"

#define M_E_F 2.71828182845904523536028747135266250f
#define M_LOG2E_F 1.44269504088896340735992468100189214f
#define M_LOG10E_F 0.434294481903251827651128918916605082f
#define M_LN2_F 0.693147180559945309417232121458176568f
#define M_LN10_F 2.30258509299404568401799145468436421f
#define M_PI_F 3.14159265358979323846264338327950288f
#define M_PI_2_F 1.57079632679489661923132169163975144f
#define M_PI_4_F 0.785398163397448309615660845819875721f
#define M_1_PI_F 0.318309886183790671537767526745028724f
#define M_2_PI_F 0.636619772367581343075535053490057448f
#define M_2_SQRTPI_F 1.12837916709551257389615890312154517f
#define M_SQRT2_F 1.41421356237309504880168872420969808f
#define M_SQRT1_2_F 0.707106781186547524400844362104849039f
#define M_E_H half(M_E_F)
#define M_LOG2E_H half(M_LOG2E_F)
#define M_LOG10E_H half(M_LOG10E_F)
#define M_LN2_H half(M_LN2_F)
#define M_LN10_H half(M_LN10_F)
#define M_PI_H half(M_PI_F)
#define M_PI_2_H half(M_PI_2_F)
#define M_PI_4_H half(M_PI_4_F)
#define M_1_PI_H half(M_1_PI_F)
#define M_2_PI_H half(M_2_PI_F)
#define M_2_SQRTPI_H half(M_2_SQRTPI_F)
#define M_SQRT2_H half(M_SQRT2_F)
#define M_SQRT1_2_H half(M_SQRT1_2_F)
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_inff()
#define HUGE_VALH half(__builtin_inff())
#define MAXFLOAT 0x1.fffffep+127f
#define MAXHALF half(65504.0f)
#define FP_ILOGB0 (-2147483647 - 1)
#define FP_ILOGBNAN 2147483647

namespace metal {
namespace eas {

// double is not a type of MSL; the shim uses it where a float function is not exact enough in float.
EAS_FN float round_once(double d) { return (float)d; }
// A half from a double with one rounding: the float in between keeps a sticky last bit.
EAS_FN half half_of(double d) {
  float f = (float)d;
  if ((double)f != d && __builtin_isfinite(f)) {
    unsigned u = __builtin_bit_cast(unsigned, f);
    if (!(u & 1)) { bool toward_zero = __builtin_fabs((double)f) < __builtin_fabs(d); u = toward_zero ? u + 1 : u - 1; }
    f = __builtin_bit_cast(float, u);
  }
  return (half)f;
}
constexpr double pi = 3.14159265358979323846;
EAS_FN float sinpi(float x) { double r = __builtin_remainder((double)x, 2.0); return r == 0.0 || r == 1.0 || r == -1.0 ? __builtin_copysignf(0.0f, x) : (float)__builtin_sin(pi * r); }
EAS_FN float cospi(float x) { double r = __builtin_fabs(__builtin_remainder((double)x, 2.0)); return r == 0.5 ? 0.0f : (float)__builtin_cos(pi * r); }
EAS_FN float tanpi(float x) { double r = __builtin_remainder((double)x, 1.0); return r == 0.0 ? __builtin_copysignf(0.0f, x) : (float)__builtin_tan(pi * r); }
EAS_FN float rsqrt(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
EAS_FN float exp10(float x) { return (float)__builtin_exp2((double)x * 3.32192809488736234787); }
EAS_FN float powr(float x, float y) { return x < 0.0f ? __builtin_nanf("") : __builtin_powf(x, y); }
EAS_FN float fract(float x) {
  if (__builtin_isinf(x)) return 0.0f;
  float f = x - __builtin_floorf(x);
  return f < 0x1.fffffep-1f || f != f ? f : 0x1.fffffep-1f;
}
// IEEE: the other operand where one is NaN.
EAS_FN constexpr float fmin(float x, float y) { return x != x ? y : (y < x ? y : x); }
EAS_FN constexpr float fmax(float x, float y) { return x != x ? y : (x < y ? y : x); }
EAS_FN float fdim(float x, float y) { return x != x || y != y ? __builtin_nanf("") : (x > y ? x - y : 0.0f); }
EAS_FN constexpr float median3(float x, float y, float z) { return fmax(fmin(x, y), fmin(fmax(x, y), z)); }
EAS_FN int ilogb(float x) {
  if (x != x) return FP_ILOGBNAN;
  if (x == 0.0f) return FP_ILOGB0;
  if (__builtin_isinf(x)) return 2147483647;
  return __builtin_ilogbf(x);
}
EAS_FN half half_next(half x, half y) {
  unsigned short u = __builtin_bit_cast(unsigned short, x);
  if (x != x || y != y) return (half)__builtin_nanf("");
  if (x == y) return y;
  if (x == 0) return __builtin_bit_cast(half, (unsigned short)(y > 0 ? 1 : 0x8001));
  bool away = (x < y) == (x > 0);
  return __builtin_bit_cast(half, (unsigned short)(away ? u + 1 : u - 1));
}

}  // namespace eas

// M(name, float expression of x, y, z); the _FLOAT lists have no integer function of the same name.
#define EAS_MATH1_FLOAT(M)                                                                                               \
  M(acos, __builtin_acosf(x)) M(acosh, __builtin_acoshf(x)) M(asin, __builtin_asinf(x)) M(asinh, __builtin_asinhf(x)) \
  M(atan, __builtin_atanf(x)) M(atanh, __builtin_atanhf(x)) M(ceil, __builtin_ceilf(x)) M(cos, __builtin_cosf(x))  \
  M(cosh, __builtin_coshf(x)) M(cospi, eas::cospi(x)) M(exp, __builtin_expf(x)) M(exp2, __builtin_exp2f(x))        \
  M(exp10, eas::exp10(x)) M(fabs, __builtin_fabsf(x)) M(floor, __builtin_floorf(x)) M(fract, eas::fract(x))        \
  M(log, __builtin_logf(x)) M(log2, __builtin_log2f(x)) M(log10, __builtin_log10f(x)) M(rint, __builtin_rintf(x))  \
  M(round, __builtin_roundf(x)) M(rsqrt, eas::rsqrt(x)) M(sin, __builtin_sinf(x)) M(sinh, __builtin_sinhf(x))      \
  M(sinpi, eas::sinpi(x)) M(sqrt, __builtin_sqrtf(x)) M(tan, __builtin_tanf(x)) M(tanh, __builtin_tanhf(x))        \
  M(tanpi, eas::tanpi(x)) M(trunc, __builtin_truncf(x))
#define EAS_MATH1(M) EAS_MATH1_FLOAT(M) M(abs, __builtin_fabsf(x))
#define EAS_MATH2_FLOAT(M)                                                                                               \
  M(atan2, __builtin_atan2f(x, y)) M(copysign, __builtin_copysignf(x, y)) M(fdim, eas::fdim(x, y))                 \
  M(fmax, eas::fmax(x, y)) M(fmin, eas::fmin(x, y))                                                                \
  M(fmod, __builtin_fmodf(x, y)) M(pow, __builtin_powf(x, y)) M(powr, eas::powr(x, y)) M(divide, x / y)
#define EAS_MATH2(M) EAS_MATH2_FLOAT(M) M(max, eas::fmax(x, y)) M(min, eas::fmin(x, y))
#define EAS_MATH3_FLOAT(M) M(fmax3, eas::fmax(x, eas::fmax(y, z))) M(fmin3, eas::fmin(x, eas::fmin(y, z))) M(fmedian3, eas::median3(x, y, z))
#define EAS_MATH3(M) EAS_MATH3_FLOAT(M) M(max3, eas::fmax(x, eas::fmax(y, z))) M(min3, eas::fmin(x, eas::fmin(y, z))) M(median3, eas::median3(x, y, z))

#define EAS_FLOAT1(name, expr) EAS_FUN1(float, name, float, return expr;)
#define EAS_FLOAT2(name, expr) EAS_FUN2(float, name, float, return expr;)
#define EAS_FLOAT3(name, expr) EAS_FUN3(float, name, float, return expr;)
#define EAS_HALF1(name, expr) EAS_FN constexpr half name(half a) { float x = a; return (half)(expr); } EAS_VEC1(half, name, half)
#define EAS_HALF2(name, expr) EAS_FN constexpr half name(half a, half b) { float x = a, y = b; return (half)(expr); } EAS_VEC2(half, name, half, half)
#define EAS_HALF3(name, expr) EAS_FN constexpr half name(half a, half b, half c) { float x = a, y = b, z = c; return (half)(expr); } EAS_VEC3(half, name, half, half, half)

// Functions with an int or a reference beside the value: T is the component, F its float functions.
#define EAS_V_LDEXP(T, N) EAS_FN vec<T, N> ldexp(vec<T, N> x, vec<int, N> k) { vec<T, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = ldexp(x.eas_s[i], k.eas_s[i])) return r; }
#define EAS_V_REF(name, T, U, N) EAS_FN vec<T, N> name(vec<T, N> x, vec<U, N>& y) { vec<T, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = name(x.eas_s[i], y.eas_s[i])) return r; }
#define EAS_MATH_SPECIAL(T)                                                                                        \
  EAS_FN T ldexp(T x, int k) { return (T)__builtin_ldexp((double)(float)x, k); }                                   \
  EAS_FN T frexp(T x, int& e) { if (!__builtin_isfinite((float)x)) { e = 0; return x; } int own = 0; T r = (T)__builtin_frexpf((float)x, &own); e = own; return r; } \
  EAS_FN T modf(T x, T& whole) { whole = (T)__builtin_truncf((float)x); return __builtin_isinf((float)x) ? (T)__builtin_copysignf(0.0f, (float)x) : (T)__builtin_copysignf((float)x - (float)whole, (float)x); } \
  EAS_FN T sincos(T x, T& cosine) { cosine = (T)__builtin_cosf((float)x); return (T)__builtin_sinf((float)x); }    \
  EAS_FN int ilogb(T x) { return eas::ilogb((float)x); }                                                           \
  EAS_V_LDEXP(T, 2) EAS_V_LDEXP(T, 3) EAS_V_LDEXP(T, 4)                                                            \
  EAS_V_REF(frexp, T, int, 2) EAS_V_REF(frexp, T, int, 3) EAS_V_REF(frexp, T, int, 4)                              \
  EAS_V_REF(modf, T, T, 2) EAS_V_REF(modf, T, T, 3) EAS_V_REF(modf, T, T, 4)                                       \
  EAS_V_REF(sincos, T, T, 2) EAS_V_REF(sincos, T, T, 3) EAS_V_REF(sincos, T, T, 4)                                 \
  EAS_VEC1(int, ilogb, T)
#define EAS_FLOAT_ALL                                                                                              \
  EAS_MATH1(EAS_FLOAT1) EAS_MATH2(EAS_FLOAT2) EAS_MATH3(EAS_FLOAT3)                                                \
  EAS_FUN3(float, fma, float, return __builtin_fmaf(x, y, z);)                                                     \
  EAS_FUN2(float, nextafter, float, return __builtin_nextafterf(x, y);)                                            \
  EAS_MATH_SPECIAL(float)

EAS_FLOAT_ALL
namespace precise { EAS_FLOAT_ALL }
namespace fast { EAS_FLOAT_ALL }

EAS_MATH1(EAS_HALF1)
EAS_MATH2(EAS_HALF2)
EAS_MATH3(EAS_HALF3)
EAS_FN half fma(half x, half y, half z) { return eas::half_of(__builtin_fma((double)(float)x, (double)(float)y, (double)(float)z)); }
EAS_VEC3(half, fma, half, half, half)
EAS_FUN2(half, nextafter, half, return eas::half_next(x, y);)
EAS_MATH_SPECIAL(half)

#if __METAL_VERSION__ >= 310
// MSL has no bfloat functions: a bfloat argument becomes float, and so does the result. Where integer overloads
// stand beside the float ones (abs, min, max, clamp, ...) the call is ambiguous and refused, outside of precise:: and fast::.
// Templates, because bfloat is a class here and because a program may add overloads of its own.
#define EAS_BFLOAT_T template <typename B, typename = enable_if_t<eas_is_bfloat<B>::value>> EAS_FN
#define EAS_BFLOAT1(name, ...) EAS_BFLOAT_T float name(B x) { return name((float)x); }
#define EAS_BFLOAT2(name, ...) EAS_BFLOAT_T float name(B x, B y) { return name((float)x, (float)y); }
#define EAS_BFLOAT3(name, ...) EAS_BFLOAT_T float name(B x, B y, B z) { return name((float)x, (float)y, (float)z); }
#define EAS_BFLOAT_MORE EAS_BFLOAT3(fma) EAS_BFLOAT2(nextafter) EAS_BFLOAT_T float ldexp(B x, int k) { return ldexp((float)x, k); }
EAS_MATH1_FLOAT(EAS_BFLOAT1)
EAS_MATH2_FLOAT(EAS_BFLOAT2)
EAS_MATH3_FLOAT(EAS_BFLOAT3)
EAS_BFLOAT_MORE
#define EAS_BFLOAT_ALL EAS_MATH1(EAS_BFLOAT1) EAS_MATH2(EAS_BFLOAT2) EAS_MATH3(EAS_BFLOAT3) EAS_BFLOAT_MORE
namespace precise { EAS_BFLOAT_ALL }
namespace fast { EAS_BFLOAT_ALL }
#endif

}  // namespace metal
