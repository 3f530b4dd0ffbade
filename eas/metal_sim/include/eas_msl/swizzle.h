// Swizzles as properties: EAS_SWIZZLES_2/3/4 stand inside class vec<T, N> and packed_vec<T, N>, which have
// get<I...>() and put<I...>(v). A property with repeated components can only be read.
#pragma once
#pragma clang system_header

#define EAS_IX_x 0
#define EAS_IX_y 1
#define EAS_IX_z 2
#define EAS_IX_w 3

#define EAS_RD1(a, A) constexpr T eas_g_##a() const { return eas_s[EAS_IX_##a]; } constexpr void eas_p_##a(T v) { eas_s[EAS_IX_##a] = v; } \
  __declspec(property(get = eas_g_##a, put = eas_p_##a)) T a; __declspec(property(get = eas_g_##a, put = eas_p_##a)) T A;
#define EAS_RD2(a, b, A, B) constexpr vec<T, 2> eas_g_##a##b() const { return {eas_s[EAS_IX_##a], eas_s[EAS_IX_##b]}; }
#define EAS_RO2(a, b, A, B) EAS_RD2(a, b, A, B) __declspec(property(get = eas_g_##a##b)) vec<T, 2> a##b; __declspec(property(get = eas_g_##a##b)) vec<T, 2> A##B;
#define EAS_RW2(a, b, A, B) EAS_RD2(a, b, A, B) constexpr void eas_p_##a##b(vec<T, 2> v) { eas_s[EAS_IX_##a] = v.eas_s[0]; eas_s[EAS_IX_##b] = v.eas_s[1]; } \
  __declspec(property(get = eas_g_##a##b, put = eas_p_##a##b)) vec<T, 2> a##b; __declspec(property(get = eas_g_##a##b, put = eas_p_##a##b)) vec<T, 2> A##B;
#define EAS_RD3(a, b, c) constexpr vec<T, 3> eas_g_##a##b##c() const { return {eas_s[EAS_IX_##a], eas_s[EAS_IX_##b], eas_s[EAS_IX_##c]}; }
#define EAS_RO3(a, b, c, A, B, C) EAS_RD3(a, b, c) __declspec(property(get = eas_g_##a##b##c)) vec<T, 3> a##b##c; __declspec(property(get = eas_g_##a##b##c)) vec<T, 3> A##B##C;
#define EAS_RW3(a, b, c, A, B, C) EAS_RD3(a, b, c) constexpr void eas_p_##a##b##c(vec<T, 3> v) { eas_s[EAS_IX_##a] = v.eas_s[0]; eas_s[EAS_IX_##b] = v.eas_s[1]; eas_s[EAS_IX_##c] = v.eas_s[2]; } \
  __declspec(property(get = eas_g_##a##b##c, put = eas_p_##a##b##c)) vec<T, 3> a##b##c; __declspec(property(get = eas_g_##a##b##c, put = eas_p_##a##b##c)) vec<T, 3> A##B##C;
#define EAS_RD4(a, b, c, d) constexpr vec<T, 4> eas_g_##a##b##c##d() const { return {eas_s[EAS_IX_##a], eas_s[EAS_IX_##b], eas_s[EAS_IX_##c], eas_s[EAS_IX_##d]}; }
#define EAS_RO4(a, b, c, d, A, B, C, D) EAS_RD4(a, b, c, d) __declspec(property(get = eas_g_##a##b##c##d)) vec<T, 4> a##b##c##d; __declspec(property(get = eas_g_##a##b##c##d)) vec<T, 4> A##B##C##D;
#define EAS_RW4(a, b, c, d, A, B, C, D) EAS_RD4(a, b, c, d) \
  constexpr void eas_p_##a##b##c##d(vec<T, 4> v) { eas_s[EAS_IX_##a] = v.eas_s[0]; eas_s[EAS_IX_##b] = v.eas_s[1]; eas_s[EAS_IX_##c] = v.eas_s[2]; eas_s[EAS_IX_##d] = v.eas_s[3]; } \
  __declspec(property(get = eas_g_##a##b##c##d, put = eas_p_##a##b##c##d)) vec<T, 4> a##b##c##d; __declspec(property(get = eas_g_##a##b##c##d, put = eas_p_##a##b##c##d)) vec<T, 4> A##B##C##D;

#define EAS_SWIZZLES_2 \
  EAS_RD1(x, r) EAS_RD1(y, g) EAS_RO2(x, x, r, r) EAS_RW2(x, y, r, g) EAS_RW2(y, x, g, r) EAS_RO2(y, y, g, g) \
  EAS_RO3(x, x, x, r, r, r) EAS_RO3(x, x, y, r, r, g) EAS_RO3(x, y, x, r, g, r) EAS_RO3(x, y, y, r, g, g) EAS_RO3(y, x, x, g, r, r) EAS_RO3(y, x, y, g, r, g) \
  EAS_RO3(y, y, x, g, g, r) EAS_RO3(y, y, y, g, g, g) EAS_RO4(x, x, x, x, r, r, r, r) EAS_RO4(x, x, x, y, r, r, r, g) EAS_RO4(x, x, y, x, r, r, g, r) EAS_RO4(x, x, y, y, r, r, g, g) \
  EAS_RO4(x, y, x, x, r, g, r, r) EAS_RO4(x, y, x, y, r, g, r, g) EAS_RO4(x, y, y, x, r, g, g, r) EAS_RO4(x, y, y, y, r, g, g, g) EAS_RO4(y, x, x, x, g, r, r, r) EAS_RO4(y, x, x, y, g, r, r, g) \
  EAS_RO4(y, x, y, x, g, r, g, r) EAS_RO4(y, x, y, y, g, r, g, g) EAS_RO4(y, y, x, x, g, g, r, r) EAS_RO4(y, y, x, y, g, g, r, g) EAS_RO4(y, y, y, x, g, g, g, r) EAS_RO4(y, y, y, y, g, g, g, g)

#define EAS_SWIZZLES_3 \
  EAS_RD1(x, r) EAS_RD1(y, g) EAS_RD1(z, b) EAS_RO2(x, x, r, r) EAS_RW2(x, y, r, g) EAS_RW2(x, z, r, b) \
  EAS_RW2(y, x, g, r) EAS_RO2(y, y, g, g) EAS_RW2(y, z, g, b) EAS_RW2(z, x, b, r) EAS_RW2(z, y, b, g) EAS_RO2(z, z, b, b) \
  EAS_RO3(x, x, x, r, r, r) EAS_RO3(x, x, y, r, r, g) EAS_RO3(x, x, z, r, r, b) EAS_RO3(x, y, x, r, g, r) EAS_RO3(x, y, y, r, g, g) EAS_RW3(x, y, z, r, g, b) \
  EAS_RO3(x, z, x, r, b, r) EAS_RW3(x, z, y, r, b, g) EAS_RO3(x, z, z, r, b, b) EAS_RO3(y, x, x, g, r, r) EAS_RO3(y, x, y, g, r, g) EAS_RW3(y, x, z, g, r, b) \
  EAS_RO3(y, y, x, g, g, r) EAS_RO3(y, y, y, g, g, g) EAS_RO3(y, y, z, g, g, b) EAS_RW3(y, z, x, g, b, r) EAS_RO3(y, z, y, g, b, g) EAS_RO3(y, z, z, g, b, b) \
  EAS_RO3(z, x, x, b, r, r) EAS_RW3(z, x, y, b, r, g) EAS_RO3(z, x, z, b, r, b) EAS_RW3(z, y, x, b, g, r) EAS_RO3(z, y, y, b, g, g) EAS_RO3(z, y, z, b, g, b) \
  EAS_RO3(z, z, x, b, b, r) EAS_RO3(z, z, y, b, b, g) EAS_RO3(z, z, z, b, b, b) EAS_RO4(x, x, x, x, r, r, r, r) EAS_RO4(x, x, x, y, r, r, r, g) EAS_RO4(x, x, x, z, r, r, r, b) \
  EAS_RO4(x, x, y, x, r, r, g, r) EAS_RO4(x, x, y, y, r, r, g, g) EAS_RO4(x, x, y, z, r, r, g, b) EAS_RO4(x, x, z, x, r, r, b, r) EAS_RO4(x, x, z, y, r, r, b, g) EAS_RO4(x, x, z, z, r, r, b, b) \
  EAS_RO4(x, y, x, x, r, g, r, r) EAS_RO4(x, y, x, y, r, g, r, g) EAS_RO4(x, y, x, z, r, g, r, b) EAS_RO4(x, y, y, x, r, g, g, r) EAS_RO4(x, y, y, y, r, g, g, g) EAS_RO4(x, y, y, z, r, g, g, b) \
  EAS_RO4(x, y, z, x, r, g, b, r) EAS_RO4(x, y, z, y, r, g, b, g) EAS_RO4(x, y, z, z, r, g, b, b) EAS_RO4(x, z, x, x, r, b, r, r) EAS_RO4(x, z, x, y, r, b, r, g) EAS_RO4(x, z, x, z, r, b, r, b) \
  EAS_RO4(x, z, y, x, r, b, g, r) EAS_RO4(x, z, y, y, r, b, g, g) EAS_RO4(x, z, y, z, r, b, g, b) EAS_RO4(x, z, z, x, r, b, b, r) EAS_RO4(x, z, z, y, r, b, b, g) EAS_RO4(x, z, z, z, r, b, b, b) \
  EAS_RO4(y, x, x, x, g, r, r, r) EAS_RO4(y, x, x, y, g, r, r, g) EAS_RO4(y, x, x, z, g, r, r, b) EAS_RO4(y, x, y, x, g, r, g, r) EAS_RO4(y, x, y, y, g, r, g, g) EAS_RO4(y, x, y, z, g, r, g, b) \
  EAS_RO4(y, x, z, x, g, r, b, r) EAS_RO4(y, x, z, y, g, r, b, g) EAS_RO4(y, x, z, z, g, r, b, b) EAS_RO4(y, y, x, x, g, g, r, r) EAS_RO4(y, y, x, y, g, g, r, g) EAS_RO4(y, y, x, z, g, g, r, b) \
  EAS_RO4(y, y, y, x, g, g, g, r) EAS_RO4(y, y, y, y, g, g, g, g) EAS_RO4(y, y, y, z, g, g, g, b) EAS_RO4(y, y, z, x, g, g, b, r) EAS_RO4(y, y, z, y, g, g, b, g) EAS_RO4(y, y, z, z, g, g, b, b) \
  EAS_RO4(y, z, x, x, g, b, r, r) EAS_RO4(y, z, x, y, g, b, r, g) EAS_RO4(y, z, x, z, g, b, r, b) EAS_RO4(y, z, y, x, g, b, g, r) EAS_RO4(y, z, y, y, g, b, g, g) EAS_RO4(y, z, y, z, g, b, g, b) \
  EAS_RO4(y, z, z, x, g, b, b, r) EAS_RO4(y, z, z, y, g, b, b, g) EAS_RO4(y, z, z, z, g, b, b, b) EAS_RO4(z, x, x, x, b, r, r, r) EAS_RO4(z, x, x, y, b, r, r, g) EAS_RO4(z, x, x, z, b, r, r, b) \
  EAS_RO4(z, x, y, x, b, r, g, r) EAS_RO4(z, x, y, y, b, r, g, g) EAS_RO4(z, x, y, z, b, r, g, b) EAS_RO4(z, x, z, x, b, r, b, r) EAS_RO4(z, x, z, y, b, r, b, g) EAS_RO4(z, x, z, z, b, r, b, b) \
  EAS_RO4(z, y, x, x, b, g, r, r) EAS_RO4(z, y, x, y, b, g, r, g) EAS_RO4(z, y, x, z, b, g, r, b) EAS_RO4(z, y, y, x, b, g, g, r) EAS_RO4(z, y, y, y, b, g, g, g) EAS_RO4(z, y, y, z, b, g, g, b) \
  EAS_RO4(z, y, z, x, b, g, b, r) EAS_RO4(z, y, z, y, b, g, b, g) EAS_RO4(z, y, z, z, b, g, b, b) EAS_RO4(z, z, x, x, b, b, r, r) EAS_RO4(z, z, x, y, b, b, r, g) EAS_RO4(z, z, x, z, b, b, r, b) \
  EAS_RO4(z, z, y, x, b, b, g, r) EAS_RO4(z, z, y, y, b, b, g, g) EAS_RO4(z, z, y, z, b, b, g, b) EAS_RO4(z, z, z, x, b, b, b, r) EAS_RO4(z, z, z, y, b, b, b, g) EAS_RO4(z, z, z, z, b, b, b, b)

#define EAS_SWIZZLES_4 \
  EAS_RD1(x, r) EAS_RD1(y, g) EAS_RD1(z, b) EAS_RD1(w, a) EAS_RO2(x, x, r, r) EAS_RW2(x, y, r, g) \
  EAS_RW2(x, z, r, b) EAS_RW2(x, w, r, a) EAS_RW2(y, x, g, r) EAS_RO2(y, y, g, g) EAS_RW2(y, z, g, b) EAS_RW2(y, w, g, a) \
  EAS_RW2(z, x, b, r) EAS_RW2(z, y, b, g) EAS_RO2(z, z, b, b) EAS_RW2(z, w, b, a) EAS_RW2(w, x, a, r) EAS_RW2(w, y, a, g) \
  EAS_RW2(w, z, a, b) EAS_RO2(w, w, a, a) EAS_RO3(x, x, x, r, r, r) EAS_RO3(x, x, y, r, r, g) EAS_RO3(x, x, z, r, r, b) EAS_RO3(x, x, w, r, r, a) \
  EAS_RO3(x, y, x, r, g, r) EAS_RO3(x, y, y, r, g, g) EAS_RW3(x, y, z, r, g, b) EAS_RW3(x, y, w, r, g, a) EAS_RO3(x, z, x, r, b, r) EAS_RW3(x, z, y, r, b, g) \
  EAS_RO3(x, z, z, r, b, b) EAS_RW3(x, z, w, r, b, a) EAS_RO3(x, w, x, r, a, r) EAS_RW3(x, w, y, r, a, g) EAS_RW3(x, w, z, r, a, b) EAS_RO3(x, w, w, r, a, a) \
  EAS_RO3(y, x, x, g, r, r) EAS_RO3(y, x, y, g, r, g) EAS_RW3(y, x, z, g, r, b) EAS_RW3(y, x, w, g, r, a) EAS_RO3(y, y, x, g, g, r) EAS_RO3(y, y, y, g, g, g) \
  EAS_RO3(y, y, z, g, g, b) EAS_RO3(y, y, w, g, g, a) EAS_RW3(y, z, x, g, b, r) EAS_RO3(y, z, y, g, b, g) EAS_RO3(y, z, z, g, b, b) EAS_RW3(y, z, w, g, b, a) \
  EAS_RW3(y, w, x, g, a, r) EAS_RO3(y, w, y, g, a, g) EAS_RW3(y, w, z, g, a, b) EAS_RO3(y, w, w, g, a, a) EAS_RO3(z, x, x, b, r, r) EAS_RW3(z, x, y, b, r, g) \
  EAS_RO3(z, x, z, b, r, b) EAS_RW3(z, x, w, b, r, a) EAS_RW3(z, y, x, b, g, r) EAS_RO3(z, y, y, b, g, g) EAS_RO3(z, y, z, b, g, b) EAS_RW3(z, y, w, b, g, a) \
  EAS_RO3(z, z, x, b, b, r) EAS_RO3(z, z, y, b, b, g) EAS_RO3(z, z, z, b, b, b) EAS_RO3(z, z, w, b, b, a) EAS_RW3(z, w, x, b, a, r) EAS_RW3(z, w, y, b, a, g) \
  EAS_RO3(z, w, z, b, a, b) EAS_RO3(z, w, w, b, a, a) EAS_RO3(w, x, x, a, r, r) EAS_RW3(w, x, y, a, r, g) EAS_RW3(w, x, z, a, r, b) EAS_RO3(w, x, w, a, r, a) \
  EAS_RW3(w, y, x, a, g, r) EAS_RO3(w, y, y, a, g, g) EAS_RW3(w, y, z, a, g, b) EAS_RO3(w, y, w, a, g, a) EAS_RW3(w, z, x, a, b, r) EAS_RW3(w, z, y, a, b, g) \
  EAS_RO3(w, z, z, a, b, b) EAS_RO3(w, z, w, a, b, a) EAS_RO3(w, w, x, a, a, r) EAS_RO3(w, w, y, a, a, g) EAS_RO3(w, w, z, a, a, b) EAS_RO3(w, w, w, a, a, a) \
  EAS_RO4(x, x, x, x, r, r, r, r) EAS_RO4(x, x, x, y, r, r, r, g) EAS_RO4(x, x, x, z, r, r, r, b) EAS_RO4(x, x, x, w, r, r, r, a) EAS_RO4(x, x, y, x, r, r, g, r) EAS_RO4(x, x, y, y, r, r, g, g) \
  EAS_RO4(x, x, y, z, r, r, g, b) EAS_RO4(x, x, y, w, r, r, g, a) EAS_RO4(x, x, z, x, r, r, b, r) EAS_RO4(x, x, z, y, r, r, b, g) EAS_RO4(x, x, z, z, r, r, b, b) EAS_RO4(x, x, z, w, r, r, b, a) \
  EAS_RO4(x, x, w, x, r, r, a, r) EAS_RO4(x, x, w, y, r, r, a, g) EAS_RO4(x, x, w, z, r, r, a, b) EAS_RO4(x, x, w, w, r, r, a, a) EAS_RO4(x, y, x, x, r, g, r, r) EAS_RO4(x, y, x, y, r, g, r, g) \
  EAS_RO4(x, y, x, z, r, g, r, b) EAS_RO4(x, y, x, w, r, g, r, a) EAS_RO4(x, y, y, x, r, g, g, r) EAS_RO4(x, y, y, y, r, g, g, g) EAS_RO4(x, y, y, z, r, g, g, b) EAS_RO4(x, y, y, w, r, g, g, a) \
  EAS_RO4(x, y, z, x, r, g, b, r) EAS_RO4(x, y, z, y, r, g, b, g) EAS_RO4(x, y, z, z, r, g, b, b) EAS_RW4(x, y, z, w, r, g, b, a) EAS_RO4(x, y, w, x, r, g, a, r) EAS_RO4(x, y, w, y, r, g, a, g) \
  EAS_RW4(x, y, w, z, r, g, a, b) EAS_RO4(x, y, w, w, r, g, a, a) EAS_RO4(x, z, x, x, r, b, r, r) EAS_RO4(x, z, x, y, r, b, r, g) EAS_RO4(x, z, x, z, r, b, r, b) EAS_RO4(x, z, x, w, r, b, r, a) \
  EAS_RO4(x, z, y, x, r, b, g, r) EAS_RO4(x, z, y, y, r, b, g, g) EAS_RO4(x, z, y, z, r, b, g, b) EAS_RW4(x, z, y, w, r, b, g, a) EAS_RO4(x, z, z, x, r, b, b, r) EAS_RO4(x, z, z, y, r, b, b, g) \
  EAS_RO4(x, z, z, z, r, b, b, b) EAS_RO4(x, z, z, w, r, b, b, a) EAS_RO4(x, z, w, x, r, b, a, r) EAS_RW4(x, z, w, y, r, b, a, g) EAS_RO4(x, z, w, z, r, b, a, b) EAS_RO4(x, z, w, w, r, b, a, a) \
  EAS_RO4(x, w, x, x, r, a, r, r) EAS_RO4(x, w, x, y, r, a, r, g) EAS_RO4(x, w, x, z, r, a, r, b) EAS_RO4(x, w, x, w, r, a, r, a) EAS_RO4(x, w, y, x, r, a, g, r) EAS_RO4(x, w, y, y, r, a, g, g) \
  EAS_RW4(x, w, y, z, r, a, g, b) EAS_RO4(x, w, y, w, r, a, g, a) EAS_RO4(x, w, z, x, r, a, b, r) EAS_RW4(x, w, z, y, r, a, b, g) EAS_RO4(x, w, z, z, r, a, b, b) EAS_RO4(x, w, z, w, r, a, b, a) \
  EAS_RO4(x, w, w, x, r, a, a, r) EAS_RO4(x, w, w, y, r, a, a, g) EAS_RO4(x, w, w, z, r, a, a, b) EAS_RO4(x, w, w, w, r, a, a, a) EAS_RO4(y, x, x, x, g, r, r, r) EAS_RO4(y, x, x, y, g, r, r, g) \
  EAS_RO4(y, x, x, z, g, r, r, b) EAS_RO4(y, x, x, w, g, r, r, a) EAS_RO4(y, x, y, x, g, r, g, r) EAS_RO4(y, x, y, y, g, r, g, g) EAS_RO4(y, x, y, z, g, r, g, b) EAS_RO4(y, x, y, w, g, r, g, a) \
  EAS_RO4(y, x, z, x, g, r, b, r) EAS_RO4(y, x, z, y, g, r, b, g) EAS_RO4(y, x, z, z, g, r, b, b) EAS_RW4(y, x, z, w, g, r, b, a) EAS_RO4(y, x, w, x, g, r, a, r) EAS_RO4(y, x, w, y, g, r, a, g) \
  EAS_RW4(y, x, w, z, g, r, a, b) EAS_RO4(y, x, w, w, g, r, a, a) EAS_RO4(y, y, x, x, g, g, r, r) EAS_RO4(y, y, x, y, g, g, r, g) EAS_RO4(y, y, x, z, g, g, r, b) EAS_RO4(y, y, x, w, g, g, r, a) \
  EAS_RO4(y, y, y, x, g, g, g, r) EAS_RO4(y, y, y, y, g, g, g, g) EAS_RO4(y, y, y, z, g, g, g, b) EAS_RO4(y, y, y, w, g, g, g, a) EAS_RO4(y, y, z, x, g, g, b, r) EAS_RO4(y, y, z, y, g, g, b, g) \
  EAS_RO4(y, y, z, z, g, g, b, b) EAS_RO4(y, y, z, w, g, g, b, a) EAS_RO4(y, y, w, x, g, g, a, r) EAS_RO4(y, y, w, y, g, g, a, g) EAS_RO4(y, y, w, z, g, g, a, b) EAS_RO4(y, y, w, w, g, g, a, a) \
  EAS_RO4(y, z, x, x, g, b, r, r) EAS_RO4(y, z, x, y, g, b, r, g) EAS_RO4(y, z, x, z, g, b, r, b) EAS_RW4(y, z, x, w, g, b, r, a) EAS_RO4(y, z, y, x, g, b, g, r) EAS_RO4(y, z, y, y, g, b, g, g) \
  EAS_RO4(y, z, y, z, g, b, g, b) EAS_RO4(y, z, y, w, g, b, g, a) EAS_RO4(y, z, z, x, g, b, b, r) EAS_RO4(y, z, z, y, g, b, b, g) EAS_RO4(y, z, z, z, g, b, b, b) EAS_RO4(y, z, z, w, g, b, b, a) \
  EAS_RW4(y, z, w, x, g, b, a, r) EAS_RO4(y, z, w, y, g, b, a, g) EAS_RO4(y, z, w, z, g, b, a, b) EAS_RO4(y, z, w, w, g, b, a, a) EAS_RO4(y, w, x, x, g, a, r, r) EAS_RO4(y, w, x, y, g, a, r, g) \
  EAS_RW4(y, w, x, z, g, a, r, b) EAS_RO4(y, w, x, w, g, a, r, a) EAS_RO4(y, w, y, x, g, a, g, r) EAS_RO4(y, w, y, y, g, a, g, g) EAS_RO4(y, w, y, z, g, a, g, b) EAS_RO4(y, w, y, w, g, a, g, a) \
  EAS_RW4(y, w, z, x, g, a, b, r) EAS_RO4(y, w, z, y, g, a, b, g) EAS_RO4(y, w, z, z, g, a, b, b) EAS_RO4(y, w, z, w, g, a, b, a) EAS_RO4(y, w, w, x, g, a, a, r) EAS_RO4(y, w, w, y, g, a, a, g) \
  EAS_RO4(y, w, w, z, g, a, a, b) EAS_RO4(y, w, w, w, g, a, a, a) EAS_RO4(z, x, x, x, b, r, r, r) EAS_RO4(z, x, x, y, b, r, r, g) EAS_RO4(z, x, x, z, b, r, r, b) EAS_RO4(z, x, x, w, b, r, r, a) \
  EAS_RO4(z, x, y, x, b, r, g, r) EAS_RO4(z, x, y, y, b, r, g, g) EAS_RO4(z, x, y, z, b, r, g, b) EAS_RW4(z, x, y, w, b, r, g, a) EAS_RO4(z, x, z, x, b, r, b, r) EAS_RO4(z, x, z, y, b, r, b, g) \
  EAS_RO4(z, x, z, z, b, r, b, b) EAS_RO4(z, x, z, w, b, r, b, a) EAS_RO4(z, x, w, x, b, r, a, r) EAS_RW4(z, x, w, y, b, r, a, g) EAS_RO4(z, x, w, z, b, r, a, b) EAS_RO4(z, x, w, w, b, r, a, a) \
  EAS_RO4(z, y, x, x, b, g, r, r) EAS_RO4(z, y, x, y, b, g, r, g) EAS_RO4(z, y, x, z, b, g, r, b) EAS_RW4(z, y, x, w, b, g, r, a) EAS_RO4(z, y, y, x, b, g, g, r) EAS_RO4(z, y, y, y, b, g, g, g) \
  EAS_RO4(z, y, y, z, b, g, g, b) EAS_RO4(z, y, y, w, b, g, g, a) EAS_RO4(z, y, z, x, b, g, b, r) EAS_RO4(z, y, z, y, b, g, b, g) EAS_RO4(z, y, z, z, b, g, b, b) EAS_RO4(z, y, z, w, b, g, b, a) \
  EAS_RW4(z, y, w, x, b, g, a, r) EAS_RO4(z, y, w, y, b, g, a, g) EAS_RO4(z, y, w, z, b, g, a, b) EAS_RO4(z, y, w, w, b, g, a, a) EAS_RO4(z, z, x, x, b, b, r, r) EAS_RO4(z, z, x, y, b, b, r, g) \
  EAS_RO4(z, z, x, z, b, b, r, b) EAS_RO4(z, z, x, w, b, b, r, a) EAS_RO4(z, z, y, x, b, b, g, r) EAS_RO4(z, z, y, y, b, b, g, g) EAS_RO4(z, z, y, z, b, b, g, b) EAS_RO4(z, z, y, w, b, b, g, a) \
  EAS_RO4(z, z, z, x, b, b, b, r) EAS_RO4(z, z, z, y, b, b, b, g) EAS_RO4(z, z, z, z, b, b, b, b) EAS_RO4(z, z, z, w, b, b, b, a) EAS_RO4(z, z, w, x, b, b, a, r) EAS_RO4(z, z, w, y, b, b, a, g) \
  EAS_RO4(z, z, w, z, b, b, a, b) EAS_RO4(z, z, w, w, b, b, a, a) EAS_RO4(z, w, x, x, b, a, r, r) EAS_RW4(z, w, x, y, b, a, r, g) EAS_RO4(z, w, x, z, b, a, r, b) EAS_RO4(z, w, x, w, b, a, r, a) \
  EAS_RW4(z, w, y, x, b, a, g, r) EAS_RO4(z, w, y, y, b, a, g, g) EAS_RO4(z, w, y, z, b, a, g, b) EAS_RO4(z, w, y, w, b, a, g, a) EAS_RO4(z, w, z, x, b, a, b, r) EAS_RO4(z, w, z, y, b, a, b, g) \
  EAS_RO4(z, w, z, z, b, a, b, b) EAS_RO4(z, w, z, w, b, a, b, a) EAS_RO4(z, w, w, x, b, a, a, r) EAS_RO4(z, w, w, y, b, a, a, g) EAS_RO4(z, w, w, z, b, a, a, b) EAS_RO4(z, w, w, w, b, a, a, a) \
  EAS_RO4(w, x, x, x, a, r, r, r) EAS_RO4(w, x, x, y, a, r, r, g) EAS_RO4(w, x, x, z, a, r, r, b) EAS_RO4(w, x, x, w, a, r, r, a) EAS_RO4(w, x, y, x, a, r, g, r) EAS_RO4(w, x, y, y, a, r, g, g) \
  EAS_RW4(w, x, y, z, a, r, g, b) EAS_RO4(w, x, y, w, a, r, g, a) EAS_RO4(w, x, z, x, a, r, b, r) EAS_RW4(w, x, z, y, a, r, b, g) EAS_RO4(w, x, z, z, a, r, b, b) EAS_RO4(w, x, z, w, a, r, b, a) \
  EAS_RO4(w, x, w, x, a, r, a, r) EAS_RO4(w, x, w, y, a, r, a, g) EAS_RO4(w, x, w, z, a, r, a, b) EAS_RO4(w, x, w, w, a, r, a, a) EAS_RO4(w, y, x, x, a, g, r, r) EAS_RO4(w, y, x, y, a, g, r, g) \
  EAS_RW4(w, y, x, z, a, g, r, b) EAS_RO4(w, y, x, w, a, g, r, a) EAS_RO4(w, y, y, x, a, g, g, r) EAS_RO4(w, y, y, y, a, g, g, g) EAS_RO4(w, y, y, z, a, g, g, b) EAS_RO4(w, y, y, w, a, g, g, a) \
  EAS_RW4(w, y, z, x, a, g, b, r) EAS_RO4(w, y, z, y, a, g, b, g) EAS_RO4(w, y, z, z, a, g, b, b) EAS_RO4(w, y, z, w, a, g, b, a) EAS_RO4(w, y, w, x, a, g, a, r) EAS_RO4(w, y, w, y, a, g, a, g) \
  EAS_RO4(w, y, w, z, a, g, a, b) EAS_RO4(w, y, w, w, a, g, a, a) EAS_RO4(w, z, x, x, a, b, r, r) EAS_RW4(w, z, x, y, a, b, r, g) EAS_RO4(w, z, x, z, a, b, r, b) EAS_RO4(w, z, x, w, a, b, r, a) \
  EAS_RW4(w, z, y, x, a, b, g, r) EAS_RO4(w, z, y, y, a, b, g, g) EAS_RO4(w, z, y, z, a, b, g, b) EAS_RO4(w, z, y, w, a, b, g, a) EAS_RO4(w, z, z, x, a, b, b, r) EAS_RO4(w, z, z, y, a, b, b, g) \
  EAS_RO4(w, z, z, z, a, b, b, b) EAS_RO4(w, z, z, w, a, b, b, a) EAS_RO4(w, z, w, x, a, b, a, r) EAS_RO4(w, z, w, y, a, b, a, g) EAS_RO4(w, z, w, z, a, b, a, b) EAS_RO4(w, z, w, w, a, b, a, a) \
  EAS_RO4(w, w, x, x, a, a, r, r) EAS_RO4(w, w, x, y, a, a, r, g) EAS_RO4(w, w, x, z, a, a, r, b) EAS_RO4(w, w, x, w, a, a, r, a) EAS_RO4(w, w, y, x, a, a, g, r) EAS_RO4(w, w, y, y, a, a, g, g) \
  EAS_RO4(w, w, y, z, a, a, g, b) EAS_RO4(w, w, y, w, a, a, g, a) EAS_RO4(w, w, z, x, a, a, b, r) EAS_RO4(w, w, z, y, a, a, b, g) EAS_RO4(w, w, z, z, a, a, b, b) EAS_RO4(w, w, z, w, a, a, b, a) \
  EAS_RO4(w, w, w, x, a, a, a, r) EAS_RO4(w, w, w, y, a, a, a, g) EAS_RO4(w, w, w, z, a, a, a, b) EAS_RO4(w, w, w, w, a, a, a, a)

