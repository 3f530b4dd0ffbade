// How one scalar function becomes the overload set that MSL has: the scalar and vectors of 2, 3 and 4.
// Plain overloads, not templates: max(1, x) with a uint x must stay ambiguous, as it is on a Mac.
#pragma once
#pragma clang system_header
#include "vec.h"

#define EAS_V1(R, name, T, N) EAS_FN constexpr vec<R, N> name(vec<T, N> x) { vec<R, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = name(x.eas_s[i])) return r; }
#define EAS_V2(R, name, T, U, N) EAS_FN constexpr vec<R, N> name(vec<T, N> x, vec<U, N> y) { vec<R, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = name(x.eas_s[i], y.eas_s[i])) return r; }
#define EAS_V3(R, name, T, U, V, N) EAS_FN constexpr vec<R, N> name(vec<T, N> x, vec<U, N> y, vec<V, N> z) { vec<R, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = name(x.eas_s[i], y.eas_s[i], z.eas_s[i])) return r; }
#define EAS_VEC1(R, name, T) EAS_V1(R, name, T, 2) EAS_V1(R, name, T, 3) EAS_V1(R, name, T, 4)
#define EAS_VEC2(R, name, T, U) EAS_V2(R, name, T, U, 2) EAS_V2(R, name, T, U, 3) EAS_V2(R, name, T, U, 4)
#define EAS_VEC3(R, name, T, U, V) EAS_V3(R, name, T, U, V, 2) EAS_V3(R, name, T, U, V, 3) EAS_V3(R, name, T, U, V, 4)

// name(T...) -> R for the scalar and the vectors; the body sees x, y, z.
#define EAS_FUN1(R, name, T, ...) EAS_FN constexpr R name(T x) { __VA_ARGS__ } EAS_VEC1(R, name, T)
#define EAS_FUN2(R, name, T, ...) EAS_FN constexpr R name(T x, T y) { __VA_ARGS__ } EAS_VEC2(R, name, T, T)
#define EAS_FUN3(R, name, T, ...) EAS_FN constexpr R name(T x, T y, T z) { __VA_ARGS__ } EAS_VEC3(R, name, T, T, T)

#define EAS_EACH_INT(M) M(char) M(uchar) M(short) M(ushort) M(int) M(uint) M(long) M(ulong)
#define EAS_EACH_FLOAT(M) M(half) M(float)
#define EAS_EACH_ARITH(M) EAS_EACH_INT(M) EAS_EACH_FLOAT(M)
