// metal_matrix: matrix<T, Columns, Rows>, column by column, and its products.
#pragma once
#pragma clang system_header
#include "common.h"

namespace metal {

template <int N> struct eas_no_column { eas_no_column() = delete; };

template <typename T, int Cols, int Rows = Cols> struct matrix {
  static_assert(is_same_v<T, float> || is_same_v<T, half> || eas_is_bfloat<T>::value, "Metal has matrices of float, half and bfloat");
  static_assert(Cols >= 2 && Cols <= 4 && Rows >= 2 && Rows <= 4, "Metal has matrices of 2, 3 and 4 columns and rows");
  typedef vec<T, Rows> column;
  column columns[Cols];

  matrix() = default;
  // Columns that may be braced lists.
  constexpr matrix(conditional_t<Cols == 2, column, eas_no_column<2>> a, column b) : columns{a, b} {}
  constexpr matrix(conditional_t<Cols == 3, column, eas_no_column<3>> a, column b, column c) : columns{a, b, c} {}
  constexpr matrix(conditional_t<Cols == 4, column, eas_no_column<4>> a, column b, column c, column d) : columns{a, b, c, d} {}
  // One scalar fills the diagonal.
  explicit constexpr matrix(T x) : columns{} { for (int c = 0; c < Cols && c < Rows; c++) columns[c].eas_s[c] = x; }
  template <typename A, typename... R, typename = enable_if_t<sizeof...(R) + 1 == Cols * Rows && (Cols * Rows > 1) && eas_count<A>::value == 1>, typename = void>
  constexpr matrix(A first, R... rest) : columns{} {
    T all[] = {eas_to<T>(first), eas_to<T>(rest)...};
    for (int i = 0; i < Cols * Rows; i++) columns[i / Rows].eas_s[i % Rows] = all[i];
  }
  template <typename U, typename = enable_if_t<!is_same_v<U, T>>> explicit constexpr matrix(const matrix<U, Cols, Rows>& m) : columns{} { for (int c = 0; c < Cols; c++) columns[c] = column(m.columns[c]); }

  EAS_FN constexpr column& operator[](int c) { EAS_CHECK_INDEX(c, Cols, "a matrix's columns") return columns[c]; }
  EAS_FN constexpr const column& operator[](int c) const { EAS_CHECK_INDEX(c, Cols, "a matrix's columns") return columns[c]; }

  friend constexpr matrix operator+(matrix a, matrix b) { for (int c = 0; c < Cols; c++) a.columns[c] += b.columns[c]; return a; }
  friend constexpr matrix operator-(matrix a, matrix b) { for (int c = 0; c < Cols; c++) a.columns[c] -= b.columns[c]; return a; }
  friend constexpr matrix operator-(matrix a) { for (int c = 0; c < Cols; c++) a.columns[c] = -a.columns[c]; return a; }
  friend constexpr matrix operator*(matrix a, T s) { for (int c = 0; c < Cols; c++) a.columns[c] *= s; return a; }
  friend constexpr matrix operator*(T s, matrix a) { return a * s; }
  friend constexpr matrix operator/(matrix a, T s) { for (int c = 0; c < Cols; c++) a.columns[c] /= s; return a; }
  friend constexpr vec<T, Rows> operator*(const matrix& m, vec<T, Cols> v) {
    vec<T, Rows> r = m.columns[0] * v.eas_s[0];
    for (int c = 1; c < Cols; c++) r += m.columns[c] * v.eas_s[c];
    return r;
  }
  friend constexpr vec<T, Cols> operator*(vec<T, Rows> v, const matrix& m) {
    vec<T, Cols> r{};
    for (int c = 0; c < Cols; c++) {
      T sum = v.eas_s[0] * m.columns[c].eas_s[0];
      for (int i = 1; i < Rows; i++) sum += v.eas_s[i] * m.columns[c].eas_s[i];
      r.eas_s[c] = sum;
    }
    return r;
  }
  friend constexpr bool operator==(const matrix& a, const matrix& b) { for (int c = 0; c < Cols; c++) if (!metal::all(a.columns[c] == b.columns[c])) return false; return true; }
  friend constexpr bool operator!=(const matrix& a, const matrix& b) { return !(a == b); }
  constexpr matrix& operator+=(matrix b) { return *this = *this + b; }
  constexpr matrix& operator-=(matrix b) { return *this = *this - b; }
  constexpr matrix& operator*=(T s) { return *this = *this * s; }
  constexpr matrix& operator*=(const matrix<T, Cols, Cols>& b) { return *this = *this * b; }
  constexpr matrix& operator/=(T s) { return *this = *this / s; }
};

template <typename T, int K, int R, int C> constexpr matrix<T, C, R> operator*(const matrix<T, K, R>& a, const matrix<T, C, K>& b) {
  matrix<T, C, R> r{};
  for (int c = 0; c < C; c++) r.columns[c] = a * b.columns[c];
  return r;
}
template <typename T, int C, int R> constexpr matrix<T, R, C> transpose(const matrix<T, C, R>& m) {
  matrix<T, R, C> r{};
  for (int c = 0; c < C; c++) for (int i = 0; i < R; i++) r.columns[i].eas_s[c] = m.columns[c].eas_s[i];
  return r;
}
template <typename T> constexpr T determinant(const matrix<T, 2, 2>& m) { return m[0][0] * m[1][1] - m[1][0] * m[0][1]; }
template <typename T> constexpr T determinant(const matrix<T, 3, 3>& m) { return dot(m[0], cross(m[1], m[2])); }
template <typename T> constexpr T determinant(const matrix<T, 4, 4>& m) {
  T sum = 0;
  for (int skip = 0; skip < 4; skip++) {
    matrix<T, 3, 3> minor{};
    for (int c = 1; c < 4; c++) for (int i = 0, to = 0; i < 4; i++) if (i != skip) minor[c - 1][to++] = m[c][i];
    T term = m[0][skip] * determinant(minor);
    sum += skip % 2 ? -term : term;
  }
  return sum;
}

}  // namespace metal

#define EAS_NAME_MATRIX(name, T, C, R) typedef metal::matrix<T, C, R> name##C##x##R; namespace metal { using ::name##C##x##R; }
#define EAS_NAME_MATRICES(name, T)                                                                                 \
  EAS_NAME_MATRIX(name, T, 2, 2) EAS_NAME_MATRIX(name, T, 2, 3) EAS_NAME_MATRIX(name, T, 2, 4)                     \
  EAS_NAME_MATRIX(name, T, 3, 2) EAS_NAME_MATRIX(name, T, 3, 3) EAS_NAME_MATRIX(name, T, 3, 4)                     \
  EAS_NAME_MATRIX(name, T, 4, 2) EAS_NAME_MATRIX(name, T, 4, 3) EAS_NAME_MATRIX(name, T, 4, 4)
EAS_NAME_MATRICES(float, float)
EAS_NAME_MATRICES(half, half)
