// argmax_kernel(x: ptr<f32>, out: ptr<i32>, n_cols: i32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct argmax_kernel_args {
    int n_cols;
};

inline float eas_nan_simd_max(float x) {
    float result = simd_max(x);
    return simd_any(isnan(x)) ? float(NAN) : result;
}

[[max_total_threads_per_threadgroup(256)]]
kernel void argmax_kernel(
    device const float *x [[buffer(0)]],
    device int *__restrict out [[buffer(1)]],
    constant argmax_kernel_args &args [[buffer(2)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    threadgroup float best_parts[8];
    threadgroup int best_at_parts[8];
    int t = int(tid);
    int program_id = int(gid.x);
    int at = t * 4;
    float4 values = at < args.n_cols ? *(device const float4 *)(x + (program_id * args.n_cols + at)) : float4(-INFINITY);
    float best = -INFINITY;
    int best_at = 2147483647;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        int at_1 = at + r;
        float values_1 = values[r];
        bool mask = best > values_1 || (best == values_1 && best_at < at_1) || (isnan(best) && (!isnan(values_1) || best_at < at_1));
        best = mask ? best : values_1;
        best_at = mask ? best_at : at_1;
    }
    float group_max = eas_nan_simd_max(best);
    int group_min = simd_min(best == group_max || isnan(best) ? best_at : 2147483647);
    int high = t >> 5;
    if ((t & 31) == 0) {
        best_parts[high] = group_max;
        best_at_parts[high] = group_min;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float best_1 = best_parts[0];
    int best_at_1 = best_at_parts[0];
#pragma unroll
    for (int part = 1; part < 8; ++part) {
        float best_parts_value = best_parts[part];
        int best_at_parts_value = best_at_parts[part];
        bool mask = best_1 > best_parts_value || (best_1 == best_parts_value && best_at_1 < best_at_parts_value) || (isnan(best_1) && (!isnan(best_parts_value) || best_at_1 < best_at_parts_value));
        best_1 = mask ? best_1 : best_parts_value;
        best_at_1 = mask ? best_at_1 : best_at_parts_value;
    }
    if (t == 0) {
        out[program_id] = best_at_1;
    }
}
