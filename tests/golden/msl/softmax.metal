// softmax_kernel(x: ptr<f32>, y: ptr<f32>, n_cols: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct softmax_kernel_args {
    int n_cols;
};

inline float nan_max(float a, float b) {
    return isnan(a) || a > b ? a : b;
}

inline float4 nan_max(float4 a, float4 b) {
    return float4(nan_max(a.x, b.x), nan_max(a.y, b.y), nan_max(a.z, b.z), nan_max(a.w, b.w));
}

inline float nan_simd_max(float x) {
    float result = simd_max(x);
    return simd_any(isnan(x)) ? float(NAN) : result;
}

[[max_total_threads_per_threadgroup(256)]]
kernel void softmax_kernel(
    device const float *x [[buffer(0)]],
    device float *__restrict y [[buffer(1)]],
    constant softmax_kernel_args &args [[buffer(2)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    float4 values;
    threadgroup float parts[8];
    float4 exps;
    threadgroup float parts_1[8];
    int t = int(tid);
    int start = int(gid.x) * args.n_cols;
    int at = t * 4;
    float4 largest = float4(-INFINITY);
    bool mask = at < args.n_cols;
    float4 values_1 = mask ? *(device const float4 *)(x + (start + at)) : float4(-INFINITY);
    values = values_1;
    largest = nan_max(largest, values_1);
    float group_max = nan_simd_max(nan_max(nan_max(largest.x, largest.y), nan_max(largest.z, largest.w)));
    int high = t >> 5;
    bool mask_1 = (t & 31) == 0;
    if (mask_1) {
        parts[high] = group_max;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float parts_value = parts[0];
#pragma unroll
    for (int part = 1; part < 8; ++part) {
        parts_value = nan_max(parts_value, parts[part]);
    }
    float4 total = float4(-0.0f);
    float4 values_2 = values;
    float4 exps_1 = precise::exp(values_2 - parts_value);
    exps = exps_1;
    total = total + exps_1;
    float group_sum = simd_sum(total.x + total.y + (total.z + total.w));
    if (mask_1) {
        parts_1[high] = group_sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float parts_1_value = parts_1[0];
#pragma unroll
    for (int part_1 = 1; part_1 < 8; ++part_1) {
        parts_1_value = parts_1_value + parts_1[part_1];
    }
    float ratio = 1.0f / parts_1_value;
    float4 exps_2 = exps;
    bool mask_2 = at < args.n_cols;
    if (mask_2) *(device float4 *)(y + (start + at)) = exps_2 * ratio;
}
