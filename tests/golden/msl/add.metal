// add_kernel(x: ptr<f32>, y: ptr<f32>, out: ptr<f32>, n: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct add_kernel_args {
    int n;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void add_kernel(
    device const float *x [[buffer(0)]],
    device const float *y [[buffer(1)]],
    device float *__restrict out [[buffer(2)]],
    constant add_kernel_args &args [[buffer(3)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    int t = int(tid);
    int at = t * 4;
    int i = int(gid.x) * 1024 + at;
    bool mask = i < args.n;
    if (mask) *(device float4 *)(out + i) = *(device const float4 *)(x + i) + *(device const float4 *)(y + i);
}
