// metal_common, metal_geometric and metal_relational.
#pragma once
#pragma clang system_header
#include "integer.h"
#include "limits.h"
#include "math.h"

namespace metal {

#define EAS_COMMON_ONE(T)                                                                                          \
  EAS_FUN3(T, clamp, T, return fmin(fmax(x, y), z);)                                                               \
  EAS_FUN1(T, saturate, T, return fmin(fmax(x, (T)0.0f), (T)1.0f);)                                                \
  EAS_FUN3(T, mix, T, return x + (y - x) * z;)                                                                     \
  EAS_FUN1(T, sign, T, return x > (T)0.0f ? (T)1.0f : (x < (T)0.0f ? (T)-1.0f : (x != x ? (T)0.0f : x));)          \
  EAS_FUN2(T, step, T, return y < x ? (T)0.0f : (T)1.0f;)                                                          \
  EAS_FUN3(T, smoothstep, T, T t = saturate((z - x) / (y - x)); return t * t * ((T)3.0f - (T)2.0f * t);)
EAS_EACH_FLOAT(EAS_COMMON_ONE)
namespace precise { EAS_COMMON_ONE(float) }
namespace fast { EAS_COMMON_ONE(float) }

#if __METAL_VERSION__ >= 310
EAS_BFLOAT1(saturate) EAS_BFLOAT1(sign) EAS_BFLOAT2(step) EAS_BFLOAT3(mix) EAS_BFLOAT3(smoothstep)
#endif

// --- geometry -----------------------------------------------------------------------------------
#define EAS_GEOMETRY(T, N)                                                                                         \
  EAS_FN constexpr T dot(vec<T, N> x, vec<T, N> y) { T r = x.eas_s[0] * y.eas_s[0]; for (int i = 1; i < N; i++) r = (T)(r + (T)(x.eas_s[i] * y.eas_s[i])); return r; } \
  EAS_FN T length_squared(vec<T, N> x) { return dot(x, x); }                                                       \
  EAS_FN T length(vec<T, N> x) { return sqrt(dot(x, x)); }                                                         \
  EAS_FN T distance_squared(vec<T, N> x, vec<T, N> y) { return length_squared(x - y); }                            \
  EAS_FN T distance(vec<T, N> x, vec<T, N> y) { return length(x - y); }                                            \
  EAS_FN vec<T, N> normalize(vec<T, N> x) { return x * rsqrt(dot(x, x)); }                                         \
  EAS_FN vec<T, N> faceforward(vec<T, N> n, vec<T, N> i, vec<T, N> ref) { return dot(ref, i) < (T)0.0f ? n : -n; } \
  EAS_FN vec<T, N> reflect(vec<T, N> i, vec<T, N> n) { return i - n * ((T)2.0f * dot(n, i)); }                     \
  EAS_FN vec<T, N> refract(vec<T, N> i, vec<T, N> n, T eta) {                                                      \
    T d = dot(n, i), k = (T)1.0f - eta * eta * ((T)1.0f - d * d);                                                  \
    return k < (T)0.0f ? vec<T, N>((T)0.0f) : i * eta - n * (eta * d + sqrt(k));                                   \
  }
#define EAS_GEOMETRY_ALL(T) EAS_GEOMETRY(T, 2) EAS_GEOMETRY(T, 3) EAS_GEOMETRY(T, 4)                               \
  EAS_FN constexpr vec<T, 3> cross(vec<T, 3> a, vec<T, 3> b) {                                                     \
    return vec<T, 3>(a.eas_s[1] * b.eas_s[2] - a.eas_s[2] * b.eas_s[1], a.eas_s[2] * b.eas_s[0] - a.eas_s[0] * b.eas_s[2], a.eas_s[0] * b.eas_s[1] - a.eas_s[1] * b.eas_s[0]); \
  }
EAS_EACH_FLOAT(EAS_GEOMETRY_ALL)
// Argument-dependent lookup would find a second set here, so both namespaces name the first.
#define EAS_GEOMETRY_NAMES using metal::dot; using metal::length_squared; using metal::length; using metal::distance_squared; using metal::distance; \
  using metal::normalize; using metal::faceforward; using metal::reflect; using metal::refract; using metal::cross;
namespace precise { EAS_GEOMETRY_NAMES }
namespace fast { EAS_GEOMETRY_NAMES }

// --- relations ----------------------------------------------------------------------------------
#define EAS_RELATION(T)                                                                                            \
  EAS_FUN1(bool, isnan, T, float f = (float)x; return f != f;)                                                     \
  EAS_FUN1(bool, isinf, T, return __builtin_isinf((float)x);)                                                      \
  EAS_FUN1(bool, isfinite, T, return __builtin_isfinite((float)x);)                                                \
  EAS_FUN1(bool, isnormal, T, float f = (float)x; f = f < 0 ? -f : f; return f >= (float)numeric_limits<T>::min() && f <= (float)numeric_limits<T>::max();) \
  EAS_FUN1(bool, signbit, T, return __builtin_signbit((float)x);)                                                  \
  EAS_FUN2(bool, isordered, T, float f = (float)x, g = (float)y; return f == f && g == g;)                         \
  EAS_FUN2(bool, isunordered, T, float f = (float)x, g = (float)y; return f != f || g != g;)
EAS_RELATION(half)
EAS_RELATION(float)
#if __METAL_VERSION__ >= 310
EAS_RELATION(bfloat)
#endif
#define EAS_ANY_ALL(N)                                                                                             \
  EAS_FN constexpr bool any(vec<bool, N> x) { bool r = false; EAS_EACH_LANE(N, r = r || x.eas_s[i]) return r; }    \
  EAS_FN constexpr bool all(vec<bool, N> x) { bool r = true; EAS_EACH_LANE(N, r = r && x.eas_s[i]) return r; }
EAS_ANY_ALL(2) EAS_ANY_ALL(3) EAS_ANY_ALL(4)
EAS_FN constexpr bool any(bool x) { return x; }
EAS_FN constexpr bool all(bool x) { return x; }

// Values, not variables: of two variables the compiler would choose the address, which takes it long to remove.
#define EAS_SELECT_N(T, N)                                                                                         \
  EAS_FN constexpr vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> c) { vec<T, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = select(a.eas_s[i], b.eas_s[i], c.eas_s[i])) return r; }
#define EAS_SELECT(T) EAS_FN constexpr T select(T a, T b, bool c) { return c ? T(b) : T(a); } EAS_SELECT_N(T, 2) EAS_SELECT_N(T, 3) EAS_SELECT_N(T, 4)
EAS_EACH_ARITH(EAS_SELECT)
EAS_SELECT(bool)
#if __METAL_VERSION__ >= 310
EAS_SELECT(bfloat)
#endif

}  // namespace metal
