// cumsum_kernel(x: ptr<f32>, y: ptr<f32>, n_cols: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct cumsum_kernel_args {
    int n_cols;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void cumsum_kernel(
    device const float *x [[buffer(0)]],
    device float *__restrict y [[buffer(1)]],
    constant cumsum_kernel_args &args [[buffer(2)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    threadgroup float totals[8];
    int t = int(tid);
    int start = int(gid.x) * args.n_cols;
    int at = t * 4;
    bool mask = at < args.n_cols;
    int sum = start + at;
    float4 x_value = mask ? *(device const float4 *)(x + sum) : float4(0.0f);
    float prefix[4];
    float total = -0.0f;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        float sum_1 = total + x_value[r];
        prefix[r] = sum_1;
        total = sum_1;
    }
    float before = simd_prefix_exclusive_sum(total);
    float total_1 = before + total;
    int high = t >> 5;
    if ((t & 31) == 31) {
        totals[high] = total_1;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float before_1 = -0.0f;
#pragma unroll
    for (int group = 0; group < 8; ++group) {
        before_1 = group < high ? before_1 + totals[group] : before_1;
    }
    float before_2 = before_1 + before;
    float4 held;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        held[r] = before_2 + prefix[r];
    }
    if (mask) *(device float4 *)(y + sum) = held;
}
