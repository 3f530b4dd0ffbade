// dot_kernel(a: ptr<i32>, b: ptr<i32>, out: ptr<i32>)
// One threadgroup of 1 thread per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

[[max_total_threads_per_threadgroup(1)]]
kernel void dot_kernel(
    device const int *a [[buffer(0)]],
    device const int *b [[buffer(1)]],
    device int *__restrict out [[buffer(2)]]) {
    int total = 0;
    for (int r = 0; r < 2; ++r) {
        total = int(uint(total) + uint(a[r]) * uint(b[r]));
    }
    out[0] = total;
}
