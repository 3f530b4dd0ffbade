// How the generated entry points find the types of kernel parameters and pass what a launch binds.
#pragma once
#include "eas_sim.h"

namespace eas_sim {

template <unsigned N, class First, class... Rest> struct nth { using type = typename nth<N - 1, Rest...>::type; };
template <class First, class... Rest> struct nth<0, First, Rest...> { using type = First; };

template <class F> struct signature;
template <class R, class... P> struct signature<R (*)(P...)> {
  template <unsigned N> using parameter = typename nth<N, P...>::type;
};
template <class F, unsigned N> using parameter = typename signature<F>::template parameter<N>;

// What a buffer parameter points or refers to.
template <class P> struct pointee { using type = P; };
template <class T> struct pointee<T*> { using type = T; static T* bind(void* p) { return (T*)p; } };
template <class T> struct pointee<T&> { using type = T; static T& bind(void* p) { return *(T*)p; } };
template <class T> struct pointee<T* const> : pointee<T*> {};

// A thread position as the scalar or vector that the kernel declares.
template <class P> __attribute__((always_inline, nodebug)) inline P position(const unsigned (&v)[3]) {
  using T = __remove_cv(P);
  if constexpr (__is_integral(T)) return (T)v[0];
  else if constexpr (__is_constructible(T, unsigned, unsigned, unsigned)) return T(v[0], v[1], v[2]);
  else return T(v[0], v[1]);
}
template <class P> __attribute__((always_inline, nodebug)) inline P position(const unsigned& v) { return (P)v; }

// What Python needs to know to turn a number into the bytes of a parameter: f float, e half, b bfloat,
// i and u integers, ? bool, S anything else.
struct ParameterInfo { unsigned nbytes, align; char kind, is_const; };

template <class T> constexpr char kind_of() {
  using U = __remove_cv(T);
  if constexpr (__is_same(U, float)) return 'f';
  else if constexpr (__is_same(U, half)) return 'e';
#if __METAL_VERSION__ >= 310
  else if constexpr (__is_same(U, bfloat)) return 'b';
#endif
  else if constexpr (__is_same(U, bool)) return '?';
  else if constexpr (__is_integral(U)) return __is_unsigned(U) ? 'u' : 'i';
  else return 'S';
}
template <class T> struct sizes { static constexpr unsigned nbytes = sizeof(T), align = alignof(T); };
template <> struct sizes<void> { static constexpr unsigned nbytes = 1, align = 1; };
template <> struct sizes<const void> : sizes<void> {};

template <class P> constexpr ParameterInfo info() {
  using T = typename pointee<P>::type;
  return {sizes<T>::nbytes, sizes<T>::align, kind_of<T>(), __is_const(T)};
}

}  // namespace eas_sim
