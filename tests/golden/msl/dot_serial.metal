// dot_kernel(a: ptr<i32>, b: ptr<i32>, out: ptr<i32>)
// One threadgroup of 1 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

inline int wrapping_mul(int a, int b) {
    return int(uint(a) * uint(b));
}

inline int wrapping_add(int a, int b) {
    return int(uint(a) + uint(b));
}

[[max_total_threads_per_threadgroup(1)]]
kernel void dot_kernel(
    device const int *a [[buffer(0)]],
    device const int *b [[buffer(1)]],
    device int *__restrict out [[buffer(2)]]) {
    int total = 0;
    for (int r = 0; r < 2; ++r) {
        total = wrapping_add(total, wrapping_mul(a[r], b[r]));
    }
    out[0] = total;
}
