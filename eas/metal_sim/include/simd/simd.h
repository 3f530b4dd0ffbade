// <simd/simd.h>: the names that Metal text shares with C programs.
#pragma once
#pragma clang system_header
#include "../metal_stdlib"

#define EAS_SIMD_NAMES(name) \
  typedef name##2 simd_##name##2; typedef name##3 simd_##name##3; typedef name##4 simd_##name##4; \
  typedef name##2 vector_##name##2; typedef name##3 vector_##name##3; typedef name##4 vector_##name##4; \
  namespace simd { using ::name##2; using ::name##3; using ::name##4; }
EAS_SIMD_NAMES(char) EAS_SIMD_NAMES(uchar) EAS_SIMD_NAMES(short) EAS_SIMD_NAMES(ushort) EAS_SIMD_NAMES(int) EAS_SIMD_NAMES(uint)
EAS_SIMD_NAMES(long) EAS_SIMD_NAMES(ulong) EAS_SIMD_NAMES(float) EAS_SIMD_NAMES(half)
#define EAS_SIMD_MATRIX(C, R) typedef float##C##x##R simd_float##C##x##R; typedef float##C##x##R matrix_float##C##x##R; namespace simd { using ::float##C##x##R; }
EAS_SIMD_MATRIX(2, 2) EAS_SIMD_MATRIX(3, 3) EAS_SIMD_MATRIX(4, 4) EAS_SIMD_MATRIX(4, 3) EAS_SIMD_MATRIX(3, 4)
typedef float simd_float1;
typedef int simd_int1;
typedef uint simd_uint1;
namespace simd { using ::uint; using ::ushort; using ::uchar; using ::ulong; }
