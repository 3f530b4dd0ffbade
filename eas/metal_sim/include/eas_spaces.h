// For the second compile, as C++ for OpenCL, which has real address spaces: names and types only. Functions of
// metal_stdlib stay unknown there; the compiler goes on after such an error, and only errors about spaces count.
#define device __global
#define threadgroup __local
#define thread __private
#define constant __constant
#define METAL_FUNC inline
#define coherent(...)

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef short bfloat;
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

template <typename T> struct eas_any { typedef T type; };
template <typename T, typename... A> constexpr T eas_make(A...) { return T(); }
template <typename To, typename From> To as_type(From);

#define EAS_CL_VECTOR(name, T) \
  typedef T name##2 __attribute__((ext_vector_type(2))); typedef T name##3 __attribute__((ext_vector_type(3))); typedef T name##4 __attribute__((ext_vector_type(4))); \
  typedef T packed_##name##2 __attribute__((ext_vector_type(2))); typedef T packed_##name##3 __attribute__((ext_vector_type(3))); typedef T packed_##name##4 __attribute__((ext_vector_type(4)));
EAS_CL_VECTOR(char, char) EAS_CL_VECTOR(uchar, uchar) EAS_CL_VECTOR(short, short) EAS_CL_VECTOR(ushort, ushort) EAS_CL_VECTOR(int, int) EAS_CL_VECTOR(uint, uint)
EAS_CL_VECTOR(long, long) EAS_CL_VECTOR(ulong, ulong) EAS_CL_VECTOR(half, half) EAS_CL_VECTOR(float, float) EAS_CL_VECTOR(bfloat, short)
typedef char bool2 __attribute__((ext_vector_type(2)));
typedef char bool3 __attribute__((ext_vector_type(3)));
typedef char bool4 __attribute__((ext_vector_type(4)));

namespace metal {
template <typename T> struct eas_atomic { T value; };
template <typename T, int N> using vec = T __attribute__((ext_vector_type(N)));
template <typename T, int C, int R> struct simdgroup_matrix { T value[2]; };
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

// The functions that take a pointer or a reference: in which spaces.
enum memory_order { memory_order_relaxed };
template <typename T> struct eas_same { typedef T type; };
#define EAS_CL_MATRIX(space) \
  template <typename T, typename... A> void simdgroup_load(simdgroup_matrix<T, 8, 8>&, const volatile space T*, A...); \
  template <typename T, typename... A> void simdgroup_store(simdgroup_matrix<T, 8, 8>, volatile space T*, A...);
EAS_CL_MATRIX(device) EAS_CL_MATRIX(threadgroup)
#define EAS_CL_REFERENCE(name, T, U) T name(T, thread U&);
#define EAS_CL_REFERENCES(T, I) EAS_CL_REFERENCE(modf, T, T) EAS_CL_REFERENCE(sincos, T, T) EAS_CL_REFERENCE(frexp, T, I)
EAS_CL_REFERENCES(float, int)
#define EAS_CL_FETCH(space, name) template <typename T> T atomic_##name##_explicit(volatile space eas_atomic<T>*, typename eas_same<T>::type, memory_order);
#define EAS_CL_ATOMIC(space) \
  template <typename T> T atomic_load_explicit(const volatile space eas_atomic<T>*, memory_order); \
  template <typename T> void atomic_store_explicit(volatile space eas_atomic<T>*, typename eas_same<T>::type, memory_order); \
  EAS_CL_FETCH(space, exchange) EAS_CL_FETCH(space, fetch_add) EAS_CL_FETCH(space, fetch_sub) EAS_CL_FETCH(space, fetch_min) EAS_CL_FETCH(space, fetch_max) \
  EAS_CL_FETCH(space, fetch_and) EAS_CL_FETCH(space, fetch_or) EAS_CL_FETCH(space, fetch_xor) \
  template <typename T> bool atomic_compare_exchange_weak_explicit(volatile space eas_atomic<T>*, thread T*, typename eas_same<T>::type, memory_order, memory_order);
EAS_CL_ATOMIC(device) EAS_CL_ATOMIC(threadgroup)
}  // namespace metal
#define atomic metal::eas_atomic
#define atomic_int metal::eas_atomic<int>
#define atomic_uint metal::eas_atomic<uint>
#define atomic_float metal::eas_atomic<float>
#define atomic_bool metal::eas_atomic<bool>
#define atomic_ulong metal::eas_atomic<ulong>

// float4(a, b) with several values is no cast in this language.
#define float2(...) eas_make<float2>(__VA_ARGS__)
#define float3(...) eas_make<float3>(__VA_ARGS__)
#define float4(...) eas_make<float4>(__VA_ARGS__)
#define half2(...) eas_make<half2>(__VA_ARGS__)
#define half3(...) eas_make<half3>(__VA_ARGS__)
#define half4(...) eas_make<half4>(__VA_ARGS__)
#define bfloat2(...) eas_make<bfloat2>(__VA_ARGS__)
#define bfloat4(...) eas_make<bfloat4>(__VA_ARGS__)
#define int2(...) eas_make<int2>(__VA_ARGS__)
#define int3(...) eas_make<int3>(__VA_ARGS__)
#define int4(...) eas_make<int4>(__VA_ARGS__)
#define uint2(...) eas_make<uint2>(__VA_ARGS__)
#define uint3(...) eas_make<uint3>(__VA_ARGS__)
#define uint4(...) eas_make<uint4>(__VA_ARGS__)
#define bool2(...) eas_make<bool2>(__VA_ARGS__)
#define bool4(...) eas_make<bool4>(__VA_ARGS__)
#define packed_float4(...) eas_make<packed_float4>(__VA_ARGS__)
#define packed_float3(...) eas_make<packed_float3>(__VA_ARGS__)
