// Scalar types of MSL, the type traits of namespace metal, bfloat and as_type.
#pragma once
#pragma clang system_header

#include "features.h"

#define EAS_FN __attribute__((always_inline)) inline
#define METAL_FUNC inline __attribute__((always_inline))
#define METAL_INTERNAL inline __attribute__((always_inline))
#define METAL_CONST __attribute__((const))
#define METAL_PURE __attribute__((pure))

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef half float16_t;
typedef float float32_t;

// The pre-pass writes the MSL literals 1.0h and 1.0bf with these suffixes: clang keeps plain ones to itself.
constexpr half operator""_eas_h(long double x) { return (half)(float)x; }
constexpr half operator""_eas_h(unsigned long long x) { return (half)(float)x; }

// What a braced list becomes; the compiler knows it by this name. Metal text that says std:: is refused before.
namespace std {
template <typename T> class initializer_list {
  const T* first_;
  unsigned long size_;
 public:
  constexpr initializer_list() : first_(nullptr), size_(0) {}
  constexpr unsigned long size() const { return size_; }
  constexpr const T* begin() const { return first_; }
  constexpr const T* end() const { return first_ + size_; }
};
}  // namespace std

namespace metal {
using std::initializer_list;

// --- traits ---------------------------------------------------------------------------------
template <typename T, T V> struct integral_constant {
  static constexpr T value = V;
  typedef T value_type;
  typedef integral_constant type;
  constexpr operator T() const { return V; }
  constexpr T operator()() const { return V; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;

template <bool B, typename T = void> struct enable_if {};
template <typename T> struct enable_if<true, T> { typedef T type; };
template <bool B, typename T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, typename T, typename F> struct conditional { typedef T type; };
template <typename T, typename F> struct conditional<false, T, F> { typedef F type; };
template <bool B, typename T, typename F> using conditional_t = typename conditional<B, T, F>::type;

template <typename A, typename B> struct is_same : false_type {};
template <typename A> struct is_same<A, A> : true_type {};
template <typename T> struct remove_const { typedef T type; };
template <typename T> struct remove_const<const T> { typedef T type; };
template <typename T> struct remove_volatile { typedef T type; };
template <typename T> struct remove_volatile<volatile T> { typedef T type; };
template <typename T> using remove_const_t = typename remove_const<T>::type;
template <typename T> using remove_volatile_t = typename remove_volatile<T>::type;
template <typename T> struct remove_cv { typedef remove_const_t<remove_volatile_t<T>> type; };
template <typename T> using remove_cv_t = typename remove_cv<T>::type;
template <typename T> struct remove_reference { typedef T type; };
template <typename T> struct remove_reference<T&> { typedef T type; };
template <typename T> struct remove_reference<T&&> { typedef T type; };
template <typename T> using remove_reference_t = typename remove_reference<T>::type;
template <typename T> struct remove_cvref { typedef remove_cv_t<remove_reference_t<T>> type; };
template <typename T> using remove_cvref_t = typename remove_cvref<T>::type;
template <typename T> struct remove_pointer { typedef T type; };
template <typename T> struct remove_pointer<T*> { typedef T type; };
template <typename T> using remove_pointer_t = typename remove_pointer<T>::type;
template <typename T> struct remove_extent { typedef T type; };
template <typename T, size_t N> struct remove_extent<T[N]> { typedef T type; };
template <typename T> struct remove_extent<T[]> { typedef T type; };
template <typename T> using remove_extent_t = typename remove_extent<T>::type;
// Address spaces are erased before the code reaches this header.
template <typename T> struct remove_addrspace { typedef T type; };
template <typename T> using remove_addrspace_t = T;
template <typename T> struct add_const { typedef const T type; };
template <typename T> using add_const_t = const T;
template <typename T> struct add_pointer { typedef remove_reference_t<T>* type; };
template <typename T> using add_pointer_t = typename add_pointer<T>::type;
template <typename T> struct add_lvalue_reference { typedef T& type; };
template <typename T> using add_lvalue_reference_t = typename add_lvalue_reference<T>::type;
template <typename T> struct decay { typedef __decay(T) type; };
template <typename T> using decay_t = __decay(T);
template <typename T> struct eas_identity { typedef T type; };
template <typename T> using eas_identity_t = typename eas_identity<T>::type;
template <typename T> T&& declval() noexcept;

#if __METAL_VERSION__ >= 310
// bfloat: 16 bits, 8 of exponent. MSL converts it implicitly to float and from integers, never
// implicitly from float or half; arithmetic between two bfloats rounds to bfloat after each op.
struct bfloat_round {
  static constexpr unsigned short bits(float f) {
    unsigned u = __builtin_bit_cast(unsigned, f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (unsigned short)((u >> 16) | 0x40);
    return (unsigned short)((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
  }
};
}  // namespace metal

template <typename T> struct eas_is_int { static constexpr bool value = __is_integral(T); };
template <typename T> struct eas_is_fp { static constexpr bool value = __is_floating_point(T); };

// Friends, so that only an operation on a bfloat finds them.
#define EAS_BFLOAT_IF(...) template <typename T, typename = metal::enable_if_t<__VA_ARGS__>>
#define EAS_BFLOAT_IF_ALSO(...) template <typename T, typename = metal::enable_if_t<__VA_ARGS__>, typename = void>
#define EAS_BFLOAT_WITH(R, op, make)                                                                              \
  friend constexpr R operator op(bfloat a, bfloat b) { return make((float)a op (float)b); }                       \
  EAS_BFLOAT_IF(eas_is_int<T>::value) friend constexpr R operator op(bfloat a, T b) { return make((float)a op (float)bfloat(b)); } \
  EAS_BFLOAT_IF(eas_is_int<T>::value) friend constexpr R operator op(T a, bfloat b) { return make((float)bfloat(a) op (float)b); } \
  EAS_BFLOAT_IF_ALSO(metal::is_same<T, half>::value) friend R operator op(bfloat, T) = delete;                    \
  EAS_BFLOAT_IF_ALSO(metal::is_same<T, half>::value) friend R operator op(T, bfloat) = delete;
#define EAS_BFLOAT_OP(op) EAS_BFLOAT_WITH(bfloat, op, bfloat)                                                     \
  EAS_BFLOAT_IF(eas_is_int<T>::value || metal::is_same<T, bfloat>::value) friend constexpr bfloat& operator op##=(bfloat& a, T b) { return a = a op b; } \
  EAS_BFLOAT_IF_ALSO(eas_is_fp<T>::value) friend bfloat& operator op##=(bfloat& a, T b) = delete;
struct bfloat {
  unsigned short eas_bits;
  bfloat() = default;
  template <typename T, typename = metal::enable_if_t<eas_is_int<T>::value>> constexpr bfloat(T x) : eas_bits(metal::bfloat_round::bits((float)x)) {}
  template <typename T, typename = metal::enable_if_t<eas_is_fp<T>::value>, typename = void> explicit constexpr bfloat(T x) : eas_bits(metal::bfloat_round::bits((float)x)) {}
  // What converts to a number does so when asked.
  template <typename T, typename = metal::enable_if_t<__is_class(T) && __is_convertible(T, float) && !metal::is_same<T, bfloat>::value>, typename = void, typename = void> explicit constexpr bfloat(const T& x) : eas_bits(metal::bfloat_round::bits((float)x)) {}
  constexpr operator float() const { return __builtin_bit_cast(float, (unsigned)eas_bits << 16); }
  // A half is made of a bfloat only when asked: of the two, what is implicit finds the deleted one.
  explicit constexpr operator half() const { return (half)(float)*this; }
  template <typename T, typename = metal::enable_if_t<metal::is_same<T, half>::value>> operator T() const = delete;
  static constexpr bfloat from_bits(unsigned short b) { bfloat r{}; r.eas_bits = b; return r; }
  constexpr bfloat operator-() const { return from_bits((unsigned short)(eas_bits ^ 0x8000)); }
  constexpr bfloat operator+() const { return *this; }
  constexpr bfloat& operator++() { return *this = bfloat((float)*this + 1.0f); }
  constexpr bfloat& operator--() { return *this = bfloat((float)*this - 1.0f); }
  constexpr bfloat operator++(int) { bfloat r = *this; ++*this; return r; }
  constexpr bfloat operator--(int) { bfloat r = *this; --*this; return r; }
  EAS_BFLOAT_OP(+) EAS_BFLOAT_OP(-) EAS_BFLOAT_OP(*) EAS_BFLOAT_OP(/)
  EAS_BFLOAT_WITH(bool, <, ) EAS_BFLOAT_WITH(bool, >, ) EAS_BFLOAT_WITH(bool, <=, ) EAS_BFLOAT_WITH(bool, >=, ) EAS_BFLOAT_WITH(bool, ==, ) EAS_BFLOAT_WITH(bool, !=, )
};
constexpr bfloat operator""_eas_bf(long double x) { return bfloat((float)x); }
constexpr bfloat operator""_eas_bf(unsigned long long x) { return bfloat((float)x); }

namespace metal {
typedef ::bfloat bfloat;
template <typename T> struct eas_is_bfloat : is_same<remove_cv_t<T>, bfloat> {};
#else
template <typename T> struct eas_is_bfloat : false_type {};
#endif

template <typename T, int N> class vec;
template <typename T, int N> class packed_vec;

// A vector counts as what its components are; is_scalar tells it apart.
template <typename T> struct is_integral : bool_constant<__is_integral(T)> {};
template <typename T, int N> struct is_integral<vec<T, N>> : is_integral<T> {};
template <typename T> struct is_floating_point : bool_constant<__is_floating_point(T) || eas_is_bfloat<T>::value> {};
template <typename T, int N> struct is_floating_point<vec<T, N>> : is_floating_point<T> {};
template <typename T> struct is_arithmetic : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <typename T> struct is_void : is_same<remove_cv_t<T>, void> {};
template <typename T> struct is_pointer : bool_constant<__is_pointer(T)> {};
template <typename T> struct is_array : bool_constant<__is_array(T)> {};
template <typename T> struct is_enum : bool_constant<__is_enum(T)> {};
template <typename T> struct is_union : bool_constant<__is_union(T)> {};
template <typename T> struct is_class : bool_constant<__is_class(T) && !eas_is_bfloat<T>::value> {};
template <typename T> struct is_const : bool_constant<__is_const(T)> {};
template <typename T> struct is_volatile : bool_constant<__is_volatile(T)> {};
template <typename T> struct is_reference : bool_constant<__is_reference(T)> {};
template <typename T> struct is_lvalue_reference : bool_constant<__is_lvalue_reference(T)> {};
template <typename T> struct is_function : bool_constant<__is_function(T)> {};
template <typename T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <typename T> struct is_signed : bool_constant<__is_signed(T) || __is_floating_point(T) || eas_is_bfloat<T>::value> {};
template <typename T> struct is_unsigned : bool_constant<__is_unsigned(T)> {};
template <typename T> struct is_scalar : bool_constant<__is_scalar(T) || eas_is_bfloat<T>::value> {};
template <typename T> struct is_fundamental : bool_constant<__is_fundamental(T) || eas_is_bfloat<T>::value> {};
template <typename A, typename B> struct is_convertible : bool_constant<__is_convertible(A, B)> {};
template <typename A, typename B> struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <typename T, typename... A> struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <typename T> struct is_vector : false_type {};
template <typename T, int N> struct is_vector<vec<T, N>> : true_type {};
template <typename T> struct is_vector<const T> : is_vector<T> {};

template <typename A, typename B> constexpr bool is_same_v = is_same<A, B>::value;
template <typename A, typename B> constexpr bool is_convertible_v = is_convertible<A, B>::value;
template <typename A, typename B> constexpr bool is_base_of_v = is_base_of<A, B>::value;
template <typename T, typename... A> constexpr bool is_constructible_v = is_constructible<T, A...>::value;
#define EAS_TRAIT_V(name) template <typename T> constexpr bool name##_v = name<T>::value;
EAS_TRAIT_V(is_integral) EAS_TRAIT_V(is_floating_point) EAS_TRAIT_V(is_arithmetic) EAS_TRAIT_V(is_void) EAS_TRAIT_V(is_pointer)
EAS_TRAIT_V(is_array) EAS_TRAIT_V(is_enum) EAS_TRAIT_V(is_union) EAS_TRAIT_V(is_class) EAS_TRAIT_V(is_const) EAS_TRAIT_V(is_volatile)
EAS_TRAIT_V(is_reference) EAS_TRAIT_V(is_lvalue_reference) EAS_TRAIT_V(is_function) EAS_TRAIT_V(is_trivially_copyable)
EAS_TRAIT_V(is_signed) EAS_TRAIT_V(is_unsigned) EAS_TRAIT_V(is_scalar) EAS_TRAIT_V(is_fundamental) EAS_TRAIT_V(is_vector)
#undef EAS_TRAIT_V

template <typename T> struct make_signed { typedef __make_signed(T) type; };
template <typename T> struct make_unsigned { typedef __make_unsigned(T) type; };
template <typename T> using make_signed_t = typename make_signed<T>::type;
template <typename T> using make_unsigned_t = typename make_unsigned<T>::type;
template <typename T> struct underlying_type { typedef __underlying_type(T) type; };
template <typename T> using underlying_type_t = typename underlying_type<T>::type;
template <typename... T> struct common_type;
template <typename T> struct common_type<T> { typedef decay_t<T> type; };
template <typename A, typename B> struct common_type<A, B> { typedef decay_t<decltype(false ? declval<A>() : declval<B>())> type; };
template <typename A, typename B, typename... R> struct common_type<A, B, R...> : common_type<typename common_type<A, B>::type, R...> {};
template <typename... T> using common_type_t = typename common_type<T...>::type;
template <typename...> struct _conjunction : true_type {};
template <typename B, typename... R> struct _conjunction<B, R...> : conditional_t<bool(B::value), _conjunction<R...>, B> {};
template <typename...> struct _disjunction : false_type {};
template <typename B, typename... R> struct _disjunction<B, R...> : conditional_t<bool(B::value), B, _disjunction<R...>> {};
template <typename B> struct _negation : bool_constant<!bool(B::value)> {};

// A value that MSL promises to be the same in all threads.
template <typename T> struct uniform {
  T eas_value;
  uniform() = default;
  constexpr uniform(T x) : eas_value(x) {}
  constexpr operator T() const { return eas_value; }
};
template <typename T> constexpr uniform<T> make_uniform(T x) { return uniform<T>(x); }

}  // namespace metal

// as_type is an operator of the language: it needs no namespace.
template <typename To, typename From> constexpr To as_type(From x) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of the same size");
#ifdef EAS_SANITIZE  // where vectors have copies of their own (vec.h), which a bit cast does not take
  To y;
  __builtin_memcpy(&y, &x, sizeof(To));
  return y;
#else
  return __builtin_bit_cast(To, x);
#endif
}
namespace metal { using ::as_type; }
