// metal_simdgroup_matrix: 8x8 matrices spread over the 32 lanes, two elements each.
#pragma once
#pragma clang system_header
#include "simd.h"

#if __METAL_VERSION__ >= 230
namespace metal {
namespace eas {

struct Place { unsigned row, column; };   // of element 0; element 1 stands in the next column

// Map 0 is the one that public MSL relies on (lane/4 picks the 4x4 quarter, lane%2 the column pair).
// Map 1 is a permutation of it that keeps the pairs: a kernel that assumes map 0 gives wrong results under it.
EAS_FN Place fragment_place(unsigned lane) {
  if (eas_sim::eas_sim_config()->fragment_map) lane = (lane * 11 + 5) & 31;
  unsigned quad = lane / 4;
  return {(quad & 4) + (lane / 2) % 4, (quad & 2) * 2 + (lane % 2) * 2};
}
// The inverse: which lane holds (row, column).
EAS_FN unsigned fragment_lane(unsigned row, unsigned column) {
  unsigned lane = (row & 4) * 4 + (column & 4) * 2 + (row & 3) * 2 + (column & 3) / 2;
  // 11 * 3 == 33 == 1 (mod 32)
  return eas_sim::eas_sim_config()->fragment_map ? ((lane - 5) * 3) & 31 : lane;
}
template <typename T> constexpr bool fragment_type = is_same_v<T, float> || is_same_v<T, half> || eas_is_bfloat<T>::value;

}  // namespace eas

template <typename T, int Cols, int Rows = Cols> struct simdgroup_matrix {
  static_assert(Cols == 8 && Rows == 8, "Metal has simdgroup_matrix only with 8 columns and 8 rows");
  static_assert(eas::fragment_type<T>, "Metal has simdgroup_matrix for float, half and bfloat (from 3.1)");
  typedef vec<T, 2> storage_type;
  storage_type eas_elements;

  simdgroup_matrix() = default;
  // One scalar fills the diagonal.
  explicit EAS_FN simdgroup_matrix(T diagonal) {
    eas::Place at = eas::fragment_place(eas::lane());
    for (unsigned i = 0; i < 2; i++) eas_elements.eas_s[i] = at.row == at.column + i ? diagonal : T(0);
  }
  template <typename U, typename = enable_if_t<!is_same_v<U, T> && __is_convertible(U, T)>> explicit EAS_FN simdgroup_matrix(U diagonal) : simdgroup_matrix(T(diagonal)) {}
  EAS_FN storage_type& thread_elements() { return eas_elements; }
  EAS_FN const storage_type& thread_elements() const { return eas_elements; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
#if __METAL_VERSION__ >= 310
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
#endif

template <typename T, int Cols, int Rows = Cols> EAS_FN simdgroup_matrix<T, Cols, Rows> make_filled_simdgroup_matrix(eas_identity_t<T> value) {
  simdgroup_matrix<T, Cols, Rows> r;
  r.eas_elements = vec<T, 2>(value);
  return r;
}
template <typename T, int Cols, int Rows = Cols> EAS_FN simdgroup_matrix<T, Cols, Rows> make_diagonal_simdgroup_matrix(eas_identity_t<T> value) { return simdgroup_matrix<T, Cols, Rows>(value); }

namespace eas {
// Where element i of this lane stands in memory.
template <typename Origin> EAS_FN ulong element_offset(unsigned i, ulong per_row, Origin origin, bool transposed) {
  Place at = fragment_place(lane());
  ulong row = at.row, column = at.column + i;
  if (transposed) { ulong t = row; row = column; column = t; }
  return (row + (ulong)origin.eas_s[1]) * per_row + column + (ulong)origin.eas_s[0];
}
}  // namespace eas

namespace eas {
// The sanitizer wants all lanes at a matrix function.
EAS_FN void with_all_lanes(const char* function) {
#ifdef EAS_SANITIZE
  if (exchange(true).mask != 0xffffffffu) eas_sim::eas_sim_divergent_matrix(function);
#endif
}
}  // namespace eas

template <typename T, typename U, int C, int R> EAS_FN void simdgroup_load(simdgroup_matrix<T, C, R>& d, const volatile U* src, ulong elements_per_row = C, ulong2 matrix_origin = ulong2(0), bool transpose_matrix = false) {
  static_assert(is_same_v<remove_cv_t<U>, T>, "simdgroup_load needs memory of the matrix's element type");
  eas::with_all_lanes("simdgroup_load");
  for (unsigned i = 0; i < 2; i++) d.eas_elements.eas_s[i] = const_cast<const remove_cv_t<U>*>(src)[eas::element_offset(i, elements_per_row, matrix_origin, transpose_matrix)];
}
template <typename T, typename U, int C, int R> EAS_FN void simdgroup_store(simdgroup_matrix<T, C, R> a, volatile U* dst, ulong elements_per_row = C, ulong2 matrix_origin = ulong2(0), bool transpose_matrix = false) {
  static_assert(is_same_v<remove_cv_t<U>, T>, "simdgroup_store needs memory of the matrix's element type");
  eas::with_all_lanes("simdgroup_store");
  for (unsigned i = 0; i < 2; i++) const_cast<U*>(dst)[eas::element_offset(i, elements_per_row, matrix_origin, transpose_matrix)] = a.eas_elements.eas_s[i];
}

namespace eas {
template <typename A, typename B> struct Operands { vec<A, 2> a; vec<B, 2> b; };
// Element (row, column) of a*b + c, summed in float in the order of k.
template <typename A, typename B> __attribute__((noinline)) float2 product(const unsigned char* slots, float2 sum) {
  Place at = fragment_place(lane());
  for (unsigned k = 0; k < 8; k++) {
    Operands<A, B> left, right;
    __builtin_memcpy(&left, slots + fragment_lane(at.row, k) * eas_sim::exchange_stride, sizeof left);
    __builtin_memcpy(&right, slots + fragment_lane(k, at.column) * eas_sim::exchange_stride, sizeof right);
    float x = (float)left.a.eas_s[k & 1];
    for (unsigned i = 0; i < 2; i++) sum.eas_s[i] = __builtin_fmaf(x, (float)right.b.eas_s[i], sum.eas_s[i]);
  }
  return sum;
}
template <typename A, typename B> EAS_FN float2 multiply(vec<A, 2> a, vec<B, 2> b, float2 sum) {
  Lanes<Operands<A, B>> all = exchange(Operands<A, B>{a, b});
  if (all.mask != 0xffffffffu) eas_sim::eas_sim_divergent_matrix("simdgroup_multiply");
  if (all.mask != 0xffffffffu) eas_sim::eas_sim_fail("simdgroup_multiply needs all 32 lanes of the simdgroup");
  return product<A, B>(all.slots, sum);
}
}  // namespace eas

template <typename D, typename A, typename B, typename C> EAS_FN void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c) {
  d.eas_elements = vec<D, 2>(eas::multiply<A, B>(a.eas_elements, b.eas_elements, float2(c.eas_elements)));
}
template <typename D, typename A, typename B> EAS_FN void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b) {
  d.eas_elements = vec<D, 2>(eas::multiply<A, B>(a.eas_elements, b.eas_elements, float2(0.0f)));
}
template <typename T> EAS_FN simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a, simdgroup_matrix<T, 8, 8> b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}

}  // namespace metal
#endif
