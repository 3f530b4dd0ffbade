// masked_copy_kernel(x: ptr<f32>, keep: ptr<bool>, y: ptr<f32>, n: i32)
// One threadgroup of 64 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct masked_copy_kernel_args {
    int n;
};

[[max_total_threads_per_threadgroup(64)]]
kernel void masked_copy_kernel(
    device const float *x [[buffer(0)]],
    device const bool *keep [[buffer(1)]],
    device float *__restrict y [[buffer(2)]],
    constant masked_copy_kernel_args &args [[buffer(3)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    int t = int(tid);
    int start_x = int(gid.x) * 256;
    int at = t * 4;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        int at_1 = at + r;
        int i = start_x + at_1;
        bool mask = i < args.n && keep[i];
        if (mask) y[i] = x[i];
    }
}
