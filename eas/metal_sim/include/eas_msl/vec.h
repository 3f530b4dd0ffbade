// Vectors: vec<T, N> (aligned) and packed_vec<T, N>, their operators, and the names float4, packed_uchar2, ...
#pragma once
#pragma clang system_header
#include "../eas_sim.h"
#include "swizzle.h"
#include "types.h"

namespace metal {

// A statement for i = 0 ... N - 1, without a loop: a compiler takes long over thousands of loops in one function.
#define EAS_LANE(I, ...) { constexpr int i = I; __VA_ARGS__; }
#define EAS_EACH_LANE_2(...) EAS_LANE(0, __VA_ARGS__) EAS_LANE(1, __VA_ARGS__)
#define EAS_EACH_LANE_3(...) EAS_EACH_LANE_2(__VA_ARGS__) EAS_LANE(2, __VA_ARGS__)
#define EAS_EACH_LANE_4(...) EAS_EACH_LANE_3(__VA_ARGS__) EAS_LANE(3, __VA_ARGS__)
#define EAS_EACH_LANE(N, ...) EAS_EACH_LANE_##N(__VA_ARGS__)

// The sanitizer looks at every index.
#ifdef EAS_SANITIZE
#define EAS_CHECK_INDEX(i, N, what) if (!__builtin_is_constant_evaluated() && (size_t)(i) >= (size_t)(N)) eas_sim::eas_sim_wrong_index((size_t)(i), what);
#else
#define EAS_CHECK_INDEX(i, N, what)
#endif

// How many components a constructor argument brings.
template <typename A> struct eas_count { static constexpr int value = __is_arithmetic(A) || __is_enum(A) || eas_is_bfloat<A>::value ? 1 : -100; };
template <typename T, int N> struct eas_count<vec<T, N>> { static constexpr int value = N; };
template <typename T, int N> struct eas_count<packed_vec<T, N>> { static constexpr int value = N; };
template <typename T> struct eas_count<uniform<T>> : eas_count<T> {};

// clang has no direct cast between half and float8-like classes; all conversions of components pass here.
template <typename To, typename From> constexpr To eas_to(From x) {
  if constexpr (eas_is_bfloat<To>::value && __is_floating_point(From)) return To((float)x);
  else if constexpr (eas_is_bfloat<From>::value && !eas_is_bfloat<To>::value) return static_cast<To>((float)x);
  else return static_cast<To>(x);
}

template <typename T, typename A> constexpr int eas_fill(T* s, int at, A a) { s[at] = eas_to<T>(a); return at + 1; }
template <typename T, typename U, int M> constexpr int eas_fill(T* s, int at, vec<U, M> a) { for (int i = 0; i < M; i++) s[at + i] = eas_to<T>(a.eas_s[i]); return at + M; }
template <typename T, typename U, int M> constexpr int eas_fill(T* s, int at, packed_vec<U, M> a) { for (int i = 0; i < M; i++) s[at + i] = eas_to<T>(a.eas_s[i]); return at + M; }

// A scalar that MSL converts implicitly to the component type.
template <typename S, typename T> constexpr bool eas_broadcasts = eas_count<S>::value == 1 && __is_convertible(S, T);

#define EAS_VEC_CONSTRUCTORS(CLASS, N)                                                                             \
  CLASS() = default;                                                                                               \
  template <typename S, typename = enable_if_t<eas_broadcasts<S, T>>> constexpr CLASS(S x) : eas_s{} { EAS_EACH_LANE(N, eas_s[i] = eas_to<T>(x)) } \
  template <typename S, typename = enable_if_t<eas_count<S>::value == 1 && !eas_broadcasts<S, T>>, typename = void> explicit constexpr CLASS(S x) : eas_s{} { EAS_EACH_LANE(N, eas_s[i] = eas_to<T>(x)) } \
  template <typename U, typename = enable_if_t<eas_count<U>::value == 1>> constexpr CLASS(std::initializer_list<U> list) : eas_s{} { /* missing ones are zero */ \
    for (int i = 0; i < N && i < (int)list.size(); i++) eas_s[i] = eas_to<T>(list.begin()[i]);                     \
  }                                                                                                                \
  template <typename U, typename = enable_if_t<!is_same_v<U, T>>> explicit constexpr CLASS(vec<U, N> v) : eas_s{} { EAS_EACH_LANE(N, eas_s[i] = eas_to<T>(v.eas_s[i])) } \
  template <typename A, typename B, typename... R, typename = enable_if_t<((eas_count<A>::value + eas_count<B>::value) + ... + eas_count<R>::value) == N>> \
  constexpr CLASS(A a, B b, R... r) : eas_s{} { int at = eas_fill(eas_s, 0, a); at = eas_fill(eas_s, at, b); ((at = eas_fill(eas_s, at, r)), ...); }

// clang checks the alignment of what a reference is bound to, not of what a trivial copy reads: under the
// sanitizer vectors have copies of their own, so that a misaligned float4 is seen.
#ifdef EAS_SANITIZE
#define EAS_VEC_COPIES(N)                                                                                          \
  EAS_FN constexpr vec(const vec& o) : eas_s{} { for (int i = 0; i < N; i++) eas_s[i] = o.eas_s[i]; }              \
  EAS_FN constexpr vec& operator=(const vec& o) { for (int i = 0; i < N; i++) eas_s[i] = o.eas_s[i]; return *this; }
#else
#define EAS_VEC_COPIES(N)
#endif

// A scalar is not made a vector first: the optimizer takes long over thousands of such temporary objects.
#define EAS_VEC_SCALAR(op, R, N) \
  template <typename S, typename = enable_if_t<eas_broadcasts<S, T>>> friend EAS_FN constexpr vec<R, N> operator op(vec a, S b) { vec<R, N> r{}; T x = eas_to<T>(b); EAS_EACH_LANE(N, r.eas_s[i] = static_cast<R>(a.eas_s[i] op x)) return r; } \
  template <typename S, typename = enable_if_t<eas_broadcasts<S, T>>> friend EAS_FN constexpr vec<R, N> operator op(S a, vec b) { vec<R, N> r{}; T x = eas_to<T>(a); EAS_EACH_LANE(N, r.eas_s[i] = static_cast<R>(x op b.eas_s[i])) return r; }
#define EAS_VEC_BINARY(op, N)                                                                                      \
  friend EAS_FN constexpr vec operator op(vec a, vec b) { vec r{}; EAS_EACH_LANE(N, r.eas_s[i] = static_cast<T>(a.eas_s[i] op b.eas_s[i])) return r; } \
  friend EAS_FN constexpr vec& operator op##=(vec& a, vec b) { EAS_EACH_LANE(N, a.eas_s[i] = static_cast<T>(a.eas_s[i] op b.eas_s[i])) return a; } \
  EAS_VEC_SCALAR(op, T, N)
// A shift takes its type from the left: int4 << uint4.
#define EAS_VEC_SHIFT(op, N)                                                                                       \
  template <typename U, typename = enable_if_t<!is_same_v<U, T> && __is_integral(U) && __is_integral(T)>> friend EAS_FN constexpr vec operator op(vec a, vec<U, N> b) { vec r{}; EAS_EACH_LANE(N, r.eas_s[i] = static_cast<T>(a.eas_s[i] op b.eas_s[i])) return r; } \
  template <typename U, typename = enable_if_t<!is_same_v<U, T> && __is_integral(U) && __is_integral(T)>> friend EAS_FN constexpr vec& operator op##=(vec& a, vec<U, N> b) { return a = a op b; }
#define EAS_VEC_COMPARE(op, N)                                                                                     \
  friend EAS_FN constexpr vec<bool, N> operator op(vec a, vec b) { vec<bool, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = a.eas_s[i] op b.eas_s[i]) return r; } \
  EAS_VEC_SCALAR(op, bool, N)
#define EAS_VEC_UNARY(op, N)                                                                                       \
  friend EAS_FN constexpr vec operator op(vec a) { vec r{}; EAS_EACH_LANE(N, r.eas_s[i] = static_cast<T>(op a.eas_s[i])) return r; }

#define EAS_VEC_BODY(N)                                                                                            \
  static_assert(__is_arithmetic(T) || eas_is_bfloat<T>::value, "Metal has vectors of numbers and bools only");     \
 public:                                                                                                           \
  T eas_s[N];                                                                                                      \
  typedef T eas_element;                                                                                           \
  EAS_VEC_CONSTRUCTORS(vec, N)                                                                                     \
  EAS_VEC_COPIES(N)                                                                                                \
  template <typename V, typename = enable_if_t<is_same_v<V, vec>>> EAS_FN void operator=(const V& o) volatile { EAS_EACH_LANE(N, eas_s[i] = o.eas_s[i]) } \
  EAS_FN constexpr T& operator[](size_t i) { EAS_CHECK_INDEX(i, N, "a vector of " #N " components") return eas_s[i]; } \
  EAS_FN constexpr const T& operator[](size_t i) const { EAS_CHECK_INDEX(i, N, "a vector of " #N " components") return eas_s[i]; } \
  volatile T& operator[](size_t i) volatile { return eas_s[i]; }                                                   \
  EAS_VEC_BINARY(+, N) EAS_VEC_BINARY(-, N) EAS_VEC_BINARY(*, N) EAS_VEC_BINARY(/, N) EAS_VEC_BINARY(%, N)         \
  EAS_VEC_BINARY(&, N) EAS_VEC_BINARY(|, N) EAS_VEC_BINARY(^, N) EAS_VEC_BINARY(<<, N) EAS_VEC_BINARY(>>, N)       \
  EAS_VEC_SHIFT(<<, N) EAS_VEC_SHIFT(>>, N)                                                                        \
  EAS_VEC_COMPARE(<, N) EAS_VEC_COMPARE(>, N) EAS_VEC_COMPARE(<=, N) EAS_VEC_COMPARE(>=, N)                        \
  EAS_VEC_COMPARE(==, N) EAS_VEC_COMPARE(!=, N) EAS_VEC_COMPARE(&&, N) EAS_VEC_COMPARE(||, N)                      \
  EAS_VEC_UNARY(-, N) EAS_VEC_UNARY(+, N) EAS_VEC_UNARY(~, N)                                                      \
  friend EAS_FN constexpr vec<bool, N> operator!(vec a) { vec<bool, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = !a.eas_s[i]) return r; } \
  friend EAS_FN constexpr vec& operator++(vec& a) { EAS_EACH_LANE(N, ++a.eas_s[i]) return a; }                     \
  friend EAS_FN constexpr vec& operator--(vec& a) { EAS_EACH_LANE(N, --a.eas_s[i]) return a; }                     \
  friend EAS_FN constexpr vec operator++(vec& a, int) { vec r = a; ++a; return r; }                                \
  friend EAS_FN constexpr vec operator--(vec& a, int) { vec r = a; --a; return r; }

template <typename T, int N> class vec { static_assert(N == 2, "Metal has vectors of 2, 3 and 4 components"); };
template <typename T> class alignas(sizeof(T) * 2) vec<T, 2> { EAS_VEC_BODY(2) EAS_SWIZZLES_2 };
template <typename T> class alignas(sizeof(T) * 4) vec<T, 3> { EAS_VEC_BODY(3) EAS_SWIZZLES_3 };
template <typename T> class alignas(sizeof(T) * 4) vec<T, 4> { EAS_VEC_BODY(4) EAS_SWIZZLES_4 };

// A packed vector computes as the vector it converts to.
#define EAS_PACKED_COMPOUND(op, N) friend EAS_FN constexpr packed_vec& operator op##=(packed_vec& a, vec<T, N> b) { return a = vec<T, N>(a) op b; }
#define EAS_PACKED_BINARY(op, R, N)                                                                                \
  friend EAS_FN constexpr R operator op(packed_vec a, packed_vec b) { return vec<T, N>(a) op vec<T, N>(b); }       \
  friend EAS_FN constexpr R operator op(packed_vec a, vec<T, N> b) { return vec<T, N>(a) op b; }                   \
  friend EAS_FN constexpr R operator op(vec<T, N> a, packed_vec b) { return a op vec<T, N>(b); }                   \
  template <typename S, typename = enable_if_t<eas_broadcasts<S, T>>> friend EAS_FN constexpr R operator op(packed_vec a, S b) { return vec<T, N>(a) op vec<T, N>(b); } \
  template <typename S, typename = enable_if_t<eas_broadcasts<S, T>>> friend EAS_FN constexpr R operator op(S a, packed_vec b) { return vec<T, N>(a) op vec<T, N>(b); }
#define EAS_PACKED_ARITH(op, N) EAS_PACKED_BINARY(op, vec<T EAS_COMMA N>, N) EAS_PACKED_COMPOUND(op, N)
#define EAS_PACKED_COMPARE(op, N) EAS_PACKED_BINARY(op, vec<bool EAS_COMMA N>, N)
#define EAS_COMMA ,
#define EAS_PACKED_BODY(N)                                                                                         \
 public:                                                                                                           \
  T eas_s[N];                                                                                                      \
  EAS_VEC_CONSTRUCTORS(packed_vec, N)                                                                              \
  constexpr packed_vec(vec<T, N> v) : eas_s{} { EAS_EACH_LANE(N, eas_s[i] = v.eas_s[i]) }                          \
  template <typename U, typename = enable_if_t<!is_same_v<U, T>>> explicit constexpr packed_vec(packed_vec<U, N> v) : eas_s{} { EAS_EACH_LANE(N, eas_s[i] = eas_to<T>(v.eas_s[i])) } \
  constexpr operator vec<T, N>() const { vec<T, N> r{}; EAS_EACH_LANE(N, r.eas_s[i] = eas_s[i]) return r; }        \
  template <typename U, typename = enable_if_t<!is_same_v<U, T>>> explicit constexpr operator vec<U, N>() const { return vec<U, N>(vec<T, N>(*this)); } \
  EAS_FN constexpr T& operator[](size_t i) { EAS_CHECK_INDEX(i, N, "a vector of " #N " components") return eas_s[i]; } \
  EAS_FN constexpr const T& operator[](size_t i) const { EAS_CHECK_INDEX(i, N, "a vector of " #N " components") return eas_s[i]; } \
  EAS_PACKED_ARITH(+, N) EAS_PACKED_ARITH(-, N) EAS_PACKED_ARITH(*, N) EAS_PACKED_ARITH(/, N) EAS_PACKED_ARITH(%, N) \
  EAS_PACKED_ARITH(&, N) EAS_PACKED_ARITH(|, N) EAS_PACKED_ARITH(^, N) EAS_PACKED_ARITH(<<, N) EAS_PACKED_ARITH(>>, N) \
  EAS_PACKED_COMPARE(<, N) EAS_PACKED_COMPARE(>, N) EAS_PACKED_COMPARE(<=, N) EAS_PACKED_COMPARE(>=, N)            \
  EAS_PACKED_COMPARE(==, N) EAS_PACKED_COMPARE(!=, N)                                                              \
  friend EAS_FN constexpr vec<T, N> operator-(packed_vec a) { return -vec<T, N>(a); }

template <typename T, int N> class packed_vec;
template <typename T> class packed_vec<T, 2> { EAS_PACKED_BODY(2) EAS_SWIZZLES_2 };
template <typename T> class packed_vec<T, 3> { EAS_PACKED_BODY(3) EAS_SWIZZLES_3 };
template <typename T> class packed_vec<T, 4> { EAS_PACKED_BODY(4) EAS_SWIZZLES_4 };

// The vector or scalar made of the component type and back.
template <typename T> struct eas_element_of { typedef T type; };
template <typename T, int N> struct eas_element_of<vec<T, N>> { typedef T type; };
template <typename T, int N> struct eas_element_of<packed_vec<T, N>> { typedef T type; };
template <typename T> using eas_element_t = typename eas_element_of<T>::type;

// Traits of Metal's own headers that public MSL reaches for.
template <typename T> struct vec_elements : integral_constant<int, 1> {};
template <typename T, int N> struct vec_elements<vec<T, N>> : integral_constant<int, N> {};
template <typename T> struct _fp_encoding_traits;
template <> struct _fp_encoding_traits<float> {
  typedef uint encoding_type;
  static constexpr uint sign_mask = 0x80000000u, exponent_mask = 0x7f800000u, mantissa_mask = 0x007fffffu, inf_mask = 0x7f800000u, nan_mask = 0x7fc00000u;
  static constexpr uint sign_shift = 31, exponent_shift = 23, exponent_bias = 127;
};
template <> struct _fp_encoding_traits<half> {
  typedef ushort encoding_type;
  static constexpr ushort sign_mask = 0x8000, exponent_mask = 0x7c00, mantissa_mask = 0x03ff, inf_mask = 0x7c00, nan_mask = 0x7e00;
  static constexpr ushort sign_shift = 15, exponent_shift = 10, exponent_bias = 15;
};

}  // namespace metal

// Each type also stands inside namespace metal; both names mean the same type, so lookup is never ambiguous.
#define EAS_NAME_VECTORS(name, T)                                                                                  \
  typedef metal::vec<T, 2> name##2; typedef metal::vec<T, 3> name##3; typedef metal::vec<T, 4> name##4;            \
  static_assert(sizeof(name##2) == 2 * sizeof(T) && sizeof(name##3) == 4 * sizeof(T) && sizeof(name##4) == 4 * sizeof(T), "vector layout"); \
  namespace metal { using ::name##2; using ::name##3; using ::name##4; }
#define EAS_NAME_PACKED(name, T)                                                                                   \
  typedef metal::packed_vec<T, 2> packed_##name##2; typedef metal::packed_vec<T, 3> packed_##name##3; typedef metal::packed_vec<T, 4> packed_##name##4; \
  namespace metal { using ::packed_##name##2; using ::packed_##name##3; using ::packed_##name##4; }
#define EAS_NAME_BOTH(name, T) EAS_NAME_VECTORS(name, T) EAS_NAME_PACKED(name, T)
EAS_NAME_VECTORS(bool, bool)
EAS_NAME_BOTH(char, char)
EAS_NAME_BOTH(uchar, uchar)
EAS_NAME_BOTH(short, short)
EAS_NAME_BOTH(ushort, ushort)
EAS_NAME_BOTH(int, int)
EAS_NAME_BOTH(uint, uint)
EAS_NAME_BOTH(long, long)
EAS_NAME_BOTH(ulong, ulong)
EAS_NAME_BOTH(half, half)
EAS_NAME_BOTH(float, float)
#if __METAL_VERSION__ >= 310
EAS_NAME_BOTH(bfloat, bfloat)
#endif
namespace metal {
using ::uchar; using ::ushort; using ::uint; using ::ulong; using ::half;
using ::int8_t; using ::uint8_t; using ::int16_t; using ::uint16_t; using ::int32_t; using ::uint32_t; using ::int64_t; using ::uint64_t;
using ::size_t; using ::ptrdiff_t; using ::intptr_t; using ::uintptr_t; using ::float16_t; using ::float32_t;
}
