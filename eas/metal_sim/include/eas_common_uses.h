// What most kernels use of the templates, so that it is instantiated once, in the precompiled header.
#pragma once

namespace eas_common_uses {

template <typename T> inline void vectors_of(T a) {
  metal::vec<T, 2> two(a, a);
  metal::vec<T, 3> three(a, a, a);
  metal::vec<T, 4> v(a, a, a, a), w(a);
  metal::packed_vec<T, 2> packed_two(two);
  metal::packed_vec<T, 3> packed_three(three);
  metal::packed_vec<T, 4> packed(v);
  v = metal::vec<T, 4>(packed);
  (void)metal::all(v == w);
  (void)metal::any(v != w);
  (void)(v < w), (void)(v <= w), (void)(v > w), (void)(v >= w);
  if constexpr (!metal::is_same_v<T, bool>) (void)(v + w), (void)(v - w), (void)(v * w);
}

inline void all_vectors() {
  vectors_of(true);
  vectors_of(char(1)), vectors_of(short(1)), vectors_of(int(1)), vectors_of(long(1));
  vectors_of(uchar(1)), vectors_of(ushort(1)), vectors_of(uint(1)), vectors_of(ulong(1));
  vectors_of(half(1)), vectors_of(1.0f);
#if __METAL_VERSION__ >= 310
  vectors_of(bfloat(1.0f));
#endif
  int4 lanes(0, 1, 2, 3);
  lanes = 1 + (lanes + 1);
  (void)(lanes < 1);
}

}  // namespace eas_common_uses
