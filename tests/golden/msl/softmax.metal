// softmax_kernel(x: ptr<f32>, y: ptr<f32>, n_cols: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct softmax_kernel_args {
    int n_cols;
};

inline float eas_nan_max(float a, float b) {
    return isnan(a) || a > b ? a : b;
}

inline float eas_nan_simd_max(float x) {
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
    threadgroup float largest_parts[8];
    threadgroup float total_parts[8];
    int t = int(tid);
    int start = int(gid.x) * args.n_cols;
    int at = t * 4;
    bool mask = at < args.n_cols;
    int sum = start + at;
    float4 values = mask ? *(device const float4 *)(x + sum) : float4(-INFINITY);
    float group_max = eas_nan_simd_max(eas_nan_max(eas_nan_max(values.x, values.y), eas_nan_max(values.z, values.w)));
    int high = t >> 5;
    bool mask_1 = (t & 31) == 0;
    if (mask_1) {
        largest_parts[high] = group_max;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float largest = largest_parts[0];
#pragma unroll
    for (int part = 1; part < 8; ++part) {
        largest = eas_nan_max(largest, largest_parts[part]);
    }
    float4 exps = precise::exp(values - largest);
    float group_sum = simd_sum(exps.x + exps.y + (exps.z + exps.w));
    if (mask_1) {
        total_parts[high] = group_sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float total = total_parts[0];
#pragma unroll
    for (int part = 1; part < 8; ++part) {
        total += total_parts[part];
    }
    if (mask) *(device float4 *)(y + sum) = exps * (1.0f / total);
}
