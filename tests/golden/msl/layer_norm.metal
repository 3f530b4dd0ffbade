// layer_norm_kernel(x: ptr<f32>, weight: ptr<f32>, bias: ptr<f32>, y: ptr<f32>, n_cols: i32, eps: f32)
// One threadgroup of 256 threads per program; safe math, apple7.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct layer_norm_kernel_args {
    int n_cols;
    float eps;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void layer_norm_kernel(
    device const float *x [[buffer(0)]],
    device const float *weight [[buffer(1)]],
    device const float *bias [[buffer(2)]],
    device float *__restrict y [[buffer(3)]],
    constant layer_norm_kernel_args &args [[buffer(4)]],
    uint3 gid [[threadgroup_position_in_grid]],
    uint tid [[thread_index_in_threadgroup]]) {
    float4 values;
    threadgroup float parts[8];
    float4 centred;
    threadgroup float parts_1[8];
    int t = int(tid);
    int start = int(gid.x) * args.n_cols;
    float converted = float(args.n_cols);
    int at = t * 4;
    float4 total = float4(-0.0f);
    bool mask = at < args.n_cols;
    float4 values_1 = mask ? *(device const float4 *)(x + (start + at)) : float4(0.0f);
    values = values_1;
    total = total + values_1;
    float group_sum = simd_sum(total.x + total.y + (total.z + total.w));
    int high = t >> 5;
    bool mask_1 = (t & 31) == 0;
    if (mask_1) {
        parts[high] = group_sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float parts_value = parts[0];
#pragma unroll
    for (int part = 1; part < 8; ++part) {
        parts_value = parts_value + parts[part];
    }
    float mean = parts_value / converted;
    float4 total_1 = float4(-0.0f);
    float4 values_2 = values;
    bool mask_2 = at < args.n_cols;
    float4 centred_1 = mask_2 ? values_2 - mean : 0.0f;
    centred = centred_1;
    total_1 = total_1 + centred_1 * centred_1;
    float group_sum_1 = simd_sum(total_1.x + total_1.y + (total_1.z + total_1.w));
    if (mask_1) {
        parts_1[high] = group_sum_1;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float parts_1_value = parts_1[0];
#pragma unroll
    for (int part_1 = 1; part_1 < 8; ++part_1) {
        parts_1_value = parts_1_value + parts_1[part_1];
    }
    float rstd = precise::rsqrt(parts_1_value / converted + args.eps);
    float4 centred_2 = centred;
    bool mask_3 = at < args.n_cols;
    float4 normal = centred_2 * rstd * (mask_3 ? *(device const float4 *)(weight + at) : float4(0.0f));
    float4 normal_1 = normal + (mask_3 ? *(device const float4 *)(bias + at) : float4(0.0f));
    if (mask_3) *(device float4 *)(y + (start + at)) = normal_1;
}
