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
    float r[4];
    float prefix[4];
    float total;
    float r_1[4];
    float before;
    threadgroup float totals[8];
    int t = int(tid);
    int start = int(gid.x) * args.n_cols;
    int at = t * 4;
    bool mask = at < args.n_cols;
    *(thread float4 *)(r) = mask ? *(device const float4 *)(x + (start + at)) : float4(0.0f);
    float carried = -0.0f;
#pragma unroll
    for (int r_2 = 0; r_2 < 4; ++r_2) {
        float sum = carried + r[r_2];
        prefix[r_2] = sum;
        total = sum;
        carried = sum;
    }
    float total_value = total;
    float simd_prefix_exclusive_sum_ = simd_prefix_exclusive_sum(total_value);
    before = simd_prefix_exclusive_sum_;
    total = simd_prefix_exclusive_sum_ + total_value;
    int high = t >> 5;
    float total_value_1 = total;
    if ((t & 31) == 31) {
        totals[high] = total_value_1;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float carried_1 = -0.0f;
#pragma unroll
    for (int group = 0; group < 8; ++group) {
        carried_1 = group < high ? carried_1 + totals[group] : carried_1;
    }
    before = carried_1 + before;
#pragma unroll
    for (int r_3 = 0; r_3 < 4; ++r_3) {
        prefix[r_3] = before + prefix[r_3];
    }
#pragma unroll
    for (int r_4 = 0; r_4 < 4; ++r_4) {
        r_1[r_4] = prefix[r_4];
    }
    bool mask_1 = at < args.n_cols;
    if (mask_1) *(device float4 *)(y + (start + at)) = *(thread const float4 *)(r_1);
}
